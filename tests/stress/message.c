/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives: the tag is a class of four, and above it the number of the message. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/stress/report.h"
#include "tests/stress/side.h"

#define CLASSES UINT64_C(3)

static size_t most(const struct slot *slot)
{
	return slot->body_len >= BODY ? SEND_MAX : slot->body_len - 512;
}

void message_begin_send(struct side *side)
{
	struct dice *dice = &side->dice;
	uint32_t seq = side->own->n_sent;
	struct note *note = &side->own->sent[seq % N_NOTES];
	struct slot *slot = side_slot(side, 0);
	size_t offset = roll_below(dice, 200);
	int ret;

	if (!slot || seq == N_NOTES)
		return;
	slot_begin(slot, KIND_SEND, dice);
	*note = (struct note){ .seed = roll(dice), .len = (uint32_t)roll_len(dice, most(slot)) };
	slot->seq = seq;
	slot->cls = roll_below(dice, CLASSES + 1);
	slot->len = note->len;
	pattern_fill(slot->body + offset, note->len, note->seed, 0);
	memcpy(slot->image.expect, slot->image.mem, slot->image.len);
	snprintf(slot->what, sizeof(slot->what),
		 "%s slot %d way %d: send %u of %u bytes, class %llu", side->where, slot->index,
		 slot->way, seq, note->len, (unsigned long long)slot->cls);
	atomic_fetch_add(&side->own->n_notes, 1);
	ret = slime_send(side->ep, note->len ? side->mr : NULL,
			 note->len ? slot->body_offset + offset : 0, note->len,
			 slot->cls | (uint64_t)seq << 8, slot->op);
	if (ret == 0)
		atomic_fetch_add(&side->own->n_sent, 1);
	if (!slot_submitted(slot, ret))
		side_refused(side, slot, ret);
}

void message_begin_recv(struct side *side, bool any)
{
	struct dice *dice = &side->dice;
	struct slot *slot = side_slot(side, any ? BODY : 0);
	size_t offset = roll_below(dice, 200);
	int ret;

	if (!slot)
		return;
	slot_begin(slot, KIND_RECV, dice);
	slot->cls = roll_below(dice, CLASSES + 1);
	/* What cannot be cancelled at the end of the round takes every message. */
	any |= slot->way == WAY_SELF || slot->way == WAY_REAPED;
	slot->mask = any || roll_percent(dice, 50) ? SLIME_TAG_ANY : CLASSES;
	slot->cap = any || roll_percent(dice, 70) ? most(slot) : roll_len(dice, most(slot));
	slot->posted = ++side->n_posted;
	slot->len = offset;
	image_forget(&slot->image, SLOT_GUARD + offset, slot->cap);
	snprintf(slot->what, sizeof(slot->what),
		 "%s slot %d way %d: receive %llu of up to %llu bytes, class %llu mask %llx",
		 side->where, slot->index, slot->way, (unsigned long long)slot->posted,
		 (unsigned long long)slot->cap, (unsigned long long)slot->cls,
		 (unsigned long long)slot->mask);
	ret = slime_recv(side->ep, slot->cap ? side->mr : NULL,
			 slot->cap ? slot->body_offset + offset : 0, slot->cap, slot->cls,
			 slot->mask, slot->op);
	if (!slot_submitted(slot, ret))
		side_refused(side, slot, ret);
}

/* Messages of one class come to the receives that take them in the order posted. */
static void check_order(const struct slot *slot, uint32_t seq)
{
	struct side *side = slot->side;

	side->posted_of[seq] = slot->posted;
	side->class_of[seq] = (uint8_t)(slot->tag & CLASSES);
	for (uint32_t i = 0; i < N_NOTES; i++)
		if (side->posted_of[i] && side->class_of[i] == side->class_of[seq] && i != seq &&
		    (i < seq) != (side->posted_of[i] < slot->posted))
			fail(slot->what,
			     "message %u came to it, and message %u of the same class "
			     "to receive %llu",
			     seq, i, (unsigned long long)side->posted_of[i]);
}

static void received(struct slot *slot)
{
	struct side *side = slot->side;
	uint64_t seq = slot->tag >> 8;
	bool noted = side->peer->n_notes > 0;
	uint32_t n_sent = side->peer->n_sent;
	struct note note = side->peer->sent[seq % N_NOTES];
	const uint8_t *bytes = slot->body + slot->len;
	size_t at = 0;

	if (side_peer_went_on(side))
		return;
	if (!noted || seq >= n_sent + 1 || seq >= N_NOTES || side->posted_of[seq])
		fail(slot->what, "message %llu was never sent, or came twice",
		     (unsigned long long)seq);
	if ((slot->tag & slot->mask) != (slot->cls & slot->mask))
		fail(slot->what, "a message with tag %llx", (unsigned long long)slot->tag);
	if (slot->bytes != note.len || slot->bytes > slot->cap)
		fail(slot->what, "message %llu: %llu bytes, %u were sent", (unsigned long long)seq,
		     (unsigned long long)slot->bytes, note.len);
	if (!pattern_check(bytes, note.len, note.seed, 0, &at) &&
	    (board_does(side->node->board, "pulls") || !side_may_break(side)))
		fail(slot->what, "message %llu at %zu of %u: expected %02x, is %02x",
		     (unsigned long long)seq, at, note.len, pattern(note.seed, at), bytes[at]);
	check_order(slot, (uint32_t)seq);
	side->n_received++;
}

void message_end(struct slot *slot)
{
	struct side *side = slot->side;

	if (slot->status == -EMSGSIZE) {
		if (slot->kind == KIND_RECV) {
			if (slot->cap >= SEND_MAX)
				fail(slot->what, "no message is too long for it");
			side->n_received++;
			atomic_fetch_add(&side->own->n_too_long, 1);
		} else {
			if (slot->len == 0)
				fail(slot->what, "an empty message is not too long");
			side->n_refused++;
		}
	} else if (slot->status) {
		side_failed(slot);
	} else if (slot->kind == KIND_RECV) {
		received(slot);
	} else if (slot->bytes != slot->len) {
		fail(slot->what, "%llu bytes are said", (unsigned long long)slot->bytes);
	}
}
