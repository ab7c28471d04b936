/* SPDX-License-Identifier: Apache-2.0 */
/* What a server sends, in pieces of every size: the outcome must not depend on them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nanoctrl/client/http_response.h"
#include "nanoctrl/client/json.h"
#include "nanoctrl/client/websocket.h"

static int feed(struct nc_response *r, const char *text, size_t step, size_t *used)
{
	size_t len = strlen(text);

	*used = 0;
	while (*used < len) {
		size_t n = len - *used < step ? len - *used : step, taken;
		int ret = nc_response_feed(r, text + *used, n, &taken);

		*used += taken;
		if (ret != NC_RESPONSE_MORE)
			return ret;
	}
	return NC_RESPONSE_MORE;
}

static void assert_response(const char *text, int expected, const char *body, size_t rest)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		struct nc_response r;
		size_t used;

		nc_response_init(&r);
		assert_int_equal(feed(&r, text, step, &used), expected);
		if (!expected) {
			assert_int_equal(strlen(text) - used, rest);
			assert_string_equal(r.body, body);
		}
		nc_response_fini(&r);
	}
}

static void response__of_every_framing_gives_its_body(void **state)
{
	(void)state;
	assert_response("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP", 0, "hi", 4);
	assert_response("HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 0, "", 0);
	assert_response("HTTP/1.1 204 No\r\n\r\nx", 0, "", 1);
	assert_response(
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n1\r\n!\r\n"
		"0\r\nTrailer: x\r\n\r\n",
		0, "hi!", 0);
	assert_response(
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 0,
		"x", 0);
	assert_response("HTTP/1.1 101 Up\r\nUpgrade: websocket\r\n\r\n\x81", 0, "", 1);
	assert_response("HTTP/1.1 200 OK\r\n\r\nto the end", NC_RESPONSE_MORE, NULL, 0);
}

static void response__to_the_end_is_complete_with_it(void **state)
{
	struct nc_response r;
	size_t used;

	(void)state;
	nc_response_init(&r);
	assert_int_equal(feed(&r, "HTTP/1.0 200 OK\r\n\r\nabc", 100, &used), NC_RESPONSE_MORE);
	assert_int_equal(nc_response_end(&r), 0);
	assert_string_equal(r.body, "abc");
	assert_false(r.keep_alive);
	nc_response_fini(&r);

	nc_response_init(&r);
	feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", 100, &used);
	assert_int_equal(nc_response_end(&r), -ECONNRESET);
	nc_response_fini(&r);
}

static void response__that_could_be_read_in_two_ways_is_refused(void **state)
{
	static const char *const bad[] = {
		"HTTP/2 200 OK\r\n",
		"HTTP/1.1 20 OK\r\n",
		"HTTP/1.1 200OK\r\n",
		"HTTP/1.1 600 X\r\n",
		"HTTP/1.1 200 OK\n",
		"HTTP/1.1 200 OK\r\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n",
		"HTTP/1.1 200 OK\r\n: b\r\n",
		"HTTP/1.1 200 OK\r\nA: b\001\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_response(bad[i], -EPROTO, NULL, 0);
	assert_response("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n", -EMSGSIZE, NULL, 0);
	assert_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
			-EMSGSIZE, NULL, 0);
}

static void response__with_endless_headers_is_refused(void **state)
{
	struct nc_response r;
	size_t used;
	int ret;

	(void)state;
	nc_response_init(&r);
	ret = feed(&r, "HTTP/1.1 200 OK\r\n", 100, &used);
	for (int i = 0; i < 10000 && ret == NC_RESPONSE_MORE; i++)
		ret = feed(&r, "Header: value\r\n", 100, &used);
	assert_int_equal(ret, -EMSGSIZE);
	nc_response_fini(&r);
}

static void response__reads_the_headers_it_needs(void **state)
{
	struct nc_response r;
	size_t used;

	(void)state;
	nc_response_init(&r);
	assert_int_equal(feed(&r,
			      "HTTP/1.1 503 X\r\nretry-after: 7\r\nConnection: x, Close\r\n"
			      "Content-Length: 0\r\n\r\n",
			      100, &used),
			 0);
	assert_int_equal(r.retry_after_s, 7);
	assert_false(r.keep_alive);
	nc_response_fini(&r);
}

/* --- WebSocket --- */

static void assert_frames(const char *bytes, size_t len, int expected, const char *message)
{
	for (size_t step = 1; step <= len; step++) {
		int ret = NC_WS_MORE;
		struct nc_ws ws;
		size_t at = 0;

		nc_ws_init(&ws);
		while (ret == NC_WS_MORE && at < len) {
			size_t n = len - at < step ? len - at : step, used;

			ret = nc_ws_feed(&ws, (const uint8_t *)bytes + at, n, &used);
			at += used;
		}
		assert_int_equal(ret, expected);
		if (message)
			assert_string_equal(ws.message, message);
		nc_ws_fini(&ws);
	}
}

#define frames(text, expected, message) assert_frames(text, sizeof(text) - 1, expected, message)

static void websocket__puts_messages_together(void **state)
{
	char big[4 + 300];

	(void)state;
	frames("\x81\x02hi", NC_WS_MESSAGE, "hi");
	frames("\x81\x00", NC_WS_MESSAGE, "");
	frames("\x01\x01h\x00\x01i\x80\x01!", NC_WS_MESSAGE, "hi!");
	frames("\x01\x01h\x8a\x01x\x80\x01i", NC_WS_MESSAGE, "hi");
	frames("\x89\x02hi", NC_WS_PINGED, NULL);
	frames("\x88\x02\x03\xe8", NC_WS_CLOSED, NULL);
	memset(big, 'x', sizeof(big));
	memcpy(big, "\x81\x7e\x01\x2c", 4);
	assert_frames(big, sizeof(big), NC_WS_MESSAGE, NULL);
}

static void websocket__refuses_what_servers_must_not_send(void **state)
{
	(void)state;
	frames("\x81\x82", -EPROTO, NULL);	   /* masked */
	frames("\xc1\x00", -EPROTO, NULL);	   /* a reserved bit */
	frames("\x82\x00", -EPROTO, NULL);	   /* binary */
	frames("\x80\x00", -EPROTO, NULL);	   /* nothing to continue */
	frames("\x01\x00\x81\x00", -EPROTO, NULL); /* a message inside another */
	frames("\x09\x00", -EPROTO, NULL);	   /* a ping in pieces */
	frames("\x89\x7e\x00\x7e", -EPROTO, NULL); /* a long ping */
	frames("\x8b\x00", -EPROTO, NULL);	   /* no such control frame */
	frames("\x81\x7e\x00\x7d", -EPROTO, NULL); /* not the shortest length */
	frames("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", -EPROTO, NULL);
	frames("\x81\x7f\x00\x00\x00\x00\x00\x10\x00\x00", -EMSGSIZE, NULL);
	frames("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", -EMSGSIZE, NULL);
}

static void accept__is_that_of_the_standard(void **state)
{
	char accept[NC_WS_ACCEPT_LEN + 1];

	(void)state;
	nc_ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* --- JSON --- */

static int decode_offer(const char *text)
{
	struct nc_json *json;
	struct nc_offer offer;
	int ret = nc_json_parse(text, strlen(text), &json);

	if (ret)
		return ret;
	ret = nc_json_offer(json, &offer);
	nc_json_free(json);
	return ret;
}

#define OFFER(descriptor)                                                                               \
	"{\"offer\":{\"from\":\"b\",\"to\":\"a\",\"profile\":\"p\",\"generation\":1,"                   \
	"\"incarnation\":\"i\",\"peer_generation\":2,\"connection_epoch\":3,\"descriptor\":" descriptor \
	"}}"

static void json__of_the_wrong_shape_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{\"a\":1,\"a\":2}",
		"{} x",
		"{\"offer\":[]}",
		"{\"offer\":{}}",
		OFFER("1"),
		OFFER("\"A\""),
		OFFER("\"AAA*\""),
		OFFER("\"A===\""),
		OFFER("\"=AAA\""),
		OFFER("\"AA=A\""),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(decode_offer(bad[i]), -EPROTO);
	assert_int_equal(decode_offer(OFFER("\"\"")), 0);
	assert_int_equal(decode_offer(OFFER("\"AA==\"")), 0);
}

static void message__needs_the_members_of_its_type(void **state)
{
	static const struct {
		const char *text;
		int ret;
	} rows[] = {
		{ "{}", -EPROTO },
		{ "{\"type\":1}", -EPROTO },
		{ "{\"type\":\"later\"}", 0 },
		{ "{\"type\":\"hello\",\"beat_ms\":1}", -EPROTO },
		{ "{\"type\":\"offer\",\"cursor\":\"1:1\",\"generation\":1,\"from\":\"b\"}",
		  -EPROTO },
		{ "{\"type\":\"left\",\"cursor\":\"1:1\",\"generation\":-1,\"agent\":\"b\"}",
		  -EPROTO },
		{ "{\"type\":\"left\",\"cursor\":\"1:1\",\"generation\":1,\"agent\":\"b\"}", 0 },
		{ "{\"type\":\"goaway\"}", -EPROTO },
		{ "{\"type\":\"resync\"}", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nc_message message;
		struct nc_json *json;

		assert_int_equal(nc_json_parse(rows[i].text, strlen(rows[i].text), &json), 0);
		assert_int_equal(nc_json_message(json, &message), rows[i].ret);
		nc_json_free(json);
	}
}

/* Of a NIC, of all, and of one kind: what ended well, what did not, and both. */
static void snapshot__has_bytes_of_all_operations_that_ended(void **state)
{
	static const char *const texts[] = {
		"\"by_op\":{\"read\":{\"assign\":3,\"batch\":3,\"submitted_bytes\":140,"
		"\"completed_bytes\":100,\"failed_bytes\":40,\"pending\":1,\"errors\":1,"
		"\"post_batch\":3,\"post_wr\":3,\"post_bytes\":140,\"post_failures\":0}}",
		"\"submitted_bytes_total\":140,\"completed_bytes_total\":100,"
		"\"failed_bytes_total\":40",
		"\"post_bytes_total\":140",
	};
	struct nc_nic nic = { .name = "shm" };
	struct nc_snapshot s = { .session_id = "a:1:1", .host = "h", .nics = &nic, .n_nics = 1 };
	const char *summary;
	char *text;

	(void)state;
	nic.traffic.ops[NC_OP_READ] = (struct nc_op_count){
		.submitted = 3, .completed = 1, .failed = 1, .bytes = 100, .failed_bytes = 40
	};
	text = nc_json_snapshot(&s, "a");
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!strstr(text, texts[i]))
			fail_msg("no %s in %s", texts[i], text);
	summary = strstr(text, "\"summary\":");
	assert_non_null(summary);
	assert_non_null(strstr(summary, texts[1]));
	free(text);
}

/* Who waited for immediates when a link ended did nothing wrong. */
static void snapshot__has_no_error_of_immediates_that_nobody_sent(void **state)
{
	struct nc_nic nic = { .name = "shm" };
	struct nc_snapshot s = { .session_id = "a:1:1", .host = "h", .nics = &nic, .n_nics = 1 };
	char *text;

	(void)state;
	nic.traffic.ops[NC_OP_IMM_RECV] = (struct nc_op_count){ .submitted = 64, .failed = 64 };
	nic.traffic.ops[NC_OP_RECV] = (struct nc_op_count){ .submitted = 1, .failed = 1 };
	text = nc_json_snapshot(&s, "a");
	assert_non_null(text);
	assert_non_null(strstr(text, "\"error_total\":1,"));
	assert_non_null(strstr(text, "\"cq_errors_total\":1,"));
	assert_null(strstr(text, "\"error_total\":65"));
	assert_non_null(strstr(text, "\"errors\":64"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(response__of_every_framing_gives_its_body),
		cmocka_unit_test(response__to_the_end_is_complete_with_it),
		cmocka_unit_test(response__that_could_be_read_in_two_ways_is_refused),
		cmocka_unit_test(response__with_endless_headers_is_refused),
		cmocka_unit_test(response__reads_the_headers_it_needs),
		cmocka_unit_test(websocket__puts_messages_together),
		cmocka_unit_test(websocket__refuses_what_servers_must_not_send),
		cmocka_unit_test(accept__is_that_of_the_standard),
		cmocka_unit_test(json__of_the_wrong_shape_is_refused),
		cmocka_unit_test(message__needs_the_members_of_its_type),
		cmocka_unit_test(snapshot__has_bytes_of_all_operations_that_ended),
		cmocka_unit_test(snapshot__has_no_error_of_immediates_that_nobody_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
