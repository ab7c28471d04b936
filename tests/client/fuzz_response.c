/* SPDX-License-Identifier: Apache-2.0 */
/* Responses one after the other; the first byte says in what pieces they come. What is complete is
 * read as JSON. */
#include <stdint.h>
#include <stdlib.h>

#include "nanoctrl/client/http_response.h"
#include "nanoctrl/client/json.h"

static void decode(const struct nc_response *r)
{
	struct nc_error error = { 0 };
	struct nc_json_grant grant;
	struct nc_agent agent;
	struct nc_region region;
	struct nc_offer offer;
	struct nc_page page;
	struct nc_json *json;

	if (nc_json_parse(r->body, r->body_len, &json))
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
	static struct nc_response r;
	size_t step = size ? (size_t)data[0] + 1 : 1;
	int ret = NC_RESPONSE_MORE;

	nc_response_init(&r);
	for (size_t at = 1; at < size && ret >= 0;) {
		size_t n = size - at < step ? size - at : step, used;

		ret = nc_response_feed(&r, (const char *)data + at, n, &used);
		at += used;
		if (ret)
			continue;
		if (r.body[r.body_len])
			abort();
		decode(&r);
		nc_response_fini(&r);
		nc_response_init(&r);
	}
	nc_response_end(&r);
	nc_response_fini(&r);
	return 0;
}
