/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routes that DLSlime's NanoCtrl and ours have in common, called in closed loop over
 * connections that stay open, one call each; so the caller costs the same beside either server.
 */
#ifndef ROUTES_ROUTES_H
#define ROUTES_ROUTES_H

#include <stddef.h>
#include <stdint.h>

#include "bench/routes/caller.h"

enum route {
	ROUTE_REGISTER,	 /* an entity, which each connection has its own of */
	ROUTE_HEARTBEAT, /* for it */
	ROUTE_LOOKUP,	 /* of it */
	ROUTE_LIST,	 /* all entities */
	ROUTE_QUERY,	 /* all agents, as many as entities */
	ROUTES_BESIDE,	 /* those above are what servers are compared by */
	/* Of a name each, of which there is no agent but by the last: */
	ROUTE_TOPOLOGY = ROUTES_BESIDE, /* what it is to be connected to */
	ROUTE_PUT_MR,			/* a region of it */
	ROUTE_GET_MR,
	ROUTE_AGENT, /* one that begins, and is cleaned up, in turn */
	ROUTE_N,
};

/* NULL ends them. */
extern const char *const route_names[];

#define ROUTES_CALLERS_MAX  512
#define ROUTES_ENTITIES_MAX 1000

struct routes_attr {
	const char *url; /* http://HOST[:PORT] */
	const char *scope;
	enum route route;
	size_t n_callers;
	size_t n_entities; /* in the scope; there are at least as many as callers */
	int stop_fd;	   /* when it is readable, no call is begun any more; 0: there is none */
};

struct routes {
	struct routes_attr attr;
	struct caller *callers;
	char (*requests)[2][512]; /* each caller's: the same every time, or two in turn */
	unsigned char *turn;	  /* which of them is next */
	size_t n_open;
	size_t n_made; /* entities, and from ROUTE_QUERY on agents */
	int epoll;
	char host[270];
	char why[600]; /* what went wrong, after an error */
};

/* For routes_fini() where there was no routes_init(). */
#define ROUTES_NONE ((struct routes){ .epoll = -1 })

/* Called for each answer that was right, with the time it took. */
typedef void routes_fn(void *arg, uint64_t ns);

/* Connect, and register what the calls are about. Negative errno, and why says what; routes_fini()
 * follows anyway. */
int routes_init(struct routes *r, const struct routes_attr *attr);

/* Call until then, or until stop_fd says so, and until all answers have come. A negative errno, and
 * why. */
int routes_run(struct routes *r, uint64_t until_ns, routes_fn *fn, void *arg);

/* Take back what was registered, as far as the server is there. */
void routes_fini(struct routes *r);

#endif
