/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "bench/load/memory.h"
#include "bench/service/job.h"

static struct bench_job job_of(const char *peer)
{
	struct bench_job job = {
		.kind = BENCH_TRANSFER,
		.transport = SLIME_TRANSPORT_TCP,
		.rpc = { .size = UINT64_C(1) << 33,
			 .threads = 2,
			 .inflight = 3,
			 .warmup = 4,
			 .iterations = 5,
			 .duration_ms = 6 },
		.transfer = { .op = LOAD_WRITE_IMM,
			      .block_size = UINT64_C(1) << 34,
			      .batch_size = 7,
			      .threads = 8,
			      .duration_ms = 9,
			      .warmup_ms = 10,
			      .qps = 11 },
		.region = "kv",
	};

	snprintf(job.peer, sizeof(job.peer), "%s", peer);
	return job;
}

static void job_read__of_what_was_written_is_the_same(void **state)
{
	struct bench_job job = job_of("node-b");
	struct bench_job got;
	uint8_t bytes[BENCH_JOB_MAX];
	uint8_t again[BENCH_JOB_MAX];
	int len = bench_job_write(&job, bytes, sizeof(bytes));

	(void)state;
	assert_true(len > 0);
	assert_int_equal(bench_job_read(&got, bytes, (size_t)len), 0);

	assert_int_equal(bench_job_write(&got, again, sizeof(again)), len);
	assert_memory_equal(again, bytes, (size_t)len);
	assert_string_equal(got.peer, "node-b");
	assert_string_equal(got.region, "kv");
	assert_int_equal(got.kind, BENCH_TRANSFER);
	assert_int_equal(got.transport, SLIME_TRANSPORT_TCP);
	assert_int_equal(got.rpc.size, UINT64_C(1) << 33);
	assert_int_equal(got.transfer.op, LOAD_WRITE_IMM);
	assert_int_equal(got.transfer.qps, 11);
}

static void job_write__of_the_longest_names_fits(void **state)
{
	struct bench_job job = job_of("");
	uint8_t bytes[BENCH_JOB_MAX];
	int len;

	(void)state;
	memset(job.peer, 'p', SLIME_AGENT_NAME_MAX);
	memset(job.region, 'r', SLIME_AGENT_NAME_MAX);
	job.peer[SLIME_AGENT_NAME_MAX] = job.region[SLIME_AGENT_NAME_MAX] = 0;
	len = bench_job_write(&job, bytes, sizeof(bytes));
	assert_true(len > 0);
	assert_int_equal(bench_job_read(&job, bytes, (size_t)len), 0);
	assert_int_equal(bench_job_write(&job, bytes, (size_t)len - 1), -ENOSPC);
}

static void job_read__cut_anywhere_or_too_long_is_refused(void **state)
{
	struct bench_job job = job_of("node-b");
	uint8_t bytes[BENCH_JOB_MAX] = { 0 };
	size_t len = (size_t)bench_job_write(&job, bytes, sizeof(bytes));

	(void)state;
	for (size_t n = 0; n < len; n++)
		assert_int_equal(bench_job_read(&job, bytes, n), -EINVAL);
	assert_int_equal(bench_job_read(&job, bytes, len + 1), -EINVAL);
}

/* One byte of a good job set to a value that it may not have. */
static void job_read__with_a_bad_field_is_refused_and_leaves_the_job(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {
		{ 0, 2 },		    /* version */
		{ 2, BENCH_KINDS },	    /* kind */
		{ 3, SLIME_TRANSPORT_MAX }, /* transport */
		{ 4, 0xff },		    /* the peer's length */
		{ 5, 0xff },		    /* its upper byte */
		{ 6, 0 },		    /* a NUL in the peer's name */
		{ 12, 0xff },		    /* the region's length, beyond its room */
	};
	const struct bench_job job = job_of("node-b");

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t bytes[BENCH_JOB_MAX];
		size_t len = (size_t)bench_job_write(&job, bytes, sizeof(bytes));
		struct bench_job got = { .kind = BENCH_RPC, .peer = "untouched" };

		bytes[bad[i].at] = bad[i].value;
		assert_int_equal(bench_job_read(&got, bytes, len), -EINVAL);
		assert_string_equal(got.peer, "untouched");
	}
}

static void job_read__without_a_peer_is_refused(void **state)
{
	struct bench_job job = job_of("");
	uint8_t bytes[BENCH_JOB_MAX];
	int len = bench_job_write(&job, bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(bench_job_read(&job, bytes, (size_t)len), -EINVAL);
}

static void result_read__of_what_was_written_is_the_same(void **state)
{
	struct bench_result r = {
		.transport = SLIME_TRANSPORT_SHM,
		.trips = 1,
		.bytes = UINT64_MAX,
		.elapsed_ns = 3,
		.cpu_ns = 4,
		.peer_cpu_ns = 5,
		.has_peer_cpu = true,
		.verified = true,
		.late = 6,
		.n = 7,
		.avg_ns = 8,
		.min_ns = 9,
		.p50_ns = 10,
		.p99_ns = 11,
		.p999_ns = 12,
		.max_ns = 13,
		.n_rails = 2,
		.rails = { { "mlx5_0:1", "mlx5_2:1", SLIME_RAIL_UP, 0, 14 },
			   { "mlx5_1:1", "mlx5_3:1", SLIME_RAIL_DOWN, 15, UINT64_MAX } },
	};
	struct bench_result got;
	uint8_t bytes[BENCH_JOB_MAX];
	int len = bench_result_write(&r, bytes, sizeof(bytes));

	(void)state;
	assert_true(len > 0);
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len), 0);
	assert_int_equal(got.transport, SLIME_TRANSPORT_SHM);
	assert_true(got.bytes == UINT64_MAX);
	assert_true(got.has_peer_cpu && got.verified);
	assert_int_equal(got.p999_ns, 12);
	assert_int_equal(got.max_ns, 13);
	assert_int_equal(got.n_rails, 2);
	assert_string_equal(got.rails[1].peer, "mlx5_3:1");
	assert_int_equal(got.rails[1].n_failures, 15);
	assert_true(got.rails[1].bytes == UINT64_MAX);
	for (size_t n = 0; n < (size_t)len; n++)
		assert_int_equal(bench_result_read(&got, bytes, n), -EINVAL);
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len + 1), -EINVAL);
	bytes[2] = SLIME_TRANSPORT_MAX;
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len), -EINVAL);
}

static void result_read__of_rails_that_cannot_be_is_malformed(void **state)
{
	struct bench_result r = { .n_rails = 1,
				  .rails = { { "mlx5_0:1", "mlx5_2:1", SLIME_RAIL_UP, 0, 14 } } };
	const int n_at = 2 + 3 + 13 * 8;
	struct bench_result got;
	uint8_t bytes[BENCH_JOB_MAX];
	int len = bench_result_write(&r, bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(bytes[n_at], 1);
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len), 0);
	bytes[n_at] = SLIME_RAILS_MAX + 1;
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len), -EINVAL);
	bytes[n_at] = 1;
	bytes[n_at + 3] = '\033';
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len), -EINVAL);
	bytes[n_at + 3] = 'm';
	bytes[len - 13] = SLIME_RAIL_RISING + 1;
	assert_int_equal(bench_result_read(&got, bytes, (size_t)len), -EINVAL);
}

/* The longest names, of the most rails. */
static void result_write__of_all_rails_fits(void **state)
{
	struct bench_result r = { .n_rails = SLIME_RAILS_MAX };
	uint8_t bytes[BENCH_JOB_MAX];

	(void)state;
	for (int i = 0; i < SLIME_RAILS_MAX; i++) {
		memset(r.rails[i].device, 'd', sizeof(r.rails[i].device) - 1);
		memset(r.rails[i].peer, 'p', sizeof(r.rails[i].peer) - 1);
	}
	assert_true(bench_result_write(&r, bytes, sizeof(bytes)) > 0);
}

/* A job that other agents ask for comes with any numbers: none reaches memory or time beyond the
 * bounds. Refused before a context or an endpoint is looked at. */
static void rpc_run__with_numbers_out_of_range_is_refused(void **state)
{
	const struct load_rpc good = { .size = 8, .threads = 1, .inflight = 1, .iterations = 1 };
	struct load_rpc bad[] = { good, good, good, good, good, good, good };
	struct load_rpc much = { .size = LOAD_CALL_MAX,
				 .threads = LOAD_THREADS_MAX,
				 .inflight = LOAD_INFLIGHT_MAX,
				 .iterations = 1 };
	struct load_rpc_result out;

	(void)state;
	bad[0].size = UINT64_MAX;
	bad[1].size = LOAD_CALL_MAX + 1;
	bad[2].threads = LOAD_THREADS_MAX + 1;
	bad[3].inflight = UINT32_MAX;
	bad[4].iterations = UINT64_MAX;
	bad[5].duration_ms = UINT32_MAX;
	bad[6].iterations = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(load_rpc_run(NULL, NULL, &bad[i], NULL, &out), -EINVAL);
	assert_int_equal(load_rpc_run(NULL, NULL, &much, NULL, &out), -E2BIG);
	assert_true(load_memory_budget() > 0 && load_memory_budget() < load_rpc_memory(&much));
}

static void transfer_run__with_numbers_out_of_range_is_refused(void **state)
{
	const struct load_transfer good = {
		.block_size = 8, .batch_size = 1, .threads = 1, .duration_ms = 1
	};
	const struct slime_remote_mr remote = { .len = 4096 };
	const struct slime_remote_mr endless = { .len = UINT64_MAX };
	struct load_transfer bad[] = { good, good, good, good, good, good, good };
	struct load_transfer_result out;

	(void)state;
	bad[0].block_size = 12;
	bad[1].block_size = UINT64_MAX - 7;
	bad[2].batch_size = 513;
	bad[3].threads = LOAD_THREADS_MAX + 1;
	bad[4].duration_ms = UINT32_MAX;
	bad[5].warmup_ms = UINT32_MAX;
	bad[6].op = LOAD_OPS;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(load_transfer_run(NULL, NULL, &remote, &bad[i], NULL, &out),
				 -EINVAL);
	bad[0] = good;
	bad[0].block_size = UINT64_C(1) << 44;
	assert_int_equal(load_transfer_run(NULL, NULL, &endless, &bad[0], NULL, &out), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_read__of_what_was_written_is_the_same),
		cmocka_unit_test(job_write__of_the_longest_names_fits),
		cmocka_unit_test(job_read__cut_anywhere_or_too_long_is_refused),
		cmocka_unit_test(job_read__with_a_bad_field_is_refused_and_leaves_the_job),
		cmocka_unit_test(job_read__without_a_peer_is_refused),
		cmocka_unit_test(result_read__of_what_was_written_is_the_same),
		cmocka_unit_test(result_read__of_rails_that_cannot_be_is_malformed),
		cmocka_unit_test(result_write__of_all_rails_fits),
		cmocka_unit_test(rpc_run__with_numbers_out_of_range_is_refused),
		cmocka_unit_test(transfer_run__with_numbers_out_of_range_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
