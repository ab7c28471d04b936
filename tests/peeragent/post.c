/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/lib/links/peer.h"
#include "peeragent/lib/plan/post.h"

static void decode__gives_back_what_was_encoded(void **state)
{
	static const struct post posts[] = {
		{ POST_WANT, true, 0, "", 0 },
		{ POST_WANT, true, 7, "closed by the peer", 18 },
		{ POST_OFFER, true, POST_ATTEMPT_MAX, "desc", 4 },
		{ POST_ANSWER, false, 1, "d", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
		uint8_t buf[POST_MAX];
		struct post got;
		size_t len = post_encode(&posts[i], buf);

		assert_int_equal(post_decode(buf, len, &got), 0);
		assert_int_equal(got.kind, posts[i].kind);
		assert_int_equal(got.wants, posts[i].wants);
		assert_true(got.attempt == posts[i].attempt);
		assert_int_equal(got.desc_len, posts[i].desc_len);
		assert_memory_equal(got.desc, posts[i].desc, got.desc_len);
	}
}

static void decode__refuses_what_is_malformed(void **state)
{
	uint8_t longest[POST_MAX + 1] = { 1, POST_OFFER };
	static const struct {
		uint8_t bytes[16];
		size_t len;
	} bad[] = {
		{ { 0 }, 0 },
		{ { 1, POST_OFFER, 0, 0, 1, 0, 0, 0, 0, 0, 0 }, 11 },	      /* cut in the head */
		{ { 1, POST_OFFER, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0 }, 12 },      /* no descriptor */
		{ { 2, POST_OFFER, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'd' }, 13 }, /* version */
		{ { 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'd' }, 13 },	      /* kind */
		{ { 1, POST_ANSWER + 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'd' }, 13 },
		{ { 1, POST_OFFER, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'd' }, 13 },  /* flags */
		{ { 1, POST_OFFER, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 'd' }, 13 }, /* attempt 2^53 */
	};
	struct post got;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(post_decode(bad[i].bytes, bad[i].len, &got), -EPROTO);
	assert_int_equal(post_decode(longest, POST_MAX, &got), 0);
	assert_int_equal(post_decode(longest, POST_MAX + 1, &got), -EPROTO);
	longest[1] = POST_WANT;
	assert_int_equal(post_decode(longest, POST_MAX, &got), 0);
	assert_int_equal(post_decode(longest, POST_MAX + 1, &got), -EPROTO);
}

static void peer__news_are_told_by_epoch_generation_and_incarnation(void **state)
{
	struct peer *p = peer_create("node-b");

	(void)state;
	assert_non_null(p);
	assert_int_equal(peer_update(p, "one", 5, 10), PEER_INCARNATION);
	assert_int_equal(peer_update(p, "one", 5, 10), PEER_SAME);
	assert_int_equal(peer_update(p, "one", 5, 11), PEER_AGAIN);
	assert_int_equal(peer_update(p, "old", 5, 10), PEER_OLD);
	assert_int_equal(peer_update(p, "two", 5, 12), PEER_INCARNATION);
	assert_int_equal(peer_update(p, "two", 6, 1), PEER_AGAIN);
	assert_int_equal(peer_update(p, "two", 5, 99), PEER_OLD);
	peer_destroy(p);
}

static void peer__that_ended_does_not_come_back_by_late_answers(void **state)
{
	struct peer *p = peer_create("node-b");

	(void)state;
	assert_non_null(p);
	peer_update(p, "one", 5, 10);
	assert_false(peer_end(p, 5, 9));
	assert_true(p->up);
	assert_true(peer_end(p, 5, 10));
	assert_false(p->up);
	assert_int_equal(peer_update(p, "one", 5, 10), PEER_OLD);
	assert_int_equal(peer_update(p, "one", 5, 11), PEER_AGAIN);
	assert_true(p->up);
	peer_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decode__gives_back_what_was_encoded),
		cmocka_unit_test(decode__refuses_what_is_malformed),
		cmocka_unit_test(peer__news_are_told_by_epoch_generation_and_incarnation),
		cmocka_unit_test(peer__that_ended_does_not_come_back_by_late_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
