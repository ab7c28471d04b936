/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent shows to nanoctrl: a set of publications, each of which is made true there for as
 * long as it exists. A change is sent when there is a session, repeated when it did not get
 * through, and everything is sent anew when the registration is fresh. Of several changes only the
 * last one needs to arrive. Each change has a number that is greater than all before, of whichever
 * publication; by it nanoctrl knows what is older.
 */
#ifndef AGENT_PUBLISH_H
#define AGENT_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct event;
struct event_base;
struct publication;

struct publication_ops {
	/* Send the present content. 0: publication_sent() follows, later; else it is repeated. */
	int (*send)(struct publication *p);
	/* The present content has arrived, or was refused for good. May be NULL. */
	void (*settled)(struct publication *p, int result);
};

struct publication {
	const struct publication_ops *ops;
	struct sl_list node;
	uint64_t content; /* the number of the last change; 0: none yet */
	uint64_t sending; /* 0: nothing is under way */
	uint64_t settled; /* the content that arrived */
};

struct publisher {
	struct sl_list publications;
	struct event *retry;
	uint64_t last; /* number of a change */
	bool up;       /* there is a session */
	bool said;     /* that something cannot be sent, in any way */
};

/* -ENOMEM. */
int publisher_init(struct publisher *pub, struct event_base *base);
void publisher_fini(struct publisher *pub);

/* The session came up; fresh: what was sent may not be there any more. */
void publisher_up(struct publisher *pub, bool fresh);
void publisher_down(struct publisher *pub);

void publication_init(struct publication *p, const struct publication_ops *ops);

/* The content changed, for the first time or again. */
void publication_change(struct publisher *pub, struct publication *p);

/* nanoctrl knows of this number for the publication, which is not ours: changes go on above it. */
void publication_outdo(struct publisher *pub, struct publication *p, uint64_t number);

/* The operation that send() started has ended. */
void publication_sent(struct publisher *pub, struct publication *p, int result);

/* Whether the present content has arrived. */
bool publication_is_settled(const struct publication *p);

/* Take it out. publication_sent() must not come after it. */
void publication_fini(struct publication *p);

#endif
