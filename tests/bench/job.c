/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements between two agents of one process. */
#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/wire.h"
#include "bench/load/pattern.h"
#include "bench/service/job.h"
#include "tests/peeragent/agents.h"
#include "tests/support/echo.h"
#include "tests/support/log_lines.h"

#define REGION_LEN 8192
#define LARGE_LEN  (64 << 20)

/* What the peer says that its CPU time grew by from one question to the next: more than any run of
 * these takes. */
#define USAGE_NS UINT64_C(1000000000000)

/* A comparison of so many bytes takes so long: less than the timeout of a call. */
#define LONG_CALL     (1 << 20)
#define COMPARISON_S  10
#define COMPARISON_NS (COMPARISON_S * SL_NS_PER_S)

static struct slime_agent *a, *b;
static _Atomic time_t compared_s;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
		ts->tv_sec += compared_s;
	return ret;
}

int __real_memcmp(const void *x, const void *y, size_t len);
int __wrap_memcmp(const void *x, const void *y, size_t len);
int __wrap_memcmp(const void *x, const void *y, size_t len)
{
	if (len >= LONG_CALL)
		compared_s += COMPARISON_S;
	return __real_memcmp(x, y, len);
}

/* What clang calls where only equality is asked for. */
int __wrap_bcmp(const void *x, const void *y, size_t len);
int __wrap_bcmp(const void *x, const void *y, size_t len)
{
	return __wrap_memcmp(x, y, len);
}

/* What is waited for takes long, and the time goes by at once. */
static _Atomic bool takes_long;
static _Atomic unsigned n_waits;

int __real_slime_op_wait(struct slime_op *op, int64_t timeout_ms);
int __wrap_slime_op_wait(struct slime_op *op, int64_t timeout_ms);
int __wrap_slime_op_wait(struct slime_op *op, int64_t timeout_ms)
{
	if (!takes_long || timeout_ms < 0)
		return __real_slime_op_wait(op, timeout_ms);
	n_waits++;
	return -ETIMEDOUT;
}

/* Calls that were destroyed while they were pending. */
static _Atomic unsigned n_leaked;

int __real_slime_call_destroy(struct slime_call *call);
int __wrap_slime_call_destroy(struct slime_call *call);
int __wrap_slime_call_destroy(struct slime_call *call)
{
	int ret = __real_slime_call_destroy(call);

	n_leaked += ret != 0;
	return ret;
}

/* While it is true the peer stands still: nothing of its context runs behind an inline handler. */
static _Atomic bool stands;
static sem_t goes_on;

/* Of such a peer: the time goes by at once. */
int __real_slime_call_wait(struct slime_call *call, int64_t timeout_ms);
int __wrap_slime_call_wait(struct slime_call *call, int64_t timeout_ms);
int __wrap_slime_call_wait(struct slime_call *call, int64_t timeout_ms)
{
	if (!stands || timeout_ms < 0)
		return __real_slime_call_wait(call, timeout_ms);
	compared_s += COMPARISON_S;
	return __real_slime_call_wait(call, 1);
}

/* As while nanoctrl stands still. */
static bool is_silent;

int __real_slime_agent_region_remote(struct slime_agent *agent, const char *peer,
				     const char *region, int64_t timeout_ms,
				     struct slime_remote_mr *out);
int __wrap_slime_agent_region_remote(struct slime_agent *agent, const char *peer,
				     const char *region, int64_t timeout_ms,
				     struct slime_remote_mr *out);
int __wrap_slime_agent_region_remote(struct slime_agent *agent, const char *peer,
				     const char *region, int64_t timeout_ms,
				     struct slime_remote_mr *out)
{
	return is_silent ? -EAGAIN
			 : __real_slime_agent_region_remote(agent, peer, region, timeout_ms, out);
}

/* On the progress thread alone. */
static void usage(void *arg, struct slime_rpc_request *req)
{
	static uint64_t cpu_ns;
	uint8_t reply[8];

	(void)arg;
	cpu_ns += USAGE_NS;
	sl_put_le64(reply, cpu_ns);
	slime_rpc_reply(req, reply, sizeof(reply));
}

/* What it says drives whoever shows it on a terminal. */
static void refuse(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	if (stands)
		sem_wait(&goes_on);
	slime_rpc_reply_error(req, 1, "no\x1b[2J\r\nway");
}

/* Requests that are kept, as by a peer that stands still, and not answered before the test ends. */
static _Atomic bool keeps;
static struct slime_rpc_request *_Atomic kept;

static void echo_or_keep(void *arg, struct slime_rpc_request *req)
{
	if (keeps)
		kept = req;
	else
		test_echo(arg, req);
}

static void echo_unless_it_stands(void *arg, struct slime_rpc_request *req)
{
	if (stands)
		sem_wait(&goes_on);
	test_echo(arg, req);
}

static int start_pair_with(void **state, size_t len, bool inline_echo)
{
	const struct slime_agent_region region = {
		.name = BENCH_REGION, .size = len, .numa_node = -1, .access = 3
	};
	struct slime_rpc_method_attr echo = SLIME_RPC_METHOD_ATTR_INIT, count = echo, run = echo;
	struct slime_agent_attr attr = attr_of("b");
	struct slime_mr *mr;

	reset(state);
	echo.fn = inline_echo ? echo_unless_it_stands : echo_or_keep;
	echo.flags = inline_echo ? SLIME_RPC_INLINE : 0;
	count.fn = usage;
	count.flags = SLIME_RPC_INLINE;
	run.fn = refuse;
	run.flags = SLIME_RPC_INLINE;
	attr.topology.regions = &region;
	attr.topology.n_regions = 1;
	assert_ok(slime_agent_create(&attr, &b));
	assert_ok(slime_agent_method_add(b, BENCH_METHOD_ECHO, &echo));
	assert_ok(slime_agent_method_add(b, BENCH_METHOD_USAGE, &count));
	assert_ok(slime_agent_method_add(b, BENCH_METHOD_RUN, &run));
	assert_ok(slime_agent_service_add(b, "bench"));
	assert_ok(slime_agent_start(b));
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_ok(slime_agent_region_local(b, BENCH_REGION, &mr));
	load_pattern_fill(slime_mr_addr(mr), len, LOAD_PATTERN_SEED, 0);
	assert_true(fakectrl_wait_region("b", BENCH_REGION, true, LONG_MS));
	a = start("a", NULL, 0);
	return 0;
}

static int start_pair(void **state)
{
	return start_pair_with(state, REGION_LEN, false);
}

static int start_pair_of_inline_echo(void **state)
{
	return start_pair_with(state, REGION_LEN, true);
}

static int start_large_pair(void **state)
{
	return start_pair_with(state, LARGE_LEN, false);
}

static int end_pair(void **state)
{
	(void)state;
	end(a);
	end(b);
	return 0;
}

static void run(const struct bench_job *job, struct bench_result *out)
{
	char message[BENCH_MESSAGE_MAX];
	uint64_t cpu_ns = load_cpu_ns();

	assert_ok(bench_job_run(a, job, NULL, out, NULL, message));
	cpu_ns = load_cpu_ns() - cpu_ns;
	assert_true(out->has_peer_cpu);
	assert_in_range(out->cpu_ns, 1, cpu_ns);
}

static void run__of_calls_counts_the_cpu_time_of_those_it_measures(void **state)
{
	const struct bench_job job = {
		.kind = BENCH_RPC,
		.peer = "b",
		.transport = SLIME_TRANSPORT_SHM,
		.rpc = { .size = 64, .threads = 2, .inflight = 2, .warmup = 30, .iterations = 10 },
	};
	struct bench_result out;

	(void)state;
	run(&job, &out);
	assert_int_equal(out.trips, 20);
	assert_int_equal(out.peer_cpu_ns, USAGE_NS / 4);
}

static void run__of_several_calls_at_a_time_compares_their_replies_when_all_have_ended(void **state)
{
	const struct bench_job job = {
		.kind = BENCH_RPC,
		.peer = "b",
		.transport = SLIME_TRANSPORT_SHM,
		.rpc = { .size = LONG_CALL, .threads = 1, .inflight = 3, .iterations = 6 },
	};
	struct bench_result out;

	(void)state;
	compared_s = 0;
	run(&job, &out);
	assert_int_equal(out.trips, 6);
	assert_in_range(out.max_ns, 1, COMPARISON_NS - 1);
	assert_in_range(out.elapsed_ns, 1, COMPARISON_NS - 1);
	assert_int_equal(compared_s, 3 * COMPARISON_S);
}

/* At least the reads that check the bytes are not counted. */
static void run__of_transfers_counts_the_cpu_time_of_those_it_measures(void **state)
{
	const struct bench_job job = {
		.kind = BENCH_TRANSFER,
		.peer = "b",
		.transport = SLIME_TRANSPORT_SHM,
		.transfer = { .op = LOAD_READ,
			      .block_size = 1024,
			      .batch_size = 2,
			      .threads = 1,
			      .duration_ms = 50 },
	};
	struct bench_result out;

	(void)state;
	run(&job, &out);
	assert_true(out.verified);
	assert_in_range(out.peer_cpu_ns, 1, USAGE_NS - 1);
}

/* The memory is filled before the clock runs. */
static void run__of_transfers_whose_memory_is_long_in_filling_has_its_whole_time(void **state)
{
	const struct bench_job job = {
		.kind = BENCH_TRANSFER,
		.peer = "b",
		.transport = SLIME_TRANSPORT_SHM,
		.transfer = { .op = LOAD_READ,
			      .block_size = LARGE_LEN,
			      .batch_size = 1,
			      .threads = 1,
			      .duration_ms = 1 },
	};
	struct bench_result out;

	(void)state;
	run(&job, &out);
	assert_true(out.verified);
	assert_int_equal(out.trips, 1);
	assert_int_equal(out.n, 1);
}

static bool is_kept(void *arg)
{
	(void)arg;
	return kept;
}

static void run__that_is_stopped_waits_for_no_call(void **state)
{
	const struct bench_job job = {
		.kind = BENCH_RPC,
		.peer = "b",
		.transport = SLIME_TRANSPORT_SHM,
		.rpc = { .size = 64, .threads = 1, .inflight = 1, .iterations = 1 },
	};
	const struct load_control control = { .stop = is_kept };
	char message[BENCH_MESSAGE_MAX];
	struct bench_result out;

	(void)state;
	keeps = true;
	assert_int_equal(bench_job_run(a, &job, &control, &out, NULL, message), -ECANCELED);
	keeps = false;
	slime_rpc_reply(kept, NULL, 0);
	kept = NULL;
}

/* Several threads: one ends the link, and the calls of all of them. Such short calls lend no
 * region, which the peer could reach until it goes on. */
static void run__of_calls_to_an_agent_that_stands_still_gives_their_memory_back(void **state)
{
	const struct bench_job job = {
		.kind = BENCH_RPC,
		.peer = "b",
		.transport = SLIME_TRANSPORT_SHM,
		.rpc = { .size = 64, .threads = 2, .inflight = 2, .iterations = 10 },
	};
	char message[BENCH_MESSAGE_MAX];
	struct bench_result out;

	(void)state;
	n_leaked = 0;
	assert_ok(sem_init(&goes_on, 0, 0));
	log_lines_keep();
	stands = true;
	assert_int_equal(bench_job_run(a, &job, NULL, &out, NULL, message), -ETIMEDOUT);
	stands = false;
	sem_post(&goes_on);
	assert_int_equal(n_leaked, 0);
	assert_int_equal(log_lines_with("still held"), 0);
	log_lines_release();
}

static const struct bench_job long_trip = {
	.kind = BENCH_TRANSFER,
	.peer = "b",
	.transport = SLIME_TRANSPORT_SHM,
	.transfer = { .op = LOAD_READ,
		      .block_size = LARGE_LEN / 64,
		      .batch_size = 64,
		      .threads = 1,
		      .duration_ms = 1 },
};

/* Its memory is the link's until that has ended. */
static void run__whose_trip_takes_too_long_gives_its_memory_back(void **state)
{
	char message[BENCH_MESSAGE_MAX];
	struct bench_result out;

	(void)state;
	log_lines_keep();
	takes_long = true;
	assert_int_equal(bench_job_run(a, &long_trip, NULL, &out, NULL, message), -ETIMEDOUT);
	takes_long = false;
	assert_int_equal(log_lines_with("still held"), 0);
	log_lines_release();
}

static bool is_waited_for(void *arg)
{
	(void)arg;
	return n_waits > 0;
}

static void run__that_is_stopped_waits_for_no_trip(void **state)
{
	const struct load_control control = { .stop = is_waited_for };
	char message[BENCH_MESSAGE_MAX];
	struct bench_result out;

	(void)state;
	n_waits = 0;
	takes_long = true;
	assert_int_equal(bench_job_run(a, &long_trip, &control, &out, NULL, message), -ECANCELED);
	takes_long = false;
	assert_int_equal(n_waits, 1);
}

static void run__whose_region_nanoctrl_does_not_tell_says_so(void **state)
{
	char message[BENCH_MESSAGE_MAX];
	struct bench_result out;

	(void)state;
	is_silent = true;
	assert_int_equal(bench_job_run(a, &long_trip, NULL, &out, NULL, message), -EAGAIN);
	is_silent = false;
	assert_string_equal(message, "region bench of b: nanoctrl does not answer");
}

static void run__at_another_agent_says_its_words_without_control_characters(void **state)
{
	const struct bench_job job = { .kind = BENCH_RPC, .peer = "c" };
	char message[BENCH_MESSAGE_MAX];
	struct slime_endpoint *ep;
	struct bench_result out;

	(void)state;
	assert_ok(slime_agent_link_add(a, &to_b));
	ep = get(a, "b", NULL);
	assert_int_equal(bench_job_run_at(a, ep, &job, LONG_MS, &out, message), -EREMOTEIO);
	assert_string_equal(message, "no?[2J??way");
	slime_agent_endpoint_put(a, ep);
}

static void run__at_an_agent_that_stands_still_lends_it_no_memory_any_more(void **state)
{
	const struct bench_job job = { .kind = BENCH_RPC, .peer = "c" };
	char message[BENCH_MESSAGE_MAX];
	struct slime_endpoint *ep;
	struct bench_result out;

	(void)state;
	assert_ok(slime_agent_link_add(a, &to_b));
	ep = get(a, "b", NULL);
	n_leaked = 0;
	assert_ok(sem_init(&goes_on, 0, 0));
	stands = true;
	assert_int_equal(bench_job_run_at(a, ep, &job, 50, &out, message), -ETIMEDOUT);
	stands = false;
	sem_post(&goes_on);
	assert_int_equal(n_leaked, 0);
	slime_agent_endpoint_put(a, ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			run__of_calls_counts_the_cpu_time_of_those_it_measures, start_pair,
			end_pair),
		cmocka_unit_test_setup_teardown(
			run__of_several_calls_at_a_time_compares_their_replies_when_all_have_ended,
			start_pair, end_pair),
		cmocka_unit_test_setup_teardown(
			run__of_transfers_counts_the_cpu_time_of_those_it_measures, start_pair,
			end_pair),
		cmocka_unit_test_setup_teardown(
			run__of_transfers_whose_memory_is_long_in_filling_has_its_whole_time,
			start_large_pair, end_pair),
		cmocka_unit_test_setup_teardown(run__that_is_stopped_waits_for_no_call, start_pair,
						end_pair),
		cmocka_unit_test_setup_teardown(
			run__of_calls_to_an_agent_that_stands_still_gives_their_memory_back,
			start_pair_of_inline_echo, end_pair),
		cmocka_unit_test_setup_teardown(
			run__whose_trip_takes_too_long_gives_its_memory_back, start_large_pair,
			end_pair),
		cmocka_unit_test_setup_teardown(run__that_is_stopped_waits_for_no_trip,
						start_large_pair, end_pair),
		cmocka_unit_test_setup_teardown(run__whose_region_nanoctrl_does_not_tell_says_so,
						start_pair, end_pair),
		cmocka_unit_test_setup_teardown(
			run__at_an_agent_that_stands_still_lends_it_no_memory_any_more, start_pair,
			end_pair),
		cmocka_unit_test_setup_teardown(
			run__at_another_agent_says_its_words_without_control_characters, start_pair,
			end_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
