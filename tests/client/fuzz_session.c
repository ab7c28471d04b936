/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a session's server; the first byte says in what pieces they come. Texts are read as
 * messages. */
#include <stdint.h>
#include <stdlib.h>

#include "nanoctrl/client/json.h"
#include "nanoctrl/client/websocket.h"

static void decode(const struct nc_ws *ws)
{
	struct nc_message message;
	struct nc_json *json;

	if (nc_json_parse(ws->message, ws->message_len, &json))
		return;
	nc_json_message(json, &message);
	nc_json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? (size_t)data[0] + 1 : 1;
	int what = NC_WS_MORE;
	struct nc_ws ws;

	nc_ws_init(&ws);
	for (size_t at = 1; at < size && what > 0 && what != NC_WS_CLOSED;) {
		size_t n = size - at < step ? size - at : step, used;

		what = nc_ws_feed(&ws, data + at, n, &used);
		at += used;
		if (what == NC_WS_MESSAGE)
			decode(&ws);
	}
	nc_ws_fini(&ws);
	return 0;
}
