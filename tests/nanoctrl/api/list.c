/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the native API: what a selector lets through, and where pages end. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <string.h>

#define REPORT "{\"revision\":1,\"state\":\"connecting\"}"

/* An agent with a label, a service, a region and a link. */
static void join(struct api_fixture *f, const char *name)
{
	struct api_answer a = { .status = 0 };
	char lease[512], target[200];

	assert_int_equal(api_register(f, name, "i1", OWNER_KEY_A, lease), 201);
	snprintf(target, sizeof(target), "/v1/agents/%s/regions/kv?scope=demo", name);
	assert_int_equal(api_do(f, &a, "PUT", target, lease, REGION), 201);
	snprintf(target, sizeof(target), "/v1/agents/%s/links/x/default?scope=demo", name);
	assert_int_equal(api_do(f, &a, "PUT", target, lease, REPORT), 200);
	api_answer_fini(&a);
}

/* A list has, of those that the selector lets through, what is of these agents, each with a blank
 * behind it. */
static void assert_chosen(struct api_fixture *f, const char *list, const char *selector,
			  const char *wanted)
{
	struct api_answer a = { .status = 0 };
	char target[300], names[200] = "";

	snprintf(target, sizeof(target), "/v1/%s?scope=demo&%s", list, selector);
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	for (size_t i = 0; i < api_count(&a, list); i++) {
		const json_t *one = json_array_get(json_object_get(a.body, list), i);
		const json_t *name = json_object_get(one, "agent");

		name = name ? name : json_object_get(one, "name");
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ",
			 json_string_value(name));
	}
	assert_string_equal(names, wanted);
	api_answer_fini(&a);
}

static void lists__have_what_is_of_agents_that_the_selector_matches(void **state)
{
	static const char *const lists[] = { "agents", "services", "regions", "links" };
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char target[200];

	join(f, "node-a");
	join(f, "node-b");
	join(f, "node-c");
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		assert_chosen(f, lists[i], "limit=500", "node-a node-b node-c ");
		assert_chosen(f, lists[i], "selector=role=node-b", "node-b ");
		assert_chosen(f, lists[i], "selector=name=node-c,role=node-c", "node-c ");
		assert_chosen(f, lists[i], "selector=name=node-c,role=node-a", "");
		assert_chosen(f, lists[i], "selector=zone=z", "");
		/* Pages are of all agents. */
		assert_chosen(f, lists[i], "selector=role=node-b&limit=1", "");
		assert_chosen(f, lists[i], "selector=role=node-b&limit=1&after=node-a", "node-b ");
		snprintf(target, sizeof(target), "/v1/%s?scope=demo&selector=role", lists[i]);
		api_do(f, &a, "GET", target, NULL, NULL);
		assert_error(&a, 400, "bad_query", "selector");
	}
	api_answer_fini(&a);
}

/* Labels count, too, where a page ends; nobody is lost by it. */
static void lists__with_a_selector_are_as_bounded(void **state)
{
	struct api_fixture *f = *state;

	join(f, "node-a");
	/* Others damaged it: nobody's labels are so many. */
	test_redis_do(&f->redis, "EVAL %s 0",
		      "return redis.call('HSET', '{demo}:nanoctrl:agent:6:node-a', 'labels', "
		      "'{\"x\":\"' .. string.rep('y', 17000000) .. '\"}')");
	join(f, "node-b");
	assert_chosen(f, "regions", "selector=role=node-b", "");
	assert_chosen(f, "regions", "selector=role=node-b&after=node-a", "node-b ");
	assert_chosen(f, "links", "selector=role=node-b&after=node-a", "node-b ");
}

/* How many agents, or services of agents, are in the pages of a list; each page is bounded. */
static size_t count_pages(struct api_fixture *f, const char *list, unsigned *n_pages)
{
	struct api_answer a = { .status = 0 };
	char target[700] = "";
	size_t n = 0;

	*n_pages = 0;
	do {
		snprintf(target, sizeof(target), "/v1/%s?scope=demo&limit=500&after=%s", list,
			 *n_pages ? api_text(&a, "next", NULL) : "");
		assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
		n += api_count(&a, list);
		(*n_pages)++;
	} while (strcmp(api_text(&a, "next", NULL), "(none)") != 0);
	api_answer_fini(&a);
	return n;
}

static void pages__of_large_agents_end_early(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char target[100], body[16000];
	unsigned n_pages;

	for (int i = 0; i < 100; i++) {
		snprintf(target, sizeof(target), "/v1/agents/n%d?scope=demo&order=1", i);
		snprintf(
			body, sizeof(body),
			"{\"incarnation\":\"i\",\"owner_key\":\"" OWNER_KEY_A
			"\",\"services\":[{\"name\":\"echo\"}],\"attributes\":{\"x\":\"%015000d\"}}",
			i);
		assert_int_equal(api_do(f, &a, "PUT", target, NULL, body), 201);
	}
	api_answer_fini(&a);
	assert_int_equal(count_pages(f, "agents", &n_pages), 100);
	assert_int_equal(n_pages, 2);
	assert_int_equal(count_pages(f, "services", &n_pages), 100);
	assert_int_equal(n_pages, 2);
}

/* With their descriptors they may be many times what is listed. */
static void list__of_regions_reads_them_in_batches(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char target[100], lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	for (int i = 0; i < 300; i++) {
		snprintf(target, sizeof(target), "/v1/agents/node-a/regions/r%d?scope=demo", i);
		assert_int_equal(api_do(f, &a, "PUT", target, lease, REGION), 201);
	}
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents/node-a/regions?scope=demo", NULL, NULL),
			 200);
	assert_int_equal(api_count(&a, "regions"), 300);
	assert_int_equal(test_redis_calls(&f->redis, "hgetall"), 0);
	api_answer_fini(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists__have_what_is_of_agents_that_the_selector_matches),
		TEST(lists__with_a_selector_are_as_bounded),
		TEST(pages__of_large_agents_end_early),
		TEST(list__of_regions_reads_them_in_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
