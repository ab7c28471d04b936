/* SPDX-License-Identifier: Apache-2.0 */
/* The routes that report the server's own state. */
#include "api/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>

#include "text/json_text.h"
#include "http/request.h"
#include "http/reply.h"
#include "http/server.h"

void api_root(struct request *rq)
{
	static const char text[] = "NanoCtrl Server Running";

	reply_text(rq, 200, text, sizeof(text) - 1);
}

/* The product and the pid are what `nanoctrl start` and `status` recognise their own server by. */
void api_healthz(struct request *rq)
{
	char json[256];
	int n = snprintf(
		json, sizeof(json),
		"{\"status\":\"ok\",\"product\":\"nanoctrl\",\"version\":\"%s\",\"pid\":%ld}",
		SLIME_VERSION, (long)getpid());

	reply_json(rq, 200, json, (size_t)n);
}

/* {"status":"ok"[,"warnings":["...", ...]]} */
static void reply_ready(struct request *rq, bool local)
{
	struct evbuffer *lines = evbuffer_new(), *out = evbuffer_new();
	const char *before = ",\"warnings\":[", *after = "}", *text = NULL;
	char *line, quoted[1024];

	if (lines && out) {
		if (!local)
			request_store_warnings(rq, lines);
		evbuffer_add_printf(out, "{\"status\":\"ok\"");
		while ((line = evbuffer_readln(lines, NULL, EVBUFFER_EOL_LF))) {
			json_text(quoted, sizeof(quoted), line);
			evbuffer_add_printf(out, "%s%s", before, quoted);
			before = ",";
			after = "]}";
			free(line);
		}
		evbuffer_add_printf(out, "%s", after);
		text = (const char *)evbuffer_pullup(out, -1);
	}
	if (text)
		reply_json(rq, 200, text, evbuffer_get_length(out));
	else
		reply_error(
			rq,
			&(struct reply_error){ .status = 503, .code = "busy", .retry_after_s = 1 },
			"no memory for the answer");
	if (lines)
		evbuffer_free(lines);
	if (out)
		evbuffer_free(out);
}

void api_readyz(struct request *rq)
{
	const char *query = request_query(rq, "local");
	bool local = query && strcmp(query, "1") == 0;
	const char *trouble = NULL;
	bool draining = server_draining(request_server(rq));
	const struct reply_error not_ready = { .status = 503,
					       .code = "unavailable",
					       .retry_after_s = 1 };

	if (!draining && !local)
		trouble = request_store_trouble(rq);
	if (draining)
		reply_error(rq, &not_ready, "shutting down");
	else if (trouble)
		reply_error(rq, &not_ready, "Redis at %s does not serve: %s",
			    request_store_place(rq), trouble);
	else
		reply_ready(rq, local);
}

void api_metrics(struct request *rq)
{
	struct evbuffer *out = evbuffer_new();
	const char *text = NULL;

	if (out) {
		server_metrics(request_server(rq), out);
		text = (const char *)evbuffer_pullup(out, -1);
	}
	if (text)
		reply_text(rq, 200, text, evbuffer_get_length(out));
	else
		reply_error(
			rq,
			&(struct reply_error){ .status = 503, .code = "busy", .retry_after_s = 1 },
			"no memory for the metrics");
	if (out)
		evbuffer_free(out);
}
