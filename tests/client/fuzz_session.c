/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a session's server; the first byte says in what pieces they come. Texts are read as
 * messages. */
#include <stdint.h>
#include <stdlib.h>

#include "nanoctrl/client/json.h"
#include "nanoctrl/net/ws_frame.h"

static void decode(const struct ws_parser *ws)
{
	struct nc_message message;
	struct nc_json *json;

	if (nc_json_parse(ws->payload, ws->len, &json))
		return;
	nc_json_message(json, &message);
	nc_json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? (size_t)data[0] + 1 : 1;
	enum ws_event what = WS_MORE;
	struct ws_parser ws;

	ws_parser_init(&ws, WS_SERVER, 256 * 1024);
	for (size_t at = 1; at < size && what != WS_BAD;) {
		size_t n = size - at < step ? size - at : step, used;

		what = ws_parser_feed(&ws, data + at, n, &used);
		at += used;
		if (what == WS_MESSAGE)
			decode(&ws);
	}
	ws_parser_fini(&ws);
	return 0;
}
