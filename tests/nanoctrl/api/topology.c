/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies: applied, refused, expanded and told to agents, over a real Redis. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <base/clock.h>

#define T(name, links) "{\"version\":1,\"name\":\"" name "\",\"links\":[" links "]}"

static long long revision_of_scope(struct api_fixture *f)
{
	struct api_answer a = { .status = 0 };
	long long revision;

	assert_int_equal(api_do(f, &a, "GET", "/v1/topologies?scope=demo", NULL, NULL), 200);
	revision = api_number(&a, "revision", NULL);
	api_answer_fini(&a);
	return revision;
}

/* With more of the query; the status. */
static int put(struct api_fixture *f, struct api_answer *a, const char *name, const char *more,
	       const char *body)
{
	char target[300];

	snprintf(target, sizeof(target), "/v1/topologies%s%s?scope=demo&revision=%lld%s",
		 *name ? "/" : "", name, revision_of_scope(f), more);
	return api_do(f, a, "PUT", target, NULL, body);
}

static int drop(struct api_fixture *f, struct api_answer *a, const char *name)
{
	char target[300];

	snprintf(target, sizeof(target), "/v1/topologies/%s?scope=demo&revision=%lld", name,
		 revision_of_scope(f));
	return api_do(f, a, "DELETE", target, NULL, NULL);
}

/* "b/default c/kv": peers and profiles of an agent's list, "?" when it is not known. */
static void read_wanted(struct api_fixture *f, const char *agent, char *out, size_t room)
{
	struct api_answer a = { .status = 0 };
	const json_t *link;
	char target[300];
	size_t i;

	snprintf(target, sizeof(target), "/v1/agents/%s/wanted?scope=demo", agent);
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	snprintf(out, room, "%s", json_is_true(json_object_get(a.body, "known")) ? "" : "?");
	json_array_foreach(json_object_get(a.body, "links"), i, link)
		snprintf(out + strlen(out), room - strlen(out), "%s%s/%s", i ? " " : "",
			 json_string_value(json_object_get(link, "peer")),
			 json_string_value(json_object_get(link, "profile")));
	api_answer_fini(&a);
}

static void await_wanted(struct api_fixture *f, const char *agent, const char *expected)
{
	uint64_t deadline = sl_deadline_ns(API_TIMEOUT_S * 1000);
	char have[1024];

	do {
		read_wanted(f, agent, have, sizeof(have));
		if (sl_clock_ns() > deadline)
			fail_msg("%s has \"%s\", not \"%s\"", agent, have, expected);
	} while (strcmp(have, expected) != 0);
}

/* The state of a topology as the last expansion found it. */
static void await_state(struct api_fixture *f, const char *name, const char *state)
{
	uint64_t deadline = sl_deadline_ns(API_TIMEOUT_S * 1000);
	struct api_answer a = { .status = 0 };
	const char *have = NULL;
	char target[300];

	snprintf(target, sizeof(target), "/v1/topologies/%s?scope=demo", name);
	do {
		assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
		have = json_string_value(json_object_get(
			json_object_get(json_object_get(a.body, "topology"), "result"), "state"));
		assert_true(sl_clock_ns() < deadline);
	} while (!have || strcmp(have, state) != 0);
	api_answer_fini(&a);
}

static void join(struct api_fixture *f, const char *name, char lease[512])
{
	assert_int_equal(api_register(f, name, "i1", OWNER_KEY_A, lease), 201);
}

static void put__expands_to_lists_of_agents(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	join(f, "node-a", lease);
	join(f, "node-b", lease);
	assert_int_equal(put(f, &a, "t", "",
			     T("t", "{\"from\":\"role=node-a\",\"to\":\"role=node-b\","
				    "\"profile\":\"kv\",\"transports\":[\"rdma\",\"tcp\"],"
				    "\"qps\":4,\"rails\":\"all\",\"min_bandwidth\":\"100Gbps\","
				    "\"devices\":[\"mlx5_0\",\"mlx5_1:2\"],"
				    "\"peer_devices\":[\"rxe0\"]}")),
			 200);
	await_wanted(f, "node-a", "node-b/kv");
	await_wanted(f, "node-b", "node-a/kv");
	await_state(f, "t", "ok");
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents/node-a/wanted?scope=demo", NULL, NULL),
			 200);
	{
		const json_t *l = json_array_get(json_object_get(a.body, "links"), 0);

		assert_int_equal(json_integer_value(json_object_get(l, "qps")), 4);
		assert_string_equal(json_string_value(json_object_get(l, "rails")), "all");
		assert_true(json_integer_value(json_object_get(l, "min_bandwidth")) ==
			    100000000000);
		assert_string_equal(json_string_value(json_object_get(l, "topology")), "t");
		assert_string_equal(json_string_value(json_object_get(l, "devices")),
				    "mlx5_0,mlx5_1:2");
		assert_string_equal(json_string_value(json_object_get(l, "peer_devices")), "rxe0");
	}
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents/node-b/wanted?scope=demo", NULL, NULL),
			 200);
	{
		const json_t *l = json_array_get(json_object_get(a.body, "links"), 0);

		assert_string_equal(json_string_value(json_object_get(l, "devices")), "rxe0");
		assert_string_equal(json_string_value(json_object_get(l, "peer_devices")),
				    "mlx5_0,mlx5_1:2");
	}
	assert_int_equal(drop(f, &a, "t"), 200);
	await_wanted(f, "node-a", "");
	await_wanted(f, "node-b", "");
	api_answer_fini(&a);
}

static void agents__that_come_change_and_leave_are_expanded(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512], other[512];

	join(f, "node-a", lease);
	assert_int_equal(put(f, &a, "t", "",
			     T("t", "{\"from\":\"role=node-a\",\"to\":\"role=x\"},"
				    "{\"from\":\"role=node-a\",\"to\":\"role=node-b\"}")),
			 200);
	await_wanted(f, "node-a", "");
	join(f, "node-b", other);
	await_wanted(f, "node-a", "node-b/default");
	assert_int_equal(api_do(f, &a, "PATCH", "/v1/agents/node-b?scope=demo", other,
				"{\"revision\":1,\"labels\":{\"role\":\"y\"}}"),
			 200);
	await_wanted(f, "node-a", "");
	assert_int_equal(api_do(f, &a, "PATCH", "/v1/agents/node-b?scope=demo", other,
				"{\"revision\":2,\"labels\":{\"role\":\"x\"}}"),
			 200);
	await_wanted(f, "node-a", "node-b/default");
	await_wanted(f, "node-b", "node-a/default");
	assert_int_equal(api_do(f, &a, "DELETE", "/v1/agents/node-b?scope=demo", other, NULL), 200);
	await_wanted(f, "node-a", "");
	await_wanted(f, "node-b", "?"); /* an agent that comes back keeps what it has until then */
	api_answer_fini(&a);
}

static void list__of_scopes_counts_agents_and_topologies(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	assert_int_equal(api_do(f, &a, "GET", "/v1/scopes", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "scopes"), 0);
	assert_int_equal(put(f, &a, "t", "", T("t", "{\"mesh\":\"role=x\"}")), 200);
	join(f, "node-a", lease);
	join(f, "node-b", lease);
	assert_int_equal(api_do(f, &a, "GET", "/v1/scopes", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "scopes"), 1);
	assert_string_equal(api_text(&a, "scopes", "0", "name", NULL), "demo");
	assert_int_equal(api_number(&a, "scopes", "0", "agents", NULL), 2);
	assert_int_equal(api_number(&a, "scopes", "0", "topologies", NULL), 1);
	assert_int_equal(api_do(f, &a, "GET", "/v1/scopes?after=x", NULL, NULL), 400);
	api_answer_fini(&a);
}

/* In no order: it is by agent, and an agent that has no link has a list, too. */
static void list__of_wanted_links_has_those_of_all_agents(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	size_t i, n_links = 0;
	const json_t *one;
	char lease[512];

	join(f, "node-a", lease);
	join(f, "node-b", lease);
	join(f, "node-c", lease);
	assert_int_equal(put(f, &a, "t", "", T("t", "{\"pairs\":[[\"node-a\",\"node-b\"]]}")), 200);
	await_wanted(f, "node-a", "node-b/default");
	await_wanted(f, "node-c", "");
	assert_int_equal(api_do(f, &a, "GET", "/v1/wanted?scope=demo", NULL, NULL), 200);
	assert_int_equal(api_count(&a, "wanted"), 3);
	json_array_foreach(json_object_get(a.body, "wanted"), i, one)
	{
		assert_true(json_integer_value(json_object_get(one, "revision")) > 0);
		n_links += json_array_size(json_object_get(one, "links"));
	}
	assert_int_equal(n_links, 2);
	assert_true(json_is_null(json_object_get(a.body, "next")));
	api_answer_fini(&a);
}

static void list__of_wanted_links_is_read_in_pages_of_one_revision(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512], target[300];

	join(f, "node-a", lease);
	assert_int_equal(put(f, &a, "t", "",
			     T("t", "{\"pairs\":[[\"node-a\",\"b\"],[\"node-a\",\"c\"],"
				    "[\"node-a\",\"d\"]]}")),
			 200);
	await_wanted(f, "node-a", "b/default c/default d/default");
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/agents/node-a/wanted?scope=demo&limit=2", NULL, NULL),
		200);
	assert_int_equal(api_count(&a, "links"), 2);
	snprintf(target, sizeof(target), "/v1/agents/node-a/wanted?scope=demo&limit=2&after=%s",
		 api_text(&a, "next", NULL));
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	assert_int_equal(api_count(&a, "links"), 1);
	assert_string_equal(api_text(&a, "links", "0", "peer", NULL), "d");
	assert_true(json_is_null(json_object_get(a.body, "next")));
	/* Of another list it is no place. */
	assert_int_equal(put(f, &a, "t", "&prune=1", T("t", "{\"pairs\":[[\"node-a\",\"b\"]]}")),
			 200);
	await_wanted(f, "node-a", "b/default");
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 409);
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/agents/node-a/wanted?scope=demo&limit=0", NULL, NULL),
		400);
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/agents/node-a/wanted?scope=demo&after=x", NULL, NULL),
		400);
	api_answer_fini(&a);
}

/* As if its event had been lost. */
static void topology__that_changed_without_an_event_is_expanded_by_the_sweep(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	join(f, "node-a", lease);
	assert_int_equal(put(f, &a, "t", "", T("t", "{\"pairs\":[[\"node-a\",\"b\"]]}")), 200);
	await_wanted(f, "node-a", "b/default");
	test_redis_do(&f->redis, "HDEL {demo}:nanoctrl:topologies t");
	test_redis_do(&f->redis, "HINCRBY {demo}:nanoctrl:topology revision 1");
	await_wanted(f, "node-a", "");
	api_answer_fini(&a);
}

#define N_MANY 260 /* a mesh of them is 33,670 links */

static void register__is_not_refused_where_a_topology_comes_to_too_many_links(void **state)
{
	static const char agent[] = "{\"incarnation\":\"i\",\"owner_key\":\"" OWNER_KEY_A
				    "\",\"labels\":{\"role\":\"many\"}}";
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char target[300], lease[512];

	for (int i = 0; i < N_MANY; i++) {
		snprintf(target, sizeof(target), "/v1/agents/m%03d?scope=demo&order=1", i);
		assert_int_equal(api_do(f, &a, "PUT", target, NULL, agent), 201);
	}
	join(f, "node-a", lease);
	assert_int_equal(put(f, &a, "small", "", T("small", "{\"pairs\":[[\"node-a\",\"b\"]]}")),
			 200);
	assert_int_equal(put(f, &a, "large", "",
			     T("large", "{\"mesh\":\"role=many\",\"profile\":\"p\"},"
					"{\"mesh\":\"role=many\",\"profile\":\"q\"},"
					"{\"mesh\":\"role=many\",\"profile\":\"r\"}")),
			 200);
	await_state(f, "large", "TooManyLinks");
	await_state(f, "small", "ok");
	await_wanted(f, "node-a", "b/default");
	await_wanted(f, "m000", "");
	assert_int_equal(api_do(f, &a, "PUT", "/v1/agents/m999?scope=demo&order=1", NULL, agent),
			 201);
	await_wanted(f, "m999", "");
	api_answer_fini(&a);
}

static void put__of_an_older_revision_is_stale(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char target[200];
	long long first = revision_of_scope(f);

	snprintf(target, sizeof(target), "/v1/topologies/t?scope=demo&revision=%lld", first);
	assert_int_equal(api_do(f, &a, "PUT", target, NULL, T("t", "{\"mesh\":\"role=x\"}")), 200);
	/* The same again has been done; another one was made for what is not there any more. */
	assert_int_equal(api_do(f, &a, "PUT", target, NULL, T("t", "{\"mesh\":\"role=x\"}")), 200);
	assert_int_equal(api_do(f, &a, "PUT", target, NULL, T("t", "{\"mesh\":\"role=y\"}")), 409);
	assert_error(&a, 409, "stale", NULL);
	assert_int_equal(api_number(&a, "order", NULL), revision_of_scope(f));
	assert_int_equal(api_do(f, &a, "DELETE", target, NULL, NULL), 409);
	assert_int_equal(drop(f, &a, "t"), 200);
	/* Late, after the topology went. */
	assert_int_equal(api_do(f, &a, "PUT", target, NULL, T("t", "{\"mesh\":\"role=x\"}")), 409);
	assert_int_equal(drop(f, &a, "t"), 200);
	assert_int_equal(api_do(f, &a, "PUT", "/v1/topologies/t?scope=demo", NULL, T("t", "")),
			 400);
	assert_error(&a, 400, "bad_query", "revision");
	api_answer_fini(&a);
}

static void put__of_a_link_of_another_topology_is_a_conflict(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };

	assert_int_equal(
		put(f, &a, "one", "", T("one", "{\"pairs\":[[\"a\",\"b\"],[\"c\",\"d\"]]}")), 200);
	assert_int_equal(
		put(f, &a, "two", "", T("two", "{\"pairs\":[[\"x\",\"y\"],[\"b\",\"a\"]]}")), 409);
	assert_error(&a, 409, "conflict", "links[0].pairs[1]");
	assert_non_null(strstr(api_text(&a, "message", NULL), "topology one"));
	assert_int_equal(put(f, &a, "two", "", T("two", "{\"from\":\"a\",\"to\":\"b\"}")), 409);
	assert_error(&a, 409, "conflict", "links[0]");
	/* Another profile is another link. */
	assert_int_equal(put(f, &a, "three", "",
			     T("three", "{\"pairs\":[[\"a\",\"b\"]],\"profile\":\"kv\"}")),
			 200);
	assert_int_equal(put(f, &a, "two", "&force=1",
			     T("two", "{\"pairs\":[[\"x\",\"y\"],[\"b\",\"a\"]]}")),
			 200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/topologies/one?scope=demo", NULL, NULL), 200);
	{
		char *doc =
			json_dumps(json_object_get(json_object_get(a.body, "topology"), "topology"),
				   JSON_COMPACT);

		assert_string_equal(doc, T("one", "{\"pairs\":[[\"c\",\"d\"]]}"));
		free(doc);
	}
	api_answer_fini(&a);
}

static void put__of_several_is_all_or_nothing(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };

	assert_int_equal(put(f, &a, "", "",
			     "{\"topologies\":[" T("one", "{\"mesh\":\"role=x\"}") "," T(
				     "two", "{\"mesh\":\"role x\"}") "]}"),
			 422);
	assert_error(&a, 422, "bad_value", "topologies[1].links[0].mesh");
	assert_int_equal(revision_of_scope(f), 0);
	assert_int_equal(put(f, &a, "", "",
			     "{\"topologies\":[" T("one", "{\"mesh\":\"role=x\"}") "," T(
				     "two", "{\"mesh\":\"role=y\"}") "]}"),
			 200);
	assert_int_equal(api_count(&a, "changes"), 2);
	api_answer_fini(&a);
}

static void put__keeps_wishes_that_it_has_not_unless_it_prunes(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	join(f, "node-a", lease);
	assert_int_equal(
		put(f, &a, "t", "", T("t", "{\"pairs\":[[\"node-a\",\"b\"],[\"node-a\",\"c\"]]}")),
		200);
	await_wanted(f, "node-a", "b/default c/default");
	assert_int_equal(put(f, &a, "t", "", T("t", "{\"pairs\":[[\"b\",\"node-a\"]],\"qps\":2}")),
			 200);
	await_wanted(f, "node-a", "b/default c/default");
	assert_int_equal(put(f, &a, "t", "&prune=1&dry_run=1",
			     T("t", "{\"pairs\":[[\"b\",\"node-a\"]],\"qps\":2}")),
			 200);
	assert_int_equal(api_count(&a, "changes"), 1);
	await_wanted(f, "node-a", "b/default c/default");
	assert_int_equal(
		put(f, &a, "t", "&prune=1", T("t", "{\"pairs\":[[\"b\",\"node-a\"]],\"qps\":2}")),
		200);
	await_wanted(f, "node-a", "b/default");
	api_answer_fini(&a);
}

static void put__refuses_what_is_malformed(void **state)
{
	static const struct {
		const char *body, *code, *field;
	} cases[] = {
		{ "{\"name\":\"t\"}", "missing_field", "version" },
		{ "{\"version\":2,\"name\":\"t\"}", "bad_value", "version" },
		{ "{\"version\":1}", "missing_field", "name" },
		{ "{\"version\":1,\"name\":\"u\"}", "bad_value", "name" },
		{ "{\"version\":1,\"name\":\"t\",\"scope\":\"x\"}", "bad_value", "scope" },
		{ "{\"version\":1,\"name\":\"t\",\"link\":[]}", "unknown_field", "link" },
		{ T("t", "{}"), "bad_value", "links[0]" },
		{ T("t", "3"), "bad_type", "links[0]" },
		{ T("t", "{\"mesh\":\"a=b\",\"ring\":\"a=b\"}"), "bad_value", "links[0]" },
		{ T("t", "{\"mesh\":\"a=b\",\"speed\":1}"), "unknown_field", "links[0].speed" },
		{ T("t", "{\"mesh\":\"a==b\"}"), "bad_value", "links[0].mesh" },
		{ T("t", "{\"mesh\":\"\"}"), "bad_value", "links[0].mesh" },
		{ T("t", "{\"from\":\"a=b\"}"), "missing_field", "links[0].to" },
		{ T("t", "{\"ring\":\"a=b\"}"), "missing_field", "links[0].by" },
		{ T("t", "{\"star\":{\"center\":\"a\"}}"), "missing_field",
		  "links[0].star.leaves" },
		{ T("t", "{\"pairs\":[[\"a\"]]}"), "bad_type", "links[0].pairs[0]" },
		{ T("t", "{\"pairs\":[[\"a\",\"a\"]]}"), "bad_value", "links[0].pairs[0]" },
		{ T("t", "{\"pairs\":[[\"a\",\"b\"],[\"b\",\"a\"]]}"), "duplicate_link",
		  "links[0].pairs[1]" },
		{ T("t", "{\"mesh\":\"a=b\",\"transports\":[\"ib\"]}"), "bad_value",
		  "links[0].transports" },
		{ T("t", "{\"mesh\":\"a=b\",\"qps\":-1}"), "bad_value", "links[0].qps" },
		{ T("t", "{\"mesh\":\"a=b\",\"qps\":9}"), "bad_value", "links[0].qps" },
		{ T("t", "{\"mesh\":\"a=b\",\"rails\":9}"), "bad_value", "links[0].rails" },
		{ T("t", "{\"mesh\":\"a=b\",\"devices\":[\"mlx5_0:0\"]}"), "bad_value",
		  "links[0].devices" },
		{ T("t", "{\"mesh\":\"a=b\",\"devices\":[\"x\",\"x\"]}"), "bad_value",
		  "links[0].devices" },
		{ T("t", "{\"mesh\":\"a=b\",\"devices\":[]}"), "bad_value", "links[0].devices" },
		{ T("t", "{\"mesh\":\"a=b\",\"devices\":[\"a,b\"]}"), "bad_value",
		  "links[0].devices" },
		{ T("t", "{\"mesh\":\"a=b\",\"peer_devices\":[\"x\"]}"), "unknown_field",
		  "links[0].peer_devices" },
		{ T("t", "{\"from\":\"a\",\"to\":\"b\",\"peer_devices\":\"x\"}"), "bad_type",
		  "links[0].peer_devices" },
		{ T("t", "{\"mesh\":\"a=b\",\"rails\":\"some\"}"), "bad_value", "links[0].rails" },
		{ T("t", "{\"mesh\":\"a=b\",\"min_bandwidth\":\"fast\"}"), "bad_value",
		  "links[0].min_bandwidth" },
		{ "{\"version\":1,\"name\":\"t\",\"agents\":[{}]}", "bad_value", "agents[0]" },
		{ "{\"version\":1,\"name\":\"t\",\"agents\":[{\"select\":\"a=b\",\"count\":-2}]}",
		  "bad_value", "agents[0].count" },
	};
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(put(f, &a, "t", "", cases[i].body), 422);
		assert_error(&a, 422, cases[i].code, cases[i].field);
	}
	assert_int_equal(revision_of_scope(f), 0);
	api_answer_fini(&a);
}

static void put__of_more_links_than_there_may_be_is_refused(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	size_t room = 100001 * 20 + 200, len;
	char *body = malloc(room);

	assert_non_null(body);
	len = (size_t)sprintf(body, "{\"version\":1,\"name\":\"t\",\"links\":[{\"pairs\":[");
	for (int i = 0; i < 100001; i++)
		len += (size_t)sprintf(body + len, "%s[\"a\",\"b%x\"]", i ? "," : "", i);
	sprintf(body + len, "]}]}");
	assert_int_equal(put(f, &a, "t", "", body), 422);
	assert_error(&a, 422, "too_many_links", "links[0].pairs");
	free(body);
	api_answer_fini(&a);
}

static void overlap__by_expansion_is_conflicted(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];

	join(f, "node-a", lease);
	join(f, "node-b", lease);
	assert_int_equal(put(f, &a, "z-first", "",
			     T("z-first", "{\"from\":\"role=node-a\",\"to\":\"role=node-b\"}")),
			 200);
	assert_int_equal(
		put(f, &a, "a-second", "",
		    T("a-second", "{\"from\":\"role=node-b\",\"to\":\"role=node-a\",\"qps\":4}")),
		200);
	await_state(f, "a-second", "Conflicted");
	assert_int_equal(api_do(f, &a, "GET", "/v1/topologies/a-second?scope=demo", NULL, NULL),
			 200);
	assert_string_equal(
		api_text(&a, "topology", "result", "notes", "0", NULL),
		"Conflicted: node-a - node-b (default) has other parameters in topology "
		"z-first, which has the link");
	await_state(f, "z-first", "ok");
	await_wanted(f, "node-a", "node-b/default");
	assert_int_equal(drop(f, &a, "z-first"), 200);
	await_state(f, "a-second", "ok");
	await_wanted(f, "node-a", "node-b/default");
	api_answer_fini(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(put__expands_to_lists_of_agents),
		TEST(agents__that_come_change_and_leave_are_expanded),
		TEST(list__of_scopes_counts_agents_and_topologies),
		TEST(list__of_wanted_links_has_those_of_all_agents),
		TEST(list__of_wanted_links_is_read_in_pages_of_one_revision),
		TEST(topology__that_changed_without_an_event_is_expanded_by_the_sweep),
		TEST(register__is_not_refused_where_a_topology_comes_to_too_many_links),
		TEST(put__of_an_older_revision_is_stale),
		TEST(put__of_a_link_of_another_topology_is_a_conflict),
		TEST(put__of_several_is_all_or_nothing),
		TEST(put__keeps_wishes_that_it_has_not_unless_it_prunes),
		TEST(put__refuses_what_is_malformed),
		TEST(put__of_more_links_than_there_may_be_is_refused),
		TEST(overlap__by_expansion_is_conflicted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
