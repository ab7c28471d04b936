/* SPDX-License-Identifier: Apache-2.0 */
/* The store of pages at its owner, without peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "pages/src/store.h"

#define assert_ok(expr) assert_int_equal((expr), 0)

#define SLAB  PAGE_SLAB_MIN
#define SMALL 65536
#define LARGE (1024 * 1024)

static const uint32_t classes[] = { SMALL, LARGE };

struct store {
	uint8_t *mem;
	struct page_store *s;
};

static int setup_with(void **state, unsigned n_slabs, unsigned n_classes)
{
	struct store *t = calloc(1, sizeof(*t));
	struct page_store_attr attr = { .size = n_slabs * (SLAB + PAGE_ALIGNMENT),
					.classes = classes,
					.n_classes = n_classes,
					.high_percent = 100,
					.low_percent = 100 };

	t->mem = aligned_alloc(PAGE_ALIGNMENT, attr.size);
	attr.mem = t->mem;
	assert_ok(page_store_create(&attr, &t->s));
	*state = t;
	return 0;
}

/* 4 slabs: 128 small pages, or 8 large ones. */
static int setup(void **state)
{
	return setup_with(state, 4, 2);
}

static int teardown(void **state)
{
	struct store *t = *state;

	page_store_destroy(t->s);
	free(t->mem);
	free(t);
	return 0;
}

static int commit(struct store *t, uint32_t page, uint64_t offset, uint32_t len)
{
	return page_store_commit(t->s, page, page_checksum(t->mem + offset, len), false);
}

static int put_with(struct store *t, const char *key, int byte, uint32_t len, bool replace)
{
	uint64_t offset;
	uint32_t page;
	int ret = page_store_reserve(t->s, key, strlen(key), len, replace, &page, &offset);

	if (ret)
		return ret;
	memset(t->mem + offset, byte, len);
	return page_store_commit(t->s, page, page_checksum(t->mem + offset, len), replace);
}

static int put(struct store *t, const char *key, int byte)
{
	return put_with(t, key, byte, SMALL, false);
}

static bool find(struct store *t, const char *key, struct page_place *place)
{
	bool found;

	page_store_lock(t->s);
	found = page_store_find_locked(t->s, key, strlen(key), true, place);
	page_store_unlock(t->s);
	return found;
}

/* As a reader sees it: whether the header and the bytes are those of the key at that place. */
static bool reads(struct store *t, const char *key, const struct page_place *place, int byte)
{
	struct page_identity wanted = { .generation = place->generation,
					.hash = page_hash(key, strlen(key), page_store_seed(t->s)),
					.len = place->len };
	struct page_header copy;

	memcpy(&copy, t->mem + place->header, sizeof(copy));
	for (uint32_t i = 0; i < place->len; i++)
		if (t->mem[place->page + i] != (uint8_t)byte)
			return false;
	return page_is(&copy, &wanted) &&
	       page_seal(&wanted, page_checksum(t->mem + place->page, place->len)) == copy.seal;
}

static const char *name(char *to, unsigned i)
{
	sprintf(to, "key-%u", i);
	return to;
}

static void fill(struct store *t, unsigned from, unsigned n)
{
	char key[16];

	for (unsigned i = from; i < from + n; i++)
		assert_ok(put(t, name(key, i), (int)i));
}

static unsigned n_there(struct store *t, unsigned from, unsigned n)
{
	struct page_place place;
	unsigned there = 0;
	char key[16];

	for (unsigned i = from; i < from + n; i++)
		there += find(t, name(key, i), &place) && reads(t, key, &place, (int)i);
	return there;
}

static void commit__makes_a_page_found_with_its_bytes(void **state)
{
	struct store *t = *state;
	struct page_place place;

	assert_false(find(t, "a", &place));
	assert_ok(put(t, "a", 7));
	assert_true(find(t, "a", &place));
	assert_true(reads(t, "a", &place, 7));
	assert_int_equal(place.generation % 2, 0);
}

static void reserve__of_a_key_that_is_there_is_refused_unless_it_replaces(void **state)
{
	struct store *t = *state;
	struct page_place old, new;

	assert_ok(put(t, "a", 1));
	assert_true(find(t, "a", &old));
	assert_int_equal(put(t, "a", 2), -EEXIST);
	assert_ok(put_with(t, "a", 2, SMALL, true));
	assert_true(find(t, "a", &new));
	assert_true(reads(t, "a", &new, 2));
	assert_false(reads(t, "a", &old, 1));
}

static void commit__of_the_slower_of_two_writers_is_refused(void **state)
{
	struct store *t = *state;
	struct page_store_stat stat;
	struct page_place place;
	uint64_t offset[2];
	uint32_t page[2];

	for (int i = 0; i < 2; i++) {
		assert_ok(page_store_reserve(t->s, "a", 1, SMALL, false, &page[i], &offset[i]));
		memset(t->mem + offset[i], i, SMALL);
	}
	assert_ok(commit(t, page[1], offset[1], SMALL));
	assert_int_equal(commit(t, page[0], offset[0], SMALL), -EEXIST);
	assert_true(find(t, "a", &place));
	assert_true(reads(t, "a", &place, 1));
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.pages, 1);
	assert_int_equal(stat.filling, 0);
	assert_int_equal(stat.used, SMALL);
}

static void commit__of_bytes_that_the_writer_did_not_have_is_refused(void **state)
{
	struct store *t = *state;
	struct page_store_stat stat;
	uint64_t offset, checksum;
	struct page_place place;
	uint32_t page;

	assert_ok(put(t, "a", 1));
	assert_ok(page_store_reserve(t->s, "a", 1, SMALL, true, &page, &offset));
	memset(t->mem + offset, 2, SMALL);
	checksum = page_checksum(t->mem + offset, SMALL);
	t->mem[offset + SMALL - 1] = 3;
	assert_int_equal(page_store_commit(t->s, page, checksum, true), -EIO);
	assert_true(find(t, "a", &place));
	assert_true(reads(t, "a", &place, 1));
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.filling, 0);
	assert_int_equal(stat.used, SMALL);
}

/* A reader that is held up between two words of a header may see the seal of the next page there.
 */
static void seal__of_another_page_fits_no_bytes(void **state)
{
	const struct page_identity a = { .generation = 2, .hash = { 1, 2 }, .len = SMALL };
	struct page_identity b = a;

	(void)state;
	assert_true(page_seal(&a, 7) == page_seal(&b, 7));
	assert_false(page_seal(&a, 7) == page_seal(&b, 8));
	b.generation = 4;
	assert_false(page_seal(&a, 7) == page_seal(&b, 7));
	b = a, b.hash.high = 3;
	assert_false(page_seal(&a, 7) == page_seal(&b, 7));
	b = a, b.len--;
	assert_false(page_seal(&a, 7) == page_seal(&b, 7));
}

/* Whatever vectors the CPU has. */
static void checksum__is_that_of_xxh3_whole_and_in_pieces(void **state)
{
	static uint8_t bytes[300000];
	struct page_sum *sum = page_sum_create();

	(void)state;
	assert_non_null(sum);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	for (size_t len = 0; len <= sizeof(bytes); len += len < 2100 ? 1 : 50001) {
		uint64_t right = XXH3_64bits(bytes, len);

		assert_true(page_checksum(bytes, len) == right);
		page_sum_begin(sum);
		page_sum_add(sum, bytes, len / 3);
		page_sum_add(sum, bytes + len / 3, len - len / 3);
		assert_true(page_sum_end(sum) == right);
	}
	page_sum_destroy(sum);
}

static void abort__leaves_nothing_behind(void **state)
{
	struct store *t = *state;
	struct page_store_stat stat;
	struct page_place place;
	uint64_t offset;
	uint32_t page;

	assert_ok(page_store_reserve(t->s, "a", 1, SMALL, false, &page, &offset));
	assert_false(find(t, "a", &place));
	page_store_abort(t->s, page);
	assert_false(find(t, "a", &place));
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.used, 0);
	assert_int_equal(stat.filling, 0);
}

static void delete__changes_the_generation_before_the_page_is_used_again(void **state)
{
	struct store *t = *state;
	struct page_place place;

	assert_ok(put(t, "a", 1));
	assert_true(find(t, "a", &place));
	assert_ok(page_store_delete(t->s, "a", 1));
	assert_false(reads(t, "a", &place, 1));
	assert_int_equal(page_store_delete(t->s, "a", 1), -ENOENT);
}

static void reserve__of_bad_keys_and_lengths_is_refused(void **state)
{
	struct store *t = *state;
	char key[PAGE_KEY_MAX + 1];
	uint64_t offset;
	uint32_t page;

	memset(key, 'k', sizeof(key));
	assert_int_equal(page_store_reserve(t->s, key, 0, 1, false, &page, &offset), -EINVAL);
	assert_int_equal(page_store_reserve(t->s, key, sizeof(key), 1, false, &page, &offset),
			 -EINVAL);
	assert_int_equal(page_store_reserve(t->s, key, 1, LARGE + 1, false, &page, &offset),
			 -EMSGSIZE);
	assert_ok(page_store_reserve(t->s, key, PAGE_KEY_MAX, LARGE, false, &page, &offset));
	assert_ok(commit(t, page, offset, LARGE));
	assert_ok(page_store_delete(t->s, key, PAGE_KEY_MAX));
}

static void put__into_a_full_store_evicts_and_never_shows_other_bytes(void **state)
{
	struct store *t = *state;
	struct page_store_stat stat;

	fill(t, 0, 128);
	assert_int_equal(n_there(t, 0, 128), 128);
	fill(t, 128, 100);
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.pages, 128);
	assert_int_equal(stat.gone[PAGE_GONE_EVICTED], 100);
	assert_int_equal(n_there(t, 0, 228), 128);
}

/* S3-FIFO: pages that were found stay, those that nobody asked for go. */
static void eviction__keeps_what_is_used(void **state)
{
	struct store *t = *state;

	fill(t, 0, 128);
	for (int i = 0; i < 2; i++)
		assert_int_equal(n_there(t, 0, 16), 16);
	fill(t, 128, 200);
	assert_int_equal(n_there(t, 0, 16), 16);
}

static void pin__keeps_pages_until_they_are_unpinned_or_its_time_is_over(void **state)
{
	struct store *t = *state;
	uint64_t later = sl_clock_ns() + 1000 * SL_NS_PER_S;

	fill(t, 0, 4);
	for (char i = '0'; i < '4'; i++)
		assert_ok(page_store_pin(t->s, (char[]){ 'k', 'e', 'y', '-', i }, 5,
					 i == '3' ? 1 : later));
	assert_int_equal(page_store_pin(t->s, "none", 4, later), -ENOENT);
	fill(t, 4, 300);
	assert_int_equal(n_there(t, 0, 3), 3);
	assert_ok(page_store_unpin(t->s, "key-0", 5));
	assert_int_equal(page_store_unpin(t->s, "key-0", 5), -ENOENT);
}

static void reserve__with_every_page_pinned_or_filling_has_no_room(void **state)
{
	struct store *t = *state;
	uint64_t offset, later = sl_clock_ns() + 1000 * SL_NS_PER_S;
	struct page_store_stat stat;
	uint32_t page[64], one_more;
	char key[16];

	fill(t, 0, 64);
	for (unsigned i = 0; i < 64; i++)
		assert_ok(page_store_pin(t->s, name(key, i), strlen(name(key, i)), later));
	fill(t, 64, 1);
	assert_int_equal(page_store_pin(t->s, "key-64", 6, later), -ENOSPC);
	assert_ok(page_store_delete(t->s, "key-64", 6));
	for (unsigned i = 0; i < 64; i++)
		assert_ok(page_store_reserve(t->s, name(key, 100 + i), 7, SMALL, false, &page[i],
					     &offset));
	assert_int_equal(page_store_reserve(t->s, "x", 1, SMALL, false, &one_more, &offset),
			 -ENOSPC);
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.refused, 1);
	assert_int_equal(n_there(t, 0, 64), 64);
	for (unsigned i = 0; i < 64; i++)
		page_store_abort(t->s, page[i]);
}

static void reserve__of_another_length_takes_a_slab_from_the_class_that_has_all(void **state)
{
	struct store *t = *state;
	struct page_store_stat stat;
	struct page_place place;

	fill(t, 0, 128);
	assert_ok(put_with(t, "large", 9, LARGE, false));
	assert_true(find(t, "large", &place));
	assert_true(reads(t, "large", &place, 9));
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.gone[PAGE_GONE_SLAB], 32);
	assert_int_equal(n_there(t, 0, 128), 96);
}

static void clear__deletes_all(void **state)
{
	struct store *t = *state;
	struct page_store_stat stat;

	fill(t, 0, 50);
	assert_int_equal(page_store_clear(t->s), 50);
	assert_int_equal(n_there(t, 0, 50), 0);
	page_store_stat(t->s, &stat);
	assert_int_equal(stat.used, 0);
	fill(t, 0, 50);
	assert_int_equal(n_there(t, 0, 50), 50);
}

static void commit__above_the_high_mark_evicts_down_to_the_low_one(void **state)
{
	struct page_store_attr attr = { .size = 4 * (SLAB + PAGE_ALIGNMENT),
					.classes = classes,
					.n_classes = 1,
					.high_percent = 90,
					.low_percent = 50 };
	struct page_store_stat stat;
	struct store t;

	(void)state;
	t.mem = aligned_alloc(PAGE_ALIGNMENT, attr.size);
	attr.mem = t.mem;
	assert_ok(page_store_create(&attr, &t.s));
	fill(&t, 0, 116);
	page_store_stat(t.s, &stat);
	assert_true(stat.used <= stat.size * 50 / 100);
	page_store_destroy(t.s);
	free(t.mem);
}

/* Random work beside a model: what is found has the bytes of its last put, and places of before
 * never pass for something else. */
static void random_work__agrees_with_a_model(void **state)
{
	struct store *t = *state;
	struct page_place place[64] = { 0 };
	int byte[64] = { 0 }; /* 0: never put, or deleted */
	unsigned seed = 7;
	char key[16];

	for (int i = 0; i < 20000; i++) {
		unsigned k = (unsigned)rand_r(&seed) % 64, what = (unsigned)rand_r(&seed) % 8;
		uint32_t len = what & 1 ? SMALL : SMALL / 2;

		name(key, k);
		if (place[k].generation && byte[k] && reads(t, key, &place[k], byte[k]))
			assert_true(find(t, key, &place[k]));
		if (what < 4) {
			int value = 1 + rand_r(&seed) % 255;

			if (!put_with(t, key, value, what == 3 ? LARGE : len, what & 2))
				byte[k] = value;
		} else if (what == 4) {
			if (!page_store_delete(t->s, key, strlen(key)))
				byte[k] = 0;
		} else if (find(t, key, &place[k])) {
			assert_true(reads(t, key, &place[k], byte[k]));
		}
	}
}

static void create__with_attributes_that_make_no_sense_is_refused(void **state)
{
	static const uint32_t same[] = { 4096, 4096 }, zero[] = { 0 };
	const struct page_store_attr good = { .mem = (void *)(uintptr_t)PAGE_ALIGNMENT,
					      .size = 64 << 20,
					      .classes = classes,
					      .n_classes = 2,
					      .high_percent = 90,
					      .low_percent = 80 };
	struct page_store_attr attr;
	struct page_store *s;

	(void)state;
	attr = good, attr.n_classes = 0;
	assert_int_equal(page_store_create(&attr, &s), -EINVAL);
	attr = good, attr.classes = same;
	assert_int_equal(page_store_create(&attr, &s), -EINVAL);
	attr = good, attr.classes = zero, attr.n_classes = 1;
	assert_int_equal(page_store_create(&attr, &s), -EINVAL);
	attr = good, attr.low_percent = 95;
	assert_int_equal(page_store_create(&attr, &s), -EINVAL);
	attr = good, attr.high_percent = 101;
	assert_int_equal(page_store_create(&attr, &s), -EINVAL);
	attr = good, attr.size = SLAB;
	assert_int_equal(page_store_create(&attr, &s), -EINVAL);
}

/* Of 40 slabs 20 have a page that is being filled: the search for another one is cut, and goes on.
 */
static void reserve__of_another_length_finds_a_slab_behind_many_that_are_in_use(void **state)
{
	enum { IN_USE = 20, ALL = 40 };
	struct store *t;
	uint64_t offset;
	uint32_t page;
	char key[32];
	int ret = -ENOSPC;

	setup_with(state, ALL, 2);
	t = *state;
	for (int slab = 0; slab < ALL; slab++) {
		for (int i = 0; i < (int)(SLAB / SMALL); i++) {
			snprintf(key, sizeof(key), "%d/%d", slab, i);
			if (i || slab >= IN_USE)
				assert_ok(put(t, key, 1));
			else
				assert_ok(page_store_reserve(t->s, key, strlen(key), SMALL, false,
							     &page, &offset));
		}
	}
	for (int i = 0; i < 3 && ret == -ENOSPC; i++)
		ret = put_with(t, "large", 2, LARGE, false);
	assert_ok(ret);
	teardown(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(commit__makes_a_page_found_with_its_bytes),
		CASE(reserve__of_a_key_that_is_there_is_refused_unless_it_replaces),
		CASE(commit__of_the_slower_of_two_writers_is_refused),
		CASE(commit__of_bytes_that_the_writer_did_not_have_is_refused),
		cmocka_unit_test(seal__of_another_page_fits_no_bytes),
		cmocka_unit_test(checksum__is_that_of_xxh3_whole_and_in_pieces),
		CASE(abort__leaves_nothing_behind),
		CASE(delete__changes_the_generation_before_the_page_is_used_again),
		CASE(reserve__of_bad_keys_and_lengths_is_refused),
		CASE(put__into_a_full_store_evicts_and_never_shows_other_bytes),
		CASE(eviction__keeps_what_is_used),
		CASE(pin__keeps_pages_until_they_are_unpinned_or_its_time_is_over),
		CASE(reserve__with_every_page_pinned_or_filling_has_no_room),
		CASE(reserve__of_another_length_takes_a_slab_from_the_class_that_has_all),
		cmocka_unit_test(
			reserve__of_another_length_finds_a_slab_behind_many_that_are_in_use),
		CASE(clear__deletes_all),
		cmocka_unit_test(commit__above_the_high_mark_evicts_down_to_the_low_one),
		CASE(random_work__agrees_with_a_model),
		cmocka_unit_test(create__with_attributes_that_make_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
