/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/tcp/frame.h"

#include <errno.h>

#include "base/wire.h"

/* The frames that a kind may carry. */
static const struct bounds {
	uint16_t count_min, count_max;
	uint32_t len_max;
	uint32_t id_max;
	uint64_t arg_max;
} bounds[TCP_KINDS] = {
	[TCP_OPEN] = { .id_max = TCP_STREAMS_MAX - 1, .arg_max = TCP_STREAMS_MAX },
	[TCP_READY] = { 0 },
	[TCP_MSG] = { .len_max = SL_SLOT_LARGE },
	[TCP_READ] = { .count_min = 1,
		       .count_max = TCP_PIECES_MAX,
		       .len_max = TCP_REQUEST_MAX,
		       .id_max = TCP_REQUESTS - 1 },
	[TCP_DATA] = { .len_max = TCP_REQUEST_MAX, .id_max = TCP_REQUESTS - 1 },
	[TCP_WRITE] = { .count_min = 1,
			.count_max = TCP_PIECES_MAX,
			.len_max = TCP_REQUEST_MAX,
			.id_max = TCP_REQUESTS - 1 },
	[TCP_WRITE_IMM] = { .count_max = TCP_PIECES_MAX,
			    .len_max = TCP_REQUEST_MAX,
			    .id_max = TCP_REQUESTS - 1,
			    .arg_max = UINT32_MAX },
	[TCP_REPLY] = { .id_max = TCP_REQUESTS - 1, .arg_max = TCP_CODES - 1 },
	[TCP_CREDIT] = { .arg_max = UINT64_MAX },
	[TCP_WITHDRAW] = { .arg_max = UINT64_MAX },
	[TCP_BYE] = { 0 },
	[TCP_SECRET] = { .id_max = UINT32_MAX, .arg_max = UINT64_MAX },
};

void tcp_head_write(const struct tcp_head *h, uint8_t out[TCP_HEAD_LEN])
{
	out[0] = TCP_FRAME_VERSION;
	out[1] = h->kind;
	sl_put_le16(out + 2, h->count);
	sl_put_le32(out + 4, h->id);
	sl_put_le64(out + 8, h->len);
	sl_put_le64(out + 16, h->arg);
}

int tcp_head_read(struct tcp_head *h, const uint8_t in[TCP_HEAD_LEN])
{
	const struct bounds *b;

	h->kind = in[1];
	h->count = sl_get_le16(in + 2);
	h->id = sl_get_le32(in + 4);
	h->len = sl_get_le64(in + 8);
	h->arg = sl_get_le64(in + 16);
	if (in[0] != TCP_FRAME_VERSION || h->kind == 0 || h->kind >= TCP_KINDS)
		return -EPROTO;
	b = &bounds[h->kind];
	if (h->count < b->count_min || h->count > b->count_max || h->len > b->len_max ||
	    h->id > b->id_max || h->arg > b->arg_max)
		return -EPROTO;
	return 0;
}

void tcp_piece_write(const struct tcp_piece *p, uint8_t out[TCP_PIECE_LEN])
{
	sl_put_le32(out, p->region);
	sl_put_le32(out + 4, p->len);
	sl_put_le64(out + 8, p->generation);
	sl_put_le64(out + 16, p->offset);
}

int tcp_pieces_read(struct tcp_piece *pieces, const struct tcp_head *h, const uint8_t *in)
{
	uint64_t sum = 0;

	for (uint16_t i = 0; i < h->count; i++, in += TCP_PIECE_LEN) {
		pieces[i].region = sl_get_le32(in);
		pieces[i].len = sl_get_le32(in + 4);
		pieces[i].generation = sl_get_le64(in + 8);
		pieces[i].offset = sl_get_le64(in + 16);
		if (!pieces[i].len)
			return -EPROTO;
		sum += pieces[i].len;
	}
	return sum == h->len ? 0 : -EPROTO;
}

void tcp_msg_write(const struct sl_msg *m, uint8_t out[TCP_MSG_LEN])
{
	out[0] = m->kind;
	out[1] = m->flags;
	sl_put_le16(out + 2, m->slot);
	sl_put_le32(out + 4, m->len);
	for (int i = 0; i < 6; i++)
		sl_put_le64(out + 8 + 8 * i, m->w[i]);
}

int tcp_msg_read(struct sl_msg *m, const struct tcp_head *h, const uint8_t in[TCP_MSG_LEN])
{
	m->kind = in[0];
	m->flags = in[1];
	m->slot = sl_get_le16(in + 2);
	m->len = sl_get_le32(in + 4);
	for (int i = 0; i < 6; i++)
		m->w[i] = sl_get_le64(in + 8 + 8 * i);
	return m->len == h->len && sl_msg_valid(m) ? 0 : -EPROTO;
}

enum tcp_code tcp_code_of(int err)
{
	switch (err) {
	case 0:
		return TCP_OK;
	case -ERANGE:
		return TCP_RANGE;
	case -EACCES:
		return TCP_ACCESS;
	default:
		return TCP_STALE;
	}
}

int tcp_code_status(uint64_t code)
{
	switch (code) {
	case TCP_OK:
		return 0;
	case TCP_STALE:
		return -ESTALE;
	default:
		return -EREMOTEIO;
	}
}
