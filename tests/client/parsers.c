/* SPDX-License-Identifier: Apache-2.0 */
/* What a server sends, in pieces of every size: the outcome must not depend on them. */
#include <errno.h>
#include <event2/buffer.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nanoctrl/client/json.h"
#include "nanoctrl/client/request.h"
#include "nanoctrl/net/http_parser.h"
#include "nanoctrl/net/ws_frame.h"

static const struct http_limits limits = { .head_bytes = UINT16_MAX,
					   .target_bytes = 100,
					   .body_bytes = 1024 * 1024 };

#define MORE -1

/* 0 when the response is complete, the status of the refusal, or MORE. */
static int feed(struct http_parser *p, const char *text, size_t step, size_t *used)
{
	size_t len = strlen(text);

	*used = 0;
	while (*used < len) {
		size_t n = len - *used < step ? len - *used : step, taken;
		enum http_parse got = http_parser_feed(p, text + *used, n, &taken);

		*used += taken;
		if (got == HTTP_DONE)
			return 0;
		if (got == HTTP_REFUSED)
			return p->refusal->status;
	}
	return MORE;
}

static void assert_response(const char *text, int expected, const char *body, size_t rest)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		struct http_parser p;
		size_t used;

		http_parser_init_response(&p, &limits);
		assert_int_equal(feed(&p, text, step, &used), expected);
		if (!expected) {
			assert_int_equal(strlen(text) - used, rest);
			assert_string_equal(p.msg.body ? p.msg.body : "", body);
		}
		http_parser_fini(&p);
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
	assert_response("HTTP/1.1 200 OK\r\n\r\nto the end", MORE, NULL, 0);
}

static void response__to_the_end_is_complete_with_it(void **state)
{
	struct http_message m;
	struct http_parser p;
	size_t used;

	(void)state;
	http_parser_init_response(&p, &limits);
	assert_int_equal(feed(&p, "HTTP/1.0 200 OK\r\n\r\nabc", 100, &used), MORE);
	assert_int_equal(http_parser_end(&p), HTTP_DONE);
	http_parser_take(&p, &m);
	assert_string_equal(m.body, "abc");
	assert_false(m.keep_alive);
	http_message_fini(&m);

	feed(&p, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", 100, &used);
	assert_int_equal(http_parser_end(&p), HTTP_MORE);
	http_parser_fini(&p);
}

/* What ends the response early does not end a request. */
static void request__is_never_complete_with_its_connection(void **state)
{
	struct http_parser p;
	size_t used;

	(void)state;
	http_parser_init(&p, &limits);
	assert_int_equal(
		feed(&p, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabc", 100, &used),
		MORE);
	assert_int_equal(http_parser_end(&p), HTTP_MORE);
	http_parser_fini(&p);
}

static void response__to_the_end_is_bounded(void **state)
{
	char bytes[4096] = { 0 };
	struct http_parser p;
	enum http_parse got = HTTP_MORE;
	size_t used;

	(void)state;
	http_parser_init_response(&p, &limits);
	assert_int_equal(feed(&p, "HTTP/1.1 200 OK\r\n\r\n", 100, &used), MORE);
	for (size_t i = 0; i <= limits.body_bytes / sizeof(bytes) && got == HTTP_MORE; i++)
		got = http_parser_feed(&p, bytes, sizeof(bytes), &used);
	assert_int_equal(got, HTTP_REFUSED);
	assert_int_equal(p.refusal->status, 413);
	http_parser_fini(&p);
}

static void response__behind_endless_interim_ones_is_refused(void **state)
{
	struct http_parser p;
	size_t used;
	int ret = MORE;

	(void)state;
	http_parser_init_response(&p, &limits);
	for (int i = 0; i < HTTP_INTERIM_MAX; i++)
		assert_int_equal(feed(&p, "HTTP/1.1 102 Wait\r\n\r\n", 100, &used), MORE);
	ret = feed(&p, "HTTP/1.1 102 Wait\r\n\r\n", 100, &used);
	assert_int_equal(ret, 400);
	http_parser_fini(&p);
}

static void response__that_could_be_read_in_two_ways_is_refused(void **state)
{
	static const char *const bad[] = {
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 200OK\r\n\r\n",
		"HTTP/1.1 600 X\r\n\r\n",
		"HTTP/1.1 200 OK\n\r\n",
		"HTTP/1.1 200 OK\r\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\001\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_response(bad[i], 400, NULL, 0);
	assert_response("HTTP/2 200 OK", 400, NULL, 0);
	assert_response("HTTP/1.2 200 OK\r\n\r\n", 505, NULL, 0);
	assert_response("SSH-2.0-x\r\n", 400, NULL, 0);
	assert_response("\r\nHTTP/1.1 200 OK\r\n", 400, NULL, 0);
	assert_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, NULL,
			0);
	assert_response("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", 413, NULL, 0);
	assert_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413,
			NULL, 0);
}

static void response__with_endless_headers_is_refused(void **state)
{
	struct http_parser p;
	size_t used;
	int ret;

	(void)state;
	http_parser_init_response(&p, &limits);
	ret = feed(&p, "HTTP/1.1 200 OK\r\n", 100, &used);
	for (int i = 0; i < 10000 && ret == MORE; i++)
		ret = feed(&p, "Header: value\r\n", 100, &used);
	assert_int_equal(ret, 431);
	http_parser_fini(&p);
}

static uint64_t retry_after(const char *value, bool *keep_alive)
{
	struct http_message m;
	struct http_parser p;
	char text[200];
	uint64_t ms;
	size_t used;

	snprintf(
		text, sizeof(text),
		"HTTP/1.1 503 X\r\nretry-after: %s\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
		value);
	http_parser_init_response(&p, &limits);
	assert_int_equal(feed(&p, text, 100, &used), 0);
	http_parser_take(&p, &m);
	ms = nc_client_retry_after_ms(&m);
	*keep_alive = m.keep_alive;
	http_message_fini(&m);
	http_parser_fini(&p);
	return ms;
}

static void response__says_when_to_come_again(void **state)
{
	bool keep_alive = true;

	(void)state;
	assert_int_equal(retry_after("7", &keep_alive), 7000);
	assert_false(keep_alive);
	assert_int_equal(retry_after("", &keep_alive), 0);
	assert_int_equal(retry_after("7x", &keep_alive), 0);
	assert_int_equal(retry_after("-7", &keep_alive), 0);
	assert_int_equal(retry_after("999999", &keep_alive), 0);
	assert_int_equal(retry_after("Mon, 23 Nov 2026 00:00:00 GMT", &keep_alive), 0);
}

/* --- WebSocket --- */

static void assert_frames(const char *bytes, size_t len, enum ws_event expected,
			  const char *message, unsigned code)
{
	for (size_t step = 1; step <= len; step++) {
		enum ws_event got = WS_MORE;
		struct ws_parser ws;
		size_t at = 0;

		ws_parser_init(&ws, WS_SERVER, 256 * 1024);
		while (got == WS_MORE && at < len) {
			size_t n = len - at < step ? len - at : step, used;

			got = ws_parser_feed(&ws, bytes + at, n, &used);
			if (got == WS_CONTROL && ws.opcode == WS_PONG)
				got = WS_MORE;
			at += used;
		}
		assert_int_equal(got, expected);
		if (message)
			assert_string_equal(ws.payload, message);
		if (code)
			assert_int_equal(ws.close_code, code);
		ws_parser_fini(&ws);
	}
}

#define frames(text, expected, message) assert_frames(text, sizeof(text) - 1, expected, message, 0)
#define refused(text, code)		assert_frames(text, sizeof(text) - 1, WS_BAD, NULL, code)

static void websocket__puts_messages_together(void **state)
{
	char big[4 + 300];

	(void)state;
	frames("\x81\x02hi", WS_MESSAGE, "hi");
	frames("\x81\x00", WS_MESSAGE, "");
	frames("\x01\x01h\x00\x01i\x80\x01!", WS_MESSAGE, "hi!");
	frames("\x01\x01h\x8a\x01x\x80\x01i", WS_MESSAGE, "hi");
	frames("\x89\x02hi", WS_CONTROL, "hi");
	frames("\x88\x02\x03\xe8", WS_CONTROL, NULL);
	memset(big, 'x', sizeof(big));
	memcpy(big, "\x81\x7e\x01\x2c", 4);
	assert_frames(big, sizeof(big), WS_MESSAGE, NULL, 0);
}

static void websocket__refuses_what_servers_must_not_send(void **state)
{
	(void)state;
	refused("\x81\x82", WS_CLOSE_PROTOCOL);		/* masked */
	refused("\xc1\x00", WS_CLOSE_PROTOCOL);		/* a reserved bit */
	refused("\x80\x00", WS_CLOSE_PROTOCOL);		/* nothing to continue */
	refused("\x01\x00\x81\x00", WS_CLOSE_PROTOCOL); /* a message inside another */
	refused("\x09\x00", WS_CLOSE_PROTOCOL);		/* a ping in pieces */
	refused("\x89\x7e\x00\x7e", WS_CLOSE_PROTOCOL); /* a long ping */
	refused("\x8b\x00", WS_CLOSE_PROTOCOL);		/* no such control frame */
	refused("\x81\x7e\x00\x7d", WS_CLOSE_PROTOCOL); /* not the shortest length */
	refused("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", WS_CLOSE_PROTOCOL);
	refused("\x81\x7f\x00\x00\x00\x00\x00\x10\x00\x00", WS_CLOSE_SIZE);
	refused("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", WS_CLOSE_PROTOCOL);
}

static void masked_frame__is_read_back_by_a_server(void **state)
{
	static char payload[70000];
	static const size_t lengths[] = { 0, 1, 125, 126, 65535, 65536, sizeof(payload) };

	(void)state;
	memset(payload, 'p', sizeof(payload));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct evbuffer *out = evbuffer_new();
		struct ws_parser ws;
		size_t used, len;

		assert_non_null(out);
		assert_int_equal(ws_write_masked(out, WS_TEXT, payload, lengths[i]), 0);
		len = evbuffer_get_length(out);
		ws_parser_init(&ws, WS_CLIENT, sizeof(payload));
		assert_int_equal(ws_parser_feed(&ws, evbuffer_pullup(out, -1), len, &used),
				 WS_MESSAGE);
		assert_int_equal(used, len);
		assert_int_equal(ws.len, lengths[i]);
		assert_memory_equal(ws.payload, payload, lengths[i]);
		ws_parser_fini(&ws);
		evbuffer_free(out);
	}
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

/* As DLSlime's agents: bits a second. */
static void snapshot__has_the_bandwidth_by_its_name_on_the_wire(void **state)
{
	struct nc_nic nics[] = { { .name = "shm" }, { .name = "tcp" } };
	struct nc_snapshot s = { .session_id = "a:1:1", .host = "h", .nics = nics, .n_nics = 2 };
	char *text;

	(void)state;
	nics[0].traffic.bw_gb_s = 0.5;
	nics[1].traffic.bw_gb_s = 1.5;
	text = nc_json_snapshot(&s, "a");
	assert_non_null(text);
	assert_non_null(strstr(text, "\"ewma_bandwidth_bps\":4000000000.0"));
	assert_non_null(strstr(text, "\"ewma_bandwidth_bps\":12000000000.0"));
	assert_non_null(strstr(text, "\"ewma_bandwidth_bps\":16000000000.0,\"summary\":"));
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
		cmocka_unit_test(response__to_the_end_is_bounded),
		cmocka_unit_test(response__behind_endless_interim_ones_is_refused),
		cmocka_unit_test(request__is_never_complete_with_its_connection),
		cmocka_unit_test(response__says_when_to_come_again),
		cmocka_unit_test(websocket__puts_messages_together),
		cmocka_unit_test(websocket__refuses_what_servers_must_not_send),
		cmocka_unit_test(masked_frame__is_read_back_by_a_server),
		cmocka_unit_test(json__of_the_wrong_shape_is_refused),
		cmocka_unit_test(message__needs_the_members_of_its_type),
		cmocka_unit_test(snapshot__has_bytes_of_all_operations_that_ended),
		cmocka_unit_test(snapshot__has_the_bandwidth_by_its_name_on_the_wire),
		cmocka_unit_test(snapshot__has_no_error_of_immediates_that_nobody_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
