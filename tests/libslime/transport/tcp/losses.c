/* SPDX-License-Identifier: Apache-2.0 */
/* A process with many links to us is killed: the owner of each hears of it within a second, and the
 * log has one line with their number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/log_lines.h"
#include <slime/slime.h>

#define N	     900
#define PATIENCE_MS  60000
#define TOLD_MS	     1000
#define assert_ok(e) assert_int_equal(e, 0)

struct side {
	struct slime_context *ctx;
	struct slime_endpoint *eps[N];
	struct slime_op *op;
	_Atomic unsigned n_broken;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_state(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		     int cause)
{
	struct side *s = arg;

	(void)ep;
	(void)cause;
	if (state == SLIME_ENDPOINT_BROKEN)
		atomic_fetch_add(&s->n_broken, 1);
}

/* ---- both processes ---- */

static void open_side(struct side *s)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.tcp_streams = 1;
	assert_ok(slime_context_create(&attr, &s->ctx));
	assert_ok(slime_op_create(s->ctx, NULL, &s->op));
}

/* One more link; the other process does the same. */
static void connect_next(struct side *s, int i, int channel)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	ssize_t len;

	attr.transports[0] = SLIME_TRANSPORT_TCP;
	attr.on_state = on_state;
	attr.arg = s;
	assert_ok(slime_endpoint_create(s->ctx, &attr, &s->eps[i]));
	len = slime_endpoint_export(s->eps[i], desc, sizeof(desc));
	assert_true(len > 0);
	assert_int_equal(send(channel, desc, (size_t)len, 0), len);
	len = recv(channel, desc, sizeof(desc), 0);
	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(s->eps[i], desc, (size_t)len, PATIENCE_MS, s->op));
	assert_ok(slime_op_wait(s->op, PATIENCE_MS));
	assert_ok(slime_op_status(s->op));
}

static void connect_all(struct side *s, int channel)
{
	open_side(s);
	for (int i = 0; i < N; i++)
		connect_next(s, i, channel);
}

static pid_t start_peer(int *channel)
{
	static struct side peer;
	int ends[2];
	pid_t pid;

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		connect_all(&peer, ends[1]);
		for (;;)
			pause();
	}
	close(ends[1]);
	*channel = ends[0];
	return pid;
}

/* ---- ---- */

/* How long it takes until all are told, at most PATIENCE_MS. */
static int64_t await_all_broken(struct side *s)
{
	int64_t begin = now_ms();

	while (atomic_load(&s->n_broken) < N && now_ms() - begin < PATIENCE_MS)
		sched_yield();
	return now_ms() - begin;
}

static void peer_death__with_900_links_is_told_in_a_second_and_logged_in_one_line(void **state)
{
	static struct side s;
	int64_t begin, took;
	int channel;
	pid_t pid;

	(void)state;
	log_lines_keep();
	pid = start_peer(&channel);
	connect_all(&s, channel);
	assert_int_equal(log_lines_with(""), 0);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	took = await_all_broken(&s);
	assert_int_equal(atomic_load(&s.n_broken), N);
	assert_in_range(took, 0, TOLD_MS);
	begin = now_ms();
	while (!log_lines_with("") && now_ms() - begin < PATIENCE_MS)
		sched_yield();
	assert_int_equal(log_lines_with("900 connections lost"), 1);
	assert_int_equal(log_lines_with(""), 1);

	for (int i = 0; i < N; i++)
		assert_ok(slime_endpoint_destroy(s.eps[i]));
	assert_ok(slime_op_destroy(s.op));
	assert_ok(slime_context_destroy(s.ctx));
	assert_int_equal(log_lines_with(""), 1);
	log_lines_release();
	close(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			peer_death__with_900_links_is_told_in_a_second_and_logged_in_one_line),
	};

	return cmocka_run_group_tests_name("tcp losses", tests, NULL, NULL);
}
