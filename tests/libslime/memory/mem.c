/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the library where a control group has less than the machine, and where huge pages are
 * in reserve or not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <slime/slime.h>

#include "base/memory.h"
#include "src/memory/mem.h"
#include "tests/support/log_lines.h"

#define LEFT (UINT64_C(4) << 20)

void __wrap_sl_memory_left(const char *root, struct sl_memory *out);

void __wrap_sl_memory_left(const char *root, struct sl_memory *out)
{
	(void)root;
	*out = (struct sl_memory){ .ram = LEFT / 2, .swap = LEFT / 2 };
}

static bool has_huge_pages;
static int huge_error; /* where it has none */
static unsigned n_asked_for_huge;

int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);

/* Ordinary pages stand for huge ones. */
int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (flags & MFD_HUGETLB) {
		n_asked_for_huge++;
		if (!has_huge_pages) {
			errno = huge_error;
			return -1;
		}
		flags &= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	}
	return __real_memfd_create(name, flags);
}

/* What mbind fails with; 0: it does what it does. */
static int mbind_error;

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_mbind && mbind_error) {
		errno = mbind_error;
		return -1;
	}
	return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static int setup(void **state)
{
	mbind_error = 0;
	has_huge_pages = false;
	huge_error = ENOMEM;
	n_asked_for_huge = 0;
	assert_int_equal(slime_context_create(NULL, (struct slime_context **)state), 0);
	return 0;
}

static int teardown(void **state)
{
	return slime_context_destroy(*state);
}

static void alloc__of_more_than_is_left_is_refused(void **state)
{
	struct slime_mem *mem = NULL;

	assert_int_equal(slime_mem_alloc(*state, LEFT + 1, NULL, &mem), -ENOMEM);

	assert_null(mem);
}

static void alloc__of_all_that_is_left_is_tried(void **state)
{
	struct slime_mem *mem = NULL;

	assert_int_equal(slime_mem_alloc(*state, LEFT, NULL, &mem), 0);

	assert_int_equal(slime_mem_destroy(mem), 0);
}

#define HUGE_PAGE (UINT64_C(2) << 20)

static size_t allocated(void **state, size_t len, enum slime_huge_pages huge)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;
	size_t got;

	attr.huge = huge;
	assert_int_equal(slime_mem_alloc(*state, len, &attr, &mem), 0);
	got = slime_mem_len(mem);
	memset(slime_mem_addr(mem), 1, got);
	assert_int_equal(slime_mem_destroy(mem), 0);
	return got;
}

static void auto__takes_huge_pages_in_reserve(void **state)
{
	has_huge_pages = true;

	assert_int_equal(allocated(state, 2 * HUGE_PAGE - 4096, SLIME_HUGE_AUTO), 2 * HUGE_PAGE);

	assert_int_equal(n_asked_for_huge, 1);
}

static void auto__without_huge_pages_takes_others(void **state)
{
	assert_int_equal(allocated(state, HUGE_PAGE, SLIME_HUGE_AUTO), HUGE_PAGE);

	assert_int_equal(n_asked_for_huge, 1);
}

static void auto__wastes_no_huge_page(void **state)
{
	has_huge_pages = true;

	assert_int_equal(allocated(state, 4096, SLIME_HUGE_AUTO), 4096);
	assert_int_equal(allocated(state, HUGE_PAGE + 4096, SLIME_HUGE_AUTO), HUGE_PAGE + 4096);
	assert_int_equal(allocated(state, HUGE_PAGE, SLIME_HUGE_OFF), HUGE_PAGE);

	assert_int_equal(n_asked_for_huge, 0);
}

static void huge__without_huge_pages_is_refused(void **state)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem = NULL;

	attr.huge = SLIME_HUGE_2M;
	assert_int_equal(slime_mem_alloc(*state, HUGE_PAGE, &attr, &mem), -ENOMEM);
	assert_null(mem);
}

/* As memfd_create(2) has it of who has no CAP_IPC_LOCK. */
static void auto__where_huge_pages_are_forbidden_takes_others(void **state)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;

	huge_error = EPERM;
	assert_int_equal(slime_mem_alloc(*state, HUGE_PAGE, &attr, &mem), 0);
	assert_int_equal(n_asked_for_huge, 1);
	assert_int_equal(slime_mem_destroy(mem), 0);
	attr.huge = SLIME_HUGE_2M;
	assert_int_equal(slime_mem_alloc(*state, HUGE_PAGE, &attr, &mem), -ENOMEM);
}

static void alloc__with_a_long_name_cuts_it(void **state)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;
	char name[1001];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	attr.name = name;
	assert_int_equal(slime_mem_alloc(*state, 4096, &attr, &mem), 0);
	assert_int_equal(slime_mem_destroy(mem), 0);
}

static int allocated_on(void **state, int node)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem = NULL;
	int ret;

	attr.numa_node = node;
	ret = slime_mem_alloc(*state, HUGE_PAGE, &attr, &mem);
	if (!ret)
		assert_int_equal(slime_mem_destroy(mem), 0);
	return ret;
}

static void node__of_a_kernel_without_nodes_is_0(void **state)
{
	mbind_error = ENOSYS;
	assert_int_equal(allocated_on(state, 0), 0);
	assert_int_equal(allocated_on(state, 1), -ENODEV);
	assert_int_equal(allocated_on(state, SLIME_NUMA_ANY), 0);
}

static void node__where_binding_is_forbidden_is_refused_once(void **state)
{
	mbind_error = EPERM;
	has_huge_pages = true;
	log_lines_keep();
	assert_int_equal(allocated_on(state, 0), -EPERM);
	assert_int_equal(log_lines_with("CAP_SYS_NICE"), 1);
	log_lines_release();
	assert_int_equal(allocated_on(state, SLIME_NUMA_ANY), 0);
}

/* The caller's mind. */
struct mind {
	unsigned n_asked;
	unsigned at; /* changes at this question */
};

static bool is_cancelled(void *arg)
{
	struct mind *m = arg;

	return ++m->n_asked >= m->at;
}

static void alloc__that_is_cancelled_ends_before_the_next_part(void **state)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	struct mind before = { .at = 1 }, midway = { .at = 2 }, never = { .at = 100 };
	struct slime_mem *mem = NULL;

	has_huge_pages = true;
	attr.cancelled = is_cancelled;
	attr.arg = &before;
	assert_int_equal(slime_mem_alloc(*state, HUGE_PAGE, &attr, &mem), -ECANCELED);
	assert_int_equal(before.n_asked, 1);
	attr.arg = &midway;
	assert_int_equal(slime_mem_alloc(*state, 40 * HUGE_PAGE, &attr, &mem), -ECANCELED);
	assert_int_equal(midway.n_asked, 2);
	assert_null(mem);
	attr.arg = &never;
	assert_int_equal(slime_mem_alloc(*state, HUGE_PAGE, &attr, &mem), 0);
	assert_int_equal(never.n_asked, 1);
	assert_int_equal(slime_mem_destroy(mem), 0);
}

static int region_of(struct slime_mem *mem, uint32_t access, bool restricted, struct slime_mr **out)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;

	attr.access = access;
	attr.restricted = restricted;
	return slime_mr_create_attr(mem->ctx, slime_mem_addr(mem), 4096, &attr, out);
}

/* Peers map the whole of it, and may keep that when the region is withdrawn. */
static void restricted__region_has_memory_of_its_own(void **state)
{
	struct slime_mr *mr, *other;
	struct slime_mem *mem;

	for (int before = 0; before < 2; before++) {
		assert_int_equal(slime_mem_alloc(*state, 8192, NULL, &mem), 0);
		/* What no peer reaches is no matter. */
		assert_int_equal(region_of(mem, 0, false, &other), 0);
		assert_int_equal(region_of(mem, SLIME_ACCESS_REMOTE_READ, before == 0, &mr), 0);
		for (int gone = 0; gone < 2; gone++) {
			struct slime_mr *no;

			assert_int_equal(region_of(mem, SLIME_ACCESS_REMOTE_READ, true, &no),
					 -EACCES);
			if (before == 0)
				assert_int_equal(
					region_of(mem, SLIME_ACCESS_REMOTE_READ, false, &no),
					-EACCES);
			assert_int_equal(slime_mr_destroy(gone ? other : mr), 0);
		}
		assert_int_equal(slime_mem_destroy(mem), 0);
	}
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(alloc__of_more_than_is_left_is_refused),
		CASE(alloc__of_all_that_is_left_is_tried),
		CASE(auto__takes_huge_pages_in_reserve),
		CASE(auto__without_huge_pages_takes_others),
		CASE(auto__wastes_no_huge_page),
		CASE(huge__without_huge_pages_is_refused),
		CASE(auto__where_huge_pages_are_forbidden_takes_others),
		CASE(alloc__with_a_long_name_cuts_it),
		CASE(node__of_a_kernel_without_nodes_is_0),
		CASE(node__where_binding_is_forbidden_is_refused_once),
		CASE(alloc__that_is_cancelled_ends_before_the_next_part),
		CASE(restricted__region_has_memory_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
