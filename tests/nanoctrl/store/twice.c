/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a list that have some twice, as a scan of Redis may: who asked is told of each once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#ifdef NANOCTRL_COMPAT
#include "compat/peer.h"
#include "compat/script.h"
#endif
#include "store/script.h"
#include "tests/nanoctrl/store/fake_store.h"

#define TURNS_MAX 100

/* ---- what Redis answers ---- */

static const char *batches[3]; /* one after the other */
static unsigned n_asked;
static const struct script *asked_for;

static redisReply *answer(size_t n, const struct fake_word *words)
{
	if (n < 2 || strcmp(words[1].at, asked_for->sha1) != 0)
		return fake_reply("-ERR of no interest here\r\n");
	assert_in_range(n_asked, 0, 2);
	return fake_reply(batches[n_asked++]);
}

/* ---- who asks ---- */

struct stage {
	struct fake_store s;
	char names[64]; /* of whom it was told, a blank behind each */
	bool done;
};

static int setup(void **state)
{
	struct store_config config = STORE_CONFIG_INIT;
	struct stage *s = calloc(1, sizeof(*s));

	*state = s;
	n_asked = 0;
	fake_store_open(&s->s, &config, answer);
	return 0;
}

static int teardown(void **state)
{
	struct stage *s = *state;

	fake_store_close(&s->s);
	free(s);
	return 0;
}

static void run(struct stage *s)
{
	/* The reaper's timer ends each. */
	for (int i = 0; i < TURNS_MAX && !s->done; i++)
		event_base_loop(loop_base(s->s.loop), EVLOOP_ONCE);
	assert_true(s->done);
}

static void told(struct stage *s, const char *name, size_t len)
{
	size_t at = strlen(s->names);

	snprintf(s->names + at, sizeof(s->names) - at, "%.*s ", (int)len, name);
}

#ifdef NANOCTRL_COMPAT
static void on_peers(void *arg, int result, const struct store_peer_list *found)
{
	struct stage *s = arg;

	assert_int_equal(result, 0);
	for (size_t i = 0; i < found->n; i++)
		told(s, found->peers[i].name.at, found->peers[i].name.len);
	s->done = !found->more;
}

#define AGENT(name) "*2\r\n$1\r\n" name "\r\n$1\r\nx\r\n"

static void list__of_agents_that_comes_to_one_twice_has_it_once(void **state)
{
	struct stage *s = *state;

	asked_for = &compat_scripts[COMPAT_PEER_LIST];
	batches[0] = "*5\r\n:0\r\n*2\r\n" AGENT("a") AGENT("b") ":0\r\n$1\r\n5\r\n*0\r\n";
	batches[1] = "*5\r\n:0\r\n*1\r\n" AGENT("b") ":0\r\n$1\r\n7\r\n*1\r\n$1\r\nd\r\n";
	batches[2] = "*5\r\n:0\r\n*3\r\n" AGENT("c") AGENT("a") AGENT("d") ":0\r\n$0\r\n\r\n*0\r\n";
	store_list_peers(s->s.store, (struct store_text){ "", 0 }, on_peers, s);
	run(s);
	assert_string_equal(s->names, "a b c d ");
}
#endif

static void on_page(void *arg, int result, const struct store_page *page)
{
	struct stage *s = arg;

	assert_int_equal(result, 0);
	for (size_t i = 0; i < page->n_objects; i++) {
		told(s, page->objects[i].agent, 1);
		told(s, page->objects[i].name, strlen(page->objects[i].name));
	}
	assert_string_equal(page->next, "n");
	s->done = true;
}

#define PAGE(n) "*9\r\n:0\r\n:5\r\n:9\r\n:1\r\n$1\r\nn\r\n:0\r\n*" #n "\r\n"
#define REGION(agent, name) \
	"*5\r\n$1\r\n" agent "\r\n:3\r\n$1\r\ni\r\n$1\r\n" name "\r\n$8\r\n1 1 2\n{}\r\n"
#define REST "*0\r\n*3\r\n$1\r\nb\r\n$1\r\n3\r\n$1\r\n7\r\n"

/* What two agents call the same are two. */
static void page__of_objects_that_comes_to_one_twice_has_it_once(void **state)
{
	struct stage *s = *state;

	asked_for = &scripts[SCRIPT_OBJECTS];
	batches[0] = PAGE(2) REGION("a", "x") REGION("b", "x") REST;
	batches[1] = PAGE(2) REGION("b", "y") REGION("b", "x") REST;
	batches[2] = PAGE(2) REGION("b", "y") REGION("b", "z") "*0\r\n*0\r\n";
	store_list(s->s.store, "s", STORE_REGION, "", 10, true, on_page, s);
	run(s);
	assert_string_equal(s->names, "a x b x b y b z ");
}

static void on_offers(void *arg, int result, const struct store_cursor *cursor,
		      const struct store_offer *offers, size_t n)
{
	struct stage *s = arg;

	assert_int_equal(result, 0);
	assert_int_equal(cursor->id, 9); /* before the first batch */
	for (size_t i = 0; i < n; i++) {
		told(s, offers[i].from, 1);
		told(s, offers[i].profile, 1);
	}
	s->done = true;
}

#define OFFERS(cursor, n) "*5\r\n:0\r\n:5\r\n:" #cursor "\r\n*" #n "\r\n"
#define OFFER(from, profile)                                              \
	"*4\r\n$1\r\n" from "\r\n$1\r\nb\r\n$1\r\n" profile "\r\n$10\r\n" \
	"1 2 i 3 i\n\r\n"

static void list__of_offers_that_comes_to_one_twice_has_it_once(void **state)
{
	static const struct store_lease lease = { "b", 7, "0011" };
	struct stage *s = *state;

	asked_for = &scripts[SCRIPT_OFFER_LIST];
	batches[0] = OFFERS(9, 2) OFFER("a", "p") OFFER("c", "p") "$1\r\n7\r\n";
	batches[1] = OFFERS(10, 0) "$1\r\n8\r\n";
	batches[2] = OFFERS(11, 3) OFFER("c", "p") OFFER("c", "q") OFFER("d", "p") "$0\r\n\r\n";
	store_list_offers(s->s.store, "s", &lease, on_offers, s);
	run(s);
	assert_string_equal(s->names, "a p c p c q d p ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef NANOCTRL_COMPAT
		TEST(list__of_agents_that_comes_to_one_twice_has_it_once),
#endif
		TEST(page__of_objects_that_comes_to_one_twice_has_it_once),
		TEST(list__of_offers_that_comes_to_one_twice_has_it_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
