/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers and impostors that reach the listener of links, and that answer a dial. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/libslime/transport/raw_peer.h"
#include "src/endpoint/endpoint.h"
#include "src/transport/greeting.h"
#include "src/transport/link_listener.h"

#define IN_RAW(fn) cmocka_unit_test_setup_teardown(fn, raw_setup, raw_teardown)

static _Atomic bool has_no_randomness;

int __real_sl_auth_random(void *out, size_t len);
int __wrap_sl_auth_random(void *out, size_t len);
int __wrap_sl_auth_random(void *out, size_t len)
{
	return has_no_randomness ? -EIO : __real_sl_auth_random(out, len);
}

static void mac__is_hmac_sha256(void **state)
{
	/* hmac.new(b"\x0b" * 32, b"Hi There", "sha256") of Python. */
	static const uint8_t expected[SL_AUTH_MAC_LEN] = {
		0x19, 0x8a, 0x60, 0x7e, 0xb4, 0x4b, 0xfb, 0xc6, 0x99, 0x03, 0xa0,
		0xf1, 0xcf, 0x2b, 0xbd, 0xc5, 0xba, 0x0a, 0xa3, 0xf3, 0xd9, 0xae,
		0x3c, 0x1c, 0x7a, 0x3b, 0x16, 0x96, 0xa0, 0xb6, 0x8c, 0xf7,
	};
	uint8_t key[SL_AUTH_KEY_LEN], mac[SL_AUTH_MAC_LEN];

	(void)state;
	memset(key, 0x0b, sizeof(key));
	assert_ok(sl_auth_mac(key, "Hi There", 8, mac));
	assert_memory_equal(mac, expected, sizeof(mac));
	assert_true(sl_auth_equal(mac, expected));
	mac[31] ^= 1;
	assert_false(sl_auth_equal(mac, expected));
}

/* Everything a proof covers changes it. */
static void proof__of_anything_else_differs(void **state)
{
	static const uint8_t key[SL_AUTH_KEY_LEN] = "a key of a link, of 32 bytes....";
	struct sl_hello base = { .transport = SLIME_TRANSPORT_TCP,
				 .stream = 1,
				 .initiator = { 2, 3 },
				 .acceptor = { 4, 5 } };
	struct sl_hello other[11];
	uint8_t mac[SL_AUTH_MAC_LEN], differs[SL_AUTH_MAC_LEN];

	(void)state;
	for (int i = 0; i < 11; i++)
		other[i] = base;
	other[0].transport = SLIME_TRANSPORT_SHM;
	other[1].stream++;
	other[2].initiator.context++;
	other[3].initiator.endpoint++;
	other[4].acceptor.context++;
	other[5].acceptor.endpoint++;
	other[6].nonce[31]++;
	other[7].acceptor_nonce[0]++;
	other[8].features++;
	other[9].acceptor_features++;
	assert_ok(sl_hello_mac(&base, SL_INITIATOR, key, mac));
	for (int i = 0; i < 11; i++) {
		assert_ok(sl_hello_mac(&other[i], i == 10 ? SL_ACCEPTOR : SL_INITIATOR, key,
				       differs));
		assert_false(sl_auth_equal(mac, differs));
	}
}

/* ---- as acceptor ---- */

static void link_listener__bytes_that_are_no_greeting_are_rejected_with_one_line(void **state)
{
	uint8_t noise[SL_HELLO_LEN] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = raw_dial(*state);

	raw_send(fd, noise, sizeof(noise));
	raw_await_end(fd);
	assert_int_equal(log_lines_with("rejected 127.0.0.1:"), 1);
	assert_int_equal(log_lines_with("no greeting"), 1);
	close(fd);
}

static void link_listener__a_stranger_who_leaves_early_is_forgotten(void **state)
{
	struct raw *r = *state;
	int fd = raw_dial(r);

	raw_send(fd, "SLIM", 4);
	close(fd);
	/* The next one is served. */
	close(raw_link(r));
}

static void link_listener__a_stranger_who_says_nothing_is_rejected_in_time(void **state)
{
	uint64_t begin = sl_clock_ms(), took;
	int fd = raw_dial(*state);

	raw_await_end(fd);
	took = sl_clock_ms() - begin;
	assert_true(took >= SL_GREETING_TIMEOUT_MS - 100 && took < PATIENCE_MS);
	assert_int_equal(log_lines_with("it took too long"), 1);
	close(fd);
}

/* A byte a second for as long as it is heard; others are served meanwhile. */
static void link_listener__a_stranger_who_says_a_byte_a_second_is_rejected_in_time(void **state)
{
	struct raw *r = *state;
	uint64_t begin = sl_clock_ms(), took;
	uint8_t hello[SL_HELLO_LEN];
	struct sl_hello h;
	int other, fd = raw_dial(r);
	struct pollfd heard = { .fd = fd, .events = POLLIN };

	other = raw_link(r);
	h = raw_hello(r, 0);
	sl_hello_write(&h, hello);
	for (size_t i = 0; i < sizeof(hello) && poll(&heard, 1, 1000) == 0; i++)
		raw_send(fd, &hello[i], 1);
	raw_await_end(fd);
	took = sl_clock_ms() - begin;
	assert_true(took >= SL_GREETING_TIMEOUT_MS - 100 && took < PATIENCE_MS);
	assert_int_equal(log_lines_with("it took too long"), 1);
	close(fd);
	close(other);
}

static void link_listener__another_version_is_refused(void **state)
{
	struct raw *r = *state;
	struct sl_hello h = raw_hello(r, 0);
	uint8_t hello[SL_HELLO_LEN], challenge[SL_CHALLENGE_LEN];
	int fd = raw_dial(r);

	sl_hello_write(&h, hello);
	hello[4]++;
	raw_send(fd, hello, sizeof(hello));
	raw_recv(fd, challenge, sizeof(challenge));
	assert_int_equal(challenge[7], SL_REFUSED_VERSION);
	raw_await_end(fd);
	close(fd);
}

static void link_listener__an_endpoint_that_does_not_exist_is_refused(void **state)
{
	struct raw *r = *state;
	struct sl_hello h = raw_hello(r, 0);
	int fd = raw_dial(r);

	h.acceptor.endpoint += 1000;
	assert_int_equal(raw_say_hello(&h, fd), -ENOENT);
	raw_await_end(fd);
	close(fd);
}

static void link_listener__a_former_life_of_the_context_is_refused(void **state)
{
	struct raw *r = *state;
	struct sl_hello h = raw_hello(r, 0);
	int fd = raw_dial(r);

	h.acceptor.context++;
	assert_int_equal(raw_say_hello(&h, fd), -ENOENT);
	close(fd);
}

static void link_listener__a_peer_that_is_not_expected_is_refused(void **state)
{
	struct raw *r = *state;
	struct sl_hello h;
	int fd;

	raw_connect(r, true, 0, PATIENCE_MS);
	h = raw_hello(r, 0);
	h.initiator.endpoint++;
	fd = raw_dial(r);
	assert_int_equal(raw_say_hello(&h, fd), -ENOENT);
	close(fd);
}

/* What the acceptor sends back to this HELLO is a refusal of that code, and then it hangs up. */
static void assert_hello_refused(const struct raw *r, const uint8_t hello[SL_HELLO_LEN],
				 enum sl_refusal code)
{
	uint8_t refusal[SL_CHALLENGE_LEN];
	int fd = raw_dial(r);

	raw_send(fd, hello, SL_HELLO_LEN);
	raw_recv(fd, refusal, sizeof(refusal));
	assert_int_equal(refusal[7], code);
	raw_await_end(fd);
	close(fd);
}

static void link_listener__a_peer_of_another_version_is_refused_with_words(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN];
	struct sl_hello h;

	raw_connect(r, true, 0, PATIENCE_MS);
	h = raw_hello(r, 0);
	sl_hello_write(&h, hello);
	hello[4] = SL_HELLO_VERSION - 1;
	assert_hello_refused(r, hello, SL_REFUSED_VERSION);
	assert_int_equal(log_lines_with("it speaks another version of the protocol"), 1);
}

static void
link_listener__a_peer_that_requires_an_unknown_feature_is_refused_with_words(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN];
	struct sl_hello h;

	raw_connect(r, true, 0, PATIENCE_MS);
	h = raw_hello(r, 0);
	h.features = UINT32_C(1) << 16;
	sl_hello_write(&h, hello);
	assert_hello_refused(r, hello, SL_REFUSED_FEATURE);
	assert_int_equal(log_lines_with("it requires a feature that we do not know"), 1);
}

static void link_listener__a_feature_that_a_peer_offers_may_be_unknown(void **state)
{
	struct raw *r = *state;
	struct sl_hello h;
	int fd;

	raw_connect(r, true, 0, PATIENCE_MS);
	h = raw_hello(r, 0);
	h.features = UINT32_C(1) << 15;
	fd = raw_dial(r);
	assert_ok(raw_say_hello(&h, fd));
	close(fd);
}

/* It is we who fail: this is not a reverse attempt that is not needed. */
static void link_listener__a_peer_that_we_cannot_challenge_is_rejected_with_one_line(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN];
	struct sl_hello h;
	int fd;

	raw_connect(r, true, 0, PATIENCE_MS);
	h = raw_hello(r, 0);
	sl_hello_write(&h, hello);
	fd = raw_dial(r);
	has_no_randomness = true;
	raw_send(fd, hello, sizeof(hello));
	raw_await_end(fd);
	has_no_randomness = false;
	assert_int_equal(log_lines_with(": Input/output error"), 1);
	close(fd);
}

static void link_listener__a_peer_without_the_key_is_refused(void **state)
{
	struct raw *r = *state;
	uint8_t proof[SL_PROOF_LEN], verdict[SL_VERDICT_LEN], mac[SL_AUTH_MAC_LEN] = { 1 };
	struct sl_hello h;
	int fd;

	raw_connect(r, true, 0, PATIENCE_MS);
	fd = raw_dial(r);
	h = raw_hello(r, 0);
	assert_ok(raw_say_hello(&h, fd));
	sl_hello_write_proof(mac, proof);
	raw_send(fd, proof, sizeof(proof));
	raw_recv(fd, verdict, sizeof(verdict));
	assert_int_equal(sl_hello_read_verdict(verdict), -EACCES);
	raw_await_end(fd);
	assert_int_equal(log_lines_with("does not hold the link's key"), 1);
	close(fd);
	/* The one who has it is still welcome. */
	close(raw_greet(r, 0));
}

/* Our own challenge, sent back to us, proves nothing. */
static void link_listener__a_proof_that_is_a_reflection_is_refused(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN], challenge[SL_CHALLENGE_LEN], proof[SL_PROOF_LEN];
	uint8_t verdict[SL_VERDICT_LEN];
	struct sl_hello h;
	int fd;

	raw_connect(r, true, 0, PATIENCE_MS);
	fd = raw_dial(r);
	h = raw_hello(r, 0);
	sl_hello_write(&h, hello);
	raw_send(fd, hello, sizeof(hello));
	raw_recv(fd, challenge, sizeof(challenge));
	sl_hello_write_proof(challenge + 40, proof);
	raw_send(fd, proof, sizeof(proof));
	raw_recv(fd, verdict, sizeof(verdict));
	assert_int_equal(sl_hello_read_verdict(verdict), -EACCES);
	close(fd);
}

static void link_listener__a_hello_for_an_endpoint_that_does_not_know_its_peer_is_held(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN], challenge[SL_CHALLENGE_LEN];
	struct sl_hello h;
	int fd = raw_dial(r);

	r->peer = (struct sl_link_id){ 1, 1 };
	h = raw_hello(r, 0);
	sl_hello_write(&h, hello);
	raw_send(fd, hello, sizeof(hello));
	raw_connect(r, true, 0, PATIENCE_MS);
	raw_recv(fd, challenge, sizeof(challenge));
	assert_int_equal(challenge[7], SL_WELCOME);
	close(fd);
}

static void link_listener__a_hello_is_not_held_for_ever(void **state)
{
	struct raw *r = *state;
	struct sl_hello h;
	int fd = raw_dial(r);

	r->peer = (struct sl_link_id){ 1, 1 };
	h = raw_hello(r, 0);
	assert_int_equal(raw_say_hello(&h, fd), -EAGAIN);
	raw_await_end(fd);
	close(fd);
}

/* Before the time is over that each has when no others wait. */
static void link_listener__full_of_strangers_who_say_nothing_serves_the_next(void **state)
{
	struct raw *r = *state;
	int strangers[SL_HANDSHAKES_MAX];
	int fd;

	for (int i = 0; i < SL_HANDSHAKES_MAX; i++)
		strangers[i] = raw_dial(r);
	raw_connect(r, true, 0, PATIENCE_MS);
	fd = raw_greet(r, 0);
	assert_int_equal(log_lines_with("it took too long"), 0);
	assert_int_equal(log_lines_with("other streams waited"), 1);
	raw_await_end(strangers[0]);
	for (int i = 0; i < SL_HANDSHAKES_MAX; i++)
		close(strangers[i]);
	close(fd);
}

/* Those are told to dial again. */
static void link_listener__full_of_those_whose_endpoint_is_not_ready_serves_the_next(void **state)
{
	struct raw *r = *state, other = *r;
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	int early[SL_HANDSHAKES_MAX];
	uint8_t hello[SL_HELLO_LEN], challenge[SL_CHALLENGE_LEN];
	uint64_t begin = sl_clock_ms();
	struct sl_hello h;
	int fd;

	r->peer = (struct sl_link_id){ 1, 1 };
	h = raw_hello(r, 0);
	sl_hello_write(&h, hello);
	for (int i = 0; i < SL_HANDSHAKES_MAX; i++) {
		early[i] = raw_dial(r);
		raw_send(early[i], hello, sizeof(hello));
	}
	attr.transports[0] = SLIME_TRANSPORT_TCP;
	assert_ok(slime_endpoint_create(r->ctx, &attr, &other.ep));
	other.self = other.ep->self;
	raw_connect(&other, true, 0, PATIENCE_MS);
	fd = raw_greet(&other, 0);
	assert_true(sl_clock_ms() - begin < SL_GREETING_TIMEOUT_MS);
	raw_recv(early[0], challenge, sizeof(challenge));
	assert_int_equal(challenge[7], SL_REFUSED_NOT_YET);
	for (int i = 0; i < SL_HANDSHAKES_MAX; i++)
		close(early[i]);
	close(fd);
	assert_ok(slime_endpoint_destroy(other.ep));
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
}

static void link_listener__many_strangers_write_few_lines(void **state)
{
	uint8_t noise[SL_HELLO_LEN] = { 0 };

	uint64_t begin = sl_clock_ms(), allowed;

	for (int i = 0; i < 50; i++) {
		int fd = raw_dial(*state);

		raw_send(fd, noise, sizeof(noise));
		raw_await_end(fd);
		close(fd);
	}
	/* Bursts of 5, one a second. */
	allowed = 5 * ((sl_clock_ms() - begin) / 1000 + 2);
	assert_in_range(log_lines_with("no greeting"), 5, allowed);
}

/* ---- as initiator ---- */

/* What the connect comes to when the acceptor answers the hello with these bytes. */
static int answered_with(struct raw *r, const uint8_t *bytes, size_t len)
{
	uint8_t hello[SL_HELLO_LEN];
	uint16_t port;
	int listener = raw_listen(&port);
	int fd, status;

	raw_connect(r, false, port, PATIENCE_MS);
	fd = raw_accept(listener);
	raw_recv(fd, hello, sizeof(hello));
	if (len)
		raw_send(fd, bytes, len);
	close(fd);
	status = raw_connected(r);
	close(listener);
	return status;
}

static void greeting__with_one_that_hangs_up_is_connreset(void **state)
{
	assert_int_equal(answered_with(*state, NULL, 0), -ECONNRESET);
}

static void greeting__with_one_of_another_protocol_is_eproto(void **state)
{
	static const uint8_t noise[SL_CHALLENGE_LEN] = "220 mail.example.org ESMTP\r\n";

	assert_int_equal(answered_with(*state, noise, sizeof(noise)), -EPROTO);
}

/* Its refusal is as short as its version has it. */
static void greeting__with_one_of_the_version_before_is_eproto_with_words(void **state)
{
	uint8_t refusal[SL_CHALLENGE_LEN];

	sl_hello_write_code(SL_REFUSED_VERSION, refusal, sizeof(refusal));
	refusal[4] = SL_HELLO_VERSION - 1;
	assert_int_equal(answered_with(*state, refusal, 72), -EPROTO);
	assert_int_equal(log_lines_with("speaks another version of our protocol"), 1);
}

static void greeting__with_one_that_requires_an_unknown_feature_is_eproto(void **state)
{
	const struct sl_hello h = { .acceptor_features = UINT32_C(1) << 31 };
	const uint8_t mac[SL_AUTH_MAC_LEN] = { 2 };
	uint8_t challenge[SL_CHALLENGE_LEN];

	sl_hello_write_challenge(&h, mac, challenge);
	assert_int_equal(answered_with(*state, challenge, sizeof(challenge)), -EPROTO);
	assert_int_equal(log_lines_with("requires a feature"), 1);
}

static void greeting__refused_as_unknown_is_connrefused(void **state)
{
	uint8_t refusal[SL_CHALLENGE_LEN];

	sl_hello_write_code(SL_REFUSED_UNKNOWN, refusal, sizeof(refusal));
	assert_int_equal(answered_with(*state, refusal, sizeof(refusal)), -ECONNREFUSED);
}

/* It takes our hello, and cannot prove that it is whom we called. */
static void greeting__with_an_impostor_is_eacces(void **state)
{
	const struct sl_hello h = { .acceptor_nonce = { 1 } };
	uint8_t mac[SL_AUTH_MAC_LEN] = { 2 };
	uint8_t challenge[SL_CHALLENGE_LEN];

	sl_hello_write_challenge(&h, mac, challenge);
	assert_int_equal(answered_with(*state, challenge, sizeof(challenge)), -EACCES);
}

static void greeting__told_not_yet_dials_again(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN], refusal[SL_CHALLENGE_LEN];
	uint16_t port;
	int listener = raw_listen(&port);
	int first, second;

	sl_hello_write_code(SL_REFUSED_NOT_YET, refusal, sizeof(refusal));
	raw_connect(r, false, port, PATIENCE_MS);
	first = raw_accept(listener);
	raw_recv(first, hello, sizeof(hello));
	raw_send(first, refusal, sizeof(refusal));
	second = raw_accept(listener);
	raw_recv(second, hello, sizeof(hello));
	close(first);
	close(second);
	assert_int_equal(raw_connected(r), -ECONNRESET);
	close(listener);
}

/* Who says so has not proven to be the peer: he cannot keep us busy. */
static void greeting__told_not_yet_at_once_dials_again_after_a_pause(void **state)
{
	struct raw *r = *state;
	uint8_t hello[SL_HELLO_LEN], refusal[SL_CHALLENGE_LEN];
	struct pollfd listener = { .events = POLLIN };
	unsigned n_dials = 0;
	uint16_t port;

	listener.fd = raw_listen(&port);
	sl_hello_write_code(SL_REFUSED_NOT_YET, refusal, sizeof(refusal));
	raw_connect(r, false, port, 10 * SL_GREETING_AGAIN_MS);
	while (!slime_op_test(r->op)) {
		int fd;

		if (poll(&listener, 1, 1) == 0)
			continue;
		fd = raw_accept(listener.fd);
		/* The last one may be given up before it says anything. */
		if (recv(fd, hello, sizeof(hello), MSG_WAITALL) == sizeof(hello))
			(void)send(fd, refusal, sizeof(refusal), MSG_NOSIGNAL);
		close(fd);
		n_dials++;
	}
	assert_int_equal(slime_op_status(r->op), -ETIMEDOUT);
	assert_in_range(n_dials, 2, 11);
	close(listener.fd);
}

static void greeting__with_one_that_says_nothing_times_out(void **state)
{
	struct raw *r = *state;
	uint16_t port;
	int listener = raw_listen(&port);

	raw_connect(r, false, port, 200);
	assert_int_equal(raw_connected(r), -ETIMEDOUT);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mac__is_hmac_sha256),
		cmocka_unit_test(proof__of_anything_else_differs),
		IN_RAW(link_listener__bytes_that_are_no_greeting_are_rejected_with_one_line),
		IN_RAW(link_listener__a_stranger_who_leaves_early_is_forgotten),
		IN_RAW(link_listener__a_stranger_who_says_nothing_is_rejected_in_time),
		IN_RAW(link_listener__a_stranger_who_says_a_byte_a_second_is_rejected_in_time),
		IN_RAW(link_listener__another_version_is_refused),
		IN_RAW(link_listener__an_endpoint_that_does_not_exist_is_refused),
		IN_RAW(link_listener__a_former_life_of_the_context_is_refused),
		IN_RAW(link_listener__a_peer_that_is_not_expected_is_refused),
		IN_RAW(link_listener__a_peer_of_another_version_is_refused_with_words),
		IN_RAW(link_listener__a_peer_that_requires_an_unknown_feature_is_refused_with_words),
		IN_RAW(link_listener__a_feature_that_a_peer_offers_may_be_unknown),
		IN_RAW(link_listener__a_peer_that_we_cannot_challenge_is_rejected_with_one_line),
		IN_RAW(link_listener__a_peer_without_the_key_is_refused),
		IN_RAW(link_listener__a_proof_that_is_a_reflection_is_refused),
		IN_RAW(link_listener__a_hello_for_an_endpoint_that_does_not_know_its_peer_is_held),
		IN_RAW(link_listener__a_hello_is_not_held_for_ever),
		IN_RAW(link_listener__full_of_strangers_who_say_nothing_serves_the_next),
		IN_RAW(link_listener__full_of_those_whose_endpoint_is_not_ready_serves_the_next),
		IN_RAW(link_listener__many_strangers_write_few_lines),
		IN_RAW(greeting__with_one_that_hangs_up_is_connreset),
		IN_RAW(greeting__with_one_of_another_protocol_is_eproto),
		IN_RAW(greeting__with_one_of_the_version_before_is_eproto_with_words),
		IN_RAW(greeting__with_one_that_requires_an_unknown_feature_is_eproto),
		IN_RAW(greeting__refused_as_unknown_is_connrefused),
		IN_RAW(greeting__with_an_impostor_is_eacces),
		IN_RAW(greeting__told_not_yet_dials_again),
		IN_RAW(greeting__told_not_yet_at_once_dials_again_after_a_pause),
		IN_RAW(greeting__with_one_that_says_nothing_times_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
