/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's snapshots for nanoctrl, sent at intervals while there is a session: for `nanoctrl
 * obs` and `top`. A lost one is not repeated: the next one has more.
 */
#ifndef AGENT_SNAPSHOT_H
#define AGENT_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/links/links.h"
#include "peeragent/lib/regions/region.h"

struct snapshots {
	struct ctrl *ctrl;
	struct links *links;
	const struct regions *regions;
	struct event *timer; /* NULL: none are sent */
	uint32_t interval_ms;
	uint64_t started_ns; /* the agent, */
	uint64_t looked_ns;  /* and the last look */
	uint64_t next_ns;    /* the timer, while there is a session */
	char host[256];
	char session_id[320];
	bool sending;
};

/* interval_ms 0: none are ever sent. -ENOMEM. The three others are set by now. */
int snapshots_init(struct snapshots *s, struct event_base *base, const char *name,
		   uint32_t interval_ms);
void snapshots_fini(struct snapshots *s);

/* There is a session, or none any more. */
void snapshots_up(struct snapshots *s);
void snapshots_down(struct snapshots *s);

/* The work until now is reported, before a goodbye: it is the last report of the agent. */
void snapshots_last(struct snapshots *s);

/* The state of a link changed: the next one does not wait for its interval. At most one a second
 * comes of this. */
void snapshots_soon(struct snapshots *s);

#endif
