/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The holder of the name that we want, judged by the answers of nanoctrl each time it refuses us. A
 * process that died without a goodbye keeps its name until its lease ends; one that lives renews
 * it. Plain data in, plain data out.
 */
#ifndef AGENT_HOLDER_H
#define AGENT_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nc_holder;

struct holder {
	bool waiting;
	uint64_t since_ms; /* of the server's clock, when we were first refused */
	uint64_t until_ns; /* of ours: how long we wait for its lease to end */
};

enum holder_verdict {
	HOLDER_SEEN,  /* for the first time: wait, and try again */
	HOLDER_WAIT,  /* not known to live: try again */
	HOLDER_LIVES, /* it renewed its lease since, or the server does not tell */
	HOLDER_STAYS, /* its lease should have ended and did not */
};

/* The name was refused at now_ns. */
enum holder_verdict holder_look(struct holder *h, const struct nc_holder *seen, uint64_t now_ns);

/* Something else came between: the next refusal is a first one. */
void holder_forget(struct holder *h);

/* The holder of the name and since when, for people, on one line. */
void holder_describe(const struct nc_holder *seen, char *out, size_t len);

#endif
