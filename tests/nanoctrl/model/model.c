/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define WITH(members) "{\"incarnation\":\"i\",\"owner_key\":\"" KEY "\"," members "}"

static struct model_error refused(const char *body)
{
	struct model_error err = { .status = 0 };
	struct model_agent m;

	assert_true(model_parse_registration(body, strlen(body), &m, &err) < 0);
	return err;
}

static void registration__of_a_whole_body_has_its_parts(void **state)
{
	const char *body = "{\"incarnation\":\"i1\",\"owner_key\":\"" KEY "\",\"address\":\"h\","
			   "\"labels\":{\"role\":\"x\"},\"unknown\":[1.5],"
			   "\"previous\":{\"epoch\":1,\"generation\":2}}";
	struct model_agent m;
	struct model_error err;

	(void)state;
	assert_int_equal(model_parse_registration(body, strlen(body), &m, &err), 0);
	assert_string_equal(m.incarnation, "i1");
	assert_true(m.again);
	assert_string_equal(m.profile.labels.at, "{\"role\":\"x\"}");
	assert_null(m.profile.services.at);
	assert_string_equal(m.profile.address.at, "h");
	model_agent_fini(&m);
}

static void registration__that_is_wrong_names_the_member(void **state)
{
	static const struct {
		const char *body, *code, *field;
	} cases[] = {
		{ "", "bad_json", "" },
		{ "{\"incarnation\":\"i\"} x", "bad_json", "" },
		{ "\"x\"", "bad_json", "" },
		{ "{\"incarnation\":\"\"}", "bad_value", "incarnation" },
		{ "{\"incarnation\":\"a b\"}", "bad_value", "incarnation" },
		{ "{\"incarnation\":null}", "missing_field", "incarnation" },
		{ "{\"incarnation\":\"i\",\"owner_key\":\"zz\"}", "bad_value", "owner_key" },
		{ "{\"incarnation\":\"i\",\"owner_key\":\"" KEY "\",\"services\":[{}]}",
		  "missing_field", "services[0].name" },
		{ "{\"incarnation\":\"i\",\"owner_key\":\"" KEY "\",\"previous\":{\"epoch\":1}}",
		  "missing_field", "previous.generation" },
		{ WITH("\"previous\":{\"epoch\":1,\"generation\":-1}"), "bad_value",
		  "previous.generation" },
		{ WITH("\"previous\":{\"epoch\":1,\"epoch\":1}"), "duplicate_field",
		  "previous.epoch" },
		{ WITH("\"a name longer than what the parser quotes\":{},"
		       "\"a name longer than what the parser quotes\":1"),
		  "duplicate_field", "a name longer than what the parser quotes" },
		{ WITH("\"attributes\":{\"x\\\"y\":[{},[1],{\"k\":\"]\",\"z\":0,\"z\":0}]}"),
		  "duplicate_field", "attributes.x\\\"y[2].z" },
		{ WITH("\"attributes\":{\"n\":[0,18446744073709551615]}"), "bad_value",
		  "attributes.n[1]" },
		{ WITH("\"labels\":{\"role\":\"a\\u0000\"}"), "bad_value", "labels.role" },
		{ WITH("\"services\":[{\"name\":1}]"), "bad_type", "services[0].name" },
		{ WITH("\"services\":[{\"name\":\"e\"},7]"), "bad_type", "services[1]" },
		{ WITH("\"services\":[{\"name\":\"a b\"}]"), "bad_value", "services[0].name" },
		{ WITH("\"services\":[{\"name\":\"e\",\"attributes\":[]}]"), "bad_type",
		  "services[0].attributes" },
		{ WITH("\"services\":[{\"name\":\"e\"},{\"name\":\"f\"},{\"name\":\"e\"}]"),
		  "bad_value", "services[2].name" },
		{ "{\"incarnation\":\"i\",\"owner_key\":\"" KEY "\",\"labels\":{\"a b\":\"\"}}",
		  "bad_value", "labels.a b" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct model_error err = refused(cases[i].body);

		assert_string_equal(err.code, cases[i].code);
		assert_string_equal(err.field, cases[i].field);
	}
}

static void body__that_nests_too_deep_is_refused(void **state)
{
	char body[100];

	(void)state;
	memset(body, '[', 40);
	memset(body + 40, ']', 40);
	body[80] = '\0';
	assert_string_equal(refused(body).code, "bad_json");
	/* Brackets in a string do not nest. */
	assert_string_equal(
		refused("{\"x\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"}").code,
		"missing_field");
}

static void region__keeps_its_descriptor_apart(void **state)
{
	const char *body = "{\"revision\":3,\"size\":1,\"access\":[\"read\",\"write\"],"
			   "\"descriptor\":\"QQ==\"}";
	struct model_object m;
	struct model_error err;

	(void)state;
	assert_int_equal(model_parse_region(body, strlen(body), &m, &err), 0);
	assert_int_equal(m.revision, 3);
	assert_string_equal(m.doc.at, "{\"size\":1,\"access\":[\"read\",\"write\"]}");
	assert_string_equal(m.blob.at, "QQ==");
	model_object_fini(&m);
}

static void region__that_is_wrong_names_the_member(void **state)
{
	static const struct {
		const char *members, *code, *field;
	} cases[] = {
		{ "\"access\":[]", "bad_value", "access" },
		{ "\"access\":[\"read\",\"read\"]", "bad_value", "access[1]" },
		{ "\"access\":[\"read\",\"fly\"]", "bad_value", "access[1]" },
		{ "\"access\":[7]", "bad_type", "access[0]" },
		{ "\"access\":[\"read\"],\"allow\":[\"a=b\",5]", "bad_type", "allow[1]" },
		{ "\"access\":[\"read\"],\"allow\":[\"a=b,c=d\"]", "bad_value", "allow[0]" },
	};
	struct model_object m;
	struct model_error err;
	char body[200];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(body, sizeof(body),
			 "{\"revision\":1,\"size\":1,%s,\"descriptor\":\"QQ==\"}",
			 cases[i].members);
		assert_true(model_parse_region(body, strlen(body), &m, &err) < 0);
		assert_string_equal(err.code, cases[i].code);
		assert_string_equal(err.field, cases[i].field);
	}
}

/* Each selector is as long as one may be. */
static void region__whose_allow_list_is_too_long_is_refused(void **state)
{
	char selector[2 * STORE_NAME_MAX + 4], body[64 * sizeof(selector) + 200];
	struct model_object m;
	struct model_error err;
	size_t len;

	(void)state;
	snprintf(selector, sizeof(selector), "\"%0*d=%0*d\"", STORE_NAME_MAX, 0, STORE_NAME_MAX, 0);
	for (unsigned n = 16; n <= 17; n++) {
		len = (size_t)snprintf(body, sizeof(body),
				       "{\"revision\":1,\"size\":1,\"access\":[\"read\"],"
				       "\"descriptor\":\"QQ==\",\"allow\":[");
		for (unsigned i = 0; i < n; i++)
			len += (size_t)snprintf(body + len, sizeof(body) - len, "%s%s",
						i ? "," : "", selector);
		snprintf(body + len, sizeof(body) - len, "]}");
		if (n == 16) {
			assert_int_equal(model_parse_region(body, strlen(body), &m, &err), 0);
			model_object_fini(&m);
			continue;
		}
		assert_true(model_parse_region(body, strlen(body), &m, &err) < 0);
		assert_int_equal(err.status, 422);
		assert_string_equal(err.code, "bad_value");
		assert_string_equal(err.field, "allow");
		assert_string_equal(err.message, "allow is longer than 8192 bytes");
	}
}

static void region__with_bad_base64_is_refused(void **state)
{
	static const char *const bad[] = { "", "Q", "QQ=", "Q===", "QQ==QQ==", "Q Q=", "QQ=Q" };
	struct model_object m;
	struct model_error err;
	char body[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(body, sizeof(body),
			 "{\"revision\":1,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"%s\"}",
			 bad[i]);
		assert_true(model_parse_region(body, strlen(body), &m, &err) < 0);
		assert_string_equal(err.field, "descriptor");
	}
}

/* With two, one and no byte of padding: what they decode to is 65536 bytes and up. */
static void region__with_a_descriptor_above_64_kib_is_refused(void **state)
{
	static const char begin[] =
		"{\"revision\":1,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"";
	static char body[sizeof(begin) + 87384 + 2];
	static const char *const end[] = { "==\"}", "=\"}", "\"}" };
	struct model_object m;
	struct model_error err;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		size_t n = sizeof(begin) - 1 + 87382 + i;

		memset(body, 'A', n);
		memcpy(body, begin, sizeof(begin) - 1);
		memcpy(body + n, end[i], strlen(end[i]));
		n += strlen(end[i]);
		assert_int_equal(model_parse_region(body, n, &m, &err) < 0, i > 0);
		if (!i)
			model_object_fini(&m);
		else
			assert_string_equal(err.message,
					    "descriptor is not at most 64 KiB decoded");
	}
}

static void number__beyond_its_range_is_refused(void **state)
{
	static const char *const bad[] = { "0", "-1", "9007199254740992", "1.0" };
	struct model_object m;
	struct model_error err;
	char body[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(body, sizeof(body), "{\"revision\":%s}", bad[i]);
		assert_true(model_parse_link(body, strlen(body), &m, &err) < 0);
		assert_string_equal(err.field, "revision");
	}
}

static void cursor__is_two_numbers(void **state)
{
	static const char *const bad[] = { "",	    ":",   "1",	   "1:",   ":1",
					   "1:2:3", "1:x", "-1:2", "1: 2", "11111111111111111:1" };
	struct store_cursor c;
	char text[MODEL_CURSOR_MAX];

	(void)state;
	assert_true(model_parse_cursor("1795236678123456:12", &c));
	model_format_cursor(text, &c);
	assert_string_equal(text, "1795236678123456:12");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(model_parse_cursor(bad[i], &c));
}

static long n_left; /* until an allocation fails; the next are made */

static void *scarce(size_t size)
{
	return --n_left ? malloc(size) : NULL;
}

static void events__are_all_told_or_none_without_memory(void **state)
{
	struct store_event e[] = { { .id = 1,
				     .type = "left",
				     .agent = "a",
				     .incarnation = "i",
				     .object = "",
				     .to = "" },
				   { .id = 2,
				     .type = "left",
				     .agent = "b",
				     .incarnation = "i",
				     .object = "",
				     .to = "" } };
	const struct store_events events = { .epoch = 1, .last = 3, .n = 2, .events = e };
	const struct store_cursor at = { 1, 3 };

	(void)state;
	json_set_alloc_funcs(scarce, free);
	for (long n = 1;; n++) {
		char *text;

		n_left = n;
		text = model_events(&events, &at, false, "");
		assert_true(!text || (strstr(text, "\"cursor\":\"1:1\"") &&
				      strstr(text, "\"cursor\":\"1:2\"")));
		free(text);
		if (n_left > 0)
			break;
	}
	json_set_alloc_funcs(malloc, free);
}

/* Registers with the n-th allocation failing: what became of it, or the signal it ended by. */
static int register_with(long n, const char *body, struct model_error *err)
{
	struct model_agent m;
	int status, ret;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		n_left = n;
		ret = model_parse_registration(body, strlen(body), &m, err);
		_exit(!ret ? 0 : ret == -ENOMEM && err->status == 500 ? 1 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) + 128 : WEXITSTATUS(status);
}

static void registration__without_memory_is_refused_or_ends_the_program(void **state)
{
	struct model_error err;
	unsigned n_refused = 0, n_ended = 0;
	int became = -1;
	char body[2000];

	(void)state;
	snprintf(body, sizeof(body), WITH("\"attributes\":{\"x\":\"%01000d\"}"), 0);
	model_memory(scarce, free);
	for (long n = 1; became; n++) {
		became = register_with(n, body, &err);
		n_refused += became == 1;
		n_ended += became == SIGABRT + 128;
		assert_true(!became || became == 1 || became == SIGABRT + 128);
	}
	model_memory(malloc, free);
	assert_true(n_refused > 5);
	assert_true(n_ended >= 6); /* 32, 64, 128, 256, 512 and 1024 bytes */
}

static void selector__matches_labels_and_the_name(void **state)
{
	struct store_agent a = { .name = "node-a",
				 .profile.labels = { "{\"role\":\"x\",\"zone\":\"1\"}", 23 } };

	(void)state;
	assert_true(model_selector_matches("role=x", &a));
	assert_true(model_selector_matches("role=x,zone=1,name=node-a", &a));
	assert_false(model_selector_matches("role=x,zone=2", &a));
	assert_false(model_selector_matches("other=x", &a));
	assert_false(model_selector_valid(""));
	assert_false(model_selector_valid("role"));
	assert_false(model_selector_valid("=x"));
	assert_false(model_selector_valid("a=b,,c=d"));
	assert_false(model_selector_valid("role==x"));
	assert_false(model_selector_valid("role=x,role=y"));
	a.profile.labels.len = 5; /* junk in the store has no labels */
	assert_false(model_selector_matches("role=x", &a));
}

static bool allows(const char *doc, const struct store_agent *a)
{
	struct store_object region = { .doc = { doc, strlen(doc) } };

	return model_region_allows(&region, a);
}

static void region__allows_who_matches_one_of_its_selectors(void **state)
{
	struct store_agent a = { .name = "node-a", .profile.labels = { "{\"role\":\"x\"}", 12 } };

	(void)state;
	assert_true(allows("{}", &a));
	assert_true(allows("{\"allow\":[\"role=y\",\"role=x\"]}", &a));
	assert_true(allows("{\"allow\":[\"name=node-a\"]}", &a));
	assert_false(allows("{\"allow\":[]}", &a));
	assert_false(allows("{\"allow\":[\"role=y\"]}", &a));
	assert_false(allows("junk", &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registration__of_a_whole_body_has_its_parts),
		cmocka_unit_test(registration__that_is_wrong_names_the_member),
		cmocka_unit_test(body__that_nests_too_deep_is_refused),
		cmocka_unit_test(region__keeps_its_descriptor_apart),
		cmocka_unit_test(region__that_is_wrong_names_the_member),
		cmocka_unit_test(region__whose_allow_list_is_too_long_is_refused),
		cmocka_unit_test(region__with_bad_base64_is_refused),
		cmocka_unit_test(region__with_a_descriptor_above_64_kib_is_refused),
		cmocka_unit_test(number__beyond_its_range_is_refused),
		cmocka_unit_test(cursor__is_two_numbers),
		cmocka_unit_test(events__are_all_told_or_none_without_memory),
		cmocka_unit_test(registration__without_memory_is_refused_or_ends_the_program),
		cmocka_unit_test(selector__matches_labels_and_the_name),
		cmocka_unit_test(region__allows_who_matches_one_of_its_selectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
