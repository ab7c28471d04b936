/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic_lane.h"

#include <poll.h>
#include <sched.h>
#include <string.h>

#include "traffic.h"

#define PIECES_MAX 16

static uint64_t below(struct lane *l, uint64_t n)
{
	return next_random(&l->seed) % n;
}

/* Short ones mostly, as in life. */
static uint64_t some_length(struct lane *l)
{
	return below(l, 3) ? below(l, 1500) : below(l, LANE - sizeof(struct letter));
}

static uint64_t own_at(const struct lane *l, unsigned part)
{
	return OWN_AT + (2 * l->id + part) * LANE;
}

static uint8_t *own(struct lane *l, unsigned part)
{
	return l->t->bytes + own_at(l, part);
}

/* ---- how things end ---- */

static void wait_long(struct slime_op *op, const char *what)
{
	if (slime_op_wait(op, PATIENCE_MS))
		wrong("%s did not end in %d s", what, PATIENCE_MS / 1000);
}

int ended(int submitted, struct slime_op *op, const char *what)
{
	if (submitted)
		return submitted;
	wait_long(op, what);
	return slime_op_status(op);
}

static void count_end(void *arg, struct slime_op *op)
{
	struct lane *l = arg;

	(void)op;
	l->n_ends++;
}

/* As ended(), for the lane's op. */
static int op_ended(struct lane *l, int submitted, const char *what)
{
	uint64_t deadline = now_ms() + PATIENCE_MS;

	if (submitted)
		return submitted;
	l->n_submits++;
	if (!l->called_back)
		return ended(0, l->op, what);
	while (l->n_ends < l->n_submits) {
		if (now_ms() > deadline)
			wrong("%s did not call back in %d s", what, PATIENCE_MS / 1000);
		poll(NULL, 0, 1);
	}
	/* The callback may not have returned. */
	if (slime_op_wait(l->op, PATIENCE_MS))
		wrong("the callback of %s did not return in %d s", what, PATIENCE_MS / 1000);
	return slime_op_status(l->op);
}

/* True when it went well, false when the link is over; nothing else is right. */
static bool went_well(struct lane *l, int status, const char *what)
{
	if (status && !link_is_over(status))
		wrong("%s of lane %u: status %d", what, l->id, status);
	if (!status)
		l->t->n_good++;
	return !status;
}

/* ---- jobs: false when the link is over ---- */

/* The lane's own memory, cut into pieces, in any order. */
static size_t cut(struct lane *l, struct slime_xfer *xfers, uint64_t at, uint64_t remote_at,
		  uint64_t len)
{
	size_t n = 1 + below(l, PIECES_MAX), first = below(l, n);

	for (size_t i = 0; i < n; i++) {
		size_t k = (first + i) % n;
		uint64_t from = len * k / n, to = len * (k + 1) / n;

		xfers[i] = (struct slime_xfer){ .local = l->t->mr,
						.remote = &l->t->remote,
						.local_offset = at + from,
						.remote_offset = remote_at + from,
						.len = to - from };
	}
	return n;
}

static bool read_source(struct lane *l)
{
	struct slime_xfer xfers[PIECES_MAX];
	uint64_t len = some_length(l), from = below(l, AREA - len);
	size_t n = cut(l, xfers, own_at(l, 0), from, len);
	int status = op_ended(l, slime_read(l->t->ep, xfers, n, 0, l->op), "a read");

	if (!status && !pattern_matches(own(l, 0), len, SOURCE_SEED, from))
		wrong("a read of %llu bytes brought others", (unsigned long long)len);
	return went_well(l, status, "a read");
}

static bool write_and_read(struct lane *l)
{
	struct slime_xfer xfers[PIECES_MAX];
	uint64_t len = some_length(l), seed = next_random(&l->seed);
	size_t n = cut(l, xfers, own_at(l, 0), inbox_at(l->id), len);
	int status;

	pattern_fill(own(l, 0), len, seed, 0);
	status = op_ended(l, slime_write(l->t->ep, xfers, n, 0, l->op), "a write");
	if (!went_well(l, status, "a write"))
		return false;
	n = cut(l, xfers, own_at(l, 1), inbox_at(l->id), len);
	status = op_ended(l, slime_read(l->t->ep, xfers, n, 0, l->op), "a read");
	if (!status && !pattern_matches(own(l, 1), len, seed, 0))
		wrong("a write of %llu bytes wrote others", (unsigned long long)len);
	return went_well(l, status, "a read");
}

static uint64_t write_letter(struct lane *l)
{
	struct letter head = { .len = sizeof(head) + some_length(l),
			       .seed = next_random(&l->seed) };

	memcpy(own(l, 0), &head, sizeof(head));
	pattern_fill(own(l, 0) + sizeof(head), head.len - sizeof(head), head.seed, 0);
	return head.len;
}

struct submission {
	struct lane *l;
	const struct slime_xfer *xfers;
	size_t n;
	uint64_t len;
};

static int try_write_imm(void *arg)
{
	struct submission *s = arg;

	return slime_write_imm(s->l->t->ep, s->xfers, s->n, 0, s->l->id, s->l->op);
}

/* The peer says when it has the immediate and has compared the bytes. */
static bool write_with_immediate(struct lane *l)
{
	struct slime_xfer xfers[PIECES_MAX];
	struct submission s = { .l = l, .xfers = xfers, .len = write_letter(l) };
	int ret = slime_recv(l->t->ep, NULL, 0, 0, l->id, SLIME_TAG_ALL, l->ack);
	int status, acknowledged;

	if (ret)
		return went_well(l, ret, "an acknowledgement's receive");
	s.n = cut(l, xfers, own_at(l, 0), inbox_at(l->id), s.len);
	status = op_ended(l, until_not_again(try_write_imm, &s), "a write with immediate");
	acknowledged = ended(0, l->ack, "an acknowledgement");
	return went_well(l, status, "a write with immediate") &&
	       went_well(l, acknowledged, "an acknowledgement");
}

static int try_send(void *arg)
{
	struct submission *s = arg;

	return slime_send(s->l->t->ep, s->l->t->mr, own_at(s->l, 0), s->len, MESSAGE_TAG | s->l->id,
			  s->l->op);
}

static bool send_letter(struct lane *l)
{
	struct submission s = { .l = l, .len = write_letter(l) };
	int status = op_ended(l, until_not_again(try_send, &s), "a send");

	return went_well(l, status, "a send");
}

/* ---- calls ---- */

static const struct {
	const char *name;
	int status;
} methods[] = {
	{ "echo", 0 },	{ "echo_inline", 0 },	  { "echo_in_place", 0 },
	{ "defer", 0 }, { "refuse", -EREMOTEIO }, { "nobody", -ENOSYS },
};

static struct slime_call_args some_args(struct lane *l, unsigned method, uint64_t len)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = slime_rpc_method_id(methods[method].name);
	args.request_len = len;
	args.reply_cap = len;
	if (below(l, 2)) {
		args.request_mr = l->t->mr;
		args.request_offset = own_at(l, 0);
	} else {
		args.request = own(l, 0);
	}
	switch (below(l, 3)) {
	case 0:
		args.reply_mr = l->t->mr;
		args.reply_offset = own_at(l, 1);
		break;
	case 1:
		args.reply = own(l, 1);
		break;
	default: /* the call keeps it */
		break;
	}
	if (!below(l, 8))
		args.timeout_ms = (int64_t)below(l, 5);
	return args;
}

static void check_reply(struct lane *l, const char *method, uint64_t len, uint64_t seed)
{
	if (slime_call_reply_len(l->call) != len ||
	    !pattern_matches(slime_call_reply_data(l->call), len, seed, 0))
		wrong("%s of %llu bytes returned %zu others", method, (unsigned long long)len,
		      slime_call_reply_len(l->call));
}

static bool call(struct lane *l)
{
	unsigned method = (unsigned)below(l, sizeof(methods) / sizeof(methods[0]));
	uint64_t len = some_length(l), seed = next_random(&l->seed);
	struct slime_call_args args = some_args(l, method, len);
	bool cancelled = !below(l, 8);
	int status;

	pattern_fill(own(l, 0), len, seed, 0);
	status = slime_call_start(l->t->ep, &args, l->call);
	if (status)
		return went_well(l, status, "the start of a call");
	if (cancelled)
		(void)slime_call_cancel(l->call);
	if (slime_call_wait(l->call, PATIENCE_MS))
		wrong("a call of %s did not end in %d s", methods[method].name, PATIENCE_MS / 1000);
	status = slime_call_status(l->call);
	if ((args.timeout_ms >= 0 && status == -ETIMEDOUT) || (cancelled && status == -ECANCELED))
		return true;
	if (!status && !methods[method].status)
		check_reply(l, methods[method].name, len, seed);
	/* What was expected went well. */
	if (status == methods[method].status)
		status = 0;
	return went_well(l, status, methods[method].name);
}

/* ---- the lane ---- */

void *lane_run(void *arg)
{
	static bool (*const jobs[])(struct lane * l) = {
		read_source, write_and_read, write_with_immediate, send_letter, call, call
	};
	struct lane *l = arg;

	while (!l->t->stop && jobs[below(l, sizeof(jobs) / sizeof(jobs[0]))](l))
		;
	return NULL;
}

void lane_create(struct lane *l, struct traffic *t, unsigned id, uint64_t seed)
{
	struct slime_op_attr attr = { .fn = count_end, .arg = l };

	l->t = t;
	l->id = id;
	l->seed = seed * LANES + id;
	l->called_back = id % 2;
	assert_ok(slime_op_create(t->ctx, l->called_back ? &attr : NULL, &l->op));
	assert_ok(slime_op_create(t->ctx, NULL, &l->ack));
	assert_ok(slime_call_create(t->ctx, NULL, &l->call));
}

void lane_destroy(struct lane *l)
{
	if (l->called_back && l->n_ends != l->n_submits)
		wrong("lane %u: %u submissions ended %u times", l->id, l->n_submits, l->n_ends);
	assert_ok(slime_call_destroy(l->call));
	assert_ok(slime_op_destroy(l->ack));
	assert_ok(slime_op_destroy(l->op));
}
