/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stress/report.h"

enum ending {
	END_IN_ORDER, /* all is done at both ends first */
	END_BY_FIRST, /* a side closes, or destroys, in the midst of it */
	END_BY_SECOND,
	END_BY_BOTH,
	END_EARLY_BY_FIRST, /* a side closes while it connects */
	END_EARLY_BY_SECOND,
	N_ENDINGS,
};

/* What both sides know of a round. */
struct plan {
	enum ending ending;
	uint32_t n_steps;
	uint32_t close_at;
};

static struct plan plan_of(const struct side *side)
{
	const struct board *board = side->node->board;
	struct dice dice =
		dice_of(board->options.seed, 1000 + (uint64_t)side->link, side->round, 0);
	struct plan plan = { .n_steps = 30 + (uint32_t)roll_below(&dice, 400) };

	plan.ending = roll_percent(&dice, 50) ? END_IN_ORDER : roll_below(&dice, N_ENDINGS);
	if (plan.ending != END_IN_ORDER && !board_does(board, "close"))
		plan.ending = END_IN_ORDER;
	if (plan.ending >= END_EARLY_BY_FIRST && !board_does(board, "early"))
		plan.ending = END_IN_ORDER;
	plan.close_at = (uint32_t)roll_below(&dice, plan.n_steps);
	return plan;
}

static bool leaves(const struct side *side, const struct plan *plan)
{
	return plan->ending == END_BY_BOTH ||
	       plan->ending == (side->index ? END_BY_SECOND : END_BY_FIRST);
}

static bool leaves_early(const struct side *side, const struct plan *plan)
{
	return plan->ending == (side->index ? END_EARLY_BY_SECOND : END_EARLY_BY_FIRST);
}

bool side_may_break(const struct side *side)
{
	const struct board_node *node = &side->node->board->nodes[side->peer_node];

	return side->peer->leaving >= side->round || node->doom != side->doom;
}

bool side_peer_went_on(const struct side *side)
{
	return side->peer->round != side->round || side->peer->incarnation != side->doom;
}

struct slot *side_slot(struct side *side, size_t least)
{
	size_t start = roll_below(&side->dice, N_SLOTS);

	for (size_t i = 0; i < N_SLOTS; i++) {
		struct slot *slot = &side->slots[(start + i) % N_SLOTS];

		if (!slot->busy && slot->body_len >= least)
			return slot;
	}
	return NULL;
}

int side_count(const struct side *side, enum kind kind)
{
	int n = 0;

	for (int i = 0; i < N_SLOTS; i++)
		n += side->slots[i].busy && side->slots[i].kind == kind;
	return n;
}

static bool is_withdrawn(const struct slot *slot)
{
	const struct area *area = &slot->side->peer->areas[slot->area];

	return area->withdrawing >= slot->version;
}

bool side_is_of_next_life(const struct side *side, int ret)
{
	return ret == -EINVAL && side->node->board->nodes[side->peer_node].doom != side->doom;
}

void side_refused(struct side *side, const struct slot *slot, int ret)
{
	if (ret == -EAGAIN)
		return;
	if (ret == -ENOTCONN && (side->closed_here || side_may_break(side))) {
		side->broken = true;
		return;
	}
	if (side_is_of_next_life(side, ret))
		return;
	if (ret == -ESTALE && slot->area == 1 && is_withdrawn(slot))
		return;
	fail(slot->what, "refused: %s", strerror(-ret));
}

void side_failed(const struct slot *slot)
{
	struct side *side = slot->side;
	bool breaks = side_may_break(side);
	enum slime_transport transport = side->node->board->options.transport;

	switch (slot->status) {
	case -ECANCELED:
		side->broken = side->closed_here;
		if (side->closed_here || slot->cancelled)
			return;
		break;
	case -ECONNRESET:
		side->broken = true;
		if (breaks)
			return;
		break;
	case -ENOTCONN:
		if ((breaks && slot->kind == KIND_CALL) ||
		    ((breaks || side->closed_here) && !board_does(side->node->board, "notconn")))
			return;
		break;
	case -ESTALE:
		if (slot->kind <= KIND_WRITE && slot->area == 1 && is_withdrawn(slot))
			return;
		break;
	case -EIO:
		if (slot->kind == KIND_CALL && breaks)
			return;
		break;
	case -EREMOTEIO:
		if (transport == SLIME_TRANSPORT_RDMA && breaks)
			return;
		break;
	default:
		break;
	}
	fail(slot->what, "it ended with %d, %s", slot->status, strerror(-slot->status));
}

/* ---- completions ---- */

static void end_slot(struct slot *slot)
{
	switch (slot->kind) {
	case KIND_IMM_RECV:
		xfer_end_imm_recv(slot);
		break;
	case KIND_SEND:
	case KIND_RECV:
		message_end(slot);
		break;
	case KIND_CALL:
		call_end(slot);
		break;
	default:
		xfer_end(slot);
	}
	slot_end(slot);
}

static int collect(struct side *side)
{
	int n = 0;

	for (int i = 0; i < N_SLOTS; i++) {
		struct slot *slot = &side->slots[i];

		if (slot->busy && slot_collect(slot)) {
			end_slot(slot);
			n++;
		}
	}
	return n;
}

static int pending(const struct side *side)
{
	int n = 0;

	for (int i = 0; i < N_SLOTS; i++)
		n += side->slots[i].busy;
	return n;
}

/* Wait for one of those that are pending, for a moment. */
static void linger(struct side *side, int64_t timeout_ms)
{
	struct slot *slot = &side->slots[roll_below(&side->dice, N_SLOTS)];

	if (slot->busy)
		slot_wait(slot, timeout_ms);
	else
		pause_us(100);
}

/* ---- a round ---- */

static enum slime_endpoint_state state_of(const struct side *side)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(side->ep, &info);
	return info.state;
}

static void on_state(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		     int cause)
{
	struct side *side = arg;

	(void)cause;
	if (state == SLIME_ENDPOINT_CONNECTED && atomic_load(&side->close_when_connected)) {
		atomic_store(&side->closed_here, true);
		slime_endpoint_close(ep);
	}
}

static void leave(struct side *side)
{
	side->own->leaving = side->round;
	side->closed_here = true;
}

static void begin_round(struct side *side)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct board_side *own = side->own;
	int ret;

	side->dice = dice_of(side->node->board->options.seed,
			     (uint64_t)side->link * 2 + side->index, side->round, 1);
	/* the same as doom, but while it is being killed */
	side->doom = side->node->board->nodes[side->peer_node].incarnation;
	memset(side->remotes, 0, sizeof(side->remotes));
	memset(side->remote_versions, 0, sizeof(side->remote_versions));
	side->closed_here = false;
	side->close_when_connected = false;
	side->broken = false;
	side->n_received = side->n_imms_received = side->n_refused = 0;
	side->n_posted = 0;
	own->round = 0; /* what the board says of the last one is no more */
	memset(side->posted_of, 0, sizeof(side->posted_of));
	memset(side->imm_seen, 0, sizeof(side->imm_seen));
	own->n_sent = own->n_imms = own->n_too_long = 0;
	for (int i = 0; i < N_PLACES; i++)
		own->place_taken[i] = false;

	attr.name = side->where;
	attr.transports[0] = side->node->board->options.transport;
	/* more than may wait for the peer's: 3 sends, 3 receives, 2 for immediates */
	attr.max_pending_ops = roll_percent(&side->dice, 50) ? 65536 : 10;
	attr.on_state = on_state;
	attr.arg = side;
	attr.service = side->service;
	ret = slime_endpoint_create(side->node->ctx, &attr, &side->ep);
	if (ret)
		fail(side->where, "no endpoint: %s", strerror(-ret));
	own->desc_len = slime_endpoint_export(side->ep, own->desc, sizeof(own->desc));
	if (own->desc_len < 0)
		fail(side->where, "no descriptor: %s", strerror(-own->desc_len));
	own->incarnation = side->node->incarnation;
	own->round = side->round;
	atomic_fetch_add(&side->node->board->n_rounds, 1);
}

/* Whether the peer is in this round; it may be late, but not for ever. */
static bool meet_peer(struct side *side)
{
	struct board *board = side->node->board;
	int64_t until = now_ms() + WATCH_MS;

	for (;;) {
		if (side->peer->round > side->round || board->finish ||
		    board->nodes[side->peer_node].doom != side->doom)
			return false;
		if (side->peer->round == side->round &&
		    side->peer->incarnation == board->nodes[side->peer_node].incarnation)
			return true;
		if (now_ms() > until)
			fail(side->where, "the peer does not come to round %llu",
			     (unsigned long long)side->round);
		pause_us(500);
	}
}

/* The peer closes while it connects, goes to another round, or died: then anything may be the end.
 */
static bool check_connect(struct side *side, int status, bool early)
{
	switch (status) {
	case 0:
		atomic_fetch_add(&side->node->board->n_connected, 1);
		return true;
	case -ECANCELED:
		if (side->closed_here)
			return false;
		break;
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -ETIMEDOUT:
	case -EACCES:
	case -EPROTO:
		if (side_may_break(side) || side->peer->round != side->round || early)
			return false;
		break;
	default:
		break;
	}
	fail(side->where, "round %llu: connect: %s", (unsigned long long)side->round,
	     strerror(-status));
}

static bool connect_peer(struct side *side, bool early)
{
	struct slime_op *op;
	int64_t delay_us = (int64_t)roll_below(&side->dice, 4000);
	unsigned how = (unsigned)roll_below(&side->dice, 3);
	int ret;

	if (slime_op_create(side->node->ctx, NULL, &op) != 0)
		fail(side->where, "no op");
	if (early) {
		side->own->leaving = side->round;
		if (how == 0)
			side->close_when_connected = true;
	}
	ret = slime_endpoint_connect(side->ep, side->peer->desc, (size_t)side->peer->desc_len,
				     20000, op);
	if (ret)
		fail(side->where, "connect: %s", strerror(-ret));
	if (early && how > 0) {
		pause_us(how == 1 ? delay_us : 0);
		side->closed_here = true;
		slime_endpoint_close(side->ep);
	}
	watch_begin(side->where, "connect", WATCH_MS);
	while ((ret = slime_op_wait(op, 20)) == -ETIMEDOUT) {
		if (!side->closed_here && (side_may_break(side) || side->node->board->finish)) {
			leave(side);
			slime_endpoint_close(side->ep);
		}
	}
	watch_end();
	if (ret)
		fail(side->where, "a wait for connect: %s", strerror(-ret));
	ret = slime_op_status(op);
	if (slime_op_destroy(op) != 0)
		fail(side->where, "the op of connect cannot be destroyed");
	return check_connect(side, ret, early);
}

static void one_step(struct side *side)
{
	static const struct {
		int percent;
		enum kind kind;
	} steps[] = { { 14, KIND_READ },     { 30, KIND_WRITE }, { 38, KIND_IMM },
		      { 46, KIND_IMM_RECV }, { 56, KIND_SEND },	 { 66, KIND_RECV },
		      { 94, KIND_CALL } };
	int percent = (int)roll_below(&side->dice, 100);
	size_t i = 0;

	while (i < sizeof(steps) / sizeof(steps[0]) && percent >= steps[i].percent)
		i++;
	switch (i) {
	case KIND_READ:
	case KIND_WRITE:
		xfer_begin(side, (enum kind)i);
		break;
	case KIND_IMM:
		xfer_begin_imm(side);
		break;
	case KIND_IMM_RECV:
		if (side_count(side, KIND_IMM_RECV) < 2)
			xfer_begin_imm_recv(side);
		break;
	case KIND_SEND:
		if (side_count(side, KIND_SEND) < 3)
			message_begin_send(side);
		break;
	case KIND_RECV:
		if (side_count(side, KIND_RECV) < 3)
			message_begin_recv(side, false);
		break;
	case KIND_CALL:
		call_begin(side, roll_percent(&side->dice, 50) ? BIG_BODY : 2048);
		break;
	default:
		if (percent >= 98 && board_does(side->node->board, "storm"))
			xfer_storm(side);
		else if (percent == 97)
			areas_withdraw(side);
		else if (percent == 96)
			areas_check(side, "meanwhile");
		else
			xfer_begin_beyond(side);
	}
}

static void cancel_receives(struct side *side)
{
	for (int i = 0; i < N_SLOTS; i++) {
		struct slot *slot = &side->slots[i];
		int ret;

		/* those that another thread destroys may be gone by now */
		if (!slot->busy || slot->kind != KIND_RECV || slot->way == WAY_SELF ||
		    slot->way == WAY_REAPED)
			continue;
		slot->cancelled = true;
		ret = slime_recv_cancel(side->ep, slot->op);
		if (ret && ret != -ENOENT)
			fail(slot->what, "cancel: %s", strerror(-ret));
	}
}

/* Everything that the peer began has come; everything of ours has ended, but receives. */
static bool is_satisfied(struct side *side)
{
	const struct board_side *peer = side->peer;
	int receives = side_count(side, KIND_RECV) + side_count(side, KIND_IMM_RECV);

	if (peer->drained == side->round) {
		if ((side->n_received > peer->n_sent || side->n_imms_received > peer->n_imms) &&
		    !side_peer_went_on(side))
			fail(side->where, "more came than was sent: %u of %u, %u of %u",
			     side->n_received, peer->n_sent, side->n_imms_received, peer->n_imms);
		return side->n_received == peer->n_sent && side->n_imms_received == peer->n_imms &&
		       pending(side) == receives;
	}
	return false;
}

/* All of it comes to its end by itself. False: the link broke, as the peer said it might. */
static bool drain(struct side *side)
{
	int64_t until = now_ms() + WATCH_MS;

	side->own->drained = side->round;
	cancel_receives(side);
	while (!is_satisfied(side) || side->peer->satisfied < side->round) {
		if (is_satisfied(side))
			side->own->satisfied = side->round;
		else if (side_count(side, KIND_RECV) < 3 && side->n_received < side->peer->n_sent)
			message_begin_recv(side, true);
		else if (side_count(side, KIND_IMM_RECV) < 1 &&
			 side->n_imms_received < side->peer->n_imms)
			xfer_begin_imm_recv(side);
		if (!collect(side))
			linger(side, 1);
		if (side_may_break(side))
			return false;
		if (now_ms() > until) {
			for (int i = 0; i < N_SLOTS; i++)
				if (side->slots[i].busy)
					fprintf(stderr, "stress: pending: %s\n",
						side->slots[i].what);
			fail(side->where,
			     "round %llu does not end: %u of %u messages, %u of %u immediates, "
			     "%d pending here, the peer %s",
			     (unsigned long long)side->round, side->n_received, side->peer->n_sent,
			     side->n_imms_received, side->peer->n_imms, pending(side),
			     side->peer->drained == side->round ? "is done" : "goes on");
		}
	}
	side->own->satisfied = side->round;
	if (side->peer->n_too_long != side->n_refused && !side_may_break(side))
		fail(side->where, "%u sends were too long, and %u receives of the peer's too short",
		     side->n_refused, side->peer->n_too_long);
	return true;
}

static void traffic(struct side *side, const struct plan *plan)
{
	areas_import(side);
	for (uint32_t i = 0; i < plan->n_steps && !side->node->board->finish && !side->broken;
	     i++) {
		if (leaves(side, plan) && i == plan->close_at) {
			leave(side);
			return;
		}
		if (i % 16 == 0 && state_of(side) != SLIME_ENDPOINT_CONNECTED) {
			if (!side_may_break(side) && !side->closed_here)
				fail(side->where, "round %llu: the link ended",
				     (unsigned long long)side->round);
			return;
		}
		if (roll_percent(&side->dice, 90))
			areas_import(side);
		one_step(side);
		if (!collect(side) && pending(side) > N_SLOTS - 3)
			linger(side, (int64_t)roll_below(&side->dice, 3));
	}
	/* Cut short by the end of the run or by a peer that died: not in order. */
	if (plan->ending == END_IN_ORDER)
		drain(side);
}

/* Each kind counts what was begun, and what came of it. */
static void check_stats(struct side *side)
{
	struct slime_endpoint_stats stats;
	struct slime_endpoint_info info;

	slime_endpoint_info(side->ep, &info);
	if (info.pending_ops)
		fail(side->where, "round %llu: %u ops pending at its end",
		     (unsigned long long)side->round, info.pending_ops);
	slime_endpoint_stats(side->ep, &stats);
	for (int i = 0; i < SLIME_KIND_MAX; i++) {
		const struct slime_kind_stats *kind = &stats.kinds[i];

		if (i != SLIME_KIND_SERVE && kind->submitted != kind->completed + kind->failed)
			fail(side->where, "round %llu: of %llu %s %llu completed and %llu failed",
			     (unsigned long long)side->round, (unsigned long long)kind->submitted,
			     slime_op_kind_name(i), (unsigned long long)kind->completed,
			     (unsigned long long)kind->failed);
	}
}

static void wait_for_all(struct side *side, const char *what)
{
	watch_begin(side->where, what, WATCH_MS);
	while (pending(side)) {
		for (int i = 0; i < N_SLOTS; i++)
			side->slots[i].again = 0;
		if (!collect(side))
			pause_us(200);
	}
	watch_end();
}

static void end_round(struct side *side)
{
	bool patient = roll_percent(&side->dice, 50);
	int ret;

	leave(side);
	if (patient) {
		slime_endpoint_close(side->ep);
		wait_for_all(side, "the end of all that was pending when it was closed");
		if (roll_percent(&side->dice, 50))
			check_stats(side);
	}
	watch_begin(side->where, "slime_endpoint_destroy()", WATCH_MS);
	ret = slime_endpoint_destroy(side->ep);
	watch_end();
	if (ret)
		fail(side->where, "endpoint_destroy: %s", strerror(-ret));
	side->ep = NULL;
	for (int i = 0; i < N_SLOTS; i++)
		if (side->slots[i].busy && side->slots[i].way == WAY_WAITED &&
		    !slot_collect(&side->slots[i]))
			fail(side->slots[i].what, "pending, and its endpoint is gone");
	wait_for_all(side, "the end of what was pending when it was destroyed");
	side->own->ended = side->round;
}

/* Until the peer has ended the round, too, or is dead: then nothing can come any more. */
static void part(struct side *side)
{
	struct board *board = side->node->board;
	uint32_t incarnation = side->peer->incarnation;
	int64_t until = now_ms() + WATCH_MS;

	while (side->peer->ended < side->round && side->peer->round == side->round &&
	       board->nodes[side->peer_node].incarnation == incarnation) {
		if (now_ms() > until)
			fail(side->where, "the peer does not end round %llu",
			     (unsigned long long)side->round);
		pause_us(500);
	}
}

static void one_round(struct side *side)
{
	struct plan plan = plan_of(side);
	bool early = leaves_early(side, &plan);

	begin_round(side);
	if (meet_peer(side)) {
		if (connect_peer(side, early))
			traffic(side, &plan);
		end_round(side);
		part(side);
	} else {
		end_round(side);
	}
	areas_renew(side);
}

static size_t body_of(int slot)
{
	return slot < 2 ? BIG_BODY : slot < 6 ? BODY : SMALL_BODY;
}

static void create_slots(struct side *side)
{
	size_t all = 0, at = 0;
	uint8_t *base;

	for (int i = 0; i < N_SLOTS; i++)
		all += body_of(i) + 2 * SLOT_GUARD;
	if (slime_mem_alloc(side->node->ctx, all, NULL, &side->mem) != 0)
		fail(side->where, "no memory");
	base = slime_mem_addr(side->mem);
	if (slime_mr_create(side->node->ctx, base, all,
			    SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &side->mr) != 0)
		fail(side->where, "no region");
	for (int i = 0; i < N_SLOTS; i++) {
		struct slot *slot = &side->slots[i];
		size_t len;

		slot->side = side;
		slot->index = i;
		slot->body_len = body_of(i);
		len = slot->body_len + 2 * SLOT_GUARD;
		slot->image = (struct image){ base + at, malloc(len), malloc(len), len };
		if (!slot->image.expect || !slot->image.known)
			fail(side->where, "no memory");
		slot->body = base + at + SLOT_GUARD;
		slot->body_offset = at + SLOT_GUARD;
		image_fill(&slot->image, (uint64_t)i);
		at += len;
	}
}

static void destroy_slots(struct side *side)
{
	int ret;

	for (int i = 0; i < N_SLOTS; i++) {
		slot_fini(&side->slots[i]);
		free(side->slots[i].image.expect);
		free(side->slots[i].image.known);
	}
	watch_begin(side->where, "the end of the region of its slots", WATCH_MS);
	while ((ret = slime_mr_destroy(side->mr)) == -EBUSY)
		pause_us(1000);
	watch_end();
	if (ret || slime_mem_destroy(side->mem) != 0)
		fail(side->where, "the memory of its slots cannot be given back");
}

void *side_main(void *arg)
{
	struct side *side = arg;
	struct board *board = side->node->board;

	side->dice = dice_of(board->options.seed, (uint64_t)side->link, (uint64_t)side->index, 2);
	snprintf(side->where, sizeof(side->where), "link %d node %d to %d", side->link,
		 side->node->index, side->peer_node);
	side->service = serve_create(side);
	create_slots(side);
	areas_create(side);
	while (!board->finish) {
		uint64_t next = side->own->round + 1;

		side->round = side->peer->round > next ? (uint64_t)side->peer->round : next;
		one_round(side);
	}
	areas_destroy(side);
	destroy_slots(side);
	watch_begin(side->where, "the end of its service", WATCH_MS);
	if (slime_rpc_service_destroy(side->service) != 0)
		fail(side->where, "its service cannot be destroyed");
	watch_end();
	return NULL;
}
