/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/plan/link.h"

#include <assert.h>

#define BIT(phase) (1u << (phase))

static const struct {
	uint32_t next; /* legal successors */
	enum slime_link_state state;
} phases[LINK_PHASES] = {
	[LINK_ABSENT] = { BIT(LINK_ASKING) | BIT(LINK_OFFERED) | BIT(LINK_JOINING),
			  SLIME_LINK_CONNECTING },
	[LINK_ASKING] = { BIT(LINK_ABSENT) | BIT(LINK_JOINING), SLIME_LINK_CONNECTING },
	[LINK_OFFERED] = { BIT(LINK_ABSENT) | BIT(LINK_JOINING) | BIT(LINK_BROKEN),
			   SLIME_LINK_CONNECTING },
	[LINK_JOINING] = { BIT(LINK_ABSENT) | BIT(LINK_CONNECTED) | BIT(LINK_BROKEN) |
				   BIT(LINK_JOINING),
			   SLIME_LINK_CONNECTING },
	[LINK_CONNECTED] = { BIT(LINK_ABSENT) | BIT(LINK_BROKEN) | BIT(LINK_JOINING),
			     SLIME_LINK_CONNECTED },
	[LINK_BROKEN] = { BIT(LINK_ABSENT) | BIT(LINK_ASKING) | BIT(LINK_OFFERED) |
				  BIT(LINK_JOINING),
			  SLIME_LINK_BROKEN },
};

enum slime_link_state link_state(const struct link *link)
{
	return phases[link->phase].state;
}

static void enter(struct link *l, enum link_phase phase)
{
	assert(phases[l->phase].next & BIT(phase));
	l->phase = phase;
}

static bool has_endpoint(const struct link *l)
{
	return l->phase == LINK_OFFERED || l->phase == LINK_JOINING || l->phase == LINK_CONNECTED;
}

static uint32_t begin(struct link *l, uint64_t next)
{
	if (!l->initiator) {
		enter(l, LINK_ASKING);
		return LINK_DO_ASK;
	}
	l->attempt = next;
	enter(l, LINK_OFFERED);
	return LINK_DO_OFFER;
}

/* To a state without an endpoint; the end of a link without a wish. */
static uint32_t rest(struct link *l)
{
	uint32_t actions = has_endpoint(l) ? LINK_DO_DROP : 0;

	if (l->phase != LINK_ABSENT)
		enter(l, LINK_ABSENT);
	return l->wanted || l->peer_wants ? actions : actions | LINK_DO_WITHDRAW | LINK_DO_FORGET;
}

static uint32_t rest_without_peer(struct link *l)
{
	l->peer_up = false;
	l->peer_wants = false; /* what it posted went with its registration */
	return rest(l);
}

static uint32_t peer_up(struct link *l, uint64_t next)
{
	l->peer_up = true;
	return l->phase == LINK_ABSENT && l->wanted ? begin(l, next) : 0;
}

static uint32_t peer_new(struct link *l, uint64_t next)
{
	uint32_t actions = rest_without_peer(l);

	l->attempt = 0; /* the numbers of the old process mean nothing to the new one */
	l->failures = 0;
	l->peer_up = true;
	return l->wanted ? actions | begin(l, next) : actions;
}

/* Unconfirmed: what runs goes on until the transport says otherwise. */
static uint32_t peer_expired(struct link *l)
{
	l->peer_up = false;
	return l->phase == LINK_CONNECTED || l->phase == LINK_JOINING ? 0 : rest_without_peer(l);
}

static uint32_t broken(struct link *l)
{
	l->failures++;
	if (!l->peer_up)
		return rest_without_peer(l);
	enter(l, LINK_BROKEN);
	return LINK_DO_DROP | LINK_DO_WAIT;
}

static uint32_t got_want(struct link *l, uint64_t attempt, uint64_t next)
{
	if (!l->initiator)
		return 0;
	l->peer_wants = true;
	l->peer_up = true;
	if (l->phase == LINK_ABSENT)
		return begin(l, next);
	/* The peer has seen this attempt end before we did. */
	if (has_endpoint(l) && attempt == l->attempt)
		return broken(l);
	/* It knows of no attempt, but it had answered ours: it forgot the link and wants it again.
	 */
	if (!attempt && (l->phase == LINK_JOINING || l->phase == LINK_CONNECTED))
		return broken(l);
	return 0;
}

/* The wish of the peer that we have acted on, and that was taken back meanwhile: the peer wants the
 * link, or not, as before. */
static uint32_t posted_again(struct link *l, const struct link_input *in)
{
	if (l->phase == LINK_JOINING || l->phase == LINK_CONNECTED)
		l->peer_wants = in->peer_wants;
	return 0;
}

static uint32_t got_offer(struct link *l, const struct link_input *in)
{
	uint32_t actions = has_endpoint(l) ? LINK_DO_DROP : 0;

	if (l->initiator || in->attempt < l->attempt)
		return 0;
	if (in->attempt == l->attempt)
		return posted_again(l, in);
	l->peer_wants = in->peer_wants;
	l->peer_up = true;
	l->attempt = in->attempt;
	if (!l->wanted && !l->peer_wants)
		return rest(l); /* made for a wish that we had and took back */
	enter(l, LINK_JOINING);
	return actions | LINK_DO_ANSWER;
}

static uint32_t got_answer(struct link *l, const struct link_input *in)
{
	if (!l->initiator || in->attempt != l->attempt)
		return 0;
	if (l->phase != LINK_OFFERED)
		return posted_again(l, in);
	l->peer_wants = in->peer_wants;
	if (!l->wanted && !l->peer_wants)
		return rest(l);
	enter(l, LINK_JOINING);
	return LINK_DO_JOIN;
}

static uint32_t got_gone(struct link *l)
{
	l->peer_wants = false;
	if (l->phase == LINK_CONNECTED || l->phase == LINK_JOINING)
		return 0; /* the endpoint says when it is over */
	if (!l->wanted)
		return rest(l);
	/* It has forgotten the link, and with it that we asked. */
	return l->phase == LINK_ASKING ? LINK_DO_ASK : 0;
}

static uint32_t up(struct link *l)
{
	if (l->phase == LINK_JOINING)
		enter(l, LINK_CONNECTED);
	return 0;
}

static uint32_t timer(struct link *l, uint64_t next)
{
	if (l->phase == LINK_OFFERED)
		return broken(l); /* no answer */
	if (l->phase != LINK_BROKEN)
		return 0;
	if (!l->peer_up || !(l->wanted || l->peer_wants))
		return rest(l);
	return begin(l, next);
}

static uint32_t wanted(struct link *l, uint64_t next)
{
	l->wanted = true;
	return l->phase == LINK_ABSENT && l->peer_up ? begin(l, next) : 0;
}

/* Closed even if the peer wants it: it sees that, and brings it up as its own. */
static uint32_t unwanted(struct link *l)
{
	l->wanted = false;
	l->peer_wants = false;
	return rest(l);
}

uint32_t link_step(struct link *l, const struct link_input *in)
{
	switch (in->event) {
	case LINK_PEER_UP:
		return peer_up(l, in->next);
	case LINK_PEER_NEW:
		return peer_new(l, in->next);
	case LINK_PEER_LEFT:
		return rest_without_peer(l);
	case LINK_PEER_EXPIRED:
		return peer_expired(l);
	case LINK_GOT_WANT:
		return got_want(l, in->attempt, in->next);
	case LINK_GOT_OFFER:
		return got_offer(l, in);
	case LINK_GOT_ANSWER:
		return got_answer(l, in);
	case LINK_GOT_GONE:
		return got_gone(l);
	case LINK_UP:
		return up(l);
	case LINK_DOWN:
		return has_endpoint(l) ? broken(l) : 0;
	case LINK_TIMER:
		return timer(l, in->next);
	case LINK_WANTED:
		return wanted(l, in->next);
	case LINK_UNWANTED:
		return unwanted(l);
	}
	return 0;
}

uint32_t link_backoff_ms(uint32_t failures, uint32_t min_ms, uint32_t max_ms, uint32_t random)
{
	uint64_t wait = min_ms;

	for (uint32_t i = 1; i < failures && wait < max_ms; i++)
		wait *= 2;
	if (wait > max_ms)
		wait = max_ms;
	return (uint32_t)(wait / 2 + random % (wait / 2 + 1));
}

const char *slime_link_state_name(enum slime_link_state state)
{
	static const char *const names[] = { "connecting", "connected", "broken", "refused" };

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}
