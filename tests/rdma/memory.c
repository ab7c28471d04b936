/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the devices make of memory that is not ordinary: pages on demand, dmabufs, memory of which
 * only the address counts, huge pages. What a device lacks it says, and the link lives.
 */
#include "tests/rdma/wired.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/log_lines.h"

#define LEN (256 * KiB)

static bool device_has_paging(struct ibv_device *device)
{
	const unsigned needed = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	struct ibv_context *ibv = ibv_open_device(device);
	struct ibv_device_attr_ex attr;

	assert_non_null(ibv);
	assert_ok(ibv_query_device_ex(ibv, NULL, &attr));
	assert_ok(ibv_close_device(ibv));
	return attr.odp_caps.general_caps & IBV_ODP_SUPPORT &&
	       (attr.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

static bool has_paging(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = false;

	assert_non_null(list);
	for (int i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			found = device_has_paging(list[i]);
	}
	ibv_free_device_list(list);
	return found;
}

static struct slime_mr *region_of(struct end *e, void *addr, const struct slime_mr_attr *attr)
{
	struct slime_mr *mr;

	assert_ok(slime_mr_create_attr(e->ctx, addr, LEN, attr, &mr));
	return mr;
}

static int write_from(struct pair *p, struct slime_mr *mr)
{
	struct slime_xfer x = a_and_b(p, 0, 0, LEN);

	x.local = mr;
	return write_now(p, &x);
}

static int read_of(struct pair *p, const struct slime_mr *mr)
{
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 0, LEN);

	x.remote = &remote;
	return read_now(p, &x);
}

/* Memory of the test's own, a region of it for each end, with access to be read. */
struct own {
	uint8_t *bytes;
	struct slime_mr *a, *b;
};

static struct own open_own(struct pair *p, struct slime_mr_attr *attr, uint64_t seed)
{
	struct own own = { .bytes = malloc(2 * LEN) };

	assert_non_null(own.bytes);
	pattern_fill(own.bytes, 2 * LEN, seed, 0);
	attr->access = SLIME_ACCESS_REMOTE_READ;
	own.a = region_of(&p->a, own.bytes, attr);
	own.b = region_of(&p->b, own.bytes + LEN, attr);
	return own;
}

static void close_own(struct own *own)
{
	assert_ok(slime_mr_destroy(own->a));
	assert_ok(slime_mr_destroy(own->b));
	free(own->bytes);
}

/* Both as a source of our own and as the peer's. */
static void on_demand__works_where_it_is_offered_and_is_refused_elsewhere(void **state)
{
	struct pair *p = *state;
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	bool near = has_paging(wired_near), far = has_paging(wired_far);
	struct own own;

	attr.on_demand = true;
	own = open_own(p, &attr, 5);
	log_lines_keep();
	assert_int_equal(write_from(p, own.a), near ? 0 : -EOPNOTSUPP);
	assert_int_equal(read_of(p, own.b), far ? 0 : -EREMOTEIO);
	assert_int_equal(log_lines_with("on-demand paging was asked for, and the device has none"),
			 !near + !far);
	log_lines_release();
	if (near)
		assert_pattern(p->b.bytes, LEN, 5, 0);
	if (far)
		assert_pattern(p->a.bytes, LEN, 5, LEN);
	assert_ok(traffic_run(p, 0));
	close_own(&own);
}

static void device_memory__that_its_address_reaches_is_moved(void **state)
{
	struct pair *p = *state;
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct own own;

	attr.device_memory = true;
	own = open_own(p, &attr, 6);
	assert_ok(write_from(p, own.a));
	assert_ok(read_of(p, own.b));
	assert_pattern(p->b.bytes, LEN, 6, 0);
	assert_pattern(p->a.bytes, LEN, 6, LEN);
	close_own(&own);
}

/* Nobody knows what is there: the kernel looks for it in vain. */
static void device_memory__that_no_address_reaches_names_what_is_missing(void **state)
{
	struct pair *p = *state;
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	void *hole = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct slime_mr *mr;

	assert_ptr_not_equal(hole, MAP_FAILED);
	attr.device_memory = true;
	mr = region_of(&p->a, hole, &attr);
	log_lines_keep();
	assert_int_equal(write_from(p, mr), -EFAULT);
	assert_int_equal(log_lines_with("takes peer memory or a dmabuf"), 1);
	log_lines_release();
	assert_ok(traffic_run(p, 0));
	assert_ok(slime_mr_destroy(mr));
	assert_ok(munmap(hole, LEN));
}

static int memfd(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, LEN));
	return fd;
}

/* What the device says of a descriptor that is no dmabuf: whether it knows dmabufs at all. */
static bool knows_dmabufs(struct pair *p, int fd)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;
	bool known;
	int ret;

	attr.device_memory = true;
	attr.dmabuf_fd = fd;
	mr = region_of(&p->a, NULL, &attr);
	log_lines_keep();
	ret = write_from(p, mr);
	known = ret != -EOPNOTSUPP;
	assert_true(ret < 0);
	assert_int_equal(log_lines_with(known ? "is that a dmabuf of its exporter"
					      : "a dmabuf takes Linux 5.12"),
			 1);
	log_lines_release();
	assert_ok(slime_mr_destroy(mr));
	return known;
}

/* Soft-RoCE knows none. Then the address will do, where there is one. */
static void dmabuf__that_the_device_refuses_names_what_is_missing(void **state)
{
	struct pair *p = *state;
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;
	uint8_t *bytes;
	bool known;

	attr.device_memory = true;
	attr.dmabuf_fd = memfd();
	known = knows_dmabufs(p, attr.dmabuf_fd);
	assert_ok(traffic_run(p, 0));
	bytes = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, attr.dmabuf_fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	pattern_fill(bytes, LEN, 7, 0);
	mr = region_of(&p->a, bytes, &attr);
	if (known) {
		assert_true(write_from(p, mr) < 0);
	} else {
		assert_ok(write_from(p, mr));
		assert_pattern(p->b.bytes, LEN, 7, 0);
	}
	assert_ok(slime_mr_destroy(mr));
	assert_ok(munmap(bytes, LEN));
	assert_ok(close(attr.dmabuf_fd));
}

/* ---- huge pages ---- */

#define HUGE_PAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define HUGE_LEN   (4 * MiB)

/* -1: the kernel has none. */
static long huge_pages(const char *which)
{
	char path[96];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), HUGE_PAGES "%s", which);
	f = fopen(path, "r");
	if (f) {
		assert_int_equal(fscanf(f, "%ld", &n), 1);
		fclose(f);
	}
	return n;
}

static void set_huge_pages(long n)
{
	FILE *f = fopen(HUGE_PAGES "nr_hugepages", "w");

	assert_non_null(f);
	fprintf(f, "%ld", n);
	assert_ok(fclose(f));
}

/* That this process has mapped. */
static long own_huge_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = -1;

	assert_non_null(f);
	while (n < 0 && fgets(line, sizeof(line), f))
		(void)sscanf(line, "HugetlbPages: %ld", &n);
	fclose(f);
	return n;
}

static struct slime_mem *alloc(struct end *e, enum slime_huge_pages huge)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;

	attr.huge = huge;
	assert_ok(slime_mem_alloc(e->ctx, HUGE_LEN, &attr, &mem));
	return mem;
}

/* Between huge pages of both ends; that of b for reading only, which seals it. */
static void move_huge(enum slime_transport transport)
{
	enum slime_transport before = fixture_transport;
	struct slime_mem *near, *far;
	struct slime_mr *a, *b;
	struct slime_remote_mr remote;
	struct slime_xfer x;
	struct pair *p;

	fixture_transport = transport;
	p = transport == SLIME_TRANSPORT_RDMA ? wired_open(false) : pair_open(NULL);
	near = alloc(&p->a, SLIME_HUGE_2M);
	far = alloc(&p->b, SLIME_HUGE_2M);
	a = end_mr(&p->a, slime_mem_addr(near), HUGE_LEN, 0);
	b = end_mr(&p->b, slime_mem_addr(far), HUGE_LEN, SLIME_ACCESS_REMOTE_READ);
	remote = remote_of(b);
	pattern_fill(slime_mem_addr(far), HUGE_LEN, 8, 0);
	x = a_and_b(p, 0, 0, HUGE_LEN);
	x.local = a;
	x.remote = &remote;
	assert_ok(read_now(p, &x));
	assert_pattern(slime_mem_addr(near), HUGE_LEN, 8, 0);
	assert_ok(slime_mr_destroy(a));
	assert_ok(slime_mr_destroy(b));
	assert_ok(slime_mem_destroy(near));
	assert_ok(slime_mem_destroy(far));
	pair_close(p);
	fixture_transport = before;
}

/* Some of our own, beside what the machine has. */
static int reserve_huge_pages(void **state)
{
	static long before;

	before = huge_pages("nr_hugepages");
	if (before >= 0)
		set_huge_pages(before + 4 * (long)(HUGE_LEN / (2 * MiB)));
	*state = &before;
	return 0;
}

static int give_huge_pages_back(void **state)
{
	const long *before = *state;

	if (*before >= 0)
		set_huge_pages(*before);
	return 0;
}

/* Memory may be too scattered for them. */
static void need_huge_pages(void)
{
	if (huge_pages("free_hugepages") >= 4)
		return;
	print_message("%ld of %ld huge pages are free\n", huge_pages("free_hugepages"),
		      huge_pages("nr_hugepages"));
	skip();
}

static void huge_pages__are_moved_over_each_transport(void **state)
{
	(void)state;
	need_huge_pages();
	move_huge(SLIME_TRANSPORT_RDMA);
	move_huge(SLIME_TRANSPORT_SHM);
	move_huge(SLIME_TRANSPORT_TCP);
}

static void huge_pages__that_are_free_are_taken_by_default(void **state)
{
	struct end e = { 0 };
	struct slime_mem *mem;

	(void)state;
	need_huge_pages();
	assert_ok(slime_context_create(NULL, &e.ctx));
	mem = alloc(&e, SLIME_HUGE_AUTO);
	assert_int_equal(own_huge_kib(), HUGE_LEN / KiB);
	assert_ok(slime_mem_destroy(mem));
	assert_int_equal(own_huge_kib(), 0);
	assert_ok(slime_context_destroy(e.ctx));
}

#define HUGE(fn)  cmocka_unit_test_setup_teardown(fn, reserve_huge_pages, give_huge_pages_back)
#define WIRED(fn) cmocka_unit_test_setup_teardown(fn, wired_setup, wired_teardown)

static const struct CMUnitTest tests[] = {
	WIRED(on_demand__works_where_it_is_offered_and_is_refused_elsewhere),
	WIRED(device_memory__that_its_address_reaches_is_moved),
	WIRED(device_memory__that_no_address_reaches_names_what_is_missing),
	WIRED(dmabuf__that_the_device_refuses_names_what_is_missing),
	HUGE(huge_pages__are_moved_over_each_transport),
	HUGE(huge_pages__that_are_free_are_taken_by_default),
};

int main(int argc, char **argv)
{
	return wired_main(argc, argv, "memory", tests, sizeof(tests) / sizeof(tests[0]));
}
