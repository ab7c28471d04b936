/* SPDX-License-Identifier: Apache-2.0 */
/* A tcp stream's frames, one after the other, as the receiving half reads them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/transport/tcp/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* What was accepted is within its bounds, and is written as it was read. */
static void check_pieces(const struct tcp_head *h, const uint8_t *in)
{
	struct tcp_piece pieces[TCP_PIECES_MAX];
	uint8_t out[TCP_PIECE_LEN];

	must(h->count <= TCP_PIECES_MAX && h->len <= TCP_REQUEST_MAX);
	if (tcp_pieces_read(pieces, h, in))
		return;
	for (unsigned i = 0; i < h->count; i++) {
		must(pieces[i].len > 0 && pieces[i].len <= h->len);
		tcp_piece_write(&pieces[i], out);
		must(memcmp(out, in + i * TCP_PIECE_LEN, TCP_PIECE_LEN) == 0);
	}
}

static void check_msg(const struct tcp_head *h, const uint8_t *in)
{
	struct sl_msg m;
	uint8_t out[TCP_MSG_LEN];
	enum sl_area area;

	if (tcp_msg_read(&m, h, in))
		return;
	area = sl_msg_area(m.kind);
	must(m.len == h->len);
	must(area == SL_AREAS ? m.len == 0 : sl_slot_offset(area, m.slot) + m.len <= SL_SLOTS_LEN);
	tcp_msg_write(&m, out);
	must(memcmp(out, in, TCP_MSG_LEN) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[TCP_HEAD_LEN];
	struct tcp_head h;

	while (size >= TCP_HEAD_LEN && tcp_head_read(&h, data) == 0) {
		uint64_t rest;

		tcp_head_write(&h, out);
		must(memcmp(out, data, TCP_HEAD_LEN) == 0);
		data += TCP_HEAD_LEN;
		size -= TCP_HEAD_LEN;
		if (size < tcp_head_list_len(&h))
			return 0;
		if (h.kind == TCP_MSG)
			check_msg(&h, data);
		else if (h.count)
			check_pieces(&h, data);
		rest = tcp_head_list_len(&h) + (h.kind == TCP_READ ? 0 : h.len);
		if (size < rest)
			return 0;
		data += rest;
		size -= rest;
	}
	return 0;
}
