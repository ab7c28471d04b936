/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pages/src/part.h"
#include "pages/src/round.h"
#include "pages/src/item.h"

#define SAMPLE_EVERY 16

/* ---- rounds ---- */

static bool is_read(const struct slime_pages_request *req)
{
	return req->kind == REQUEST_GET || req->kind == REQUEST_EXISTS;
}

/* MEMBER_NONE also where a read has asked it already, and it did not answer. */
static uint16_t former_owner_locked(struct slime_pages_request *req, const struct item_state *state)
{
	uint16_t former = members_former_owner_locked(req->pages->members, state->id.low);

	if (former != MEMBER_NONE && is_read(req) && member_set_has(&req->silent, former))
		return MEMBER_NONE;
	return former;
}

static uint16_t owner_locked(struct slime_pages_request *req, const struct item_state *state)
{
	struct members *members = req->pages->members;

	if (state->former)
		return former_owner_locked(req, state);
	if (is_read(req) && req->pages->replicas > 1)
		return members_nearest_locked(members, state->id.low, req->pages->replicas,
					      &req->silent);
	return members_owner_locked(members, state->id.low, req->rank);
}

/* Chooses the owner of each item's next attempt; an item without one is done. */
static void choose_owners(struct slime_pages_request *req)
{
	bool reads = is_read(req);
	uint64_t n_dead = 0;

	members_lock(req->pages->members);
	for (uint32_t i = 0; i < req->n; i++) {
		struct item_state *state = &req->states[i];

		if (state->done)
			continue;
		state->member = owner_locked(req, state);
		if (state->member != MEMBER_NONE)
			continue;
		/* Where the last replica did not answer, that stays its status. */
		if (req->rank == 0 && !state->former && req->items[i].status != -ETIMEDOUT) {
			req->items[i].status = reads ? -ENOENT : -ENOTCONN;
			n_dead++;
		}
		state->done = true;
	}
	members_unlock(req->pages->members);
	pages_count(&req->pages->counts.dead, n_dead);
}

/* The next part of this round. */
static int take_part(struct slime_pages_request *req, struct part **out)
{
	if (req->n_parts == req->parts_cap) {
		size_t cap = req->parts_cap ? 2 * req->parts_cap : 4;
		struct part **more = realloc(req->parts, cap * sizeof(struct part *));

		if (!more)
			return -ENOMEM;
		memset(more + req->parts_cap, 0, (cap - req->parts_cap) * sizeof(struct part *));
		req->parts = more;
		req->parts_cap = cap;
	}
	if (!req->parts[req->n_parts]) {
		int ret = part_create(req, &req->parts[req->n_parts]);

		if (ret)
			return ret;
	}
	*out = req->parts[req->n_parts++];
	return 0;
}

static int add_part(struct slime_pages_request *req, uint16_t member, uint32_t *items, uint32_t n)
{
	struct part *part;
	int ret = take_part(req, &part);

	if (ret)
		return ret;
	ret = members_enter(req->pages->members, member, &part->use);
	if (ret) {
		req->n_parts--;
		return ret;
	}
	part->items = items;
	part->n = n;
	return 0;
}

static bool is_lost(struct slime_pages_request *req, struct item_state *state, int error)
{
	state->lost = (part_is_broken(error) || error == -ETIMEDOUT) &&
		      ++state->n_lost < req->pages->replicas;
	state->placed = state->placed && !state->lost;
	return state->lost;
}

static void fail_items(struct slime_pages_request *req, const uint32_t *items, uint32_t n,
		       int error)
{
	bool reads = is_read(req);
	bool is_dead = reads && part_is_broken(error) && error != -EACCES;
	uint64_t n_dead = 0;

	for (uint32_t k = 0; k < n; k++) {
		struct slime_pages_item *item = &req->items[items[k]];
		struct item_state *state = &req->states[items[k]];
		/* A former owner is asked after a replica said that it has no such page. */
		bool is_miss = is_dead || (reads && state->former && error == -ETIMEDOUT);

		if (state->done)
			continue;
		if (reads && is_lost(req, state, error)) {
			item->status = error == -ETIMEDOUT && !is_miss ? error : -ENOENT;
			continue;
		}
		n_dead += is_dead;
		if (item->status)
			item->status = is_miss ? -ENOENT : error;
		state->done = reads;
	}
	pages_count(&req->pages->counts.dead, n_dead);
}

/* Items in the order of their members: a counting sort. Each run of one member is cut into parts.
 */
static void make_parts(struct slime_pages_request *req)
{
	uint32_t counts[MEMBERS_MAX + 1] = { 0 };
	uint16_t last = MEMBER_NONE;
	uint64_t bytes = 0; /* of a part of the member's */

	for (uint32_t i = 0; i < req->n; i++)
		if (!req->states[i].done)
			counts[req->states[i].member + 1]++;
	for (int m = 1; m <= MEMBERS_MAX; m++)
		counts[m] += counts[m - 1];
	for (uint32_t i = 0; i < req->n; i++)
		if (!req->states[i].done)
			req->order[counts[req->states[i].member]++] = i;
	/* counts[m] is the end of m's run now. */
	for (uint32_t at = 0; at < counts[MEMBERS_MAX - 1];) {
		uint16_t member = req->states[req->order[at]].member;
		uint32_t n = counts[member] - at;
		int ret;

		if (req->kind == REQUEST_PUT && member != last)
			bytes = part_bytes(req, &req->order[at], n);
		last = member;
		if (n > PAGES_KEYS_MAX)
			n = PAGES_KEYS_MAX;
		if (req->kind == REQUEST_PUT)
			n = part_count_that_fit(req, &req->order[at], n, bytes);
		ret = add_part(req, member, &req->order[at], n);
		if (ret)
			fail_items(req, &req->order[at], n, ret);
		at += n;
	}
}

static void make_parts_of_all(struct slime_pages_request *req)
{
	for (uint16_t member = 0; member < MEMBERS_MAX; member++)
		(void)add_part(req, member, NULL, 0);
}

/* true: it has ended already. */
bool round_launch(struct slime_pages_request *req)
{
	req->n_parts = 0;
	if (request_asks_all(req)) {
		make_parts_of_all(req);
	} else {
		choose_owners(req);
		make_parts(req);
	}
	/* One more, so that none that ends at once ends the round. */
	atomic_store(&req->n_under_way, req->n_parts + 1);
	for (size_t i = 0; i < req->n_parts; i++) {
		if (req->kind == REQUEST_GET)
			part_use_cached_places(req->parts[i]);
		part_begin(req->parts[i]);
	}
	return atomic_fetch_sub(&req->n_under_way, 1) == 1;
}

/* ---- judging ---- */

static bool is_checked(const struct slime_pages_request *req, uint32_t i)
{
	enum slime_pages_verify verify = req->pages->verify;

	return verify == SLIME_PAGES_VERIFY_ALWAYS ||
	       (verify == SLIME_PAGES_VERIFY_SAMPLE && i % SAMPLE_EVERY == 0);
}

static bool is_right(const struct slime_pages_request *req, uint32_t i)
{
	const struct place_of *at = &req->states[i].at;
	const struct page_header *header = &req->headers[i];
	const struct page_identity wanted = { .generation = at->place.generation,
					      .hash = at->hash,
					      .len = at->place.len };

	return page_is(header, &wanted) &&
	       (!is_checked(req, i) ||
		page_seal(&wanted, item_checksum(&req->items[i], at->place.len)) == header->seal);
}

/* true: it is to be asked for again. */
static bool judge_get(struct slime_pages_request *req, uint32_t i)
{
	struct item_state *state = &req->states[i];

	if (state->arrived && is_right(req, i)) {
		req->items[i].len = state->at.place.len;
		item_finish(req, i, 0);
		return false;
	}
	if (state->arrived) {
		pages_count(&req->pages->counts.rejected, 1);
		places_drop(req->pages->places, state->id);
		state->arrived = state->placed = false;
		req->items[i].status = -ENOENT;
		if (!state->again) {
			state->again = true;
			return true;
		}
	}
	return false;
}

/* Owners that are new have not all that is theirs yet. */
static bool ask_former_owner(struct slime_pages_request *req, uint32_t i)
{
	struct item_state *state = &req->states[i];
	uint16_t former;

	if (req->items[i].status != -ENOENT || state->former)
		return false;
	state->former = true;
	members_lock(req->pages->members);
	former = former_owner_locked(req, state);
	members_unlock(req->pages->members);
	return former != MEMBER_NONE && former != state->member;
}

/* They are asked by gets that miss: what is deleted must not be found there. */
static bool delete_at_former_owners(struct slime_pages_request *req)
{
	bool more = false;

	members_lock(req->pages->members);
	for (size_t i = 0; i < req->n; i++) {
		struct item_state *state = &req->states[i];
		uint16_t former;

		if (state->former || req->items[i].status == -EINVAL)
			continue;
		former = former_owner_locked(req, state);
		state->former = true;
		state->done = former == MEMBER_NONE || former == state->member;
		more |= !state->done;
	}
	members_unlock(req->pages->members);
	return more;
}

static void sum_up(struct slime_pages_request *req)
{
	for (size_t i = 0; i < req->n_parts; i++)
		if (!req->parts[i]->error)
			pages_stat_add(req->parts[i]->reply, req->stat);
}

/* Whether there is another round. */
static bool judge(struct slime_pages_request *req)
{
	bool more = false;

	for (size_t i = 0; i < req->n_parts; i++) {
		struct part *part = req->parts[i];

		if (part->error && part->n) {
			for (uint32_t k = 0; k < part->n; k++)
				req->states[part->items[k]].arrived = false;
			if (part->error == -ETIMEDOUT)
				member_set_add(&req->silent, part->use.member);
			fail_items(req, part->items, part->n, part->error);
		}
	}
	if (req->kind == REQUEST_STAT)
		sum_up(req);
	if (request_asks_all(req))
		return false;
	if (!is_read(req))
		return ++req->rank < req->pages->replicas ||
		       (req->kind == REQUEST_DELETE && delete_at_former_owners(req));
	for (uint32_t i = 0; i < req->n; i++) {
		struct item_state *state = &req->states[i];

		if (state->done)
			continue;
		if (state->lost || (req->kind == REQUEST_GET && judge_get(req, i)) ||
		    (!state->done && ask_former_owner(req, i)))
			more = true;
		else
			state->done = true;
		state->lost = false;
	}
	return more;
}

static void count(struct slime_pages_request *req)
{
	struct pages_counts *counts = &req->pages->counts;
	uint64_t hits = 0, bytes = 0;

	if (req->kind != REQUEST_GET)
		return;
	for (size_t i = 0; i < req->n; i++) {
		hits += !req->items[i].status;
		bytes += req->items[i].status ? 0 : req->items[i].len;
	}
	pages_count(&counts->hits, hits);
	pages_count(&counts->misses, req->n - hits);
	pages_count(&counts->bytes, bytes);
}

/* The request whose callback runs on this thread, until the callback begins or destroys it: to
 * other threads it is pending until the callback returned. */
static _Thread_local struct slime_pages_request *in_callback;

static void set_idle(struct slime_pages_request *req)
{
	atomic_store_explicit(&req->state, REQUEST_IDLE, memory_order_release);
}

static void call_back(struct slime_pages_request *req)
{
	struct slime_pages_request *outer = in_callback;

	in_callback = req;
	req->fn(req->arg, req);
	if (in_callback == req)
		set_idle(req);
	in_callback = outer;
}

static void finish(struct slime_pages_request *req)
{
	count(req);
	if (req->fn)
		call_back(req);
	else
		set_idle(req);
}

/* To other threads than that of their callbacks, calls and ops are pending until these returned. */
bool round_have_callbacks_returned(const struct slime_pages_request *req)
{
	for (size_t i = 0; i < req->n_parts; i++)
		if (!slime_call_test(req->parts[i]->call) || !slime_op_test(req->parts[i]->op))
			return false;
	return true;
}

/* The parts of a round have arrived, so that this waits for no peer. */
int round_wait_for_callbacks(struct slime_pages_request *req)
{
	int ret = 0;

	for (size_t i = 0; i < req->n_parts && (!ret || ret == -ETIMEDOUT); i++) {
		while (!slime_call_test(req->parts[i]->call) && (!ret || ret == -ETIMEDOUT))
			ret = slime_call_wait(req->parts[i]->call, -1);
		while (!slime_op_test(req->parts[i]->op) && (!ret || ret == -ETIMEDOUT))
			ret = slime_op_wait(req->parts[i]->op, -1);
	}
	return ret == -ETIMEDOUT ? 0 : ret;
}

/* The parts of a round have arrived, and their callbacks returned. */
void round_advance(struct slime_pages_request *req)
{
	do {
		if (!judge(req)) {
			finish(req);
			return;
		}
	} while (round_launch(req));
}

/* One part less is under way; the last one ends the round. */
void round_part_ended(struct slime_pages_request *req)
{
	if (atomic_fetch_sub(&req->n_under_way, 1) != 1)
		return;
	if (req->fn)
		round_advance(req);
	else
		atomic_store_explicit(&req->state, REQUEST_ARRIVED, memory_order_release);
}

void round_leave_callback(struct slime_pages_request *req)
{
	if (in_callback == req)
		in_callback = NULL;
}

bool round_is_in_callback(const struct slime_pages_request *req)
{
	return in_callback == req;
}
