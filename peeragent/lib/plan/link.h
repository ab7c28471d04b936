/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a link as a state machine: what happened goes in, what to do comes out. No I/O, no
 * clock.
 *
 * Of two agents the one with the smaller name initiates. It offers an endpoint under an attempt
 * number, the other answers with its own, both connect. The other one cannot offer: it says that it
 * wants the link, and which attempt it has seen end. So both ends wanting one link at one time get
 * one link.
 *
 *	initiator:  ABSENT -> OFFERED -> JOINING -> CONNECTED -> BROKEN -> OFFERED ...
 *	other:      ABSENT -> ASKING  -> JOINING -> CONNECTED -> BROKEN -> ASKING ...
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <slime/agent.h>

enum link_phase {
	LINK_ABSENT,  /* the peer is not registered, or its end has not appeared yet */
	LINK_ASKING,  /* we said that we want the link */
	LINK_OFFERED, /* our offer waits for the answer */
	LINK_JOINING, /* both descriptors are known: the endpoint connects */
	LINK_CONNECTED,
	LINK_BROKEN, /* waits before another try */
	LINK_PHASES
};

struct link {
	bool initiator;	 /* our name is the smaller one */
	bool wanted;	 /* by us */
	bool peer_wants; /* by the peer, as it said last; a link exists while one of them wants it
			  */
	bool peer_up;	 /* the peer's registration stands */
	enum link_phase phase;
	uint64_t attempt;  /* of the endpoint there is, or was last; 0: none with this peer yet */
	uint32_t failures; /* in a row */
};

enum link_event {
	LINK_PEER_UP,	   /* a registration of the peer, also one that was known */
	LINK_PEER_NEW,	   /* another incarnation of it */
	LINK_PEER_LEFT,	   /* it said goodbye */
	LINK_PEER_EXPIRED, /* nanoctrl has not heard of it */
	LINK_GOT_WANT,	   /* attempt: the one the peer has seen end, or 0 */
	LINK_GOT_OFFER,	   /* attempt */
	LINK_GOT_ANSWER,   /* attempt */
	LINK_GOT_GONE,	   /* the peer took back what it had posted: it does not want the link */
	LINK_UP,	   /* the endpoint is connected */
	LINK_DOWN,	   /* it failed, or the peer closed it */
	LINK_TIMER,	   /* what LINK_DO_OFFER or LINK_DO_WAIT started ran out */
	LINK_WANTED,	   /* we want it from now on */
	LINK_UNWANTED,	   /* we no longer do */
};

/* The actions, in this order. */
enum link_action {
	LINK_DO_DROP = 1,     /* close the endpoint there is */
	LINK_DO_WITHDRAW = 2, /* take back what we posted for the peer */
	LINK_DO_OFFER = 4,    /* make an endpoint, post it under link->attempt; limit the wait */
	LINK_DO_ANSWER = 8,   /* make an endpoint, post it, connect it to the offer */
	LINK_DO_JOIN = 16,    /* connect the endpoint to the answer */
	LINK_DO_ASK = 32,     /* post that we want it, with link->attempt */
	LINK_DO_WAIT = 64,    /* start the timer: back-off after link->failures failures */
	LINK_DO_FORGET = 128, /* the link is over: no wish is left */
};

/* The state for callers: one of the three states of a link. */
enum slime_link_state link_state(const struct link *link);

struct link_input {
	enum link_event event;
	uint64_t attempt; /* of WANT, OFFER, ANSWER */
	bool peer_wants;  /* of OFFER and ANSWER: whether its sender wants the link itself */
	uint64_t next;	  /* the number a new offer would get: above all that this agent used */
};

/* Take the event: the link's new state, and a set of enum link_action. */
uint32_t link_step(struct link *link, const struct link_input *in);

/* The wait after `failures` failures in a row, doubled from min_ms up to max_ms and jittered by
 * `random` to between half of it and all. */
uint32_t link_backoff_ms(uint32_t failures, uint32_t min_ms, uint32_t max_ms, uint32_t random);

#endif
