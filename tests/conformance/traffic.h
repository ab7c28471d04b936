/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a link at work: lanes that read, write, send and call at random, and what serves the
 * other side's. Whatever is reported as arrived is compared, and whatever was submitted must end,
 * once, whatever happens to the link. What does not hold ends the process with a line that says so:
 * both sides may be in processes of their own.
 */
#ifndef CONFORMANCE_TRAFFIC_H
#define CONFORMANCE_TRAFFIC_H

#include "fixture.h"

struct proxy;
struct traffic;

/* What the other side needs to connect. */
struct traffic_hello {
	int32_t desc_len;
	int32_t mr_len;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	uint8_t mr[SLIME_MR_DESC_MAX];
};

/* A context, memory and an endpoint over fixture_transport; over tcp behind a proxy. */
struct traffic *traffic_create(uint64_t seed);
void traffic_hello(struct traffic *t, struct traffic_hello *out);
/* The status of the connect; the other side connects at the same time. */
int traffic_connect(struct traffic *t, const struct traffic_hello *peer);

void traffic_start(struct traffic *t);
/* The lanes finish what they are at; the other side's goes on. */
void traffic_stop(struct traffic *t);
/* The endpoint is closed under whatever goes on. */
void traffic_close(struct traffic *t);
/* The end of the link, the ops and the region, after traffic_stop(): from now on nobody writes to
 * our memory... */
void traffic_withdraw(struct traffic *t);
/* ...and nobody has. Frees. */
void traffic_destroy(struct traffic *t);

/* How many ops and calls have ended well. */
uint64_t traffic_count(const struct traffic *t);
/* NULL over shm. */
struct proxy *traffic_proxy(struct traffic *t);

/* Print what is wrong, and end the process. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
