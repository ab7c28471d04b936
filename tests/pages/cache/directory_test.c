/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of slime-cache: slabs, pieces, and what is given back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cache/directory.h"

#define SLAB (UINT64_C(128) << 10)

static struct directory *make(uint64_t n_slabs)
{
	struct directory *d;

	assert_int_equal(directory_create(SLAB, n_slabs * SLAB, &d), 0);
	return d;
}

static const struct directory_manifest *store(struct directory *d, const char *peer,
					      uint64_t length)
{
	const struct directory_piece piece = { .mr_key = 7,
					       .remote_mr_key = UINT64_MAX,
					       .target_offset = 3,
					       .source_offset = 4,
					       .length = length };
	const struct directory_manifest *m;

	assert_int_equal(directory_store(d, peer, &piece, 1, &m), 0);
	return m;
}

static void assert_stats(const struct directory *d, uint64_t used, uint64_t n_peers,
			 uint64_t n_entries, uint64_t bytes)
{
	struct directory_stats s;

	directory_stats(d, &s);
	assert_int_equal(s.used, used);
	assert_int_equal(s.n_peers, n_peers);
	assert_int_equal(s.n_entries, n_entries);
	assert_int_equal(s.bytes, bytes);
}

static void create__of_sizes_beyond_the_bounds_is_refused(void **state)
{
	struct directory *d;

	(void)state;
	assert_int_equal(directory_create(SLAB - 1, 0, &d), -EINVAL);
	assert_int_equal(directory_create(2 * DIRECTORY_SLAB_MAX, 0, &d), -EINVAL);
	assert_int_equal(directory_create(SLAB, SLAB + 1, &d), -EINVAL);
	assert_int_equal(directory_create(SLAB, (DIRECTORY_SLABS_MAX + 1) * SLAB, &d), -EINVAL);
}

static void store__cuts_at_slabs_that_leave_in_order(void **state)
{
	struct directory *d = make(8);
	const struct directory_manifest *m = store(d, "a", 2 * SLAB + 5);

	(void)state;
	assert_int_equal(m->version, 1);
	assert_int_equal(m->n_pieces, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(m->slabs[i], i);
		assert_int_equal(m->pieces[i].source_offset, i * SLAB);
		assert_int_equal(m->pieces[i].target_offset, 3 + i * SLAB);
		assert_true(m->pieces[i].remote_mr_key == UINT64_MAX);
		assert_int_equal(m->pieces[i].length, i < 2 ? SLAB : 5);
	}
	assert_stats(d, 3, 1, 1, 2 * SLAB + 5);
	directory_destroy(d);
}

static void store__of_no_bytes_takes_a_slab(void **state)
{
	struct directory *d = make(2);
	const struct directory_manifest *m = store(d, "a", 0);

	(void)state;
	assert_int_equal(m->n_pieces, 1);
	assert_int_equal(m->pieces[0].length, 0);
	assert_stats(d, 1, 1, 1, 0);
	directory_destroy(d);
}

static void store__without_memory_keeps_offsets(void **state)
{
	struct directory *d = make(0);
	const struct directory_manifest *m = store(d, "a", SLAB + 1);

	(void)state;
	assert_null(m->slabs);
	assert_int_equal(m->pieces[1].source_offset, 4 + SLAB);
	assert_int_equal(m->pieces[1].length, 1);
	assert_stats(d, 2, 1, 1, SLAB + 1);
	directory_destroy(d);
}

static void store__beyond_the_free_slabs_takes_none(void **state)
{
	const struct directory_piece pieces[2] = { { .length = SLAB }, { .length = 2 * SLAB } };
	struct directory *d = make(3);
	const struct directory_manifest *m;

	(void)state;
	store(d, "a", 1);
	assert_int_equal(directory_store(d, "b", pieces, 2, &m), -ENOSPC);
	assert_stats(d, 1, 1, 1, 1);
	assert_int_equal(directory_store(d, "b", &pieces[1], 1, &m), 0);
	assert_int_equal(m->version, 2); /* what failed has none */
	directory_destroy(d);
}

static void store__of_a_length_beyond_all_bounds_is_too_big(void **state)
{
	const struct directory_piece piece = { .length = UINT64_MAX };
	struct directory *d = make(0);
	const struct directory_manifest *m;

	(void)state;
	assert_int_equal(directory_store(d, "a", &piece, 1, &m), -E2BIG);
	assert_stats(d, 0, 0, 0, 0);
	directory_destroy(d);
}

static void store__without_memory_has_a_bound(void **state)
{
	const struct directory_piece piece = { .length = DIRECTORY_STORE_MAX * SLAB };
	struct directory *d = make(0);
	const struct directory_manifest *m;

	(void)state;
	for (uint64_t i = 0; i < DIRECTORY_ENTRIES_MAX / DIRECTORY_STORE_MAX; i++)
		assert_int_equal(directory_store(d, "a", &piece, 1, &m), 0);
	assert_int_equal(directory_store(d, "a", &piece, 1, &m), -ENOSPC);
	assert_true(directory_delete(d, "a", 1));
	assert_int_equal(directory_store(d, "a", &piece, 1, &m), 0);
	directory_destroy(d);
}

static void store__without_a_fit_name_is_refused(void **state)
{
	char name[DIRECTORY_PEER_MAX + 2];
	struct directory *d = make(1);
	const struct directory_manifest *m;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(directory_store(d, "", NULL, 0, &m), -EINVAL);
	assert_int_equal(directory_store(d, name, NULL, 0, &m), -EINVAL);
	assert_int_equal(directory_store(d, name + 1, NULL, 0, &m), 0);
	directory_destroy(d);
}

static void query__finds_the_manifest_of_its_agent_alone(void **state)
{
	struct directory *d = make(8);
	const struct directory_manifest *a = store(d, "a", 1), *b = store(d, "b", 1);

	(void)state;
	assert_ptr_equal(directory_query(d, "a", 1), a);
	assert_ptr_equal(directory_query(d, "b", 2), b);
	assert_null(directory_query(d, "b", 1));
	assert_null(directory_query(d, "a", 0));
	directory_destroy(d);
}

static void delete__gives_slabs_back_and_forgets_agents(void **state)
{
	struct directory *d = make(8);
	const struct directory_manifest *m;

	(void)state;
	store(d, "a", 3 * SLAB);
	store(d, "b", SLAB);
	assert_false(directory_delete(d, "b", 1));
	assert_true(directory_delete(d, "a", 1));
	assert_false(directory_delete(d, "a", 1));
	assert_stats(d, 1, 1, 1, SLAB);
	m = store(d, "a", 2 * SLAB);
	assert_int_equal(m->slabs[0], 2); /* what came back last leaves first */
	assert_int_equal(m->slabs[1], 1);
	directory_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__of_sizes_beyond_the_bounds_is_refused),
		cmocka_unit_test(store__cuts_at_slabs_that_leave_in_order),
		cmocka_unit_test(store__of_no_bytes_takes_a_slab),
		cmocka_unit_test(store__without_memory_keeps_offsets),
		cmocka_unit_test(store__beyond_the_free_slabs_takes_none),
		cmocka_unit_test(store__of_a_length_beyond_all_bounds_is_too_big),
		cmocka_unit_test(store__without_memory_has_a_bound),
		cmocka_unit_test(store__without_a_fit_name_is_refused),
		cmocka_unit_test(query__finds_the_manifest_of_its_agent_alone),
		cmocka_unit_test(delete__gives_slabs_back_and_forgets_agents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
