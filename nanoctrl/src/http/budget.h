/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the requests of one loop. When it is too much, the largest requests that have not
 * arrived in full are given up, of equally large ones the oldest: a client that begins requests and
 * does not end them pays before one that asks for little.
 */
#ifndef NANOCTRL_HTTP_BUDGET_H
#define NANOCTRL_HTTP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"

struct event;

#define BUDGET_SMALL	 16384 /* a request of at most so many bytes may use the reserve */
#define BUDGET_RESERVE	 8388608
#define BUDGET_CLASSES	 48   /* of sizes: each is twice the one before */
#define BUDGET_ADDRESSES 1024 /* places for addresses, which several may share */

/* An unfinished request. */
struct budget_share {
	struct sl_list node; /* among those of its class */
	size_t bytes;
	unsigned address; /* its place; BUDGET_ADDRESSES: no limit is its own */
};

struct budget {
	size_t most;	/* bytes of all requests */
	size_t reserve; /* of these, for small ones alone */
	size_t total, large;
	struct sl_list classes[BUDGET_CLASSES];
	size_t of_address[BUDGET_ADDRESSES];
	uint64_t seed;
	struct event *trim; /* set when much was given back; gives it back to the system */
	bool swollen;
};

/* trim is not owned, and may be NULL. */
void budget_init(struct budget *b, size_t most, struct event *trim);

/* An unfinished request of a client at this address, which holds nothing yet. */
void budget_enter(struct budget *b, struct budget_share *s, const char *peer);

/* It holds so many bytes now; 0 takes it out. */
void budget_hold(struct budget *b, struct budget_share *s, size_t bytes);

/* It has arrived. Returns what it holds, to be released later; the share holds nothing any more. */
size_t budget_keep(struct budget *b, struct budget_share *s);
void budget_release(struct budget *b, size_t bytes);

/* NULL while s may go on, else what has to be given up for it: s itself or another one. Asked again
 * afterwards. */
struct budget_share *budget_payer(struct budget *b, struct budget_share *s);

#endif
