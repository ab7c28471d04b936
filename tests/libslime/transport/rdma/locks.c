/* SPDX-License-Identifier: Apache-2.0 */
/* An operation takes no lock twice: not where it begins, and not in a round in which it ends. */
#include <pthread.h>
#include <string.h>

#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN    (1024u * 1024)
#define PIECES 300 /* more than are signaled in one go */

static struct rdma_pair pair;
static struct slime_rpc_service *service;
static struct slime_call *call;

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void begin_calls(void)
{
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	method.fn = echo;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_service_create(pair.b.ctx, &service));
	assert_ok(slime_rpc_method_add(service, "echo", &method));
	pair.b.service = service;
}

/* Without probes of an idle link, which would be counted when the test is kept waiting. */
static int begin(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	rdma_pair_reset(state);
	attr.tcp_user_timeout_ms = 3600 * 1000;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	begin_calls();
	assert_ok(rdma_pair_connect(&pair));
	/* The first one asks for the peer's key. */
	assert_ok(rdma_write_now(&pair, 64, 1));
	assert_ok(slime_call_create(pair.a.ctx, NULL, &call));
	/* What a worker did last is taken under a lock of its own. */
	while (rdma_is_working(&pair))
		rdma_poll(&pair);
	rdma_settle(&pair);
	fakeverbs_reset_counts();
	return 0;
}

static int end(void **state)
{
	assert_ok(slime_call_destroy(call));
	rdma_pair_destroy_endpoints(&pair);
	assert_ok(slime_rpc_service_destroy(service));
	return rdma_pair_end(state);
}

/* ---- locks ---- */

#define LOCKS 64 /* different ones that can be counted */

static struct {
	const void *lock;
	unsigned n;
} locked[LOCKS];
static unsigned n_locked;
static bool counting_locks;
static pthread_t locker;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

/* Those of the device in memory lie with the program's data. */
static bool is_of_the_fake(const pthread_mutex_t *mutex)
{
	extern char __data_start[], _end[];

	return (uintptr_t)mutex >= (uintptr_t)__data_start && (uintptr_t)mutex < (uintptr_t)_end;
}

static void note_lock(const void *lock)
{
	unsigned i = 0;

	while (i < n_locked && locked[i].lock != lock)
		i++;
	if (i == n_locked && n_locked < LOCKS)
		locked[n_locked++].lock = lock;
	if (i < n_locked)
		locked[i].n++;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (counting_locks && pthread_equal(pthread_self(), locker) && !is_of_the_fake(mutex))
		note_lock(mutex);
	return __real_pthread_mutex_lock(mutex);
}

/*
 * A connection's own lock is taken where it stands, without a call, unless somebody has it: while
 * they are counted nobody does, and it looks as if somebody had, so that each taking asks for a
 * wait.
 */
void __real_sl_lock_wait(struct sl_lock *lock);
void __wrap_sl_lock_wait(struct sl_lock *lock);
void __real_sl_lock_wake(struct sl_lock *lock);
void __wrap_sl_lock_wake(struct sl_lock *lock);

void __wrap_sl_lock_wait(struct sl_lock *lock)
{
	if (!counting_locks)
		__real_sl_lock_wait(lock);
	else
		note_lock(lock);
}

void __wrap_sl_lock_wake(struct sl_lock *lock)
{
	if (!counting_locks)
		__real_sl_lock_wake(lock);
	else
		atomic_store(&lock->word, SL_LOCK_AWAITED);
}

static void set_locks(enum sl_lock_state state)
{
	atomic_store(&rdma_endpoint_conn(pair.a.ep)->lock.word, state);
	atomic_store(&rdma_endpoint_conn(pair.b.ep)->lock.word, state);
}

static void count_locks(void)
{
	memset(locked, 0, sizeof(locked));
	n_locked = 0;
	locker = pthread_self();
	counting_locks = true;
	set_locks(SL_LOCK_AWAITED);
}

/* Since then: n different ones, and none of them twice. */
static void assert_locked(unsigned n)
{
	set_locks(SL_LOCK_FREE);
	counting_locks = false;
	assert_int_equal(n_locked, n);
	for (unsigned i = 0; i < n_locked; i++)
		assert_int_equal(locked[i].n, 1);
}

/* ---- operations ---- */

/* Several of its completions are there at once. */
static void write__of_a_batch_takes_no_lock_twice(void **state)
{
	static struct slime_xfer xfers[PIECES];

	(void)state;
	for (size_t i = 0; i < PIECES; i++)
		xfers[i] = rdma_a_and_b(&pair, 512 * i, 512 * i, 256);
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(1000, 1000, 1);
	count_locks();
	assert_ok(slime_write(pair.a.ep, xfers, PIECES, 0, pair.a.op));
	assert_locked(1);
	assert_true(fakeverbs_counts().signaled > 2);
	fakeverbs_advance(1000000);
	count_locks();
	assert_true(slime_context_poll(pair.a.ctx) > 2);
	assert_locked(1);
	assert_true(slime_op_test(pair.a.op));
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
}

/* The link's of messages, and the connection's, at each step. */
static void send__takes_no_lock_twice(void **state)
{
	(void)state;
	assert_ok(slime_recv(pair.b.ep, pair.b.mr, 0, 64, 1, SLIME_TAG_ALL, pair.b.op));
	count_locks();
	assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, pair.a.op));
	assert_locked(2);
	count_locks();
	assert_int_equal(slime_context_poll(pair.b.ctx), 1);
	assert_locked(2);
	assert_true(slime_op_test(pair.b.op));
	count_locks();
	assert_int_equal(slime_context_poll(pair.a.ctx), 1);
	assert_locked(1);
	assert_true(slime_op_test(pair.a.op));
}

/* Its first takes memory, which has locks. */
static void call__takes_no_lock_twice(void **state)
{
	uint8_t out[64] = { 7 }, in[64];
	struct slime_call_args args = {
		.method = slime_rpc_method_id("echo"),
		.request = out,
		.request_len = sizeof(out),
		.reply = in,
		.reply_cap = sizeof(in),
		.timeout_ms = -1,
	};

	(void)state;
	assert_ok(slime_call_start(pair.a.ep, &args, call));
	while (!slime_call_test(call))
		rdma_poll(&pair);
	rdma_settle(&pair);

	count_locks();
	assert_ok(slime_call_start(pair.a.ep, &args, call));
	assert_locked(1);
	count_locks();
	assert_int_equal(slime_context_poll(pair.b.ctx), 1);
	assert_locked(1);
	count_locks();
	assert_int_equal(slime_context_poll(pair.a.ctx), 1);
	assert_locked(0);
	assert_true(slime_call_test(call));
	assert_ok(slime_call_status(call));
}

#define IN_PAIR(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(write__of_a_batch_takes_no_lock_twice),
		IN_PAIR(send__takes_no_lock_twice),
		IN_PAIR(call__takes_no_lock_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
