/* SPDX-License-Identifier: Apache-2.0 */
/* Responses one after the other; the first byte says in what pieces they come. What is complete is
 * read as JSON. */
#include <stdint.h>
#include <stdlib.h>

#include "nanoctrl/client/json.h"
#include "nanoctrl/client/request.h"
#include "nanoctrl/net/http_parser.h"

static void decode(const struct http_message *r)
{
	struct nc_error error = { 0 };
	struct nc_json_grant grant;
	struct nc_agent agent;
	struct nc_region region;
	struct nc_offer offer;
	struct nc_page page;
	struct nc_json *json;

	nc_client_read_error(r, &error);
	nc_client_retry_after_ms(r);
	if (!r->body || nc_json_parse(r->body, r->body_len, &json))
		return;
	nc_json_error(json, &error);
	nc_json_grant(json, &grant);
	nc_json_agent(json, &agent);
	nc_json_region(json, &region);
	nc_json_offer(json, &offer);
	nc_json_agents(json, &page);
	nc_json_regions(json, &page);
	nc_json_offers(json, &page);
	nc_json_links(json, &page);
	nc_json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct http_limits limits = { .head_bytes = UINT16_MAX, .body_bytes = 1024 * 1024 };
	size_t step = size ? (size_t)data[0] + 1 : 1;
	enum http_parse got = HTTP_MORE;
	struct http_message m;
	struct http_parser p;

	http_parser_init_response(&p, &limits);
	for (size_t at = 1; at < size && got != HTTP_REFUSED;) {
		size_t n = size - at < step ? size - at : step, used;

		got = http_parser_feed(&p, data + at, n, &used);
		at += used;
		if (got != HTTP_DONE)
			continue;
		http_parser_take(&p, &m);
		if (m.body && m.body[m.body_len])
			abort();
		decode(&m);
		http_message_fini(&m);
	}
	if (http_parser_end(&p) == HTTP_DONE) {
		http_parser_take(&p, &m);
		decode(&m);
		http_message_fini(&m);
	}
	http_parser_fini(&p);
	return 0;
}
