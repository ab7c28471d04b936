/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says about itself. */
#include "api_server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>

#include "reply.h"
#include "server.h"

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

void api_readyz(struct request *rq)
{
	static const char ready[] = "{\"status\":\"ok\"}";
	const char *local = request_query(rq, "local");
	const char *trouble = NULL;
	bool draining = server_draining(request_server(rq));

	if (!draining && (!local || strcmp(local, "1") != 0))
		trouble = request_store_trouble(rq);
	if (!draining && !trouble)
		reply_json(rq, 200, ready, sizeof(ready) - 1);
	else
		reply_error(rq,
			    &(struct reply_error){
				    .status = 503, .code = "unavailable", .retry_after_s = 1 },
			    "%s%s", draining ? "shutting down" : "Redis does not serve: ",
			    draining ? "" : trouble);
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
