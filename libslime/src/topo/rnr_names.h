/* SPDX-License-Identifier: Apache-2.0 */
/* The counters that drivers have under ports/N, and what they mean. */
#ifndef SL_RNR_NAMES_H
#define SL_RNR_NAMES_H

#include <slime/rnr.h>

struct sl_rnr_name {
	enum slime_rnr_kind kind;
	const char *path; /* below the port's folder */
	const char *meaning;
};

/* In the order of kinds; the end has no path. */
extern const struct sl_rnr_name sl_rnr_names[];

#endif
