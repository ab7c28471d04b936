/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and calls, as the pages "Messages" and "Calls" of docs/wire.md say. */
#include <string.h>

#include "tests/stress/mutate.h"
#include "tests/stress/raw.h"

enum { IMM = 1, SEND, SEND_DONE, REQUEST, REPLY, CANCEL };

static void begin(struct raw *r, struct raw_msg *m, uint8_t kind, uint8_t flags, unsigned slot,
		  uint32_t len)
{
	memset(m->head, 0, sizeof(m->head));
	m->head[0] = (uint8_t)raw_field(r, kind);
	m->head[1] = (uint8_t)raw_field(r, flags);
	sl_put_le16(m->head + 2, (uint16_t)raw_field(r, slot));
	m->len = (uint32_t)raw_field(r, len);
	sl_put_le32(m->head + 4, m->len);
	if (m->len > sizeof(m->payload))
		m->len = sizeof(m->payload);
}

static void word(struct raw *r, struct raw_msg *m, int i, uint64_t value)
{
	sl_put_le64(m->head + 8 + i * 8, raw_field(r, value));
}

static uint64_t get_word(const uint8_t *head, int i)
{
	return sl_get_le64(head + 8 + i * 8);
}

static struct raw_place *find_place(struct raw *r, struct raw_place *places, unsigned n)
{
	unsigned start = (unsigned)roll_below(&r->dice, n);

	for (unsigned i = 0; i < n; i++) {
		struct raw_place *place = &places[(start + i) % n];

		if (!place->taken || raw_is_odd(r))
			return place;
	}
	return NULL;
}

static uint32_t slot_len(unsigned slot)
{
	return slot < 64 ? 1024 : RAW_SLOT_LARGE;
}

/* Bytes of a region of ours, as whoever lends it says: the peer asks for them. */
static void write_loan(struct raw *r, uint8_t *out, uint64_t offset)
{
	struct sl_writer w = { out, 64, false };

	sl_write_u64(&w, raw_field(r, sl_get_le64(r->own + 16)));
	sl_write_u64(&w, raw_field(r, sl_get_le64(r->own + 24)));
	sl_write_u64(&w, raw_field(r, sl_get_le64(r->own + 32)));
	sl_write_u32(&w, (uint32_t)raw_field(r, sl_get_le32(r->own + 40)));
	sl_write_u16(&w, (uint16_t)raw_field(r, 3));
	sl_write_u16(&w, (uint16_t)raw_field(r, 0));
	sl_write_bytes(&w, r->own + 48, 16);
	sl_write_u64(&w, raw_field(r, 0));
	sl_write_u64(&w, raw_field(r, offset));
}

static uint64_t method_id(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static bool write_send(struct raw *r, struct raw_msg *m)
{
	struct raw_place *place = find_place(r, r->sends, RAW_SENDS);
	bool is_long = roll_percent(&r->dice, 30);
	uint32_t len = (uint32_t)roll_len(&r->dice, is_long ? 32768 : 1024);

	if (!place)
		return false;
	if (is_long && len <= 1024)
		len = 1025;
	place->taken = true;
	begin(r, m, SEND, is_long, (unsigned)(place - r->sends), is_long ? RAW_DESC_LEN : len);
	word(r, m, 0, roll_below(&r->dice, 4));
	word(r, m, 1, len);
	if (is_long) {
		word(r, m, 2, roll_below(&r->dice, 32768));
		memcpy(m->payload, r->own, sizeof(r->own));
		if (raw_is_odd(r))
			mutate_bytes(&r->dice, m->payload, sizeof(r->own));
	}
	return true;
}

/* With flag 1 the request is lent, with flag 2 room for the reply is. */
static bool write_request(struct raw *r, struct raw_msg *m)
{
	static const char *const names[] = { "inline", "in-place", "worker", "none" };
	struct raw_place *place = find_place(r, r->calls, RAW_CALLS);
	uint8_t flags = (uint8_t)roll_below(&r->dice, 4);
	unsigned slot = place ? (unsigned)(place - r->calls) : 0;
	uint32_t room = slot_len(slot), len = 0, at = 0;

	if (!place)
		return false;
	place->taken = true;
	place->id = slot | ++r->n_calls << 8;
	if (place->cancelled) { /* the fence behind a CANCEL */
		place->cancelled = false;
		begin(r, m, REQUEST, 0, slot, 0);
		word(r, m, 0, place->id);
		return true;
	}
	at = (flags & 2 ? 64 : 0) + (flags & 1 ? 64 : 0);
	len = (uint32_t)roll_len(&r->dice, flags & 1 ? 32768 : room - at);
	if ((flags & 1) && len == 0)
		len = 1;
	begin(r, m, REQUEST, flags, slot, flags & 1 ? at : at + len);
	word(r, m, 0, place->id);
	word(r, m, 1, method_id(names[roll_below(&r->dice, 4)]));
	word(r, m, 2, roll_percent(&r->dice, 50) ? 0 : roll_below(&r->dice, 20000));
	word(r, m, 3, flags & 2 ? 1 + roll_below(&r->dice, 32768) : roll_len(&r->dice, room));
	word(r, m, 4, len);
	if (flags & 2)
		write_loan(r, m->payload, roll_below(&r->dice, 32768));
	if (flags & 1)
		write_loan(r, m->payload + at - 64, roll_below(&r->dice, 32768));
	return true;
}

static bool write_cancel(struct raw *r, struct raw_msg *m)
{
	for (unsigned i = 0; i < RAW_CALLS; i++) {
		struct raw_place *place = &r->calls[i];

		if ((!place->taken || place->cancelled) && !raw_is_odd(r))
			continue;
		place->cancelled = true;
		begin(r, m, CANCEL, 0, i, 0);
		word(r, m, 0, place->id);
		return true;
	}
	return false;
}

static bool write_imm(struct raw *r, struct raw_msg *m)
{
	if (r->n_imms - r->n_taken >= RAW_IMMS && !raw_is_odd(r))
		return false;
	r->n_imms++;
	begin(r, m, IMM, 0, 0, 0);
	word(r, m, 0, roll(&r->dice) & UINT32_MAX);
	word(r, m, 1, roll_below(&r->dice, 65536));
	return true;
}

/* What was not asked for. */
static bool write_stray(struct raw *r, struct raw_msg *m)
{
	uint8_t kind = (uint8_t)roll_below(&r->dice, 9);

	begin(r, m, kind, (uint8_t)roll_below(&r->dice, 5), (unsigned)roll_below(&r->dice, 80),
	      (uint32_t)roll_len(&r->dice, 1024));
	for (int i = 0; i < 6; i++)
		word(r, m, i, roll_below(&r->dice, 300));
	return true;
}

bool raw_message(struct raw *r, bool answer, struct raw_msg *m)
{
	if (answer) {
		unsigned i = r->n_answers ? (unsigned)roll_below(&r->dice, r->n_answers) : 0;

		if (!r->n_answers)
			return false;
		*m = r->answers[i];
		/* it is kept now and then, so that it comes twice */
		if (!raw_is_odd(r))
			r->answers[i] = r->answers[--r->n_answers];
		return true;
	}
	if (raw_is_odd(r))
		return write_stray(r, m);
	switch (roll_below(&r->dice, 10)) {
	case 0:
	case 1:
		return write_imm(r, m);
	case 2:
	case 3:
	case 4:
		return write_send(r, m);
	case 5:
		return write_cancel(r, m);
	default:
		return write_request(r, m);
	}
}

/* ---- what the peer says ---- */

static struct raw_msg *new_answer(struct raw *r)
{
	return r->n_answers < RAW_ANSWERS ? &r->answers[r->n_answers++] : NULL;
}

static void answer_request(struct raw *r, const uint8_t *head)
{
	unsigned slot = sl_get_le16(head + 2) & 0x7fff;
	uint64_t cap = get_word(head, 3), status = roll_percent(&r->dice, 60) ? 0 : 2;
	bool fence = get_word(head, 1) == 0;
	bool written = !fence && status == 0 && (head[1] & 2) && roll_percent(&r->dice, 50);
	uint32_t room = slot_len(slot), len;
	struct raw_msg *m = new_answer(r);

	if (!m)
		return;
	if (fence)
		status = 2;
	else if (status == 2 && roll_percent(&r->dice, 50))
		status = 1 + 2 * roll_below(&r->dice, 4); /* 1, 3, 5 or 7 */
	len = (uint32_t)roll_len(&r->dice, cap < room ? cap : room);
	if (written || status > 1)
		len = 0;
	else if (status == 1 && len > 256)
		len = 256;
	begin(r, m, REPLY, written, slot, len);
	word(r, m, 0, get_word(head, 0));
	word(r, m, 1, status);
	word(r, m, 2, written ? roll_below(&r->dice, cap + 1) : 0);
	word(r, m, 3, status == 1 ? roll(&r->dice) & UINT32_MAX : 0);
}

static void answer_send(struct raw *r, const uint8_t *head)
{
	struct raw_msg *m = new_answer(r);

	if (!m)
		return;
	begin(r, m, SEND_DONE, 0, sl_get_le16(head + 2), 0);
	word(r, m, 0, roll_percent(&r->dice, 80) ? 0 : roll_below(&r->dice, 4));
}

void raw_heard(struct raw *r, const uint8_t head[RAW_MSG_LEN])
{
	unsigned slot = sl_get_le16(head + 2) & 0x7fff;

	switch (head[0]) {
	case IMM:
		r->n_taken_here++;
		break;
	case SEND:
		answer_send(r, head);
		break;
	case SEND_DONE:
		if (slot < RAW_SENDS)
			r->sends[slot].taken = false;
		break;
	case REQUEST:
		answer_request(r, head);
		break;
	case REPLY:
		if (slot < RAW_CALLS) {
			r->calls[slot].taken = false;
			if (get_word(head, 1) == 4)
				r->calls[slot].cancelled = false;
		}
		break;
	default:
		break;
	}
}
