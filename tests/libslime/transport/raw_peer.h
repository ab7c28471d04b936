/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of ours, and a peer that is nothing but a socket: it says what a test wants, byte by
 * byte. What the library logs meanwhile is kept.
 */
#ifndef RAW_PEER_H
#define RAW_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>

#include "support/log_lines.h"
#include "src/transport/hello.h"
#include "src/transport/tcp/frame.h"
#include <slime/slime.h>

#define assert_ok(expr) assert_int_equal(expr, 0)

/* Longer than anything that works takes. */
#define PATIENCE_MS 60000
/* The context's tcp_user_timeout_ms. */
#define RAW_TIMEOUT_MS 1000

struct raw {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op; /* of the connect */
	struct slime_mr *mr; /* over memory, read and write */
	struct slime_remote_mr remote;
	uint8_t memory[65536];
	struct sl_link_id self; /* the endpoint's */
	struct sl_link_id peer; /* the socket's */
	uint16_t port;		/* the endpoint listens there */
	uint8_t host[4];	/* where the peer says that it listens: loopback */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool seen[SLIME_ENDPOINT_CLOSED + 1]; /* states the endpoint was in */
	int cause;
};

/* Setup and teardown of a test: *state is a raw whose endpoint does not connect yet. */
int raw_setup(void **state);
int raw_teardown(void **state);
/* A setup, too: the endpoint says that other hosts can reach it. */
int raw_setup_for_others(void **state);

/* Our endpoint begins to connect with the peer. When first, the peer is the initiator; else it
 * listens at port. */
void raw_connect(struct raw *r, bool first, uint16_t port, int64_t timeout_ms);
/* What became of that. */
int raw_connected(struct raw *r);

/* The endpoint is destroyed, and there is another that does not connect yet. */
void raw_renew(struct raw *r);

/* The endpoint gets into this state; its cause. */
int raw_await_state(struct raw *r, enum slime_endpoint_state state);

/* A socket connected to the endpoint's listener; one that listens, and its port. */
int raw_dial(const struct raw *r);
int raw_listen(uint16_t *port);
int raw_accept(int listener);

void raw_send(int fd, const void *bytes, size_t len);
/* Exactly len bytes come. */
void raw_recv(int fd, void *bytes, size_t len);
/* The other side closes; what it says before is thrown away. */
void raw_await_end(int fd);

/* The hello the endpoint expects, for a stream. */
struct sl_hello raw_hello(const struct raw *r, uint16_t stream);
/* Send it, and read the challenge; what its code means. */
int raw_say_hello(struct sl_hello *h, int fd);
/* All of the greeting: a socket that the endpoint takes for its stream of that index. */
int raw_greet(const struct raw *r, uint16_t stream);
/* Show the secret of a region. */
void raw_show(int fd, const struct slime_remote_mr *r);
/* Our half of a link's beginning, over a stream that was greeted, and the endpoint's; and the
 * secret of the endpoint's region. */
void raw_open(struct raw *r, int fd);
/* The greeting and then all until the link is up, over one stream. */
int raw_link(struct raw *r);

void raw_send_head(int fd, struct tcp_head h);
struct tcp_head raw_recv_head(int fd);

/* That piece of the endpoint's region; a frame and the list of its h.count pieces; a request of one
 * piece. */
struct tcp_piece raw_piece(const struct raw *r, uint64_t offset, uint32_t len);
void raw_send_pieces(int fd, struct tcp_head h, const struct tcp_piece *pieces);
void raw_send_request(int fd, uint8_t kind, uint32_t id, struct tcp_piece piece);

#endif
