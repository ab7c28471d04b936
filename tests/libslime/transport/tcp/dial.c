/* SPDX-License-Identifier: Apache-2.0 */
/* Which end of a link connects: the initiator, unless only the other way is open. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/libslime/transport/raw_peer.h"
#include "src/core/desc.h"
#include "src/endpoint/endpoint.h"
#include "src/transport/greeting.h"
#include "src/transport/tcp/tcp.h"

#define IN_RAW(fn)     cmocka_unit_test_setup_teardown(fn, raw_setup, teardown)
#define FOR_OTHERS(fn) cmocka_unit_test_setup_teardown(fn, raw_setup_for_others, teardown)

/* ---- time ---- */

static _Atomic time_t ahead_s; /* of the kernel's, by which sleepers wake */

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
		ts->tv_sec += atomic_load(&ahead_s);
	return ret;
}

static int teardown(void **state)
{
	int ret = raw_teardown(state);

	atomic_store(&ahead_s, 0);
	return ret;
}

/* ---- the endpoint is the initiator ---- */

/* The peer comes, and the link is up. */
static void take_streams(struct raw *r)
{
	int fd = raw_greet(r, 0);

	raw_open(r, fd);
	close(fd);
}

static void connect__where_nobody_listens_takes_the_streams_of_the_peer(void **state)
{
	struct raw *r = *state;

	raw_connect(r, false, 0, PATIENCE_MS);
	take_streams(r);
}

/* Something else listens where the peer is said to, and says nothing. */
static void connect__to_one_who_is_silent_takes_the_streams_of_the_peer(void **state)
{
	struct raw *r = *state;
	uint16_t port;
	int listener = raw_listen(&port);

	raw_connect(r, false, port, PATIENCE_MS);
	take_streams(r);
	close(listener);
}

static void connect__that_the_peer_does_not_reverse_fails_as_its_own_dial_did(void **state)
{
	struct raw *r = *state;
	uint64_t begin = sl_clock_ms();

	raw_connect(r, false, 0, PATIENCE_MS);
	assert_int_equal(raw_connected(r), -ECONNREFUSED);
	assert_true(sl_clock_ms() - begin < PATIENCE_MS / 2);
}

/* An address of this host that is none of loopback's. */
static uint16_t listen_anywhere(struct raw *r, int *listener)
{
	uint16_t port;

	memset(r->host, 0, sizeof(r->host));
	*listener = raw_listen(&port);
	return port;
}

/* Whoever comes next is told so in the place of a challenge. */
static void refuse_next(int listener, enum sl_refusal code)
{
	uint8_t in[SL_HELLO_LEN], out[SL_CHALLENGE_LEN];
	int fd = raw_accept(listener);

	raw_recv(fd, in, sizeof(in));
	sl_hello_write_code(code, out, sizeof(out));
	raw_send(fd, out, sizeof(out));
	raw_await_end(fd);
	close(fd);
}

static struct sl_hello greet_in_reverse(const struct raw *r, int fd)
{
	struct sl_hello h = raw_hello(r, 0);
	uint8_t out[SL_HELLO_LEN];

	sl_hello_write(&h, out);
	raw_send(fd, out, sizeof(out));
	return h;
}

/* The reverse attempt is answered with a code, and its stream is closed. */
static void assert_refused(int attempt, struct sl_hello *h, int why)
{
	uint8_t in[SL_CHALLENGE_LEN], mac[SL_AUTH_MAC_LEN];

	raw_recv(attempt, in, sizeof(in));
	assert_int_equal(sl_hello_read_challenge(h, mac, in), why);
	raw_await_end(attempt);
}

/* Who comes now has come and gone; what came before was heard. */
static void let_a_stranger_pass(const struct raw *r)
{
	uint8_t noise[SL_HELLO_LEN] = { 0 };
	int fd = raw_dial(r);

	raw_send(fd, noise, sizeof(noise));
	raw_await_end(fd);
	close(fd);
}

/* Its dial was in vain: reverse attempts are accepted. */
static void await_giving_way(const struct raw *r)
{
	struct sl_hello h = raw_hello(r, 0);
	int fd = raw_dial(r);

	assert_ok(raw_say_hello(&h, fd));
	close(fd);
}

/* The endpoint's thread looks at its timers with each who comes. */
static void let_a_second_pass(const struct raw *r)
{
	atomic_fetch_add(&ahead_s, 1);
	let_a_stranger_pass(r);
	let_a_stranger_pass(r);
}

static void assert_says(const struct raw *r, const char *text)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(r->ep, &info);
	assert_string_equal(info.cause_text, text);
	assert_int_equal(log_lines_with(text), 1);
}

static void connect__to_a_host_that_refuses_fails_after_a_second(void **state)
{
	struct raw *r = *state;

	memset(r->host, 0, sizeof(r->host));
	raw_connect(r, false, 0, PATIENCE_MS);
	await_giving_way(r);
	let_a_second_pass(r);
	assert_true(slime_op_test(r->op));
	assert_int_equal(slime_op_status(r->op), -ECONNREFUSED);
	assert_says(
		r,
		"tcp: the peer offered 0.0.0.0:1, but nothing listens there, or a firewall refuses");
}

/* It may have been a firewall. */
static void connect__to_a_host_that_refuses_takes_the_streams_of_the_peer(void **state)
{
	struct raw *r = *state;

	memset(r->host, 0, sizeof(r->host));
	raw_connect(r, false, 0, PATIENCE_MS);
	take_streams(r);
}

static void connect__to_one_who_does_not_expect_it_fails_after_a_second(void **state)
{
	struct raw *r = *state;
	int listener;

	raw_connect(r, false, listen_anywhere(r, &listener), PATIENCE_MS);
	refuse_next(listener, SL_REFUSED_UNKNOWN);
	await_giving_way(r);
	let_a_second_pass(r);
	assert_true(slime_op_test(r->op));
	assert_int_equal(slime_op_status(r->op), -ECONNREFUSED);
	assert_int_equal(log_lines_with("the process that listens there does not expect this link"),
			 1);
	close(listener);
}

/* The peer's host may share that address with others, with our own for one. */
static void connect__to_one_who_does_not_expect_it_takes_the_streams_of_the_peer(void **state)
{
	struct raw *r = *state;
	int listener;

	raw_connect(r, false, listen_anywhere(r, &listener), PATIENCE_MS);
	refuse_next(listener, SL_REFUSED_UNKNOWN);
	take_streams(r);
	close(listener);
}

/* That is one of this host, and the peer another's. */
static void
connect__to_one_on_loopback_who_does_not_expect_it_takes_the_streams_of_the_peer(void **state)
{
	struct raw *r = *state;
	uint16_t port;
	int listener = raw_listen(&port);

	raw_connect(r, false, port, PATIENCE_MS);
	refuse_next(listener, SL_REFUSED_UNKNOWN);
	take_streams(r);
	close(listener);
}

static void connect__that_is_closed_while_it_waits_for_a_reverse_attempt_ends(void **state)
{
	struct raw *r = *state;

	raw_connect(r, false, 0, -1);
	slime_endpoint_close(r->ep);
	assert_int_equal(raw_connected(r), -ECANCELED);
}

/* Whom nobody on another host can reach need not wait for that. */
static void connect__of_one_on_loopback_fails_at_once(void **state)
{
	struct raw *r = *state;
	struct sl_hello h;
	int fd;

	raw_connect(r, false, 0, PATIENCE_MS);
	assert_int_equal(raw_connected(r), -ECONNREFUSED);
	fd = raw_dial(r);
	h = raw_hello(r, 0);
	assert_int_equal(raw_say_hello(&h, fd), -ENOENT);
	close(fd);
}

static void connect__to_loopback_where_nobody_listens_names_the_setting(void **state)
{
	struct raw *r = *state;

	raw_connect(r, false, 0, PATIENCE_MS);
	assert_int_equal(raw_connected(r), -ECONNREFUSED);
	assert_says(r, "tcp: the peer offered 127.0.0.1:1, which is loopback, and nothing listens "
		       "there: if the peer is on another host, set its tcp_bind");
}

/* Something else listens there, and says nothing. */
static void connect__to_one_who_is_silent_names_the_address(void **state)
{
	struct raw *r = *state;
	char expected[256];
	int listener;
	uint16_t port = listen_anywhere(r, &listener);

	raw_connect(r, false, port, 300);
	assert_int_equal(raw_connected(r), -ETIMEDOUT);
	snprintf(expected, sizeof(expected),
		 "tcp: the peer offered 0.0.0.0:%u, but nothing answers there: its host is down, "
		 "or a firewall drops the packets",
		 port);
	assert_says(r, expected);
	close(listener);
}

/* The answer of who is dialled, but for the verdict. */
static void prove(const struct raw *r, int fd)
{
	uint8_t in[SL_HELLO_LEN], proof[SL_PROOF_LEN], out[SL_CHALLENGE_LEN];
	uint8_t mac[SL_AUTH_MAC_LEN], theirs[SL_AUTH_MAC_LEN];
	struct sl_hello h = { .acceptor_features = 0 };

	raw_recv(fd, in, sizeof(in));
	assert_ok(sl_hello_read(&h, in));
	assert_int_equal(h.initiator.context, r->self.context);
	assert_int_equal(h.acceptor.context, r->peer.context);
	memset(h.acceptor_nonce, 'n', sizeof(h.acceptor_nonce));
	assert_ok(sl_hello_mac(&h, SL_ACCEPTOR, r->ep->key, mac));
	sl_hello_write_challenge(&h, mac, out);
	raw_send(fd, out, SL_CHALLENGE_LEN);
	raw_recv(fd, proof, sizeof(proof));
	assert_ok(sl_hello_read_proof(theirs, proof));
	assert_ok(sl_hello_mac(&h, SL_INITIATOR, r->ep->key, mac));
	assert_memory_equal(theirs, mac, sizeof(mac));
}

static void say_welcome(int fd)
{
	uint8_t out[SL_VERDICT_LEN];

	sl_hello_write_code(SL_WELCOME, out, sizeof(out));
	raw_send(fd, out, sizeof(out));
}

/* All of it: a stream that was greeted. */
static int welcome(const struct raw *r, int fd)
{
	prove(r, fd);
	say_welcome(fd);
	return fd;
}

/* As of who was dialled: the endpoint's OPEN is the first frame. */
static void open_after(struct raw *r, int fd)
{
	struct tcp_head h = raw_recv_head(fd);

	assert_int_equal(h.kind, TCP_OPEN);
	assert_int_equal(h.arg, 1);
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_OPEN, .arg = 1 });
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_READY });
	assert_int_equal(raw_recv_head(fd).kind, TCP_READY);
	assert_ok(raw_connected(r));
}

/* Both ways are open: the initiator's stream came first, and so the reverse attempt is not needed.
 */
static void reverse__beside_a_dial_that_succeeds_is_held_and_then_refused(void **state)
{
	struct raw *r = *state;
	struct sl_hello h;
	uint16_t port;
	int listener = raw_listen(&port), fd, attempt;

	raw_connect(r, false, port, PATIENCE_MS);
	fd = welcome(r, raw_accept(listener));
	assert_int_equal(raw_recv_head(fd).kind, TCP_OPEN);
	attempt = raw_dial(r);
	h = greet_in_reverse(r, attempt);
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_OPEN, .arg = 1 });
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_READY });
	assert_int_equal(raw_recv_head(fd).kind, TCP_READY);
	assert_ok(raw_connected(r));
	assert_refused(attempt, &h, -ENOENT);
	assert_int_equal(log_lines_with("rejected "), 0);
	close(attempt);
	close(fd);
	close(listener);
}

/* As when the link came up over another transport, at both ends. */
static void reverse__that_is_given_up_while_it_is_held_is_no_line_of_the_log(void **state)
{
	struct raw *r = *state;
	uint16_t port;
	int listener = raw_listen(&port), fd, attempt;

	raw_connect(r, false, port, PATIENCE_MS);
	fd = raw_accept(listener);
	attempt = raw_dial(r);
	greet_in_reverse(r, attempt);
	let_a_stranger_pass(r);
	close(attempt);
	let_a_stranger_pass(r);
	assert_int_equal(log_lines_with("its first bytes are no greeting"), 2);
	assert_int_equal(log_lines_with("rejected "), 2);
	close(fd);
	close(listener);
}

/* It is in vain no more than that of a stranger: something stands still. */
static void reverse__that_is_held_for_too_long_is_a_line_of_the_log(void **state)
{
	struct raw *r = *state;
	struct sl_hello h;
	uint16_t port;
	int listener = raw_listen(&port), fd, attempt;

	raw_connect(r, false, port, PATIENCE_MS);
	fd = raw_accept(listener);
	prove(r, fd);
	attempt = raw_dial(r);
	h = greet_in_reverse(r, attempt);
	let_a_stranger_pass(r);
	atomic_fetch_add(&ahead_s, SL_GREETING_TIMEOUT_MS / 1000);
	assert_refused(attempt, &h, -EAGAIN);
	assert_int_equal(log_lines_with("did not get its peer's descriptor in time"), 1);
	close(attempt);
	close(fd);
	close(listener);
}

/* Nobody answered for long enough; and then the peer does. */
static void reverse__of_one_without_the_key_ends_no_dial(void **state)
{
	struct raw *r = *state;
	uint8_t challenge[SL_CHALLENGE_LEN];
	uint16_t port;
	int listener = raw_listen(&port), fd, attempt;

	raw_connect(r, false, port, PATIENCE_MS);
	fd = raw_accept(listener);
	attempt = raw_dial(r);
	greet_in_reverse(r, attempt);
	raw_recv(attempt, challenge, sizeof(challenge));
	welcome(r, fd);
	open_after(r, fd);
	close(attempt);
	close(fd);
	close(listener);
}

/* The peer has our proof, and may have taken the stream: its word is late. */
static void reverse__beside_a_dial_that_was_answered_is_held(void **state)
{
	struct raw *r = *state;
	struct pollfd held = { .events = POLLIN };
	uint16_t port;
	int listener = raw_listen(&port), fd;

	raw_connect(r, false, port, PATIENCE_MS);
	fd = raw_accept(listener);
	prove(r, fd);
	held.fd = raw_dial(r);
	greet_in_reverse(r, held.fd);
	assert_int_equal(poll(&held, 1, 1500), 0);
	say_welcome(fd);
	open_after(r, fd);
	close(held.fd);
	close(fd);
	close(listener);
}

/* ---- the endpoint is the acceptor ---- */

static void connect__of_an_initiator_that_does_not_come_is_dialled_in_reverse(void **state)
{
	struct raw *r = *state;
	int listener, fd;

	raw_connect(r, true, listen_anywhere(r, &listener), PATIENCE_MS);
	fd = welcome(r, raw_accept(listener));
	open_after(r, fd);
	close(fd);
	close(listener);
}

/* It is told that its turn may come, or an older peer never accepts it: it goes on to dial, and
 * takes the stream that comes after all. */
static void reverse__that_is_refused_is_tried_again(void **state)
{
	struct raw *r = *state;
	int listener;

	raw_connect(r, true, listen_anywhere(r, &listener), PATIENCE_MS);
	refuse_next(listener, SL_REFUSED_UNKNOWN);
	refuse_next(listener, SL_REFUSED_NOT_YET);
	take_streams(r);
	close(listener);
}

/* The initiator comes while a reverse attempt is under way, which is given up. */
static void connect__of_an_initiator_that_comes_late_ends_the_reverse_attempt(void **state)
{
	struct raw *r = *state;
	int listener, attempt, fd;

	raw_connect(r, true, listen_anywhere(r, &listener), PATIENCE_MS);
	attempt = raw_accept(listener);
	fd = raw_greet(r, 0);
	raw_open(r, fd);
	raw_await_end(attempt);
	close(attempt);
	close(fd);
	close(listener);
}

static void connect__of_an_initiator_that_never_comes_names_our_address(void **state)
{
	struct raw *r = *state;
	char expected[256];

	raw_connect(r, true, 0, 300);
	assert_int_equal(raw_connected(r), -ETIMEDOUT);
	snprintf(expected, sizeof(expected),
		 "tcp: the peer did not connect to 127.0.0.1:%u, which is loopback: if the peer is "
		 "on another host, set tcp_bind here",
		 r->port);
	assert_says(r, expected);
}

static void connect__of_an_initiator_that_never_comes_names_what_we_advertise(void **state)
{
	struct raw *r = *state;
	char expected[256];

	raw_connect(r, true, 0, 300);
	assert_int_equal(raw_connected(r), -ETIMEDOUT);
	snprintf(expected, sizeof(expected),
		 "tcp: the peer did not connect to 192.0.2.1:%u: a firewall may drop the packets",
		 r->port);
	assert_says(r, expected);
}

/* ---- both ---- */

struct end {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	struct sl_endpoint_desc desc;
};

static void make_end(struct end *e, const char *advertise)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len;

	attr.tcp_advertise = advertise;
	attr.tcp_streams = advertise ? 2 : 3;
	ep_attr.transports[0] = SLIME_TRANSPORT_TCP;
	assert_ok(slime_context_create(&attr, &e->ctx));
	assert_ok(slime_op_create(e->ctx, NULL, &e->op));
	assert_ok(slime_endpoint_create(e->ctx, &ep_attr, &e->ep));
	len = slime_endpoint_export(e->ep, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(sl_desc_read_endpoint(&e->desc, desc, (size_t)len));
}

static void destroy_end(struct end *e)
{
	assert_ok(slime_endpoint_destroy(e->ep));
	assert_ok(slime_op_destroy(e->op));
	assert_ok(slime_context_destroy(e->ctx));
}

static void connect_end(struct end *e, const struct sl_endpoint_desc *to)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = sl_desc_write_endpoint(to, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(e->ep, desc, (size_t)len, PATIENCE_MS, e->op));
}

static void assert_connects(struct end *e)
{
	assert_ok(slime_op_wait(e->op, PATIENCE_MS));
	assert_ok(slime_op_status(e->op));
}

/* One of them listens where the other, the initiator, cannot reach it. */
static void connect__between_hosts_of_which_one_listens_on_loopback_comes_up(void **state)
{
	static const uint8_t nowhere[] = { 1, 0 }, anywhere[] = { 0, 0, 0, 0 };
	struct end inside, outside;

	(void)state;
	make_end(&inside, NULL);
	make_end(&outside, "192.0.2.1");
	while (outside.desc.context > inside.desc.context) {
		destroy_end(&outside);
		destroy_end(&inside);
		make_end(&inside, NULL);
		make_end(&outside, "192.0.2.1");
	}
	memcpy(inside.desc.candidates[0].bytes + 1, nowhere, sizeof(nowhere));
	memcpy(outside.desc.candidates[0].bytes + 3, anywhere, sizeof(anywhere));
	connect_end(&outside, &inside.desc);
	connect_end(&inside, &outside.desc);
	assert_connects(&outside);
	assert_connects(&inside);
	/* As many as the one that connects has. */
	assert_int_equal(tcp_conn_of(outside.ep->attempts[SLIME_TRANSPORT_TCP].conn)->n_streams, 3);
	destroy_end(&outside);
	destroy_end(&inside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FOR_OTHERS(connect__where_nobody_listens_takes_the_streams_of_the_peer),
		FOR_OTHERS(connect__to_one_who_is_silent_takes_the_streams_of_the_peer),
		FOR_OTHERS(connect__that_the_peer_does_not_reverse_fails_as_its_own_dial_did),
		FOR_OTHERS(connect__to_a_host_that_refuses_fails_after_a_second),
		FOR_OTHERS(connect__to_a_host_that_refuses_takes_the_streams_of_the_peer),
		FOR_OTHERS(connect__to_one_who_does_not_expect_it_fails_after_a_second),
		FOR_OTHERS(connect__to_one_who_does_not_expect_it_takes_the_streams_of_the_peer),
		FOR_OTHERS(
			connect__to_one_on_loopback_who_does_not_expect_it_takes_the_streams_of_the_peer),
		FOR_OTHERS(connect__that_is_closed_while_it_waits_for_a_reverse_attempt_ends),
		IN_RAW(connect__of_one_on_loopback_fails_at_once),
		IN_RAW(connect__to_loopback_where_nobody_listens_names_the_setting),
		IN_RAW(connect__to_one_who_is_silent_names_the_address),
		FOR_OTHERS(reverse__beside_a_dial_that_succeeds_is_held_and_then_refused),
		FOR_OTHERS(reverse__that_is_given_up_while_it_is_held_is_no_line_of_the_log),
		FOR_OTHERS(reverse__that_is_held_for_too_long_is_a_line_of_the_log),
		FOR_OTHERS(reverse__of_one_without_the_key_ends_no_dial),
		FOR_OTHERS(reverse__beside_a_dial_that_was_answered_is_held),
		IN_RAW(connect__of_an_initiator_that_does_not_come_is_dialled_in_reverse),
		IN_RAW(reverse__that_is_refused_is_tried_again),
		IN_RAW(connect__of_an_initiator_that_comes_late_ends_the_reverse_attempt),
		IN_RAW(connect__of_an_initiator_that_never_comes_names_our_address),
		FOR_OTHERS(connect__of_an_initiator_that_never_comes_names_what_we_advertise),
		cmocka_unit_test(connect__between_hosts_of_which_one_listens_on_loopback_comes_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
