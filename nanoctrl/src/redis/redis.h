/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to Redis on an event loop: commands are pipelined and answered in order. It connects
 * by itself, and again after every failure, with back-off and jitter; with sentinels to the primary
 * that they name, each time anew; with a cluster to the node that has the slot of our keys, and to
 * the next one when they move. RESP is read and written by hiredis, the socket is a libevent
 * bufferevent.
 */
#ifndef NANOCTRL_REDIS_H
#define NANOCTRL_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct redis;
struct redis_url;
struct redisReply;

/*
 * The answer to one command, or result and NULL: -EIO when the connection broke before it came.
 * An error reply is an answer. The reply is valid until fn returns.
 */
typedef void redis_reply_fn(void *arg, int result, const struct redisReply *reply);

#define REDIS_WORDS_MAX 7

/* A command; what it points to outlives the connection. */
struct redis_words {
	int n; /* 0: none */
	const char *args[REDIS_WORDS_MAX];
	size_t lens[REDIS_WORDS_MAX];
};

struct redis_attr {
	const struct redis_url *url; /* must outlive the connection */
	const char *name;	     /* for the log and CLIENT SETNAME */
	uint32_t timeout_ms;	     /* an answer that takes longer breaks the connection */
	uint32_t max_inflight;
	unsigned tries; /* to begin to serve, then down is called; 0: there is no end of them */
	/* Ends the greeting: the connection serves when the answer is OK, else the answer says why
	 * not. Two words are added: the run id (see up), and "1" where a server that comes back has
	 * all that it acknowledged, else "0". */
	struct redis_words admit;
	/* So long after the greeting the server is asked again whether it is one to use, as the
	 * greeting asked, and left where it is not. 0: never. */
	uint32_t check_ms;
	/*
	 * The connection serves: authenticated, database selected. run_id tells one life of a
	 * server from the next; "" when the server does not say.
	 */
	void (*up)(void *arg, const char *run_id);
	/* It does not serve any more, or after so many tries not at all. Everything in flight has
	 * been called back. */
	void (*down)(void *arg);
	/* Messages of subscriptions: makes this a connection that only subscribes. May be NULL. */
	void (*push)(void *arg, const struct redisReply *message);
	uint32_t push_ms; /* after some of them, so long passes until more are read. 0: none */
	void *arg;
};

/* -ENOMEM. Connecting begins when the loop turns. */
int redis_create(struct event_base *base, const struct redis_attr *attr, struct redis **out);

/* Calls back what is in flight with -EIO; `down` is not called. */
void redis_destroy(struct redis *redis);

/*
 * Send a command of n arguments; fn comes later, never from inside the call. fn == NULL: the answer
 * does not matter (on a connection that subscribes, answers are messages).
 *   -ENOTCONN  not serving    -EBUSY  max_inflight reached    -ENOMEM
 *   -EAGAIN    on the way to another node of the cluster, to which the data have moved
 */
int redis_command(struct redis *redis, int n, const char *const *args, const size_t *lens,
		  redis_reply_fn *fn, void *arg);

/* Of a connection that was created with push_ms: the new time; 0: read messages at once from now
 * on. */
void redis_set_push_ms(struct redis *redis, uint32_t push_ms);

/* Leaves, and looks for its place anew. */
void redis_reconnect(struct redis *redis);

/* Its address, or the last one; "" while none is known. Not of a unix socket. */
const char *redis_host(const struct redis *redis, uint16_t *port);

/* Whether little of its memory is left: redis_info_crowded(), as of the last look. */
bool redis_is_crowded(const struct redis *redis);

/* NULL while it serves, else why it does not. */
const char *redis_trouble(const struct redis *redis);

#endif
