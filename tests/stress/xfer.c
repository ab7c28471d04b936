/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, writes and immediates. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/stress/report.h"
#include "tests/stress/side.h"

typedef void block_fn(struct slot *slot, struct area *area, size_t local, size_t remote,
		      size_t len);

/* Each block of each piece: local is an offset in the slot's image, remote one in the area. */
static void each_block(struct slot *slot, block_fn *fn)
{
	struct area *area = &slot->side->peer->areas[slot->area];

	for (size_t i = 0; i < slot->n_pieces; i++) {
		const struct slime_xfer *x = &slot->pieces[i];

		for (uint32_t k = 0; k < (x->count ? x->count : 1); k++)
			fn(slot, area,
			   SLOT_GUARD + x->local_offset - slot->body_offset + k * x->local_stride,
			   x->remote_offset + k * x->remote_stride, x->len);
	}
}

static void forget_remote(struct slot *slot, struct area *area, size_t local, size_t remote,
			  size_t len)
{
	(void)slot;
	(void)local;
	memset(area->known + remote, 0, len);
}

static void expect_remote(struct slot *slot, struct area *area, size_t local, size_t remote,
			  size_t len)
{
	memcpy(area->expect + remote, slot->image.mem + local, len);
	memset(area->known + remote, 1, len);
}

static void expect_local(struct slot *slot, struct area *area, size_t local, size_t remote,
			 size_t len)
{
	memcpy(slot->image.expect + local, area->expect + remote, len);
	memcpy(slot->image.known + local, area->known + remote, len);
}

static void forget_local(struct slot *slot, struct area *area, size_t local, size_t remote,
			 size_t len)
{
	(void)area;
	(void)remote;
	image_forget(&slot->image, local, len);
}

/* What cannot be at the same time as this one: writes to the same bytes, reads of what is written.
 */
static bool is_taken(struct side *side, const struct slot *slot)
{
	for (int i = 0; i < N_SLOTS; i++) {
		const struct slot *other = &side->slots[i];

		if (other->busy && other->area == slot->area && other->from < slot->to &&
		    slot->from < other->to && (other->kind != KIND_READ || slot->kind != KIND_READ))
			return true;
	}
	return false;
}

static void choose_pieces(struct slot *slot, struct dice *dice)
{
	size_t local = 0, remote = 0, most = slot->body_len - 2048;

	slot->n_pieces = roll_percent(dice, 3) ? 0 : 1 + roll_below(dice, N_PIECES);
	slot->total = 0;
	for (size_t i = 0; i < slot->n_pieces; i++) {
		struct slime_xfer *x = &slot->pieces[i];
		size_t room = (most - local) / (slot->n_pieces - i);

		memset(x, 0, sizeof(*x));
		x->local = slot->side->mr;
		x->remote = &slot->remote;
		local += roll_below(dice, 4) ? 0 : roll_below(dice, 65);
		remote += roll_below(dice, 3) ? 0 : roll_below(dice, 300);
		x->local_offset = slot->body_offset + local;
		x->remote_offset = remote;
		x->len = i + 1 == slot->n_pieces && roll_percent(dice, 30)
				 ? roll_below(dice, room + 1)
				 : roll_len(dice, room);
		if (x->len >= 2 && x->len < 2048 && roll_percent(dice, 20)) {
			x->count = 2 + (uint32_t)roll_below(dice, 6);
			x->len /= x->count;
			x->local_stride = x->len + roll_below(dice, 9);
			x->remote_stride = x->len + roll_below(dice, 90);
			local += x->count * x->local_stride;
			remote += x->count * x->remote_stride;
			slot->total += x->count * x->len;
		} else {
			local += x->len;
			remote += x->len;
			slot->total += x->len;
		}
	}
	slot->from = 0;
	slot->to = remote;
}

/* Place the pieces where they disturb no other; false: there is no room now. */
static bool place_pieces(struct slot *slot, struct dice *dice)
{
	uint64_t span = slot->to;

	for (int tries = 0; tries < 4; tries++) {
		uint64_t base = roll_below(dice, AREA_ANY - span + 1);

		slot->from = base;
		slot->to = base + span;
		if (is_taken(slot->side, slot))
			continue;
		for (size_t i = 0; i < slot->n_pieces; i++)
			slot->pieces[i].remote_offset += base;
		return true;
	}
	return false;
}

static struct slot *slot_for(struct side *side, int area, size_t least)
{
	struct slot *slot = side->remotes[area].len ? side_slot(side, least) : NULL;

	if (!slot)
		return NULL;
	slot->remote = side->remotes[area];
	slot->version = side->remote_versions[area];
	return slot;
}

/* The model, right before it is submitted. */
static void expect(struct slot *slot)
{
	struct area *area = &slot->side->peer->areas[slot->area];

	area_lock(area);
	slot->stale = area->version != slot->version;
	if (slot->kind == KIND_READ)
		each_block(slot, expect_local);
	else if (!slot->stale)
		each_block(slot, forget_remote);
	area_unlock(area);
}

static bool prepare(struct side *side, struct slot *slot, enum kind kind, int area)
{
	struct dice *dice = &side->dice;

	slot_begin(slot, kind, dice);
	slot->area = area;
	choose_pieces(slot, dice);
	if (!place_pieces(slot, dice))
		return false;
	slot->flags = kind == KIND_WRITE && roll_percent(dice, 10) ? SLIME_FENCE : 0;
	snprintf(slot->what, sizeof(slot->what),
		 "%s slot %d way %d: %s of %zu pieces, %llu bytes in %llu to %llu of area %d "
		 "version %u, flags %u",
		 side->where, slot->index, slot->way, kind == KIND_READ ? "read" : "write",
		 slot->n_pieces, (unsigned long long)slot->total, (unsigned long long)slot->from,
		 (unsigned long long)slot->to, area, slot->version, slot->flags);
	expect(slot);
	return true;
}

void xfer_begin(struct side *side, enum kind kind)
{
	int area = roll_percent(&side->dice, 25);
	struct slot *slot = slot_for(side, area, 0);
	int ret;

	if (!slot || !prepare(side, slot, kind, area))
		return;
	if (kind == KIND_READ && slot->way == WAY_CALLBACK && roll_percent(&side->dice, 30))
		slot->again = (int)roll_below(&side->dice, 20);
	if (kind == KIND_READ)
		ret = slime_read(side->ep, slot->pieces, slot->n_pieces, slot->flags, slot->op);
	else
		ret = slime_write(side->ep, slot->pieces, slot->n_pieces, slot->flags, slot->op);
	if (!slot_submitted(slot, ret))
		side_refused(side, slot, ret);
}

/* What leaves its region is refused, and changes nothing. */
void xfer_begin_beyond(struct side *side)
{
	struct slot *slot = slot_for(side, 0, 0);
	struct slime_xfer *x;
	int ret;

	if (!slot || !prepare(side, slot, KIND_WRITE, 0) || slot->n_pieces == 0)
		return;
	x = &slot->pieces[slot->n_pieces - 1];
	if (x->len == 0)
		return;
	x->remote_offset =
		roll_percent(&side->dice, 50) ? AREA_LEN - x->len + 1 : UINT64_MAX - x->len + 1;
	ret = slime_write(side->ep, slot->pieces, slot->n_pieces, 0, slot->op);
	if (ret != -ERANGE && ret != -ENOTCONN && !side_is_of_next_life(side, ret))
		fail(slot->what, "beyond its region: %d", ret);
}

static int submit_imm(struct side *side, struct slot *slot, struct note *note)
{
	int ret;

	if (!slot->before && slime_op_create(side->node->ctx, NULL, &slot->before) != 0)
		fail(slot->what, "no op");
	if (note->fenced_len) {
		ret = slime_write(side->ep, &slot->pieces[1], 1, 0, slot->before);
		if (ret)
			return ret;
		slot->flags = SLIME_FENCE;
	}
	ret = slime_write_imm(side->ep, slot->pieces, 1, slot->flags, slot->seq, slot->op);
	if (ret && note->fenced_len) {
		watch_begin(slot->what, "the write before a refused immediate", WATCH_MS);
		if (slime_op_wait(slot->before, -1) != 0)
			fail(slot->what, "a wait");
		watch_end();
	}
	return ret;
}

/* An immediate with up to half a place, and perhaps an earlier write to the other half. */
void xfer_begin_imm(struct side *side)
{
	struct dice *dice = &side->dice;
	uint32_t place = (uint32_t)roll_below(dice, N_PLACES), seq = side->own->n_imms;
	struct slot *slot = slot_for(side, 0, BODY);
	struct note *note = &side->own->imms[seq % N_NOTES];
	int ret;

	if (!slot || seq == N_NOTES || side->peer->place_taken[place])
		return;
	slot_begin(slot, KIND_IMM, dice);
	slot->area = 0;
	slot->seq = seq;
	slot->from = AREA_ANY + (uint64_t)place * PLACE;
	slot->to = slot->from + PLACE;
	if (is_taken(side, slot))
		return;
	*note = (struct note){ .seed = roll(dice), .fenced_seed = roll(dice), .place = place };
	note->len = (uint32_t)roll_len(dice, PLACE / 2);
	note->fenced_len = roll_percent(dice, 40) ? (uint32_t)roll_len(dice, PLACE / 2) : 0;
	slot->total = note->len;
	slot->n_pieces = note->fenced_len ? 2 : 1;
	slot->pieces[0] = (struct slime_xfer){
		.local = side->mr,
		.remote = &slot->remote,
		.local_offset = slot->body_offset,
		.remote_offset = slot->from,
		.len = note->len,
	};
	slot->pieces[1] = (struct slime_xfer){
		.local = side->mr,
		.remote = &slot->remote,
		.local_offset = slot->body_offset + PLACE,
		.remote_offset = slot->from + PLACE / 2,
		.len = note->fenced_len,
	};
	pattern_fill(slot->body, note->len, note->seed, 0);
	pattern_fill(slot->body + PLACE, note->fenced_len, note->fenced_seed, 0);
	memcpy(slot->image.expect, slot->image.mem, slot->image.len);
	snprintf(slot->what, sizeof(slot->what),
		 "%s slot %d way %d: immediate %u of %u bytes in place %u, after a write of %u",
		 side->where, slot->index, slot->way, seq, note->len, place, note->fenced_len);
	expect(slot);
	side->peer->place_taken[place] = true;
	atomic_fetch_add(&side->own->n_notes, 1);
	ret = submit_imm(side, slot, note);
	if (ret == 0)
		atomic_fetch_add(&side->own->n_imms, 1);
	else
		side->peer->place_taken[place] = false;
	if (!slot_submitted(slot, ret))
		side_refused(side, slot, ret);
}

void xfer_begin_imm_recv(struct side *side)
{
	struct slot *slot = side_slot(side, 0);
	int ret;

	if (!slot)
		return;
	slot_begin(slot, KIND_IMM_RECV, &side->dice);
	snprintf(slot->what, sizeof(slot->what), "%s slot %d way %d: imm_recv", side->where,
		 slot->index, slot->way);
	ret = slime_imm_recv(side->ep, slot->op);
	if (!slot_submitted(slot, ret))
		side_refused(side, slot, ret);
}

/*
 * Reads that a callback submits again and again, while this thread waits for one of them: the wait
 * ends in time. It is the processor's time that counts: the machine may be busy with others.
 */
void xfer_storm(struct side *side)
{
	struct slot *storm[2] = { NULL, NULL };
	struct timespec before, after;
	int64_t took;

	for (int i = 0; i < 2; i++) {
		struct slot *slot = slot_for(side, 0, BODY);

		if (!slot || !prepare(side, slot, KIND_READ, 0))
			break;
		if (slot->way == WAY_CALLBACK)
			slot->again = INT_MAX;
		if (!slot_submitted(
			    slot, slime_read(side->ep, slot->pieces, slot->n_pieces, 0, slot->op)))
			break;
		storm[i] = slot;
	}
	if (!storm[0])
		return;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	slot_wait(storm[0], 20);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	took = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	if (took > 300)
		fail(storm[0]->what,
		     "a wait of 20 ms took %lld ms of the processor's time, beside "
		     "a callback that submitted it %llu times again",
		     (long long)took, (unsigned long long)storm[0]->n_again);
	for (int i = 0; i < 2; i++)
		if (storm[i])
			storm[i]->again = 0;
}

static bool before_is_done(struct slot *slot)
{
	if (slot->kind != KIND_IMM || slot->n_pieces < 2)
		return true;
	watch_begin(slot->what, "the write before an immediate that is complete", WATCH_MS);
	if (slime_op_wait(slot->before, -1) != 0)
		fail(slot->what, "a wait");
	watch_end();
	return slime_op_status(slot->before) == 0;
}

void xfer_end(struct slot *slot)
{
	struct area *area = &slot->side->peer->areas[slot->area];
	bool before = before_is_done(slot);

	if (slot->status) {
		side_failed(slot);
		if (slot->kind == KIND_READ)
			each_block(slot, forget_local);
		return;
	}
	if (!before)
		fail(slot->what, "it is well, and the write before it failed: %s",
		     strerror(-slime_op_status(slot->before)));
	/* One that was killed may have been read until its end was seen. */
	if (slot->stale && slot->total > 0 && !side_may_break(slot->side))
		fail(slot->what, "status 0, and the region was withdrawn before it was submitted");
	if (slot->stale && slot->kind == KIND_READ)
		each_block(slot, forget_local);
	if (slot->bytes != slot->total)
		fail(slot->what, "%llu bytes are said", (unsigned long long)slot->bytes);
	if (slot->kind == KIND_READ)
		return;
	area_lock(area);
	if (area->version == slot->version)
		each_block(slot, expect_remote);
	area_unlock(area);
}

static void check_half(const struct slot *slot, const struct note *note, const uint8_t *mem,
		       size_t len, uint64_t seed, const char *which)
{
	size_t at = 0;

	if (!pattern_check(mem, len, seed, 0, &at))
		fail(slot->what,
		     "immediate %u is here, and not %s of it: place %u at %zu of %zu: "
		     "expected %02x, is %02x",
		     slot->imm, which, note->place, at, len, pattern(seed, at), mem[at]);
}

void xfer_end_imm_recv(struct slot *slot)
{
	struct side *side = slot->side;
	bool noted = side->peer->n_notes > 0;
	const struct note of_peer = side->peer->imms[slot->imm % N_NOTES], *note = &of_peer;
	const uint8_t *place;

	if (slot->status) {
		side_failed(slot);
		return;
	}
	if (side_peer_went_on(side))
		return;
	if (!noted || slot->imm >= N_NOTES || side->imm_seen[slot->imm])
		fail(slot->what, "immediate %u was never sent, or came twice", slot->imm);
	side->imm_seen[slot->imm] = true;
	side->n_imms_received++;
	if (slot->bytes != note->len)
		fail(slot->what, "immediate %u with %llu bytes, %u were sent", slot->imm,
		     (unsigned long long)slot->bytes, note->len);
	place = side->homes[0].image.mem + AREA_ANY + (size_t)note->place * PLACE;
	check_half(slot, note, place, note->len, note->seed, "the bytes");
	check_half(slot, note, place + PLACE / 2, note->fenced_len, note->fenced_seed,
		   "the write before the fence");
	side->own->place_taken[note->place] = false;
}
