/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: a listener on each of one or two ports, some loops, each connection on the loop
 * that had the fewest when it came. The server does not know what a store is; it creates one per
 * loop through its hooks and hands it to handlers.
 */
#ifndef NANOCTRL_SERVER_H
#define NANOCTRL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "nanoctrl/net/http_parser.h"
#include "http/route.h"

struct evbuffer;
struct loop;
struct request;
struct server;
struct store;

#define SERVER_LOOPS_MAX 64

struct server_hooks {
	/*
	 * The store of a loop: created before the loop runs, destroyed on the thread that destroys
	 * the server when the loop has ended and no connection is left on it. Requests that still
	 * wait for the store then are replied to by its destruction.
	 */
	int (*store_create)(void *arg, struct loop *loop, struct store **out);
	void (*store_destroy)(struct store *store);
	/* Work on the first loop's store beside requests: begins after the store was created, and
	 * ends before it is destroyed. May be NULL. */
	int (*task_create)(void *arg, struct store *store, struct loop *loop, void **out);
	void (*task_destroy)(void *task);
	/* On the store's loop: NULL while Redis serves, else the reason why not, in words. */
	const char *(*store_trouble)(const struct store *store);
	/* There, when it does not serve: where Redis is, for people. */
	const char *(*store_place)(const struct store *store);
	/* On the store's loop: append what does not do all the same, a line each. May be NULL. */
	void (*store_warnings)(const struct store *store, struct evbuffer *out);
	/* On any loop: append Prometheus text. May be NULL. */
	void (*metrics)(void *arg, struct evbuffer *out);
	void *arg;
};

struct server_config {
	const char *host;     /* an address, not a name */
	uint16_t port;	      /* 0: the kernel chooses */
	uint16_t second_port; /* 0: none */
	unsigned n_loops;     /* 1 to SERVER_LOOPS_MAX */
	const struct route *routes;
	size_t n_routes;
	size_t n_local; /* of them, at the table's end, are for clients on this host only */
	struct server_hooks hooks;
	struct http_limits limits;
	const char *const *names; /* of this server, in Host fields: host.h */
	size_t n_names;
	unsigned max_connections;
	size_t body_memory;	  /* of all requests of a loop: budget.h */
	size_t stream_queue;	  /* bytes that one stream may have queued */
	unsigned idle_ms;	  /* a connection without a request */
	unsigned request_ms;	  /* from the first byte of a request to its last */
	unsigned stall_ms;	  /* a socket that takes nothing of what is to be sent */
	unsigned tick_ms;	  /* stream_ops.tick */
	unsigned stream_age_ms;	  /* 20 % more or less */
	unsigned drain_accept_ms; /* how long a draining server still accepts */
	unsigned drain_ms;	  /* what is in flight then is cut off */
	uint64_t busy_poll_ns;	  /* loop_busy_poll() */
	bool access_log;
};

#define SERVER_CONFIG_INIT                                                                   \
	{                                                                                    \
		.host = "127.0.0.1", .port = 3000, .n_loops = 1, .limits = HTTP_LIMITS_INIT, \
		.max_connections = 16384, .body_memory = 67108864, .stream_queue = 262144,   \
		.idle_ms = 75000, .request_ms = 30000, .stall_ms = 10000, .tick_ms = 5000,   \
		.stream_age_ms = 3600000, .drain_accept_ms = 2000, .drain_ms = 10000,        \
		.busy_poll_ns = 100000,                                                      \
	}

/*
 * Bind and listen; nothing is accepted yet. main is the loop of the calling thread, on which the
 * listener lives. config is copied, what it points to has to outlive the server.
 *   -EADDRINUSE, -EADDRNOTAVAIL, -EACCES  of bind
 *   -EINVAL                               host is no address
 *   other                                 -ENOMEM, sockets, threads, what store_create says
 */
int server_create(const struct server_config *config, struct loop *main, struct server **out);

/* Start the loops and accept. */
int server_start(struct server *server);

/* "http://127.0.0.1:3000", with the port that was bound. */
const char *server_url(const struct server *server);

/*
 * Shut down: not ready any more, goodbye to streams; accept a little longer, finish what is in
 * flight; then call done on the main loop. A second call cuts off what is left.
 */
void server_drain(struct server *server, void (*done)(void *arg), void *arg);

/* On the main loop: whether every loop has run what the call before posted to it; the first call is
 * true. */
bool server_loops_run(struct server *server);

bool server_draining(const struct server *server);

/* After the main loop ended. */
void server_destroy(struct server *server);

/* The counters of all loops, and those of the store, as Prometheus text. */
void server_metrics(struct server *server, struct evbuffer *out);

/* The server that a request came to, and why its store does not serve (NULL when it does). */
struct server *request_server(const struct request *rq);
const char *request_store_trouble(const struct request *rq);
const char *request_store_place(const struct request *rq);
/* The warnings of its store, a line each. */
void request_store_warnings(const struct request *rq, struct evbuffer *out);

#endif
