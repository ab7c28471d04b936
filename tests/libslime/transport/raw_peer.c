/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/libslime/transport/raw_peer.h"
#include "src/core/desc.h"
#include "src/endpoint/endpoint.h"
#include "tests/support/tcp.h"

static void on_state(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		     int cause)
{
	struct raw *r = arg;

	(void)ep;
	pthread_mutex_lock(&r->lock);
	r->seen[state] = true;
	r->cause = cause;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

int raw_await_state(struct raw *r, enum slime_endpoint_state state)
{
	struct timespec until;
	int cause;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	pthread_mutex_lock(&r->lock);
	while (!r->seen[state])
		assert_ok(pthread_cond_timedwait(&r->changed, &r->lock, &until));
	cause = r->cause;
	pthread_mutex_unlock(&r->lock);
	return cause;
}

static void learn_address(struct raw *r)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(r->ep, desc, sizeof(desc));
	struct sl_endpoint_desc d;

	assert_true(len > 0);
	assert_ok(sl_desc_read_endpoint(&d, desc, (size_t)len));
	assert_int_equal(d.n, 1);
	assert_int_equal(d.candidates[0].transport, SLIME_TRANSPORT_TCP);
	r->self = (struct sl_link_id){ d.context, d.endpoint };
	r->port = sl_get_le16(d.candidates[0].bytes + 1);
}

static void make_endpoint(struct raw *r)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	attr.on_state = on_state;
	attr.arg = r;
	attr.transports[0] = SLIME_TRANSPORT_TCP;
	assert_ok(slime_endpoint_create(r->ctx, &attr, &r->ep));
	learn_address(r);
}

void raw_renew(struct raw *r)
{
	assert_ok(slime_endpoint_destroy(r->ep));
	memset(r->seen, 0, sizeof(r->seen));
	make_endpoint(r);
}

static int setup(void **state, const char *advertise)
{
	static const uint8_t loopback[] = { 127, 0, 0, 1 };
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct raw *r = calloc(1, sizeof(*r));
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len;

	assert_non_null(r);
	memcpy(r->host, loopback, sizeof(r->host));
	log_lines_keep();
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	attr.tcp_advertise = advertise;
	attr.tcp_streams = 1;
	attr.tcp_user_timeout_ms = RAW_TIMEOUT_MS;
	assert_ok(slime_context_create(&attr, &r->ctx));
	assert_ok(slime_op_create(r->ctx, NULL, &r->op));
	assert_ok(slime_mr_create(r->ctx, r->memory, sizeof(r->memory),
				  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &r->mr));
	len = slime_mr_export(r->mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &r->remote));
	make_endpoint(r);
	*state = r;
	return 0;
}

int raw_setup(void **state)
{
	return setup(state, NULL);
}

int raw_setup_for_others(void **state)
{
	return setup(state, "192.0.2.1");
}

int raw_teardown(void **state)
{
	struct raw *r = *state;

	slime_endpoint_destroy(r->ep);
	slime_op_destroy(r->op);
	slime_mr_destroy(r->mr);
	assert_ok(slime_context_destroy(r->ctx));
	log_lines_release();
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
	return 0;
}

void raw_connect(struct raw *r, bool first, uint16_t port, int64_t timeout_ms)
{
	/* The smaller id begins. */
	struct sl_endpoint_desc d = { .context = first ? 1 : UINT64_MAX, .endpoint = 1, .n = 1 };
	struct sl_writer w = { .at = d.candidates[0].bytes, .room = SL_CANDIDATE_MAX };
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len;

	sl_write_u8(&w, 4);
	sl_write_u16(&w, port ? port : 1);
	sl_write_bytes(&w, r->host, sizeof(r->host));
	d.candidates[0].transport = SLIME_TRANSPORT_TCP;
	d.candidates[0].len = (uint16_t)(SL_CANDIDATE_MAX - w.room);
	len = sl_desc_write_endpoint(&d, desc, sizeof(desc));
	assert_true(len > 0);
	r->peer = (struct sl_link_id){ d.context, d.endpoint };
	assert_ok(slime_endpoint_connect(r->ep, desc, (size_t)len, timeout_ms, r->op));
}

int raw_connected(struct raw *r)
{
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	return slime_op_status(r->op);
}

/* ---- sockets ---- */

int raw_dial(const struct raw *r)
{
	return tcp_dial(r->port, false);
}

int raw_listen(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_ok(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	assert_ok(listen(fd, 16));
	assert_ok(getsockname(fd, (struct sockaddr *)&at, &len));
	*port = ntohs(at.sin_port);
	return fd;
}

static void await_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

int raw_accept(int listener)
{
	int fd;

	await_readable(listener);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

void raw_send(int fd, const void *bytes, size_t len)
{
	assert_true(tcp_send(fd, bytes, len));
}

void raw_recv(int fd, void *bytes, size_t len)
{
	uint8_t *at = bytes;

	while (len) {
		ssize_t n;

		await_readable(fd);
		n = recv(fd, at, len, 0);
		assert_true(n > 0);
		at += n;
		len -= (size_t)n;
	}
}

void raw_await_end(int fd)
{
	uint8_t rest[256];
	ssize_t n;

	do {
		await_readable(fd);
		n = recv(fd, rest, sizeof(rest), 0);
	} while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
}

/* ---- greetings ---- */

struct sl_hello raw_hello(const struct raw *r, uint16_t stream)
{
	return (struct sl_hello){ .transport = SLIME_TRANSPORT_TCP,
				  .stream = stream,
				  .initiator = r->peer,
				  .acceptor = r->self,
				  .nonce = "the nonce of a peer of 32 bytes" };
}

int raw_say_hello(struct sl_hello *h, int fd)
{
	uint8_t out[SL_HELLO_LEN], in[SL_CHALLENGE_LEN], mac[SL_AUTH_MAC_LEN];

	sl_hello_write(h, out);
	raw_send(fd, out, sizeof(out));
	raw_recv(fd, in, sizeof(in));
	return sl_hello_read_challenge(h, mac, in);
}

int raw_greet(const struct raw *r, uint16_t stream)
{
	struct sl_hello h = raw_hello(r, stream);
	uint8_t mac[SL_AUTH_MAC_LEN], out[SL_PROOF_LEN], verdict[SL_VERDICT_LEN];
	int fd = raw_dial(r);

	assert_ok(raw_say_hello(&h, fd));
	assert_ok(sl_hello_mac(&h, SL_INITIATOR, r->ep->key, mac));
	sl_hello_write_proof(mac, out);
	raw_send(fd, out, sizeof(out));
	raw_recv(fd, verdict, sizeof(verdict));
	assert_ok(sl_hello_read_verdict(verdict));
	return fd;
}

/* ---- frames ---- */

void raw_send_head(int fd, struct tcp_head h)
{
	uint8_t out[TCP_HEAD_LEN];

	tcp_head_write(&h, out);
	raw_send(fd, out, sizeof(out));
}

struct tcp_head raw_recv_head(int fd)
{
	uint8_t in[TCP_HEAD_LEN];
	struct tcp_head h;

	raw_recv(fd, in, sizeof(in));
	assert_ok(tcp_head_read(&h, in));
	return h;
}

void raw_show(int fd, const struct slime_remote_mr *r)
{
	uint8_t secret[TCP_SECRET_LEN];

	sl_put_le64(secret, r->secret[0]);
	sl_put_le64(secret + 8, r->secret[1]);
	raw_send_head(fd,
		      (struct tcp_head){ .kind = TCP_SECRET, .id = r->id, .arg = r->generation });
	raw_send(fd, secret, sizeof(secret));
}

void raw_open(struct raw *r, int fd)
{
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_OPEN, .arg = 1 });
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_READY });
	assert_int_equal(raw_recv_head(fd).kind, TCP_OPEN);
	assert_int_equal(raw_recv_head(fd).kind, TCP_READY);
	assert_ok(raw_connected(r));
	raw_show(fd, &r->remote);
}

int raw_link(struct raw *r)
{
	int fd;

	raw_connect(r, true, 0, PATIENCE_MS);
	fd = raw_greet(r, 0);
	raw_open(r, fd);
	return fd;
}

struct tcp_piece raw_piece(const struct raw *r, uint64_t offset, uint32_t len)
{
	return (struct tcp_piece){ .region = r->remote.id,
				   .len = len,
				   .generation = r->remote.generation,
				   .offset = offset };
}

void raw_send_pieces(int fd, struct tcp_head h, const struct tcp_piece *pieces)
{
	uint8_t out[TCP_PIECE_LEN];

	raw_send_head(fd, h);
	for (unsigned i = 0; i < h.count; i++) {
		tcp_piece_write(&pieces[i], out);
		raw_send(fd, out, sizeof(out));
	}
}

void raw_send_request(int fd, uint8_t kind, uint32_t id, struct tcp_piece piece)
{
	struct tcp_head h = { .kind = kind, .count = 1, .id = id, .len = piece.len };

	raw_send_pieces(fd, h, &piece);
}
