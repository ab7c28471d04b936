/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes of a Redis Cluster say, and what somebody else might say in their place. */
#include "redis/cluster.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <hiredis/hiredis.h>

#define SLOT 16027

static redisReply *parse(const char *bytes, size_t len)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	assert_non_null(reader);
	assert_int_equal(redisReaderFeed(reader, bytes, len), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	return reply;
}

/* The answer is RESP. */
static int read_slots(const char *bytes, struct cluster_map *map)
{
	redisReply *reply = parse(bytes, strlen(bytes));
	int ret = cluster_read_slots(reply, SLOT, "10.0.0.9", map);

	freeReplyObject(reply);
	return ret;
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"

static void slots__name_the_owner_and_all_nodes(void **state)
{
	struct cluster_map map;

	(void)state;
	assert_int_equal(
		read_slots("*2\r\n*4\r\n:0\r\n:16026\r\n" NODE("$1\r\na\r\n", "1")
				   NODE("$1\r\nb\r\n", "2") "*4\r\n:16027\r\n:16383\r\n" NODE(
					   "$3\r\n::1\r\n", "3") NODE("$1\r\na\r\n", "1"),
			   &map),
		0);
	assert_string_equal(map.owner.host, "::1");
	assert_int_equal(map.owner.port, 3);
	assert_int_equal(map.n, 3);
	assert_string_equal(map.nodes[1].host, "b");
}

static void slots__nobody_has_leave_no_owner(void **state)
{
	struct cluster_map map;

	(void)state;
	assert_int_equal(read_slots("*0\r\n", &map), 0);
	assert_string_equal(map.owner.host, "");
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:5\r\n" NODE("$1\r\na\r\n", "1"), &map), 0);
	assert_string_equal(map.owner.host, "");
	assert_int_equal(map.n, 1);
}

/* A node that does not know its own address is where we have the answer from. */
static void slots__of_an_unnamed_node_are_of_who_answers(void **state)
{
	struct cluster_map map;

	(void)state;
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" NODE("$0\r\n\r\n", "7"), &map),
			 0);
	assert_string_equal(map.owner.host, "10.0.0.9");
	assert_int_equal(map.owner.port, 7);
	assert_int_equal(read_slots("*1\r\n*3\r\n:0\r\n:16383\r\n" NODE("$-1\r\n", "7"), &map), 0);
	assert_string_equal(map.owner.host, "10.0.0.9");
}

static void slots__of_nodes_without_an_address_are_nobodys(void **state)
{
	static const char *const nodes[] = {
		NODE("$1\r\n?\r\n", "1"),
		NODE("$3\r\na b\r\n", "1"),
		NODE("$3\r\na\r\n\r\n", "1"),
		NODE("$1\r\na\r\n", "0"),
		NODE("$1\r\na\r\n", "65536"),
		NODE("$1\r\na\r\n", "-1"),
		NODE(":1\r\n", "1"),
		"*1\r\n$1\r\na\r\n",
		"*0\r\n",
		"$1\r\na\r\n",
		"*2\r\n$1\r\na\r\n$1\r\n1\r\n",
	};
	struct cluster_map map;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		snprintf(text, sizeof(text), "*1\r\n*3\r\n:0\r\n:16383\r\n%s", nodes[i]);
		assert_int_equal(read_slots(text, &map), 0);
		assert_string_equal(map.owner.host, "");
		assert_int_equal(map.n, 0);
	}
}

static void slots__that_make_no_sense_are_refused(void **state)
{
	static const char *const bad[] = {
		"+OK\r\n",
		"-ERR This instance has cluster support disabled\r\n",
		"$-1\r\n",
		"*1\r\n:1\r\n",
		"*1\r\n*2\r\n:0\r\n:1\r\n",
		"*1\r\n*3\r\n:-1\r\n:1\r\n" NODE("$1\r\na\r\n", "1"),
		"*1\r\n*3\r\n:0\r\n:16384\r\n" NODE("$1\r\na\r\n", "1"),
		"*1\r\n*3\r\n:9\r\n:8\r\n" NODE("$1\r\na\r\n", "1"),
		"*1\r\n*3\r\n:0\r\n$1\r\n1\r\n" NODE("$1\r\na\r\n", "1"),
	};
	struct cluster_map map;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(read_slots(bad[i], &map), -EPROTO);
}

/* ranges of one slot, each with a node of its own, whose host has len bytes. */
static redisReply *many_slots(unsigned ranges, unsigned len)
{
	size_t size = 64 + (size_t)ranges * (len + 64), n;
	char *text = malloc(size);
	redisReply *reply;

	assert_non_null(text);
	n = (size_t)snprintf(text, size, "*%u\r\n", ranges);
	for (unsigned i = 0; i < ranges; i++)
		n += (size_t)snprintf(text + n, size - n,
				      "*3\r\n:%u\r\n:%u\r\n*2\r\n$%u\r\n%0*u\r\n:1\r\n", i % 16384,
				      i % 16384, len, (int)len, i);
	reply = parse(text, n);
	free(text);
	return reply;
}

static void slots__of_very_many_nodes_remember_some(void **state)
{
	redisReply *reply = many_slots(CLUSTER_SLOTS, 255);
	struct cluster_map map;

	(void)state;
	assert_int_equal(cluster_read_slots(reply, SLOT, "h", &map), 0);
	assert_int_equal(map.n, CLUSTER_NODES_MAX);
	assert_int_equal(strlen(map.owner.host), 255);
	assert_int_equal(atoi(map.owner.host), SLOT);
	freeReplyObject(reply);
	reply = many_slots(CLUSTER_SLOTS + 1, 8);
	assert_int_equal(cluster_read_slots(reply, SLOT, "h", &map), -EPROTO);
	freeReplyObject(reply);
	reply = many_slots(CLUSTER_SLOTS, 256);
	assert_int_equal(cluster_read_slots(reply, SLOT, "h", &map), 0);
	assert_string_equal(map.owner.host, "");
	freeReplyObject(reply);
}

static void redirect__says_where_to(void **state)
{
	struct cluster_node to;

	(void)state;
	assert_int_equal(cluster_read_redirect("MOVED 16027 10.1.2.3:6381", SLOT, "h", &to),
			 CLUSTER_MOVED);
	assert_string_equal(to.host, "10.1.2.3");
	assert_int_equal(to.port, 6381);
	assert_int_equal(cluster_read_redirect("MOVED 16027 fe80::1:6381", SLOT, "h", &to),
			 CLUSTER_MOVED);
	assert_string_equal(to.host, "fe80::1");
	assert_int_equal(cluster_read_redirect("MOVED 16027 :6381", SLOT, "h", &to), CLUSTER_MOVED);
	assert_string_equal(to.host, "h");
	assert_int_equal(cluster_read_redirect("ASK 16027 a:1", SLOT, "h", &to), CLUSTER_ASK);
	assert_string_equal(to.host, "a");
}

static void redirect__of_another_slot_is_not_for_us(void **state)
{
	static const char *const others[] = { "MOVED 1 a:1",
					      "MOVED 160270 a:1",
					      "MOVED 16384 a:1",
					      "MOVED -1 a:1",
					      "MOVED  a:1",
					      "MOVED",
					      "MOVED ",
					      "ASK",
					      "ASK ",
					      "MOVED 16027",
					      "MOVED 16027a:1",
					      "moved 16027 a:1",
					      "ERR MOVED 16027 a:1",
					      "",
					      "MOVED 99999999999999999999999999 a:1" };
	struct cluster_node to;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_int_equal(cluster_read_redirect(others[i], SLOT, "h", &to), CLUSTER_STAY);
		assert_string_equal(to.host, "");
	}
}

static void redirect__to_no_address_leaves_it_to_be_asked(void **state)
{
	static const char *const bad[] = { "MOVED 16027 ",	  "MOVED 16027 a",
					   "MOVED 16027 a:",	  "MOVED 16027 a:0",
					   "MOVED 16027 a:65536", "MOVED 16027 a:-1",
					   "MOVED 16027 a:1x",	  "MOVED 16027 a:1 b",
					   "MOVED 16027 a b:1",	  "MOVED 16027 ?:1",
					   "MOVED 16027 \t:1",	  "MOVED 16027 a:99999999999999" };
	struct cluster_node to;
	char text[400];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(cluster_read_redirect(bad[i], SLOT, "h", &to), CLUSTER_MOVED);
		assert_string_equal(to.host, "");
	}
	snprintf(text, sizeof(text), "MOVED 16027 %0256d:1", 0);
	assert_int_equal(cluster_read_redirect(text, SLOT, "h", &to), CLUSTER_MOVED);
	assert_string_equal(to.host, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots__name_the_owner_and_all_nodes),
		cmocka_unit_test(slots__nobody_has_leave_no_owner),
		cmocka_unit_test(slots__of_an_unnamed_node_are_of_who_answers),
		cmocka_unit_test(slots__of_nodes_without_an_address_are_nobodys),
		cmocka_unit_test(slots__that_make_no_sense_are_refused),
		cmocka_unit_test(slots__of_very_many_nodes_remember_some),
		cmocka_unit_test(redirect__says_where_to),
		cmocka_unit_test(redirect__of_another_slot_is_not_for_us),
		cmocka_unit_test(redirect__to_no_address_leaves_it_to_be_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
