/* SPDX-License-Identifier: Apache-2.0 */
/* The report of one link to nanoctrl: its state, and for people how it came to be as it is. */
#ifndef AGENT_ENTRY_REPORT_H
#define AGENT_ENTRY_REPORT_H

#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/links/entry.h"

struct entry_report {
	struct ctrl_link link; /* points to what follows, and into the entry */
	char source[SLIME_AGENT_NAME_MAX + 32];
	char transports[64];
	struct slime_endpoint_info info;
};

void entry_report_init(struct entry_report *r, const struct entry *e);

#endif
