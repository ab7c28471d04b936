/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, from the caller's side. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/stress/report.h"
#include "tests/stress/side.h"

#define LONGEST_TEXT 300

static bool is_plain(int how)
{
	return (how & ~HOW_LATER) != HOW_ERROR;
}

/* What is asked for, and where it lies in the slot: the request first, then the reply's room. */
static void choose(struct slot *slot, struct dice *dice, size_t most)
{
	size_t half = slot->body_len / 2 < most ? slot->body_len / 2 : most;
	size_t least = sizeof(struct ask);

	slot->method = (int)roll_below(dice, 20);
	if (slot->method >= N_METHODS)
		slot->method %= METHOD_WORKER + 1;
	slot->seed = roll(dice);
	slot->how = (int)roll_below(dice, N_HOWS);
	if (roll_percent(dice, 10))
		slot->how |= HOW_LATER;
	if (slot->method == METHOD_IN_PLACE && slot->how & HOW_LATER)
		slot->how = HOW_LATER | HOW_COPY; /* its request is gone by then */
	slot->text_len = is_plain(slot->how) ? 0 : roll_below(dice, LONGEST_TEXT + 1);
	if (slot->method == METHOD_SMALL)
		half = half < 2048 ? half : 2048;
	least += slot->text_len + (is_plain(slot->how) ? 0 : 1);
	slot->request_len = roll_len(dice, half - 256);
	if (slot->request_len < least)
		slot->request_len = least;
	if (slot->method == METHOD_TINY)
		slot->request_len = roll_below(dice, least < 24 ? least : 24);
	slot->reply_off = half + 64;
	slot->reply_want = roll_len(dice, half - 256);
	slot->slice = 0;
	if ((slot->how & ~HOW_LATER) == HOW_SLICE) {
		slot->slice = roll_below(dice, slot->request_len + 1);
		if (slot->reply_want > slot->request_len - slot->slice)
			slot->reply_want = slot->request_len - slot->slice;
	}
	if (slot->method == METHOD_TINY) {
		slot->slice = 0;
		slot->reply_want = slot->request_len;
	}
	slot->reply_cap = roll_percent(dice, 90) ? slot->reply_want + roll_below(dice, 128)
						 : roll_len(dice, half - 256);
	slot->kept = roll_percent(dice, 20) && slot->way != WAY_SELF && slot->way != WAY_REAPED;
}

static void write_request(struct slot *slot, struct dice *dice)
{
	struct ask ask = {
		.seed = slot->seed,
		.magic = ASK_MAGIC,
		.reply_len = (uint32_t)slot->reply_want,
		.slice = (uint32_t)slot->slice,
		.text_len = (uint16_t)slot->text_len,
		.how = (uint8_t)slot->how,
		.delay = (uint8_t)(roll_percent(dice, 20) ? roll_below(dice, 100) : 0),
	};
	uint8_t *to = slot->body;

	pattern_fill(to, slot->request_len, slot->seed, 0);
	if (slot->method == METHOD_TINY)
		return;
	memcpy(to, &ask, sizeof(ask));
	if (is_plain(slot->how))
		return;
	for (size_t i = 0; i < slot->text_len; i++)
		to[sizeof(ask) + i] = (uint8_t)ask_text(slot->seed, i);
	to[sizeof(ask) + slot->text_len] = 0;
}

static struct slot *prepare(struct side *side, struct slime_call_args *args, size_t most)
{
	struct dice *dice = &side->dice;
	struct slot *slot = side_slot(side, 0);

	if (!slot)
		return NULL;
	slot_begin(slot, KIND_CALL, dice);
	choose(slot, dice, most);
	write_request(slot, dice);
	memcpy(slot->image.expect, slot->image.mem, slot->image.len);

	*args = (struct slime_call_args)SLIME_CALL_ARGS_INIT;
	args->method = slime_rpc_method_id(method_names[slot->method]);
	args->request = slot->body;
	args->request_len = slot->request_len;
	if (roll_percent(dice, 50)) {
		args->request = NULL;
		args->request_mr = side->mr;
		args->request_offset = slot->body_offset;
	}
	args->reply_cap = slot->reply_cap;
	slot->lent = false;
	if (!slot->kept) {
		image_forget(&slot->image, SLOT_GUARD + slot->reply_off, slot->reply_cap);
		args->reply = slot->body + slot->reply_off;
		if (roll_percent(dice, 50)) {
			args->reply = NULL;
			args->reply_mr = side->mr;
			slot->lent = true;
			args->reply_offset = slot->body_offset + slot->reply_off;
		}
	}
	slot->deadline = roll_percent(dice, 20);
	if (slot->deadline)
		args->timeout_ms = (int64_t)roll_below(dice, 20);
	snprintf(slot->what, sizeof(slot->what),
		 "%s slot %d way %d: call %s how %d, request %zu%s, reply %zu of %zu%s at %zu, "
		 "deadline %lld, seed %llx",
		 side->where, slot->index, slot->way, method_names[slot->method], slot->how,
		 slot->request_len, args->request_mr ? " lent" : "", slot->reply_want,
		 slot->reply_cap,
		 slot->kept	  ? " kept"
		 : args->reply_mr ? " lent"
				  : "",
		 slot->reply_off, (long long)args->timeout_ms, (unsigned long long)slot->seed);
	return slot;
}

static void begin_many(struct side *side)
{
	struct slime_call_args args[4];
	struct slime_call_item items[4];
	struct slot *slots[4];
	int n = 0, started;

	for (; n < 4; n++) {
		slots[n] = prepare(side, &args[n], 4096);
		if (!slots[n])
			break;
		slots[n]->busy = true; /* the next is another one */
		items[n] = (struct slime_call_item){ slots[n]->call, &args[n] };
	}
	if (n == 0)
		return;
	started = slime_call_start_many(side->ep, items, (size_t)n);
	if (started < 0)
		side_refused(side, slots[0], started);
	for (int i = 0; i < n; i++)
		slot_submitted(slots[i], i < started ? 0 : -EAGAIN);
}

void call_begin(struct side *side, size_t most)
{
	struct slime_call_args args;
	struct slot *slot;
	int ret;

	if (roll_percent(&side->dice, 20)) {
		begin_many(side);
		return;
	}
	slot = prepare(side, &args, most);
	if (!slot)
		return;
	ret = slime_call_start(side->ep, &args, slot->call);
	if (!slot_submitted(slot, ret))
		side_refused(side, slot, ret);
	else if (roll_percent(&side->dice, 10) && slot->way != WAY_SELF &&
		 slot->way != WAY_REAPED) {
		ret = slime_call_cancel(slot->call);
		if (ret && ret != -ENOENT)
			fail(slot->what, "cancel: %s", strerror(-ret));
		slot->cancelled = ret == 0;
	}
}

static bool too_long(const struct slot *slot)
{
	return slot->reply_want > slot->reply_cap ||
	       (slot->method == METHOD_SMALL && slot->request_len > 1000);
}

/* The error that the handler was asked for. */
static void check_error(const struct slot *slot)
{
	size_t len =
		slot->text_len < SLIME_RPC_MESSAGE_MAX ? slot->text_len : SLIME_RPC_MESSAGE_MAX;

	if (is_plain(slot->how) || slot->method == METHOD_TINY)
		fail(slot->what, "an error %u \"%s\" that was not asked for", slot->code,
		     slot->message);
	if (slot->code != (uint32_t)slot->seed || strlen(slot->message) != len)
		fail(slot->what, "error %u and not %u, \"%s\" of %zu", slot->code,
		     (uint32_t)slot->seed, slot->message, len);
	for (size_t i = 0; i < len; i++)
		if (slot->message[i] != ask_text(slot->seed, i))
			fail(slot->what, "its message \"%s\" at %zu is not what was sent",
			     slot->message, i);
}

static void check_reply(struct slot *slot)
{
	int how = slot->method == METHOD_TINY ? HOW_SLICE : slot->how & ~HOW_LATER;
	const uint8_t *reply = slot->reply_data, *want = slot->body + slot->slice;
	size_t at = 0;

	if (how == HOW_ERROR || too_long(slot) || slot->method == METHOD_ABSENT)
		fail(slot->what, "a reply of %zu bytes, where there is none", slot->reply_len);
	if (slot->reply_len != slot->reply_want)
		fail(slot->what, "a reply of %zu bytes", slot->reply_len);
	if (!slot->kept && slot->reply_len && reply != slot->body + slot->reply_off)
		fail(slot->what, "the reply is somewhere else");
	if (how == HOW_SLICE) {
		while (at < slot->reply_len && reply[at] == want[at])
			at++;
		if (at < slot->reply_len)
			fail(slot->what, "its reply at %zu of %zu: expected %02x, is %02x", at,
			     slot->reply_len, want[at], reply[at]);
	} else if (!pattern_check(reply, slot->reply_len, ~slot->seed, 0, &at)) {
		fail(slot->what, "its reply at %zu of %zu: expected %02x, is %02x", at,
		     slot->reply_len, pattern(~slot->seed, at), reply[at]);
	}
}

void call_end(struct slot *slot)
{
	int status = slot->status;

	if (status == 0)
		check_reply(slot);
	else if (status == -EREMOTEIO)
		check_error(slot);
	else if (status == -ETIMEDOUT && slot->deadline)
		;
	else if (status == -ENOSYS && slot->method == METHOD_ABSENT)
		;
	else if (status == -EMSGSIZE && (too_long(slot) || slot->method == METHOD_ABSENT))
		;
	else
		side_failed(slot);
	if (slot->kept && slot->call && roll_percent(&slot->side->dice, 70))
		slime_call_release(slot->call);
}
