/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign bytes as HTTP: whole and byte by byte they have to mean the same. */
#include "nanoctrl/net/http_parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/percent.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const struct http_limits limits = { .head_bytes = 512,
					   .target_bytes = 64,
					   .body_bytes = 256 };

/* What came of the first request. */
struct outcome {
	enum http_parse end;
	const struct http_refusal *refusal;
	size_t used;
	struct http_message msg;
};

static struct outcome parse(const unsigned char *data, size_t size, size_t step)
{
	struct outcome o = { .end = HTTP_MORE };
	struct http_parser p;

	http_parser_init(&p, &limits);
	while (o.end == HTTP_MORE && o.used < size) {
		size_t n = size - o.used < step ? size - o.used : step;
		size_t used;

		o.end = http_parser_feed(&p, data + o.used, n, &used);
		if (used > n || (o.end == HTTP_MORE && used != n))
			abort();
		o.used += used;
		(void)http_parser_wants_continue(&p);
	}
	o.refusal = p.refusal;
	if (o.end == HTTP_DONE)
		http_parser_take(&p, &o.msg);
	http_parser_fini(&p);
	return o;
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
	if (a->end != b->end || a->refusal != b->refusal || a->used != b->used)
		abort();
	if (a->end != HTTP_DONE)
		return;
	if (strcmp(a->msg.path, b->msg.path) || a->msg.n_fields != b->msg.n_fields ||
	    a->msg.body_len != b->msg.body_len ||
	    (a->msg.body_len && memcmp(a->msg.body, b->msg.body, a->msg.body_len)))
		abort();
}

static void check_bounds(const struct http_message *m)
{
	char decoded[65];

	if (strlen(m->path) > limits.target_bytes || m->body_len > limits.body_bytes)
		abort();
	(void)percent_decode(m->path, strlen(m->path), true, decoded);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct outcome whole = parse(data, size, size + 1);
	struct outcome bytes = parse(data, size, 1);

	check_same(&whole, &bytes);
	if (whole.end == HTTP_DONE)
		check_bounds(&whole.msg);
	http_message_fini(&whole.msg);
	http_message_fini(&bytes.msg);
	return 0;
}
