/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the session with nanoctrl, for the files of this noun. */
#ifndef AGENT_CTRL_STATE_H
#define AGENT_CTRL_STATE_H

#include "base/list.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/control/holder.h"

enum ctrl_state {
	CTRL_IDLE,
	CTRL_REGISTERING,
	CTRL_RETRYING, /* waits before it registers again */
	CTRL_OPENING,  /* registered; the session is not up yet, or not again */
	CTRL_IN_SESSION,
	CTRL_ENDED,
};

struct ctrl {
	const struct ctrl_ops *ops;
	void *arg;
	struct nc_client *client;
	enum ctrl_state state;
	char *name;
	char *incarnation;
	char *owner_key;
	char *address;
	struct slime_topology *labels;	   /* a copy that has nothing but labels */
	struct slime_topology *attributes; /* as labels */
	char **services;
	size_t n_services;
	struct event *retry;
	struct event *list_retry;
	uint64_t epoch;
	uint32_t lease_ms; /* of the last grant */
	uint64_t generation;
	bool fresh;	 /* the next session is of a new registration */
	bool relabelled; /* the registration under way has other labels */
	bool list_due;	 /* the next session begins with a list */
	bool troubled;	 /* `down` was called since the last `up` */
	enum ctrl_trouble trouble;
	struct holder holder; /* of our name, while it is not ours */
	uint64_t said_ns;     /* when the log last had an attempt that failed; 0: none since `up` */
	struct sl_list requests;
	struct request *goodbye; /* of them: it waits until the others are answered, */
	struct event *patience;	 /* for so long */
	struct sl_list unread;	 /* offers that the last list named, to be read yet */
	unsigned n_reading;	 /* of them being read */
	bool wanted_reading;	 /* the list of links that topologies want, */
	bool wanted_again;	 /* which changed meanwhile */
	struct ctrl_wanted
		*wanted; /* of the pages read so far; the strings of a link are one block */
	size_t n_wanted, wanted_room;
	char *wanted_after; /* the page before said so; NULL: the first one comes next */
};

/* Read all lists again soon, since something could not be read. */
void ctrl_list_again(struct ctrl *ctrl);

#endif
