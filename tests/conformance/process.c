/* SPDX-License-Identifier: Apache-2.0 */
/* A peer in another process: transfers, death, standstill, and what a fork leaves. */
#include "peer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (4 * MiB)

/* A killed peer is known to be dead within 2 s; a starved machine has some more. */
#define DEATH_MS 10000

static int setup(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.len = LEN;
	*state = world_open(&attr);
	return 0;
}

static int teardown(void **state)
{
	world_close(*state);
	return 0;
}

static struct slime_xfer between(struct world *w, uint64_t len)
{
	return (struct slime_xfer){ .local = w->e.mr, .remote = &w->peer.remote, .len = len };
}

static void transfers__between_processes_bring_the_bytes(void **state)
{
	struct world *w = *state;
	struct slime_xfer x = between(w, LEN);

	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, LEN, 1));
	assert_ok(slime_read(w->e.ep, &x, 1, 0, w->e.op));
	op_end_ok(w->e.op);
	assert_pattern(w->e.bytes, LEN, 1, 0);

	pattern_fill(w->e.bytes, LEN, 2, 0);
	assert_ok(slime_write(w->e.ep, &x, 1, 0, w->e.op));
	op_end_ok(w->e.op);
	assert_ok(peer_ask(&w->peer, PEER_MATCHES, 0, LEN, 2));

	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, LEN, 3));
	assert_ok(peer_ask(&w->peer, PEER_WRITE_IMM, 0, 0, LEN));
	assert_ok(slime_imm_recv(w->e.ep, w->e.op));
	op_end_ok(w->e.op);
	assert_int_equal(slime_op_imm(w->e.op), 42);
	assert_pattern(w->e.bytes, LEN, 3, 0);

	pattern_fill(w->e.bytes, LEN, 4, 0);
	assert_ok(peer_ask(&w->peer, PEER_READ, 0, 0, LEN));
	assert_ok(peer_ask(&w->peer, PEER_MATCHES, 0, LEN, 4));
}

static void send__between_processes_brings_the_bytes(void **state)
{
	static const uint64_t sizes[] = { 0, 100, 1024, 1025, LEN };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(w->e.bytes, sizes[i], i, 0);
		assert_ok(slime_send(w->e.ep, w->e.mr, 0, sizes[i], i, w->e.op));
		assert_ok(peer_ask(&w->peer, PEER_RECV, 0, LEN, i));
		op_end_ok(w->e.op);
		assert_ok(peer_ask(&w->peer, PEER_MATCHES, 0, sizes[i], i));

		assert_ok(peer_ask(&w->peer, PEER_FILL, 0, sizes[i], 100 + i));
		peer_tell(&w->peer, PEER_SEND, 0, sizes[i], i);
		assert_ok(slime_recv(w->e.ep, w->e.mr, 0, LEN, i, SLIME_TAG_ALL, w->e.op));
		op_end_ok(w->e.op);
		assert_ok(peer_answer(&w->peer));
		assert_pattern(w->e.bytes, sizes[i], 100 + i, 0);
	}
}

/* ---- death ---- */

#define WAITING 3

/* One of each kind that only the peer can end. */
static void submit_waiting(struct world *w, struct slime_op *ops[WAITING])
{
	for (int i = 0; i < WAITING; i++)
		ops[i] = op_new(w->e.ctx);
	assert_ok(slime_imm_recv(w->e.ep, ops[0]));
	assert_ok(slime_recv(w->e.ep, w->e.mr, 0, 64, 1, SLIME_TAG_ALL, ops[1]));
	assert_ok(slime_send(w->e.ep, w->e.mr, 0, LEN, 2, ops[2]));
}

static void assert_all_reset(struct world *w, struct slime_op *ops[WAITING])
{
	struct slime_xfer x = between(w, 64);
	uint64_t begin = now_ms();

	for (int i = 0; i < WAITING; i++)
		assert_int_equal(op_end(ops[i]), -ECONNRESET);
	assert_true(now_ms() - begin <= DEATH_MS);
	end_await(&w->e, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(w->e.cause, -ECONNRESET);
	assert_int_equal(slime_read(w->e.ep, &x, 1, 0, w->e.op), -ENOTCONN);
	for (int i = 0; i < WAITING; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

static void peer_death__ends_what_waits_for_it(void **state)
{
	struct world *w = *state;
	struct slime_op *ops[WAITING];

	submit_waiting(w, ops);
	peer_kill(&w->peer);
	assert_all_reset(w, ops);
}

static void peer_death__while_it_stood_still_is_seen(void **state)
{
	struct world *w = *state;
	struct slime_op *ops[WAITING];

	peer_stop(&w->peer);
	submit_waiting(w, ops);
	peer_kill(&w->peer);
	assert_all_reset(w, ops);
}

static void peer_death__while_it_reads_from_us_is_seen(void **state)
{
	struct world *w = *state;
	struct slime_op *ops[WAITING];

	assert_ok(peer_ask(&w->peer, PEER_START_READING, 0, 0, LEN));
	submit_waiting(w, ops);
	peer_kill(&w->peer);
	assert_all_reset(w, ops);
}

static void peer_death__under_our_transfers_ends_them(void **state)
{
	struct world *w = *state;
	struct slime_xfer x = between(w, LEN);
	uint64_t begin;
	int ret;

	assert_ok(slime_read(w->e.ep, &x, 1, 0, w->e.op));
	op_end_ok(w->e.op);
	begin = now_ms();
	kill(w->peer.pid, SIGKILL);
	do {
		ret = slime_read(w->e.ep, &x, 1, 0, w->e.op);
		if (!ret)
			ret = op_end(w->e.op);
	} while (!ret && now_ms() - begin < PATIENCE_MS);
	assert_true(now_ms() - begin <= DEATH_MS);
	/* Who is killed loses its memory regions before its queue pairs, or after them. */
	assert_true(ret == -ECONNRESET || ret == -ENOTCONN ||
		    (ret == -EREMOTEIO && fixture_transport == SLIME_TRANSPORT_RDMA));
}

static void peer_death__leaves_our_other_links_alone(void **state)
{
	struct world *w = *state;
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_endpoint *first = w->e.ep;
	struct peer second;
	struct slime_xfer x;

	end_create_endpoint(&w->e, &attr);
	peer_start(&second, LEN);
	peer_link(&second, &w->e);
	peer_kill(&w->peer);

	assert_ok(peer_ask(&second, PEER_FILL, 0, LEN, 5));
	x = (struct slime_xfer){ .local = w->e.mr, .remote = &second.remote, .len = LEN };
	assert_ok(slime_read(w->e.ep, &x, 1, 0, w->e.op));
	op_end_ok(w->e.op);
	assert_pattern(w->e.bytes, LEN, 5, 0);
	assert_ok(slime_endpoint_destroy(first));
	peer_kill(&second);
}

static void peer_death__before_connecting_fails_the_connect(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct world *w = calloc(1, sizeof(*w));
	int status;

	(void)state;
	peer_start(&w->peer, MiB);
	peer_kill(&w->peer);
	end_create(&w->e, &attr);
	end_create_endpoint(&w->e, &attr);
	assert_ok(slime_endpoint_connect(w->e.ep, w->peer.desc, (size_t)w->peer.desc_len, 1000,
					 w->e.op));
	status = op_end(w->e.op);
	assert_true(status == -ECONNREFUSED || status == -ETIMEDOUT);
	end_destroy(&w->e);
	free(w);
}

/* A child that inherited the peer's descriptors keeps its sockets open. */
static void peer_death__behind_a_child_that_inherited_its_sockets_is_seen(void **state)
{
	struct world *w = *state;
	struct slime_op *ops[WAITING];
	pid_t child = (pid_t)peer_ask(&w->peer, PEER_FORK, 0, 0, 0);

	assert_true(child > 0);
	submit_waiting(w, ops);
	peer_kill(&w->peer);
	assert_all_reset(w, ops);
	kill(child, SIGKILL);
}

/* ---- standstill ---- */

static void peer_standstill__is_not_death(void **state)
{
	struct world *w = *state;
	struct slime_endpoint_info info;

	assert_ok(slime_recv(w->e.ep, w->e.mr, 0, LEN, 1, SLIME_TAG_ALL, w->e.op));
	peer_stop(&w->peer);
	assert_int_equal(slime_op_wait(w->e.op, 3000), -ETIMEDOUT);
	slime_endpoint_info(w->e.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_CONNECTED);

	peer_continue(&w->peer);
	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, 100, 1));
	assert_ok(peer_ask(&w->peer, PEER_SEND, 0, 100, 1));
	op_end_ok(w->e.op);
	assert_pattern(w->e.bytes, 100, 1, 0);
}

/* Reads, writes, an immediate and a send, begun while the peer does nothing. */
static void peer_standstill__with_work_under_way_delays_it(void **state)
{
	enum { READ, WRITE, IMM, SEND, KINDS };
	const uint64_t part = LEN / KINDS;
	struct world *w = *state;
	struct slime_xfer x[KINDS];
	struct slime_op *ops[KINDS];

	for (uint64_t i = 0; i < KINDS; i++) {
		ops[i] = op_new(w->e.ctx);
		x[i] = between(w, part);
		x[i].local_offset = x[i].remote_offset = i * part;
		pattern_fill(w->e.bytes + i * part, part, 6 + i, 0);
	}
	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, part, 5));
	peer_stop(&w->peer);
	assert_ok(slime_read(w->e.ep, &x[READ], 1, 0, ops[READ]));
	assert_ok(slime_write(w->e.ep, &x[WRITE], 1, 0, ops[WRITE]));
	assert_ok(slime_write_imm(w->e.ep, &x[IMM], 1, 0, 7, ops[IMM]));
	assert_ok(slime_send(w->e.ep, w->e.mr, SEND * part, part, 9, ops[SEND]));
	assert_int_equal(slime_op_wait(ops[SEND], 200), -ETIMEDOUT);
	peer_continue(&w->peer);
	assert_ok(peer_ask(&w->peer, PEER_RECV, SEND * part, part, 9));
	for (uint64_t i = 0; i < KINDS; i++) {
		op_end_ok(ops[i]);
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_pattern(w->e.bytes, part, 5, 0);
	for (uint64_t i = WRITE; i < KINDS; i++)
		assert_ok(peer_ask(&w->peer, PEER_MATCHES, i * part, part, 6 + i));
}

static int destroy_patiently(void *arg)
{
	int ret = slime_mr_destroy(arg);

	return ret == -EBUSY ? -EAGAIN : ret;
}

/* The peer has our region mapped, or its stream is open, and does not answer. */
static void mr_destroy__with_a_peer_that_stands_still_never_leaves_it_reachable(void **state)
{
	struct world *w = *state;
	struct slime_xfer x = between(w, 8);
	int ret;

	assert_ok(peer_ask(&w->peer, PEER_READ, 0, 0, LEN));
	peer_stop(&w->peer);
	ret = slime_mr_destroy(w->e.mr);
	if (ret == -EBUSY) {
		/* Half gone: our own new operations are refused, too. */
		assert_int_equal(slime_recv(w->e.ep, w->e.mr, 0, 8, 0, 0, w->e.op), -EINVAL);
		assert_int_equal(slime_send(w->e.ep, w->e.mr, 0, 8, 0, w->e.op), -EINVAL);
		assert_int_equal(slime_read(w->e.ep, &x, 1, 0, w->e.op), -EINVAL);
		peer_continue(&w->peer);
		ret = until_not_again(destroy_patiently, w->e.mr);
		assert_ok(ret);
		w->e.mr = NULL;
		assert_int_equal(peer_ask(&w->peer, PEER_READ, 0, 0, LEN), -ESTALE);
	} else {
		assert_ok(ret);
		w->e.mr = NULL;
		peer_continue(&w->peer);
		assert_true(peer_ask(&w->peer, PEER_READ, 0, 0, LEN) < 0);
	}
}

static void mr_destroy__with_a_peer_that_died_succeeds(void **state)
{
	struct world *w = *state;

	assert_ok(peer_ask(&w->peer, PEER_READ, 0, 0, LEN));
	peer_stop(&w->peer);
	peer_kill(&w->peer);
	assert_ok(until_not_again(destroy_patiently, w->e.mr));
	w->e.mr = NULL;
}

static void read__of_a_region_the_peer_withdrew_is_stale(void **state)
{
	struct world *w = *state;
	struct slime_xfer x = between(w, LEN);
	int ret;

	assert_ok(slime_read(w->e.ep, &x, 1, 0, w->e.op));
	op_end_ok(w->e.op);
	assert_ok(peer_ask(&w->peer, PEER_WITHDRAW, 0, 0, 0));
	ret = slime_read(w->e.ep, &x, 1, 0, w->e.op);
	assert_int_equal(ret ? ret : op_end(w->e.op), -ESTALE);
}

static void close__by_the_peer_process_is_no_death(void **state)
{
	struct world *w = *state;

	assert_ok(slime_imm_recv(w->e.ep, w->e.op));
	assert_ok(peer_ask(&w->peer, PEER_CLOSE, 0, 0, 0));
	end_await(&w->e, SLIME_ENDPOINT_CLOSED);
	assert_int_equal(op_end(w->e.op), -ECONNRESET);
	assert_int_equal(w->e.cause, 0);
}

/* ---- fork ---- */

#define CHILD_SAYS(expr)                 \
	do {                             \
		if ((expr) != -EPERM)    \
			return __LINE__; \
	} while (0)

/* The line of the first call that did not say -EPERM, 0 when all did. */
static int use_in_child(struct world *w)
{
	struct slime_xfer x = between(w, 64);
	uint8_t buf[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;

	CHILD_SAYS(slime_read(w->e.ep, &x, 1, 0, w->e.op));
	CHILD_SAYS(slime_write(w->e.ep, &x, 1, 0, w->e.op));
	CHILD_SAYS(slime_write_imm(w->e.ep, &x, 1, 0, 1, w->e.op));
	CHILD_SAYS(slime_imm_recv(w->e.ep, w->e.op));
	CHILD_SAYS(slime_send(w->e.ep, w->e.mr, 0, 64, 0, w->e.op));
	CHILD_SAYS(slime_recv(w->e.ep, w->e.mr, 0, 64, 0, 0, w->e.op));
	CHILD_SAYS(slime_recv_cancel(w->e.ep, w->e.op));
	CHILD_SAYS(slime_op_wait(w->e.op, 0));
	CHILD_SAYS(slime_context_poll(w->e.ctx));
	CHILD_SAYS(slime_context_arm(w->e.ctx));
	CHILD_SAYS(slime_context_fd(w->e.ctx));
	CHILD_SAYS(slime_endpoint_create(w->e.ctx, NULL, &ep));
	CHILD_SAYS(slime_endpoint_export(w->e.ep, buf, sizeof(buf)));
	CHILD_SAYS(slime_endpoint_connect(w->e.ep, buf, sizeof(buf), 0, w->e.op));
	CHILD_SAYS(slime_mem_alloc(w->e.ctx, 4096, NULL, &mem));
	CHILD_SAYS(slime_mr_create(w->e.ctx, buf, sizeof(buf), 0, &mr));
	CHILD_SAYS(slime_op_create(w->e.ctx, NULL, &op));
	return 0;
}

/* Harmless: frees memory, and the parent notices nothing. */
static int destroy_in_child(struct world *w)
{
	slime_endpoint_destroy(w->e.ep);
	slime_mr_destroy(w->e.mr);
	slime_mem_destroy(w->e.mem);
	slime_op_destroy(w->e.op);
	slime_context_destroy(w->e.ctx);
	return 0;
}

static int run_in_child(struct world *w, int (*fn)(struct world *w))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(PATIENCE_MS / 1000);
		_exit(fn(w) & 0xff);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void fork_child__gets_eperm_and_disturbs_nobody(void **state)
{
	struct world *w = *state;
	struct slime_xfer x = between(w, LEN);

	assert_int_equal(run_in_child(w, use_in_child), 0);
	assert_int_equal(run_in_child(w, destroy_in_child), 0);

	assert_ok(peer_ask(&w->peer, PEER_FILL, 0, LEN, 7));
	assert_ok(slime_read(w->e.ep, &x, 1, 0, w->e.op));
	op_end_ok(w->e.op);
	assert_pattern(w->e.bytes, LEN, 7, 0);
}

#define WITH_PEER(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

static const struct CMUnitTest tests[] = {
	WITH_PEER(transfers__between_processes_bring_the_bytes),
	WITH_PEER(send__between_processes_brings_the_bytes),
	WITH_PEER(peer_death__ends_what_waits_for_it),
	WITH_PEER(peer_death__while_it_stood_still_is_seen),
	WITH_PEER(peer_death__while_it_reads_from_us_is_seen),
	WITH_PEER(peer_death__under_our_transfers_ends_them),
	WITH_PEER(peer_death__leaves_our_other_links_alone),
	cmocka_unit_test(peer_death__before_connecting_fails_the_connect),
	WITH_PEER(peer_standstill__is_not_death),
	WITH_PEER(peer_standstill__with_work_under_way_delays_it),
	WITH_PEER(mr_destroy__with_a_peer_that_stands_still_never_leaves_it_reachable),
	WITH_PEER(mr_destroy__with_a_peer_that_died_succeeds),
	WITH_PEER(read__of_a_region_the_peer_withdrew_is_stale),
	WITH_PEER(close__by_the_peer_process_is_no_death),
	WITH_PEER(fork_child__gets_eperm_and_disturbs_nobody),
	/* Only where death is seen by the process itself; a tcp stream lives while one holds it. */
	WITH_PEER(peer_death__behind_a_child_that_inherited_its_sockets_is_seen),
};

#define N_TESTS (sizeof(tests) / sizeof(tests[0]))

int main(int argc, char **argv)
{
	bool sees_processes = argc >= 3 && slime_transport_by_name(argv[2]) == SLIME_TRANSPORT_SHM;

	return fixture_main(argc, argv, "process", tests, sees_processes ? N_TESTS : N_TESTS - 1);
}
