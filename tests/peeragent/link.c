/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/lib/plan/link.h"

static uint32_t step(struct link *l, enum link_event event, uint64_t attempt)
{
	struct link_input in = { .event = event, .attempt = attempt, .next = 100 };

	return link_step(l, &in);
}

static struct link initiator(enum link_phase phase)
{
	return (struct link){
		.initiator = true, .wanted = true, .peer_up = true, .phase = phase, .attempt = 7
	};
}

static struct link other(enum link_phase phase)
{
	struct link l = initiator(phase);

	l.initiator = false;
	return l;
}

static void peer_up__the_initiator_offers_a_new_attempt(void **state)
{
	struct link l = { .initiator = true, .wanted = true };

	(void)state;
	assert_int_equal(step(&l, LINK_PEER_UP, 0), LINK_DO_OFFER);
	assert_int_equal(l.phase, LINK_OFFERED);
	assert_int_equal(l.attempt, 100);
}

static void peer_up__the_other_asks(void **state)
{
	struct link l = { .wanted = true };

	(void)state;
	assert_int_equal(step(&l, LINK_PEER_UP, 0), LINK_DO_ASK);
	assert_int_equal(l.phase, LINK_ASKING);
	assert_int_equal(l.attempt, 0);
}

static void peer_up__again_changes_nothing(void **state)
{
	(void)state;
	for (int p = LINK_ASKING; p < LINK_PHASES; p++) {
		struct link l = initiator((enum link_phase)p);

		assert_int_equal(step(&l, LINK_PEER_UP, 0), 0);
		assert_int_equal(l.phase, p);
	}
}

static void answer__of_the_attempt_joins(void **state)
{
	struct link l = initiator(LINK_OFFERED);

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_ANSWER, 7), LINK_DO_JOIN);
	assert_int_equal(l.phase, LINK_JOINING);
}

static void answer__of_another_attempt_or_late_is_ignored(void **state)
{
	struct link l = initiator(LINK_OFFERED), connected = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_ANSWER, 6), 0);
	assert_int_equal(l.phase, LINK_OFFERED);
	assert_int_equal(step(&connected, LINK_GOT_ANSWER, 7), 0);
	assert_int_equal(connected.phase, LINK_CONNECTED);
}

static void offer__newer_than_what_is_there_replaces_it(void **state)
{
	static const enum link_phase with[] = { LINK_JOINING, LINK_CONNECTED };
	static const enum link_phase without[] = { LINK_ABSENT, LINK_ASKING, LINK_BROKEN };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct link l = other(with[i]);

		assert_int_equal(step(&l, LINK_GOT_OFFER, 8), LINK_DO_DROP | LINK_DO_ANSWER);
		assert_int_equal(l.phase, LINK_JOINING);
		assert_int_equal(l.attempt, 8);
	}
	for (size_t i = 0; i < 3; i++) {
		struct link l = other(without[i]);

		assert_int_equal(step(&l, LINK_GOT_OFFER, 8), LINK_DO_ANSWER);
		assert_int_equal(l.phase, LINK_JOINING);
	}
}

static void offer__seen_before_is_ignored(void **state)
{
	(void)state;
	for (int p = 0; p < LINK_PHASES; p++) {
		struct link l = other((enum link_phase)p);

		assert_int_equal(step(&l, LINK_GOT_OFFER, 7), 0);
		assert_int_equal(step(&l, LINK_GOT_OFFER, 6), 0);
		assert_int_equal(l.phase, p);
	}
}

static void offer__from_the_wrong_side_is_ignored(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_OFFER, 8), 0);
	assert_int_equal(l.phase, LINK_CONNECTED);
}

static void offer__for_a_link_that_nobody_wants_any_more_is_refused(void **state)
{
	struct link l = { .peer_up = true };

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_OFFER, 8), LINK_DO_WITHDRAW | LINK_DO_FORGET);
}

static void gone__while_we_ask_asks_again(void **state)
{
	struct link l = other(LINK_ASKING);

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_GONE, 0), LINK_DO_ASK);
	assert_int_equal(l.phase, LINK_ASKING);
}

static void want__brings_up_a_link_that_only_the_peer_wants(void **state)
{
	struct link l = { .initiator = true };

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_WANT, 0), LINK_DO_OFFER);
	assert_int_equal(l.phase, LINK_OFFERED);
}

static void want__naming_our_attempt_ends_it(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_WANT, 7), LINK_DO_DROP | LINK_DO_WAIT);
	assert_int_equal(l.phase, LINK_BROKEN);
	assert_int_equal(l.failures, 1);
}

static void want__naming_an_older_attempt_is_ignored(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_GOT_WANT, 6), 0);
	assert_int_equal(l.phase, LINK_CONNECTED);
}

static void down__waits_and_tries_again(void **state)
{
	struct link a = initiator(LINK_CONNECTED), b = other(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&a, LINK_DOWN, 0), LINK_DO_DROP | LINK_DO_WAIT);
	assert_int_equal(step(&b, LINK_DOWN, 0), LINK_DO_DROP | LINK_DO_WAIT);
	assert_int_equal(link_state(&a), SLIME_LINK_BROKEN);
	assert_int_equal(step(&a, LINK_TIMER, 0), LINK_DO_OFFER);
	assert_int_equal(step(&b, LINK_TIMER, 0), LINK_DO_ASK);
	assert_int_equal(a.attempt, 100);
	assert_int_equal(b.attempt, 7);
}

static void timer__without_an_answer_breaks_the_offer(void **state)
{
	struct link l = initiator(LINK_OFFERED);

	(void)state;
	assert_int_equal(step(&l, LINK_TIMER, 0), LINK_DO_DROP | LINK_DO_WAIT);
	assert_int_equal(l.phase, LINK_BROKEN);
}

static void timer__that_comes_late_is_ignored(void **state)
{
	static const enum link_phase phases[] = { LINK_ABSENT, LINK_ASKING, LINK_JOINING,
						  LINK_CONNECTED };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct link l = initiator(phases[i]);

		assert_int_equal(step(&l, LINK_TIMER, 0), 0);
		assert_int_equal(l.phase, phases[i]);
	}
}

static void expired__keeps_what_runs_until_the_transport_agrees(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_PEER_EXPIRED, 0), 0);
	assert_int_equal(l.phase, LINK_CONNECTED);
	assert_int_equal(step(&l, LINK_DOWN, 0), LINK_DO_DROP);
	assert_int_equal(l.phase, LINK_ABSENT);
}

static void expired__and_registered_again_leaves_the_connection(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	step(&l, LINK_PEER_EXPIRED, 0);
	assert_int_equal(step(&l, LINK_PEER_UP, 0), 0);
	assert_int_equal(l.phase, LINK_CONNECTED);
	assert_true(l.peer_up);
}

static void left__closes_and_waits_for_the_peer(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_PEER_LEFT, 0), LINK_DO_DROP);
	assert_int_equal(l.phase, LINK_ABSENT);
	assert_int_equal(link_state(&l), SLIME_LINK_CONNECTING);
}

static void left__ends_a_link_that_only_the_peer_wanted(void **state)
{
	struct link l = other(LINK_CONNECTED);

	(void)state;
	l.wanted = false;
	l.peer_wants = true;
	assert_int_equal(step(&l, LINK_PEER_LEFT, 0),
			 LINK_DO_DROP | LINK_DO_WITHDRAW | LINK_DO_FORGET);
}

static void new_incarnation__drops_the_old_and_begins_anew(void **state)
{
	struct link a = initiator(LINK_CONNECTED), b = other(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&a, LINK_PEER_NEW, 0), LINK_DO_DROP | LINK_DO_OFFER);
	assert_int_equal(step(&b, LINK_PEER_NEW, 0), LINK_DO_DROP | LINK_DO_ASK);
	assert_int_equal(b.attempt, 0);
	assert_int_equal(step(&b, LINK_GOT_OFFER, 1), LINK_DO_ANSWER);
}

static void new_incarnation__forgets_a_link_that_the_old_one_wanted(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	l.wanted = false;
	l.peer_wants = true;
	assert_int_equal(step(&l, LINK_PEER_NEW, 0),
			 LINK_DO_DROP | LINK_DO_WITHDRAW | LINK_DO_FORGET);
}

static void unwanted__closes_and_forgets(void **state)
{
	struct link l = initiator(LINK_CONNECTED);

	(void)state;
	assert_int_equal(step(&l, LINK_UNWANTED, 0),
			 LINK_DO_DROP | LINK_DO_WITHDRAW | LINK_DO_FORGET);
}

/* The peer registered again: what it had posted went, and comes once more. */
static void gone__and_posted_again_is_wanted_as_before(void **state)
{
	struct link_input again = { .event = LINK_GOT_ANSWER, .attempt = 7, .peer_wants = true };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct link l = i ? other(LINK_CONNECTED) : initiator(LINK_CONNECTED);

		l.wanted = false;
		l.peer_wants = true;
		assert_int_equal(step(&l, LINK_GOT_GONE, 0), 0);
		assert_false(l.peer_wants);
		assert_int_equal(link_step(&l, &again), 0);
		assert_true(l.peer_wants);
		assert_int_equal(l.phase, LINK_CONNECTED);
		again.event = LINK_GOT_OFFER;
	}
}

static void gone__ends_a_broken_link_that_only_the_peer_wanted(void **state)
{
	struct link l = initiator(LINK_BROKEN);

	(void)state;
	l.wanted = false;
	l.peer_wants = true;
	assert_int_equal(step(&l, LINK_GOT_GONE, 0), LINK_DO_WITHDRAW | LINK_DO_FORGET);
}

static void backoff__doubles_up_to_the_limit_and_is_jittered(void **state)
{
	(void)state;
	assert_int_equal(link_backoff_ms(1, 100, 5000, 0), 50);
	assert_int_equal(link_backoff_ms(1, 100, 5000, 50), 100);
	assert_int_equal(link_backoff_ms(3, 100, 5000, 200), 400);
	assert_int_equal(link_backoff_ms(7, 100, 5000, 0), 2500);
	assert_int_equal(link_backoff_ms(UINT32_MAX, 100, 5000, 2500), 5000);
	assert_int_equal(link_backoff_ms(9, 0, 0, 12345), 0);
}

/*
 * Two ends, two mailboxes that keep the last message only, and a data plane that connects two
 * endpoints of one attempt. Whatever happened before, in whatever order: when it stops happening,
 * the link is connected if one end wants it and forgotten if none does.
 */
enum { NOTHING, OFFER, ANSWER, WANT, GONE };

struct message {
	int kind;
	uint64_t attempt;
	bool wants;
	bool seen;
};

struct end {
	struct link link;
	bool exists;
	bool has_endpoint;
	uint64_t endpoint; /* its attempt */
	bool joined;	   /* it knows the other's descriptor */
	bool timer;
	bool wants; /* what the user says */
	struct message posted;
};

struct world {
	struct end ends[2]; /* 0 is the initiator */
	uint64_t next;
	uint64_t seed;
};

static uint32_t dice(struct world *w, uint32_t sides)
{
	w->seed = w->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(w->seed >> 33) % sides;
}

static void post(struct end *e, int kind, uint64_t attempt)
{
	e->posted = (struct message){ kind, attempt, e->wants, false };
}

static void carry_out(struct end *e, uint32_t actions)
{
	if (actions & LINK_DO_DROP)
		e->has_endpoint = e->joined = false;
	if (actions & LINK_DO_WITHDRAW && e->posted.kind != NOTHING)
		post(e, GONE, 0);
	if (actions & (LINK_DO_OFFER | LINK_DO_ANSWER)) {
		assert_false(e->has_endpoint);
		e->has_endpoint = true;
		e->endpoint = e->link.attempt;
		e->joined = (actions & LINK_DO_ANSWER) != 0;
		post(e, actions & LINK_DO_OFFER ? OFFER : ANSWER, e->link.attempt);
	}
	if (actions & LINK_DO_JOIN)
		e->joined = true;
	if (actions & LINK_DO_ASK)
		post(e, WANT, e->link.attempt);
	e->timer = (actions & (LINK_DO_WAIT | LINK_DO_OFFER)) != 0 ||
		   (e->timer && !(actions & LINK_DO_FORGET));
	if (actions & LINK_DO_FORGET) {
		assert_false(e->has_endpoint);
		e->exists = false;
	}
}

static void happen(struct world *w, int i, enum link_event event, uint64_t attempt, bool wants)
{
	struct end *e = &w->ends[i];
	struct link_input in = { event, attempt, wants, w->next + 1 };

	if (!e->exists && event != LINK_WANTED && event != LINK_GOT_WANT && event != LINK_GOT_OFFER)
		return;
	if (!e->exists) {
		e->link = (struct link){ .initiator = i == 0, .peer_up = true };
		e->exists = true;
	}
	carry_out(e, link_step(&e->link, &in));
	if (e->exists && e->link.attempt > w->next)
		w->next = e->link.attempt;
}

static bool deliver(struct world *w, int to)
{
	static const enum link_event events[] = { LINK_TIMER, LINK_GOT_OFFER, LINK_GOT_ANSWER,
						  LINK_GOT_WANT, LINK_GOT_GONE };
	struct message *m = &w->ends[1 - to].posted;

	if (m->kind == NOTHING || m->seen)
		return false;
	m->seen = true;
	happen(w, to, events[m->kind], m->attempt, m->wants);
	return true;
}

static bool connect_both(struct world *w)
{
	struct end *a = &w->ends[0], *b = &w->ends[1];

	if (!a->joined || !b->joined || a->endpoint != b->endpoint ||
	    (a->link.phase == LINK_CONNECTED && b->link.phase == LINK_CONNECTED))
		return false;
	happen(w, 0, LINK_UP, 0, false);
	happen(w, 1, LINK_UP, 0, false);
	return true;
}

/* An endpoint whose counterpart is not there any more finds that out. */
static bool notice_death(struct world *w, int i)
{
	struct end *e = &w->ends[i], *peer = &w->ends[1 - i];

	if (!e->joined || (peer->has_endpoint && peer->endpoint == e->endpoint))
		return false;
	happen(w, i, LINK_DOWN, 0, false);
	return true;
}

static bool ring(struct world *w, int i)
{
	if (!w->ends[i].timer)
		return false;
	w->ends[i].timer = false;
	happen(w, i, LINK_TIMER, 0, false);
	return true;
}

static void disturb(struct world *w)
{
	int i = (int)dice(w, 2);

	switch (dice(w, 9)) {
	case 0:
		w->ends[i].wants = true;
		happen(w, i, LINK_WANTED, 0, false);
		break;
	case 1:
		w->ends[i].wants = false;
		happen(w, i, LINK_UNWANTED, 0, false);
		break;
	case 2:
		happen(w, i, LINK_DOWN, 0, false);
		break;
	case 3: /* delivered once more */
		w->ends[i].posted.seen = false;
		break;
	case 4:
		notice_death(w, i);
		break;
	case 5:
		ring(w, i);
		break;
	case 6:
		connect_both(w);
		break;
	default:
		deliver(w, i);
	}
}

/* What is under way comes first; timers are slow. */
static bool settle(struct world *w)
{
	for (int round = 0; round < 1000; round++) {
		bool moved = deliver(w, 0);

		moved = deliver(w, 1) || moved;
		moved = moved || notice_death(w, 0) || notice_death(w, 1) || connect_both(w);
		if (!moved && !ring(w, 0) && !ring(w, 1))
			return true;
	}
	return false;
}

static void two_ends__converge_whatever_happened(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct world w = { .seed = seed };

		for (uint32_t i = dice(&w, 40); i > 0; i--)
			disturb(&w);
		assert_true(settle(&w));
		if (w.ends[0].wants || w.ends[1].wants) {
			assert_int_equal(w.ends[0].link.phase, LINK_CONNECTED);
			assert_int_equal(w.ends[1].link.phase, LINK_CONNECTED);
			assert_int_equal(w.ends[0].endpoint, w.ends[1].endpoint);
		} else {
			assert_false(w.ends[0].exists || w.ends[1].exists);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_up__the_initiator_offers_a_new_attempt),
		cmocka_unit_test(peer_up__the_other_asks),
		cmocka_unit_test(peer_up__again_changes_nothing),
		cmocka_unit_test(answer__of_the_attempt_joins),
		cmocka_unit_test(answer__of_another_attempt_or_late_is_ignored),
		cmocka_unit_test(offer__newer_than_what_is_there_replaces_it),
		cmocka_unit_test(offer__seen_before_is_ignored),
		cmocka_unit_test(offer__from_the_wrong_side_is_ignored),
		cmocka_unit_test(offer__for_a_link_that_nobody_wants_any_more_is_refused),
		cmocka_unit_test(gone__while_we_ask_asks_again),
		cmocka_unit_test(want__brings_up_a_link_that_only_the_peer_wants),
		cmocka_unit_test(want__naming_our_attempt_ends_it),
		cmocka_unit_test(want__naming_an_older_attempt_is_ignored),
		cmocka_unit_test(down__waits_and_tries_again),
		cmocka_unit_test(timer__without_an_answer_breaks_the_offer),
		cmocka_unit_test(timer__that_comes_late_is_ignored),
		cmocka_unit_test(expired__keeps_what_runs_until_the_transport_agrees),
		cmocka_unit_test(expired__and_registered_again_leaves_the_connection),
		cmocka_unit_test(left__closes_and_waits_for_the_peer),
		cmocka_unit_test(left__ends_a_link_that_only_the_peer_wanted),
		cmocka_unit_test(new_incarnation__drops_the_old_and_begins_anew),
		cmocka_unit_test(new_incarnation__forgets_a_link_that_the_old_one_wanted),
		cmocka_unit_test(unwanted__closes_and_forgets),
		cmocka_unit_test(gone__and_posted_again_is_wanted_as_before),
		cmocka_unit_test(gone__ends_a_broken_link_that_only_the_peer_wanted),
		cmocka_unit_test(backoff__doubles_up_to_the_limit_and_is_jittered),
		cmocka_unit_test(two_ends__converge_whatever_happened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
