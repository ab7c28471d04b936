/* SPDX-License-Identifier: Apache-2.0 */
#include "http/reply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <event2/buffer.h>

#include "base/log.h"
#include "http/conn.h"
#include "base/digits.h"
#include "text/json_text.h"
#include "http/worker.h"

#define MESSAGE_MAX 512
#define HOLDER_MAX  2048
#define FIELDS_MAX  128 /* of header fields that one reply has and others do not */
#define HEAD_MAX    (FIELDS_MAX + REQUEST_EXTRA_MAX + REQUEST_ID_MAX + 192)
#define ERROR_MAX   (6 * MESSAGE_MAX + 1024 + HOLDER_MAX)

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{ 101, "Switching Protocols" },
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 426, "Upgrade Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Status";
}

static bool has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

void reply_head(struct request *rq, int status, const char *fields, bool keep, struct evbuffer *out)
{
	char head[HEAD_MAX], *at = stpcpy(head, "HTTP/1.1 ");

	assert(strlen(fields) < FIELDS_MAX);
	at = digits_put(at, (unsigned)status);
	at = stpcpy(stpcpy(at, " "), reason_of(status));
	at = stpcpy(stpcpy(at, "\r\nDate: "), worker_date(rq->w));
	at = stpcpy(stpcpy(at, "\r\n"), fields);
	at = stpcpy(stpcpy(at, "X-Request-Id: "), rq->id);
	at = stpcpy(stpcpy(at, "\r\n"), rq->extra);
	at = stpcpy(at, keep ? "\r\n" : "Connection: close\r\n\r\n");
	evbuffer_add(out, head, (size_t)(at - head));
}

static bool keeps(const struct request *rq)
{
	return rq->msg.keep_alive && !rq->conn->eof && rq->w->phase == WORKER_SERVING;
}

/* Of a reply with a body. */
static void put_fields(char fields[FIELDS_MAX], const char *type, size_t len)
{
	char *at = stpcpy(stpcpy(fields, "Content-Type: "), type);

	at = digits_put(stpcpy(at, "\r\nContent-Length: "), len);
	strcpy(at, "\r\n");
}

static void send_reply(struct request *rq, int status, const char *type, const void *body,
		       size_t len)
{
	struct conn *c = rq->conn;
	struct evbuffer *out;
	char fields[FIELDS_MAX] = "";
	bool keep;

	if (!c) {
		request_destroy(rq, METRICS_CLIENT_GONE);
		return;
	}
	out = conn_output(c);
	keep = keeps(rq);
	if (has_body(status))
		put_fields(fields, type, len);
	reply_head(rq, status, fields, keep, out);
	if (has_body(status) && !rq->head && len && evbuffer_add(out, body, len))
		conn_break(c); /* half a reply is none */
	else
		conn_replied(c, keep);
	c->rq = NULL;
	request_destroy(rq, status);
}

void reply_json(struct request *rq, int status, const char *body, size_t len)
{
	send_reply(rq, status, "application/json", body, len);
}

void reply_text(struct request *rq, int status, const char *body, size_t len)
{
	send_reply(rq, status, "text/plain; charset=utf-8", body, len);
}

void reply_header(struct request *rq, const char *name, const char *value)
{
	size_t room = sizeof(rq->extra) - rq->extra_len;
	int n = snprintf(rq->extra + rq->extra_len, room, "%s: %s\r\n", name, value);

	if (n < 0 || (size_t)n >= room) {
		rq->extra[rq->extra_len] = '\0';
		sl_log_set_request(rq->id);
		sl_error("http", "%s: no room for header field %s in the reply", rq->id, name);
		sl_log_set_request(NULL);
		return;
	}
	rq->extra_len += (size_t)n;
}

/* The length of the error body in json. Strings are cut rather than the JSON around them. */
static size_t write_error(char json[ERROR_MAX], const struct reply_error *e, const char *message,
			  const char *id)
{
	const char *outcome = e->outcome == OUTCOME_UNKNOWN ? "unknown" : "not_executed";
	size_t at = (size_t)snprintf(json, ERROR_MAX,
				     "{\"status\":\"error\",\"code\":\"%s\",\"message\":", e->code);

	at += json_text(json + at, ERROR_MAX - HOLDER_MAX - 1024 - at, message);
	at += (size_t)snprintf(json + at, ERROR_MAX - at,
			       ",\"outcome\":\"%s\",\"request_id\":\"%s\"", outcome, id);
	if (e->field) {
		at += (size_t)snprintf(json + at, ERROR_MAX - at, ",\"field\":");
		at += json_text(json + at, ERROR_MAX - HOLDER_MAX - 32 - at, e->field);
	}
	if (e->order)
		at += (size_t)snprintf(json + at, ERROR_MAX - at, ",\"order\":%" PRIu64, e->order);
	if (e->holder && strlen(e->holder) < HOLDER_MAX)
		at += (size_t)snprintf(json + at, ERROR_MAX - at, ",\"holder\":%s", e->holder);
	return at + (size_t)snprintf(json + at, ERROR_MAX - at, "}");
}

/* The cause was logged where it happened; only here the request is known. */
static void log_failure(const struct request *rq, const struct reply_error *e, const char *message)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(10, 1000);
	uint32_t held_back;

	if ((e->status != 500 && e->outcome != OUTCOME_UNKNOWN) ||
	    !sl_log_allow(&limit, &held_back))
		return;
	sl_log_set_request(rq->id);
	sl_error("http", "%s: %s %s: %d %s: %s (%u more lines held back)", rq->id,
		 http_method_name(rq->msg.method), rq->msg.path, e->status, e->code, message,
		 held_back);
	sl_log_set_request(NULL);
}

unsigned reply_retry_after_s(unsigned seconds)
{
	return seconds + worker_random(seconds + 1);
}

void reply_error(struct request *rq, const struct reply_error *e, const char *fmt, ...)
{
	char message[MESSAGE_MAX], json[ERROR_MAX], seconds[16];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	log_failure(rq, e, message);
	if (e->retry_after_s) {
		snprintf(seconds, sizeof(seconds), "%u", reply_retry_after_s(e->retry_after_s));
		reply_header(rq, "Retry-After", seconds);
	}
	reply_json(rq, e->status, json, write_error(json, e, message, rq->id));
}

void reply_refusal(struct conn *c, const struct http_refusal *why)
{
	const struct reply_error e = { .status = why->status,
				       .code = why->code,
				       .field = why->field };
	struct worker *w = c->w;
	char json[ERROR_MAX], id[REQUEST_ID_MAX + 1], again[40] = "";
	size_t len;

	if (why->status == 503)
		snprintf(again, sizeof(again), "Retry-After: %u\r\n", reply_retry_after_s(1));
	request_new_id(w, id);
	len = write_error(json, &e, why->text, id);
	evbuffer_add_printf(
		conn_output(c),
		"HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n%sX-Request-Id: %s\r\nConnection: close\r\n\r\n",
		why->status, reason_of(why->status), worker_date(w), len, again, id);
	evbuffer_add(conn_output(c), json, len);
	metrics_request(w->metrics, w->config->n_routes, why->status, 0);
	if (w->config->access_log) {
		sl_log_set_request(id);
		sl_info("access", "%s %s - - %d", id, c->peer, why->status);
		sl_log_set_request(NULL);
	}
}
