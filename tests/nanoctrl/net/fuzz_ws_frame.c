/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign bytes as WebSocket frames: whole and byte by byte they have to mean the same. */
#include "nanoctrl/net/ws_frame.h"

#include <stdint.h>
#include <stdlib.h>
#include <base/utf8.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define MESSAGE_MAX 300

/* A checksum of everything that came out. */
static uint64_t parse(const unsigned char *data, size_t size, size_t step)
{
	enum ws_event event = WS_MORE;
	struct ws_parser p;
	uint64_t sum = 14695981039346656037u;
	size_t at = 0;

	ws_parser_init(&p, WS_CLIENT, MESSAGE_MAX);
	while (event != WS_BAD && at < size) {
		size_t n = size - at < step ? size - at : step;
		size_t used;

		event = ws_parser_feed(&p, data + at, n, &used);
		if (used > n || (event == WS_MORE && used != n))
			abort();
		at += used;
		if (event == WS_MORE)
			continue;
		sum = (sum ^ event ^ (p.opcode << 8)) * 1099511628211u;
		if (event == WS_BAD) {
			sum = (sum ^ p.close_code) * 1099511628211u;
			break;
		}
		if (p.len > MESSAGE_MAX || p.payload[p.len] ||
		    (p.opcode == WS_TEXT && !sl_utf8_valid(p.payload, p.len)))
			abort();
		for (size_t i = 0; i < p.len; i++)
			sum = (sum ^ (unsigned char)p.payload[i]) * 1099511628211u;
	}
	ws_parser_fini(&p);
	return sum;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	if (parse(data, size, size + 1) != parse(data, size, 1))
		abort();
	return 0;
}
