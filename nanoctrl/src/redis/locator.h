/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for the address of the Redis that serves us: the sentinels of its primary, or the nodes of a
 * cluster for the owner of our slot. One of them at a time, each in its turn; of a cluster also the
 * nodes that it named before.
 */
#ifndef NANOCTRL_LOCATOR_H
#define NANOCTRL_LOCATOR_H

#include <stdint.h>

struct event_base;
struct redis_url;
struct locator;

/* The address; or host is NULL and why says what the one that was asked lacks. Both are valid until
 * it returns; it may call locator_forget(), not locator_destroy(). */
typedef void locator_fn(void *arg, const char *host, uint16_t port, const char *why);

/* url must outlive it, and has at least one server to ask. -ENOMEM. */
int locator_create(struct event_base *base, const struct redis_url *url, uint32_t timeout_ms,
		   locator_fn *fn, void *arg, struct locator **out);
void locator_destroy(struct locator *l);

/* Ask the next one; fn comes later, once. */
void locator_ask(struct locator *l);

/* The answer, if it is still out, is not wanted. */
void locator_forget(struct locator *l);

#endif
