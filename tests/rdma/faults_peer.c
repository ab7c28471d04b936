/* SPDX-License-Identifier: Apache-2.0 */
/* A peer on the other device, in another process: stopped, killed, and one that takes its memory
 * back. */
#include "tests/rdma/wired.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/peer.h"

#define LEN (256 * KiB)

static int setup(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.len = LEN;
	attr.rails = wired_far; /* the peer is on the near device */
	*state = world_open(&attr);
	return 0;
}

static int teardown(void **state)
{
	world_close(*state);
	mend_wires();
	return 0;
}

static struct slime_xfer whole(struct world *w)
{
	return (struct slime_xfer){ .local = w->e.mr, .remote = &w->peer.remote, .len = LEN };
}

static int read_whole(struct world *w)
{
	struct slime_xfer x = whole(w);
	int ret = slime_read(w->e.ep, &x, 1, 0, w->e.op);

	return ret ? ret : op_end(w->e.op);
}

static int write_whole(struct world *w)
{
	struct slime_xfer x = whole(w);
	int ret = slime_write(w->e.ep, &x, 1, 0, w->e.op);

	return ret ? ret : op_end(w->e.op);
}

#define DEADLINE_MS 200

static struct slime_call *call_with_a_deadline(struct world *w)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = slime_rpc_method_id("any");
	args.timeout_ms = DEADLINE_MS;
	assert_ok(slime_call_create(w->e.ctx, NULL, &call));
	assert_ok(slime_call_start(w->e.ep, &args, call));
	return call;
}

static int call_end(struct slime_call *call)
{
	int status;

	assert_ok(slime_call_wait(call, PATIENCE_MS));
	status = slime_call_status(call);
	assert_ok(slime_call_destroy(call));
	return status;
}

/* What needs the peer itself ends by its deadline, and the link goes on. */
static void peer__that_is_stopped_answers_no_call_and_its_deadline_holds(void **state)
{
	struct world *w = *state;
	struct slime_call *call;
	uint64_t begin;

	peer_stop(&w->peer);
	begin = now_ms();
	call = call_with_a_deadline(w);
	assert_int_equal(slime_call_wait(call, -1), -ETIMEDOUT);
	assert_true(now_ms() - begin >= DEADLINE_MS);
	assert_true(now_ms() - begin <= REPORT_MS);
	peer_continue(&w->peer);
	assert_int_equal(call_end(call), -ETIMEDOUT);
	assert_ok(read_whole(w));
}

/* Its device goes on for it. */
static void peer__that_is_stopped_is_read_and_written_all_the_same(void **state)
{
	struct world *w = *state;
	uint64_t begin;

	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, LEN, 1));
	assert_ok(read_whole(w)); /* its key is here */
	peer_stop(&w->peer);
	begin = now_ms();
	memset(w->e.bytes, 0, LEN);
	assert_ok(read_whole(w));
	assert_pattern(w->e.bytes, LEN, 1, 0);
	pattern_fill(w->e.bytes, LEN, 2, 0);
	assert_ok(write_whole(w));
	assert_true(now_ms() - begin <= REPORT_MS);
	peer_continue(&w->peer);
	assert_ok(peer_ask(&w->peer, PEER_MATCHES, 0, LEN, 2));
}

/* The kernel's list of what processes have of the devices. */
static bool kernel_has_anything_of(pid_t pid)
{
	char command[128];

	snprintf(command, sizeof(command), "rdma resource show qp | grep -q 'pid %d '", (int)pid);
	return system(command) == 0;
}

static void peer__that_is_killed_under_reads_is_reported_and_leaves_nothing(void **state)
{
	struct world *w = *state;
	pid_t pid = w->peer.pid;
	uint64_t begin;
	int ret;

	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, LEN, 3));
	assert_ok(read_whole(w));
	assert_true(kernel_has_anything_of(pid));
	begin = now_ms();
	peer_kill(&w->peer);
	do {
		memset(w->e.bytes, 0, LEN);
		ret = read_whole(w);
		if (!ret)
			assert_pattern(w->e.bytes, LEN, 3, 0);
	} while (!ret && now_ms() - begin < REPORT_MS);
	assert_true(ret == -ECONNRESET || ret == -EREMOTEIO);
	end_await(&w->e, SLIME_ENDPOINT_BROKEN);
	assert_true(now_ms() - begin <= REPORT_MS);
	assert_int_equal(cause_of(&w->e), ret);
	assert_false(kernel_has_anything_of(pid));
}

static void region__withdrawn_under_reads_fails_them_alone(void **state)
{
	struct world *w = *state;
	uint64_t begin;
	int ret;

	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, LEN, 4));
	assert_ok(read_whole(w));
	begin = now_ms();
	peer_tell(&w->peer, PEER_WITHDRAW, 0, 0, 0);
	do {
		memset(w->e.bytes, 0, LEN);
		ret = read_whole(w);
		if (!ret)
			assert_pattern(w->e.bytes, LEN, 4, 0);
	} while (!ret && now_ms() - begin < REPORT_MS);
	assert_int_equal(ret, -ESTALE);
	assert_true(now_ms() - begin <= REPORT_MS);
	assert_ok(peer_answer(&w->peer));
	/* The link itself is well, and ends in order. */
	assert_int_equal(peer_ask(&w->peer, PEER_CLOSE, 0, 0, 0), 0);
	end_await(&w->e, SLIME_ENDPOINT_CLOSED);
	assert_int_equal(w->e.cause, 0);
}

#define WITH_PEER(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

static const struct CMUnitTest tests[] = {
	WITH_PEER(peer__that_is_stopped_is_read_and_written_all_the_same),
	WITH_PEER(peer__that_is_stopped_answers_no_call_and_its_deadline_holds),
	WITH_PEER(peer__that_is_killed_under_reads_is_reported_and_leaves_nothing),
	WITH_PEER(region__withdrawn_under_reads_fails_them_alone),
};

int main(int argc, char **argv)
{
	return wired_main(argc, argv, "faults-peer", tests, sizeof(tests) / sizeof(tests[0]));
}
