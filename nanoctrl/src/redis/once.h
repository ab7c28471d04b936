/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis that is asked for something once, by a program that has nothing else to do meanwhile. */
#ifndef NANOCTRL_REDIS_ONCE_H
#define NANOCTRL_REDIS_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct redis;
struct redisReply;
struct redis_url;

#define REDIS_ONCE_WHY 256

struct redis_once {
	const struct redis_url *url;
	const char *name; /* for CLIENT SETNAME */
	uint32_t timeout_ms;
	uint32_t max_inflight;
	void (*serves)(void *arg); /* ask now */
	void *arg;
	/* from here on its own */
	struct event_base *base;
	struct redis *redis; /* to be asked, until it has ended */
	bool ended;
	int result;
	char why[REDIS_ONCE_WHY]; /* what went wrong, where result is an error */
};

/* Blocks until redis_once_end() was called: its result then, or -ENOTCONN when Redis is out of
 * reach for timeout_ms, or -ENOMEM. Answers that come after the end are called back. */
int redis_once(struct redis_once *o);

/* The first that is said counts: others follow from it. */
void redis_once_end(struct redis_once *o, int result, const char *why);

/* -EPROTO, with the error that Redis answered, or what is said otherwise. */
void redis_once_end_by(struct redis_once *o, const struct redisReply *reply, const char *otherwise);

#endif
