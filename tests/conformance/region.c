/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: descriptors, withdrawal, and memory that is not the library's. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void mem_alloc__gives_zeroed_pages(void **state)
{
	struct pair *p = *state;
	struct slime_mem *mem;
	const uint8_t *at;
	uint8_t any = 0;

	assert_ok(slime_mem_alloc(p->a.ctx, 100000, NULL, &mem));
	assert_true(slime_mem_len(mem) >= 100000);
	assert_int_equal((uintptr_t)slime_mem_addr(mem) % 4096, 0);
	at = slime_mem_addr(mem);
	for (size_t i = 0; i < slime_mem_len(mem); i++)
		any |= at[i];
	assert_int_equal(any, 0);
	assert_ok(slime_mem_destroy(mem));
}

static void mem_alloc__with_nonsense_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;

	assert_int_equal(slime_mem_alloc(p->a.ctx, 0, NULL, &mem), -EINVAL);
	attr.numa_node = 1000;
	assert_int_equal(slime_mem_alloc(p->a.ctx, 4096, &attr, &mem), -ENODEV);
	assert_int_equal(slime_mem_alloc(p->a.ctx, (size_t)1 << 60, NULL, &mem), -ENOMEM);
}

/* At once: the kernel would look for it among the pages of other processes. */
static void mem_alloc__of_more_than_the_machine_has_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_mem *mem = NULL;

	assert_int_equal(slime_mem_alloc(p->a.ctx, (size_t)1 << 46, NULL, &mem), -ENOMEM);
	assert_null(mem);
}

static void mem_alloc__with_plain_pages_on_node_0_works(void **state)
{
	struct pair *p = *state;
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;

	attr.huge = SLIME_HUGE_OFF;
	attr.numa_node = 0;
	attr.name = "conformance";
	assert_ok(slime_mem_alloc(p->a.ctx, 3 * MiB, &attr, &mem));
	memset(slime_mem_addr(mem), 1, 3 * MiB);
	assert_ok(slime_mem_destroy(mem));
}

static void mr_create__with_nonsense_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr;

	assert_int_equal(slime_mr_create(p->a.ctx, p->a.bytes, 0, 0, &mr), -EINVAL);
	assert_int_equal(slime_mr_create(p->a.ctx, p->a.bytes, SIZE_MAX, 0, &mr), -EINVAL);
	assert_int_equal(slime_mr_create(p->a.ctx, p->a.bytes, 4096, 1u << 20, &mr), -EINVAL);
}

static void mr_create__beyond_max_regions_is_refused(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_context *ctx;
	static uint8_t bytes[64];
	struct slime_mr *mr[3];

	(void)state;
	attr.max_regions = 2;
	assert_ok(slime_context_create(&attr, &ctx));
	assert_ok(slime_mr_create(ctx, bytes, 64, 0, &mr[0]));
	assert_ok(slime_mr_create(ctx, bytes, 64, 0, &mr[1]));
	assert_int_equal(slime_mr_create(ctx, bytes, 64, 0, &mr[2]), -ENOSPC);
	assert_ok(slime_mr_destroy(mr[0]));
	assert_ok(slime_mr_create(ctx, bytes, 64, 0, &mr[2]));
	assert_ok(slime_mr_destroy(mr[1]));
	assert_ok(slime_mr_destroy(mr[2]));
	assert_ok(slime_context_destroy(ctx));
}

static void remote_mr_import__says_what_was_exported(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes + 4096, 8192, SLIME_ACCESS_REMOTE_READ);
	struct slime_remote_mr remote = remote_of(mr);

	assert_int_equal(remote.len, 8192);
	assert_int_equal(remote.access, SLIME_ACCESS_REMOTE_READ);
	assert_int_equal(remote.owner, p->b.remote.owner);
	assert_true(remote.generation != p->b.remote.generation);
	assert_ptr_equal(slime_mr_addr(mr), p->b.bytes + 4096);
	assert_int_equal(slime_mr_len(mr), 8192);
	assert_ok(slime_mr_destroy(mr));
}

static void remote_mr_import__of_foreign_bytes_is_refused(void **state)
{
	struct pair *p = *state;
	uint8_t desc[SLIME_MR_DESC_MAX + 1] = { 0 };
	struct slime_remote_mr remote = { .id = 4711 };
	int len = slime_mr_export(p->b.mr, desc, SLIME_MR_DESC_MAX);

	assert_true(len > 0);
	for (int n = 0; n < len; n++) {
		assert_int_equal(slime_mr_export(p->b.mr, desc, (size_t)n), -ENOSPC);
		assert_int_equal(slime_remote_mr_import(desc, (size_t)n, &remote), -EINVAL);
	}
	assert_int_equal(slime_remote_mr_import(desc, (size_t)len + 1, &remote), -EINVAL);
	desc[0] ^= 0xff;
	assert_int_equal(slime_remote_mr_import(desc, (size_t)len, &remote), -EINVAL);
	assert_int_equal(remote.id, 4711);
}

static void read__of_a_region_inside_of_memory_starts_at_its_offset(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes + 5000, 3000, SLIME_ACCESS_REMOTE_READ);
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 100, 2900);

	x.remote = &remote;
	pattern_fill(p->b.bytes, MiB, 1, 0);
	assert_ok(read_now(p, &x));
	assert_pattern(p->a.bytes, 2900, 1, 5100);
	x.len++;
	assert_int_equal(read_now(p, &x), -ERANGE);
	assert_ok(slime_mr_destroy(mr));
}

/* ---- withdrawal ---- */

static void read__of_a_withdrawn_region_is_stale(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 4096, SLIME_ACCESS_REMOTE_READ);
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 0, 4096);

	x.remote = &remote;
	assert_ok(read_now(p, &x));
	assert_ok(slime_mr_destroy(mr));
	assert_int_equal(read_now(p, &x), -ESTALE);
	/* The link and the other regions go on. */
	x.remote = &p->b.remote;
	assert_ok(read_now(p, &x));
}

static void endpoint_stats__of_a_failed_read_have_the_bytes_it_was_to_move(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 4096, SLIME_ACCESS_REMOTE_READ);
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 0, 4096);
	struct slime_endpoint_stats stats;
	const struct slime_kind_stats *reads = &stats.kinds[SLIME_KIND_READ];

	assert_ok(read_now(p, &x));
	assert_ok(slime_mr_destroy(mr));
	x.remote = &remote;
	x.len = 4000;
	assert_int_equal(read_now(p, &x), -ESTALE);
	slime_endpoint_stats(p->a.ep, &stats);
	assert_int_equal(reads->bytes, 4096);
	/* One that is refused because the withdrawal was heard of already is none. */
	assert_in_range(reads->submitted, 1, 2);
	assert_int_equal(reads->failed, reads->submitted - 1);
	assert_int_equal(reads->failed_bytes, 4000 * reads->failed);
	assert_int_equal(stats.kinds[SLIME_KIND_WRITE].failed_bytes, 0);
}

static void read__with_an_old_descriptor_never_reaches_a_new_region(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 4096, SLIME_ACCESS_REMOTE_READ);
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 0, 4096);

	for (int i = 0; i < 5; i++) {
		assert_ok(slime_mr_destroy(mr));
		mr = end_mr(&p->b, p->b.bytes, 4096, SLIME_ACCESS_REMOTE_READ);
		x.remote = &remote;
		assert_int_equal(read_now(p, &x), -ESTALE);
	}
	remote = remote_of(mr);
	assert_ok(read_now(p, &x));
	assert_ok(slime_mr_destroy(mr));
}

static void mr_destroy__with_own_ops_pending_is_busy(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->a, p->a.bytes, 4096, 0);

	assert_ok(slime_recv(p->a.ep, mr, 0, 4096, 0, 0, p->a.op));
	assert_int_equal(slime_mr_destroy(mr), -EBUSY);
	assert_ok(slime_send(p->b.ep, p->b.mr, 0, 1, 0, p->b.op));
	op_end_ok(p->a.op);
	op_end_ok(p->b.op);
	assert_ok(slime_mr_destroy(mr));
}

#define INSISTED_ON 64

struct insister {
	struct slime_mr *mrs[INSISTED_ON];
	_Atomic size_t at; /* which one; INSISTED_ON: enough */
	unsigned n_wrong;
};

static void *insist_on_destroying(void *arg)
{
	struct insister *in = arg;

	size_t at;

	while ((at = atomic_load(&in->at)) < INSISTED_ON)
		in->n_wrong += slime_mr_destroy(in->mrs[at]) != -EBUSY;
	return NULL;
}

/* The peer, which comes for the first time meanwhile, does not find it withdrawn for a moment. */
static void mr_destroy__that_is_refused_changes_nothing(void **state)
{
	struct pair *p = *state;
	struct insister in = { 0 };
	struct slime_op *ops[INSISTED_ON];
	pthread_t thread;

	for (uint64_t i = 0; i < INSISTED_ON; i++) {
		ops[i] = op_new(p->b.ctx);
		in.mrs[i] = end_mr(&p->b, p->b.bytes + i * 64, 64, SLIME_ACCESS_REMOTE_READ);
		assert_ok(slime_recv(p->b.ep, in.mrs[i], 0, 64, i, SLIME_TAG_ALL, ops[i]));
	}
	assert_ok(pthread_create(&thread, NULL, insist_on_destroying, &in));
	for (size_t i = 0; i < INSISTED_ON; i++) {
		struct slime_remote_mr remote = remote_of(in.mrs[i]);
		struct slime_xfer x = a_and_b(p, 0, 0, 64);

		x.remote = &remote;
		atomic_store(&in.at, i);
		assert_ok(read_now(p, &x));
	}
	atomic_store(&in.at, INSISTED_ON);
	assert_ok(pthread_join(thread, NULL));
	assert_int_equal(in.n_wrong, 0);
	slime_endpoint_close(p->b.ep);
	for (size_t i = 0; i < INSISTED_ON; i++) {
		assert_int_equal(op_end(ops[i]), -ECANCELED);
		assert_ok(slime_op_destroy(ops[i]));
		assert_ok(slime_mr_destroy(in.mrs[i]));
	}
}

struct reader {
	struct pair *p;
	struct slime_remote_mr remote;
	uint64_t n_ok;
	uint64_t n_poisoned;
	int status;
};

#define WATCHED 4096

/* Reads until the region is gone; none may bring what was written after that. */
static void *read_until_stale(void *arg)
{
	struct reader *r = arg;
	struct slime_xfer x = a_and_b(r->p, 0, 0, WATCHED);

	x.remote = &r->remote;
	do {
		r->status = slime_read(r->p->a.ep, &x, 1, 0, r->p->a.op);
		if (!r->status)
			r->status = slime_op_wait(r->p->a.op, PATIENCE_MS);
		if (!r->status)
			r->status = slime_op_status(r->p->a.op);
		if (!r->status) {
			__atomic_fetch_add(&r->n_ok, 1, __ATOMIC_RELAXED);
			r->n_poisoned += memchr(r->p->a.bytes, 0xee, WATCHED) != NULL;
		}
	} while (!r->status);
	return NULL;
}

static int destroy_patiently(void *mr)
{
	int ret = slime_mr_destroy(mr);

	return ret == -EBUSY ? -EAGAIN : ret;
}

static void mr_destroy__while_the_peer_reads_is_a_clean_cut(void **state)
{
	struct pair *p = *state;

	for (int round = 0; round < 10; round++) {
		struct slime_mr *mr = end_mr(&p->b, p->b.bytes, WATCHED, SLIME_ACCESS_REMOTE_READ);
		struct reader r = { .p = p, .remote = remote_of(mr) };
		pthread_t thread;

		memset(p->b.bytes, 0x11, WATCHED);
		assert_ok(pthread_create(&thread, NULL, read_until_stale, &r));
		while (__atomic_load_n(&r.n_ok, __ATOMIC_RELAXED) < 10)
			sched_yield();
		assert_ok(until_not_again(destroy_patiently, mr));
		memset(p->b.bytes, 0xee, WATCHED);
		assert_ok(pthread_join(thread, NULL));
		assert_int_equal(r.status, -ESTALE);
		assert_int_equal(r.n_poisoned, 0);
	}
}

/* ---- pages ---- */

/* Bytes of memory of slime_mem_alloc that this process reaches without a page fault. */
static uint64_t resident(void)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib;
	uint64_t sum = 0;
	bool ours = false;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			ours = strstr(line, "/memfd:slime ") != NULL;
		else if (ours && sscanf(line, "Rss: %lu kB", &kib) == 1)
			sum += kib * KiB;
	}
	fclose(f);
	return sum;
}

/* A peer's region is mapped when it is first used, and its pages are fetched in idle rounds. */
static void mapping__of_a_peers_region_is_fetched_while_there_is_time(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint64_t before;
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	if (fixture_transport != SLIME_TRANSPORT_SHM)
		return;
	attr.len = 8 * MiB;
	attr.manual_a = true;
	p = pair_open(&attr);
	before = resident();
	assert_true(before >= 2 * attr.len);
	x = a_and_b(p, 0, 3 * MiB, 1);
	assert_ok(read_now(p, &x));
	while (slime_context_poll(p->a.ctx) > 0)
		;
	assert_true(resident() - before >= attr.len);
	pair_close(p);
}

/* ---- memory of the user's own ---- */

/* A process's own memory is reached over tcp; over shm where both ends allow it. */
static void read__of_foreign_memory_without_leave_is_unsupported_on_shm(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint8_t *own = malloc(100000);
	struct slime_remote_mr remote;
	struct slime_xfer x;
	struct slime_mr *mr;
	struct pair *p;

	(void)state;
	attr.foreign_memory = SLIME_FOREIGN_OFF;
	p = pair_open(&attr);
	mr = end_mr(&p->b, own, 100000, SLIME_ACCESS_REMOTE_READ);
	remote = remote_of(mr);
	x = a_and_b(p, 0, 0, 100000);
	x.remote = &remote;
	pattern_fill(own, 100000, 1, 0);
	if (fixture_transport == SLIME_TRANSPORT_SHM) {
		assert_int_equal(slime_read(p->a.ep, &x, 1, 0, p->a.op), -EOPNOTSUPP);
	} else {
		assert_ok(read_now(p, &x));
		assert_pattern(p->a.bytes, 100000, 1, 0);
	}
	assert_ok(slime_mr_destroy(mr));
	pair_close(p);
	free(own);
}

#define OWN_LEN (3 * MiB)

/* A pair that may, and a region over the bytes that b allocated itself. */
struct own {
	struct pair *p;
	uint8_t *bytes;
	struct slime_mr *mr;
	struct slime_remote_mr remote;
};

static void own_open(struct own *o)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.foreign_memory = SLIME_FOREIGN_REQUIRE;
	attr.len = 4 * MiB;
	o->p = pair_open(&attr);
	o->bytes = malloc(OWN_LEN);
	o->mr = end_mr(&o->p->b, o->bytes, OWN_LEN,
		       SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE);
	o->remote = remote_of(o->mr);
}

static void own_close(struct own *o)
{
	assert_ok(until_not_again(destroy_patiently, o->mr));
	pair_close(o->p);
	free(o->bytes);
}

static void read__of_foreign_memory_with_leave_brings_it(void **state)
{
	struct own o;
	struct slime_xfer x;

	(void)state;
	own_open(&o);
	x = a_and_b(o.p, 0, 0, OWN_LEN);
	x.remote = &o.remote;
	pattern_fill(o.bytes, OWN_LEN, 1, 0);
	assert_ok(read_now(o.p, &x));
	assert_pattern(o.p->a.bytes, OWN_LEN, 1, 0);
	pattern_fill(o.p->a.bytes, OWN_LEN, 2, 0);
	assert_ok(write_now(o.p, &x));
	assert_pattern(o.bytes, OWN_LEN, 2, 0);
	own_close(&o);
}

#define SCATTERED     3000
#define SCATTERED_LEN 1000

/* More stretches than a system call takes, between regions of both kinds. */
static void read__of_scattered_foreign_memory_brings_each(void **state)
{
	struct slime_xfer *xfers = calloc(SCATTERED, sizeof(*xfers));
	struct own o;

	(void)state;
	own_open(&o);
	pattern_fill(o.bytes, OWN_LEN, 1, 0);
	pattern_fill(o.p->b.bytes, OWN_LEN, 1, 0);
	for (size_t i = 0; i < SCATTERED; i++) {
		uint64_t at = (SCATTERED - 1 - i) * SCATTERED_LEN;

		xfers[i] = a_and_b(o.p, at, at, SCATTERED_LEN);
		if (i % 1000 < 990)
			xfers[i].remote = &o.remote;
	}
	assert_ok(slime_read(o.p->a.ep, xfers, SCATTERED, 0, o.p->a.op));
	op_end_ok(o.p->a.op);
	assert_int_equal(slime_op_bytes(o.p->a.op), SCATTERED * SCATTERED_LEN);
	assert_pattern(o.p->a.bytes, SCATTERED * SCATTERED_LEN, 1, 0);
	own_close(&o);
	free(xfers);
}

/* ---- memory of devices ---- */

/* Any memory may be called so: then no CPU touches it, and only a device could. */
static void device_memory__is_moved_by_rdma_alone(void **state)
{
	struct pair *p = *state;
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	int expected = fixture_transport == SLIME_TRANSPORT_RDMA ? 0 : -EOPNOTSUPP;
	uint8_t *own = malloc(100000);
	struct slime_mr *near, *far;
	struct slime_remote_mr remote;
	struct slime_xfer x;

	attr.device_memory = true;
	attr.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE;
	assert_ok(slime_mr_create_attr(p->a.ctx, own, 50000, &attr, &near));
	assert_ok(slime_mr_create_attr(p->b.ctx, own + 50000, 50000, &attr, &far));
	remote = remote_of(far);
	pattern_fill(own, 100000, 3, 0);
	x = a_and_b(p, 0, 0, 50000);
	x.local = near;
	assert_int_equal(write_now(p, &x), expected);
	x = a_and_b(p, 0, 0, 50000);
	x.remote = &remote;
	assert_int_equal(read_now(p, &x), expected);
	if (!expected) {
		assert_pattern(p->b.bytes, 50000, 3, 0);
		assert_pattern(p->a.bytes, 50000, 3, 50000);
	}
	/* Messages are copied by us. */
	assert_int_equal(slime_send(p->a.ep, near, 0, 16, 1, p->a.op), -EOPNOTSUPP);
	assert_int_equal(slime_recv(p->a.ep, near, 0, 16, 1, SLIME_TAG_ALL, p->a.op), -EOPNOTSUPP);
	assert_ok(slime_mr_destroy(near));
	assert_ok(until_not_again(destroy_patiently, far));
	free(own);
}

static const struct CMUnitTest tests[] = {
	IN_PAIR(mem_alloc__gives_zeroed_pages),
	IN_PAIR(mem_alloc__with_nonsense_is_refused),
	IN_PAIR(mem_alloc__of_more_than_the_machine_has_is_refused),
	IN_PAIR(mem_alloc__with_plain_pages_on_node_0_works),
	IN_PAIR(mr_create__with_nonsense_is_refused),
	IN_PAIR(mr_create__beyond_max_regions_is_refused),
	IN_PAIR(remote_mr_import__says_what_was_exported),
	IN_PAIR(remote_mr_import__of_foreign_bytes_is_refused),
	IN_PAIR(read__of_a_region_inside_of_memory_starts_at_its_offset),
	IN_PAIR(read__of_a_withdrawn_region_is_stale),
	IN_PAIR(endpoint_stats__of_a_failed_read_have_the_bytes_it_was_to_move),
	IN_PAIR(read__with_an_old_descriptor_never_reaches_a_new_region),
	IN_PAIR(mr_destroy__with_own_ops_pending_is_busy),
	IN_PAIR(mr_destroy__that_is_refused_changes_nothing),
	IN_PAIR(mr_destroy__while_the_peer_reads_is_a_clean_cut),
	cmocka_unit_test(mapping__of_a_peers_region_is_fetched_while_there_is_time),
	cmocka_unit_test(read__of_foreign_memory_without_leave_is_unsupported_on_shm),
	cmocka_unit_test(read__of_foreign_memory_with_leave_brings_it),
	cmocka_unit_test(read__of_scattered_foreign_memory_brings_each),
	IN_PAIR(device_memory__is_moved_by_rdma_alone),
};

FIXTURE_MAIN("region")
