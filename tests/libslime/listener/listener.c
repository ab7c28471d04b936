/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile dialers at a listener, and hostile listeners: sockets that say what a test wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "src/listener/wire.h"
#include "src/transport/hello.h"
#include "support/log_lines.h"
#include <slime/slime.h>

#define PATIENCE_MS	60000
#define assert_ok(expr) assert_int_equal(expr, 0)

struct stand {
	struct slime_context *ctx;
	struct slime_listener *listener;
	uint8_t bytes[SLIME_LISTENER_DESC_MAX]; /* its descriptor */
	size_t len;
	struct sl_listener_desc desc; /* the same, read */
	struct slime_endpoint *ep;    /* dials */
	struct slime_op *op;
	struct slime_endpoint *_Atomic got;
};

static void on_endpoint(void *arg, struct slime_listener *listener, struct slime_endpoint *ep)
{
	struct stand *s = arg;

	(void)listener;
	assert_null(atomic_exchange(&s->got, ep));
}

static int setup(void **state)
{
	struct slime_listener_attr attr = SLIME_LISTENER_ATTR_INIT;
	struct stand *s = calloc(1, sizeof(*s));
	int len;

	log_lines_keep();
	attr.endpoint.transports[0] = SLIME_TRANSPORT_SHM;
	attr.unix_path = NULL;
	attr.tcp_bind = "127.0.0.1";
	attr.on_endpoint = on_endpoint;
	attr.arg = s;
	assert_ok(slime_context_create(NULL, &s->ctx));
	assert_ok(slime_listener_create(s->ctx, &attr, &s->listener));
	len = slime_listener_export(s->listener, s->bytes, sizeof(s->bytes));
	assert_true(len > 0);
	s->len = (size_t)len;
	assert_ok(sl_listener_desc_read(&s->desc, s->bytes, s->len));
	assert_ok(slime_endpoint_create(s->ctx, &attr.endpoint, &s->ep));
	assert_ok(slime_op_create(s->ctx, NULL, &s->op));
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct stand *s = *state;

	assert_ok(slime_listener_destroy(s->listener));
	assert_ok(slime_endpoint_destroy(s->got));
	assert_ok(slime_endpoint_destroy(s->ep));
	assert_ok(slime_op_destroy(s->op));
	assert_ok(slime_context_destroy(s->ctx));
	log_lines_release();
	free(s);
	return 0;
}

static void dial_ok(struct stand *s)
{
	assert_ok(slime_endpoint_dial(s->ep, s->bytes, s->len, -1, s->op));
	assert_ok(slime_op_wait(s->op, PATIENCE_MS));
	assert_ok(slime_op_status(s->op));
}

/* ---- a socket that dials ---- */

static int dial_raw(const struct stand *s)
{
	int fd = socket(s->desc.addresses[0].ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_ok(connect(fd, (const struct sockaddr *)&s->desc.addresses[0], s->desc.lens[0]));
	return fd;
}

static void recv_all(int fd, uint8_t *buf, size_t len)
{
	assert_int_equal(recv(fd, buf, len, MSG_WAITALL), (ssize_t)len);
}

static void send_all(int fd, const void *buf, size_t len)
{
	assert_int_equal(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* The other end hangs up; what it says before is thrown away. */
static void await_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t buf[256];

	do {
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	} while (recv(fd, buf, sizeof(buf), 0) > 0);
	close(fd);
}

/* A dialer that holds the key, up to the listener's welcome. */
static int greet_raw(const struct stand *s)
{
	struct sl_hello h = { .initiator = { 1, 2 }, .acceptor = { s->desc.id, 0 } };
	uint8_t buf[SL_HELLO_MAX], mac[SL_AUTH_MAC_LEN];
	int fd = dial_raw(s);

	sl_hello_write(&h, buf);
	send_all(fd, buf, SL_HELLO_LEN);
	recv_all(fd, buf, SL_CHALLENGE_LEN);
	assert_ok(sl_hello_read_challenge(&h, mac, buf));
	assert_ok(sl_hello_mac(&h, SL_INITIATOR, s->desc.key, mac));
	sl_hello_write_proof(mac, buf);
	send_all(fd, buf, SL_PROOF_LEN);
	recv_all(fd, buf, SL_VERDICT_LEN);
	assert_ok(sl_hello_read_verdict(buf));
	return fd;
}

static enum sl_exchange_code answer_of(int fd)
{
	uint8_t in[SL_EXCHANGE_HEAD_LEN];
	struct sl_exchange_head h;

	recv_all(fd, in, sizeof(in));
	assert_ok(sl_exchange_read_head(&h, SL_EXCHANGE_ANSWER, in));
	return h.code;
}

/* ---- hostile dialers ---- */

/* More than have a place, all at once: those without the key say nothing. */
static void flood__of_silent_dialers_does_not_keep_others_out(void **state)
{
	struct stand *s = *state;
	int fds[300];

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		fds[i] = dial_raw(s);
	dial_ok(s);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
}

static void flood__of_nonsense_does_not_keep_others_out(void **state)
{
	struct stand *s = *state;
	uint8_t bytes[512];

	memset(bytes, 0xa5, sizeof(bytes));
	for (int i = 0; i < 100; i++) {
		int fd = dial_raw(s);

		(void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		await_end(fd);
	}
	dial_ok(s);
}

static void offer__that_is_nonsense_is_refused(void **state)
{
	struct stand *s = *state;
	uint8_t out[SL_EXCHANGE_MAX];
	int fd, len;

	/* No head of an offer. */
	fd = greet_raw(s);
	memset(out, 0xff, sizeof(out));
	send_all(fd, out, SL_EXCHANGE_HEAD_LEN);
	assert_int_equal(answer_of(fd), SL_EXCHANGE_MALFORMED);
	await_end(fd);

	/* Sealed by another key. */
	fd = greet_raw(s);
	len = sl_exchange_write(SL_EXCHANGE_OFFER, out, NULL, "no descriptor", 13, out);
	assert_true(len > 0);
	send_all(fd, out, (size_t)len);
	assert_int_equal(answer_of(fd), SL_EXCHANGE_MALFORMED);
	await_end(fd);

	/* Sealed well, and no descriptor of an endpoint. */
	fd = greet_raw(s);
	len = sl_exchange_write(SL_EXCHANGE_OFFER, s->desc.key, NULL, "no descriptor", 13, out);
	assert_true(len > 0);
	send_all(fd, out, (size_t)len);
	assert_int_equal(answer_of(fd), SL_EXCHANGE_MALFORMED);
	await_end(fd);

	dial_ok(s);
}

static void offer__that_does_not_come_ends_the_dialer_in_time(void **state)
{
	struct stand *s = *state;
	uint64_t begin = sl_clock_ms();
	int fd = greet_raw(s);

	await_end(fd);
	assert_true(sl_clock_ms() - begin >= SLIME_LISTENER_TIMEOUT_MS);
	dial_ok(s);
}

/* Holders of the key have a bound, too. */
static void pending__dialers_over_the_limit_are_hung_up_on(void **state)
{
	struct stand *s = *state;
	int fds[SLIME_LISTENER_PENDING_MAX];

	for (int i = 0; i < SLIME_LISTENER_PENDING_MAX; i++)
		fds[i] = greet_raw(s);
	await_end(greet_raw(s));
	assert_int_equal(slime_endpoint_dial(s->ep, s->bytes, s->len, -1, s->op), -ECONNRESET);
	for (int i = 0; i < SLIME_LISTENER_PENDING_MAX; i++) {
		shutdown(fds[i], SHUT_WR);
		await_end(fds[i]);
	}
	dial_ok(s);
}

/* Its endpoint goes when nobody connects to it. */
static void dialer__that_leaves_after_the_answer_leaves_nothing(void **state)
{
	struct stand *s = *state;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX], out[SL_EXCHANGE_MAX];
	int len = slime_endpoint_export(s->ep, desc, sizeof(desc));
	int fd = greet_raw(s);

	assert_true(len > 0);
	len = sl_exchange_write(SL_EXCHANGE_OFFER, s->desc.key, NULL, desc, (size_t)len, out);
	assert_true(len > 0);
	send_all(fd, out, (size_t)len);
	assert_int_equal(answer_of(fd), SL_EXCHANGE_OK);
	await_end(fd);
	/* Also when the listener goes first: see the teardown. */
	assert_null(atomic_load(&s->got));
}

/* ---- hostile listeners ---- */

struct impostor {
	int fd;
	pthread_t thread;
};

static void *take_one(void *arg)
{
	struct impostor *i = arg;
	int fd = accept(i->fd, NULL, NULL);
	uint8_t buf[SL_HELLO_LEN];

	recv_all(fd, buf, sizeof(buf));
	memset(buf, 0x11, sizeof(buf));
	(void)!send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
	close(fd);
	return NULL;
}

static void dial__to_an_impostor_that_talks_nonsense_fails(void **state)
{
	struct stand *s = *state;
	struct impostor i = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct sl_listener_desc d = s->desc;
	uint8_t bytes[SLIME_LISTENER_DESC_MAX];
	int len;

	assert_ok(listen(i.fd, 1));
	d.lens[0] = sizeof(struct sockaddr_in);
	assert_ok(getsockname(i.fd, (struct sockaddr *)&d.addresses[0], &d.lens[0]));
	((struct sockaddr_in *)&d.addresses[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	len = sl_listener_desc_write(&d, bytes, sizeof(bytes));
	assert_true(len > 0);
	assert_ok(pthread_create(&i.thread, NULL, take_one, &i));
	assert_int_equal(slime_endpoint_dial(s->ep, bytes, (size_t)len, -1, s->op), -EPROTO);
	assert_ok(pthread_join(i.thread, NULL));
	close(i.fd);
}

static void dial__to_one_that_says_nothing_times_out(void **state)
{
	struct stand *s = *state;
	struct sl_listener_desc d = s->desc;
	uint8_t bytes[SLIME_LISTENER_DESC_MAX];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t begin = sl_clock_ms();
	int len;

	assert_ok(listen(fd, 1));
	d.lens[0] = sizeof(struct sockaddr_in);
	assert_ok(getsockname(fd, (struct sockaddr *)&d.addresses[0], &d.lens[0]));
	((struct sockaddr_in *)&d.addresses[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	len = sl_listener_desc_write(&d, bytes, sizeof(bytes));
	assert_true(len > 0);
	assert_int_equal(slime_endpoint_dial(s->ep, bytes, (size_t)len, 200, s->op), -ETIMEDOUT);
	assert_true(sl_clock_ms() - begin >= 200);
	close(fd);
}

/* ---- others ---- */

static void seal__opens_only_what_is_whole(void **state)
{
	static const uint8_t key[SL_AUTH_KEY_LEN] = "a key of a listener, 32 bytes...";
	uint8_t sealed[5 + SL_AUTH_SEAL_LEN], out[5];

	(void)state;
	assert_ok(sl_auth_seal(key, "with", 4, "bytes", 5, sealed));
	assert_ok(sl_auth_open(key, "with", 4, sealed, sizeof(sealed), out));
	assert_memory_equal(out, "bytes", 5);
	assert_int_equal(sl_auth_open(key, "wits", 4, sealed, sizeof(sealed), out), -EACCES);
	for (size_t n = 0; n < sizeof(sealed); n++) {
		assert_int_equal(sl_auth_open(key, "with", 4, sealed, n, out), -EACCES);
		sealed[n] ^= 1;
		assert_int_equal(sl_auth_open(key, "with", 4, sealed, sizeof(sealed), out),
				 -EACCES);
		sealed[n] ^= 1;
	}
}

static void dial_inside(void *arg, struct slime_op *op)
{
	struct stand *s = arg;

	(void)op;
	assert_int_equal(slime_endpoint_dial(s->ep, s->bytes, s->len, -1, s->op), -EDEADLK);
	assert_int_equal(slime_listener_destroy(s->listener), -EDEADLK);
}

#ifndef __SANITIZE_THREAD__ /* a child makes threads, which it cannot follow */
#define STRANGER 65532

/* What a dial comes to in a process of another user, which sees that the log says why. */
static int dial_as_stranger(const uint8_t *desc, size_t len)
{
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	int ret;

	if (setgid(STRANGER) || setuid(STRANGER))
		return 1;
	if (slime_context_create(NULL, &ctx) || slime_endpoint_create(ctx, NULL, &ep) ||
	    slime_op_create(ctx, NULL, &op))
		return 2;
	ret = slime_endpoint_dial(ep, desc, len, -1, op);
	if (log_lines_with("its shm_users does not name our user") != 1)
		return 3;
	return ret;
}

static void dial__by_another_user_is_refused_and_told_why(void **state)
{
	struct slime_listener_attr attr = SLIME_LISTENER_ATTR_INIT;
	uint8_t desc[SLIME_LISTENER_DESC_MAX];
	struct slime_listener *listener;
	struct stand *s = *state;
	int len, status;
	pid_t pid;

	/* Only root can be several users. */
	if (geteuid() != 0)
		skip();
	attr.on_endpoint = on_endpoint;
	attr.arg = s;
	assert_ok(slime_listener_create(s->ctx, &attr, &listener));
	len = slime_listener_export(listener, desc, sizeof(desc));
	assert_true(len > 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(dial_as_stranger(desc, (size_t)len) == -EPERM ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_ok(slime_listener_destroy(listener));
}
#endif

static void dial__inside_a_callback_is_a_deadlock(void **state)
{
	struct stand *s = *state;
	struct slime_op_attr attr = { .fn = dial_inside, .arg = s };
	struct slime_endpoint *ep;
	struct slime_op *op;

	assert_ok(slime_op_create(s->ctx, &attr, &op));
	assert_ok(slime_endpoint_create(s->ctx, NULL, &ep));
	assert_ok(slime_endpoint_dial(ep, s->bytes, s->len, -1, op));
	assert_ok(slime_op_wait(op, PATIENCE_MS));
	assert_ok(slime_op_status(op));
	assert_ok(slime_endpoint_destroy(ep));
	assert_ok(slime_op_destroy(op));
}

static void destroy__in_a_child_frees_memory_only(void **state)
{
	struct stand *s = *state;
	pid_t child;
	int status;

	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(slime_listener_export(s->listener, s->bytes, sizeof(s->bytes)) == -EPERM &&
				      slime_listener_destroy(s->listener) == 0
			      ? 0
			      : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	dial_ok(s);
}

#define LISTENING(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LISTENING(flood__of_silent_dialers_does_not_keep_others_out),
		LISTENING(flood__of_nonsense_does_not_keep_others_out),
		LISTENING(offer__that_is_nonsense_is_refused),
		LISTENING(offer__that_does_not_come_ends_the_dialer_in_time),
		LISTENING(pending__dialers_over_the_limit_are_hung_up_on),
		LISTENING(dialer__that_leaves_after_the_answer_leaves_nothing),
		LISTENING(dial__to_an_impostor_that_talks_nonsense_fails),
		LISTENING(dial__to_one_that_says_nothing_times_out),
		cmocka_unit_test(seal__opens_only_what_is_whole),
#ifndef __SANITIZE_THREAD__
		LISTENING(dial__by_another_user_is_refused_and_told_why),
#endif
		LISTENING(dial__inside_a_callback_is_a_deadlock),
		LISTENING(destroy__in_a_child_frees_memory_only),
	};

	return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
