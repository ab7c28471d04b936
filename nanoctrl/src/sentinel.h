/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the sentinels of a Redis where its primary is, one of them at a time, each in its turn. */
#ifndef NANOCTRL_SENTINEL_H
#define NANOCTRL_SENTINEL_H

#include <stdint.h>

struct event_base;
struct redis_url;
struct sentinel;

/* The primary's address; or host is NULL and why says what the sentinel that was asked lacks. Both
 * are valid until it returns; it may call sentinel_forget(), not sentinel_destroy(). */
typedef void sentinel_fn(void *arg, const char *host, uint16_t port, const char *why);

/* url must outlive it, and names a sentinel. -ENOMEM. */
int sentinel_create(struct event_base *base, const struct redis_url *url, uint32_t timeout_ms,
		    sentinel_fn *fn, void *arg, struct sentinel **out);
void sentinel_destroy(struct sentinel *s);

/* Ask the next one; fn comes later, once. */
void sentinel_ask(struct sentinel *s);

/* The answer, if it is still out, is not wanted. */
void sentinel_forget(struct sentinel *s);

#endif
