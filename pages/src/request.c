/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request goes in rounds. A round groups what is not done by owners, into parts; each part asks
 * its owner (lookup, put, ...) by a call, and then, for a get, reads by an op. Callbacks move a
 * part on. When the last part has arrived the items are judged: on the thread that waits, or, with
 * a callback, on the one that makes progress. What must be asked again makes the next round.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "pages/src/pages.h"

#define SAMPLE_EVERY 16
#define ERRNO_MAX    4095

enum kind { GET, EXISTS, PUT, DELETE, PIN, UNPIN, CLEAR };

static const char *const methods[] = {
	[GET] = PAGES_LOOKUP,	 [EXISTS] = PAGES_EXISTS, [PUT] = PAGES_PUT,
	[DELETE] = PAGES_DELETE, [PIN] = PAGES_PIN,	  [UNPIN] = PAGES_UNPIN,
	[CLEAR] = PAGES_CLEAR,
};

struct item_state {
	struct page_hash id; /* of the key, with seed 0 */
	struct place_of at;  /* of get */
	uint64_t checksum;   /* of put */
	uint16_t member;     /* asked in this round */
	bool placed;	     /* at is known */
	bool cached;	     /* and it was before */
	bool arrived;	     /* bytes and header were read in this round */
	bool done;
	bool again;	/* what it asked for a second time */
	bool former;	/* the former owner was asked */
	bool lost;	/* the owner died in this round, and another one may have a copy */
	uint8_t n_lost; /* rounds in which that was so */
};

enum part_state { PART_ASKS, PART_READS, PART_ARRIVED };

struct part {
	struct slime_pages_request *req;
	struct slime_call *call;
	struct slime_op *op;
	_Atomic int state;
	int error; /* of the whole part */
	bool reads_headers;
	struct member_use use;
	uint32_t *items; /* numbers of items */
	uint32_t n;
	uint8_t *message, *reply;
	size_t message_cap, reply_cap;
	struct slime_xfer *xfers;
	size_t xfers_cap, n_xfers;
};

enum request_state { REQUEST_IDLE, REQUEST_RUNS, REQUEST_ARRIVED };

struct slime_pages_request {
	struct slime_pages *pages;
	slime_pages_fn *fn;
	void *arg;
	_Atomic int state;

	enum kind kind;
	uint32_t flags;	  /* of put */
	uint32_t hold_ms; /* of pin */
	unsigned rank;	  /* of the owners of this round */
	struct slime_pages_item *items;
	size_t n;
	struct item_state *states;
	uint32_t *order; /* items by their parts */
	struct page_header *headers;
	struct slime_mr *headers_mr;
	size_t cap; /* items that states, order and headers have room for */

	struct part **parts;
	size_t n_parts, parts_cap;
	_Atomic size_t n_under_way;
};

/* ---- what ends a part ---- */

static void advance(struct slime_pages_request *req);

/* One part less is under way; the last one ends the round. */
static void round_part_ended(struct slime_pages_request *req)
{
	if (atomic_fetch_sub(&req->n_under_way, 1) != 1)
		return;
	if (req->fn)
		advance(req);
	else
		atomic_store_explicit(&req->state, REQUEST_ARRIVED, memory_order_release);
}

/* The link, or what we know of the owner, is of no use any more. */
static bool is_broken(int error)
{
	switch (error) {
	case -ECONNRESET:
	case -ENOTCONN:
	case -ECANCELED:
	case -ESHUTDOWN:
	case -ESTALE:
	case -EACCES:
	case -ENOSYS:
	case -EREMOTEIO:
		return true;
	default:
		return false;
	}
}

static void part_arrived(struct part *part, int error)
{
	struct slime_pages_request *req = part->req;

	part->error = error;
	members_leave(req->pages->members, &part->use, is_broken(error));
	atomic_store_explicit(&part->state, PART_ARRIVED, memory_order_release);
	round_part_ended(req);
}

/* ---- reading pages ---- */

static int room_for_xfers(struct part *part, size_t n)
{
	struct slime_xfer *more;

	if (n <= part->xfers_cap)
		return 0;
	more = realloc(part->xfers, n * sizeof(*more));
	if (!more)
		return -ENOMEM;
	part->xfers = more;
	part->xfers_cap = n;
	return 0;
}

static void add_header(struct part *part, uint32_t i)
{
	struct slime_pages_request *req = part->req;

	part->xfers[part->n_xfers++] = (struct slime_xfer){
		.local = req->headers_mr,
		.local_offset = i * PAGE_HEADER_LEN,
		.remote = &part->use.region,
		.remote_offset = req->states[i].at.place.header,
		.len = PAGE_HEADER_LEN,
	};
}

static void add_bytes(struct part *part, uint32_t i)
{
	const struct slime_pages_item *item = &part->req->items[i];
	const struct page_place *place = &part->req->states[i].at.place;
	uint64_t done = 0;

	for (uint32_t b = 0; b < item->n_bufs && done < place->len; b++) {
		const struct slime_pages_buf *buf = &item->bufs[b];
		uint64_t len = place->len - done < buf->len ? place->len - done : buf->len;

		if (!len)
			continue;
		part->xfers[part->n_xfers++] = (struct slime_xfer){
			.local = buf->mr,
			.local_offset = buf->offset,
			.remote = &part->use.region,
			.remote_offset = place->page + done,
			.len = len,
		};
		done += len;
	}
}

static int read_xfers(struct part *part)
{
	atomic_store_explicit(&part->state, PART_READS, memory_order_release);
	return slime_read(part->use.ep, part->xfers, part->n_xfers, 0, part->op);
}

static int read_headers(struct part *part)
{
	struct slime_pages_request *req = part->req;

	part->reads_headers = true;
	part->n_xfers = 0;
	for (uint32_t i = 0; i < part->n; i++)
		if (req->states[part->items[i]].arrived)
			add_header(part, part->items[i]);
	return read_xfers(part);
}

static size_t n_bufs_of(const struct part *part)
{
	size_t n = 0;

	for (uint32_t i = 0; i < part->n; i++)
		n += 1 + part->req->items[part->items[i]].n_bufs;
	return n;
}

/* Read what has a place: bytes and headers at once where the checksum decides, else the bytes
 * first. 1: there is nothing to read. */
static int read_pages(struct part *part)
{
	struct slime_pages_request *req = part->req;
	bool headers_too = req->pages->verify == SLIME_PAGES_VERIFY_ALWAYS;
	int ret = room_for_xfers(part, n_bufs_of(part));
	bool any = false;

	if (ret)
		return ret;
	part->reads_headers = headers_too;
	part->n_xfers = 0;
	for (uint32_t k = 0; k < part->n; k++) {
		uint32_t i = part->items[k];

		if (req->states[i].done || !req->states[i].placed)
			continue;
		req->states[i].arrived = true;
		any = true;
		if (headers_too)
			add_header(part, i);
		add_bytes(part, i);
	}
	return any ? read_xfers(part) : 1;
}

static void on_read(void *arg, struct slime_op *op)
{
	struct part *part = arg;
	int status = slime_op_status(op);

	if (!status && !part->reads_headers) {
		status = read_headers(part);
		if (!status)
			return;
	}
	part_arrived(part, status);
}

/* ---- what owners answer ---- */

static uint64_t room_of(const struct slime_pages_item *item)
{
	uint64_t len = 0;

	for (uint32_t b = 0; b < item->n_bufs; b++)
		len += item->bufs[b].len;
	return len;
}

static void settle(struct slime_pages_request *req, uint32_t i, int status)
{
	req->items[i].status = status;
	req->states[i].done = true;
}

/* A place is believed when it lies in the region. */
static bool is_inside(const struct page_place *place, const struct slime_remote_mr *region)
{
	return place->page <= region->len && place->len <= region->len - place->page &&
	       region->len >= PAGE_HEADER_LEN && place->header <= region->len - PAGE_HEADER_LEN;
}

static void take_place(struct part *part, uint32_t i, const struct pages_found *found,
		       uint64_t seed, uint64_t now_ns)
{
	struct slime_pages_request *req = part->req;
	struct slime_pages_item *item = &req->items[i];
	struct item_state *state = &req->states[i];

	if (found->status || !is_inside(&found->place, &part->use.region)) {
		item->status = found->status == -EINVAL ? -EINVAL : -ENOENT;
		return;
	}
	state->at = (struct place_of){
		.place = found->place,
		.hash = page_hash(item->key, item->key_len, seed),
		.member = part->use.member,
		.life = part->use.life,
	};
	places_put(req->pages->places, state->id, now_ns, &state->at);
	if (found->place.len > room_of(item)) {
		item->len = found->place.len;
		settle(req, i, -EMSGSIZE);
		return;
	}
	state->placed = true;
}

static int take_places(struct part *part, const uint8_t *reply, size_t len)
{
	uint64_t now_ns = sl_clock_ns(), seed;
	const uint8_t *at = reply + 8;

	if (len < 8)
		return -EPROTO;
	seed = sl_get_le64(reply);
	for (uint32_t k = 0; k < part->n; k++) {
		uint32_t i = part->items[k];
		struct pages_found found;

		if (part->req->states[i].placed)
			continue;
		if ((size_t)(at - reply) + PAGES_PLACE_LEN > len)
			return -EPROTO;
		pages_found_read(at, &found);
		at += PAGES_PLACE_LEN;
		take_place(part, i, &found, seed, now_ns);
	}
	return 0;
}

static int take_bits(struct part *part, const uint8_t *reply, size_t len)
{
	if (len < (part->n + 7) / 8)
		return -EPROTO;
	for (uint32_t k = 0; k < part->n; k++)
		part->req->items[part->items[k]].status = reply[k / 8] & 1 << k % 8 ? 0 : -ENOENT;
	return 0;
}

/* Of several replicas one that did it is enough. */
static int take_statuses(struct part *part, const uint8_t *reply, size_t len)
{
	if (len < part->n * sizeof(uint32_t))
		return -EPROTO;
	for (uint32_t k = 0; k < part->n; k++) {
		struct slime_pages_item *item = &part->req->items[part->items[k]];
		int status = (int)sl_get_le32(reply + k * sizeof(uint32_t));

		if (status > 0 || status < -ERRNO_MAX)
			return -EPROTO;
		if (item->status)
			item->status = status;
	}
	return 0;
}

static int take_answer(struct part *part)
{
	const uint8_t *reply = slime_call_reply_data(part->call);
	size_t len = slime_call_reply_len(part->call);

	switch (part->req->kind) {
	case GET:
		return take_places(part, reply, len);
	case EXISTS:
		return take_bits(part, reply, len);
	case CLEAR:
		return 0;
	default:
		return take_statuses(part, reply, len);
	}
}

/* An error that the owner gave, or the call's own. */
static int call_error(struct slime_call *call)
{
	int status = slime_call_status(call);
	const char *message;
	uint32_t code;

	if (status != -EREMOTEIO)
		return status;
	code = slime_call_error(call, &message);
	if (!code || code > ERRNO_MAX)
		return -EPROTO;
	sl_debug("pages", "an owner refused: %s", message);
	return -(int)code;
}

static void on_answer(void *arg, struct slime_call *call)
{
	struct part *part = arg;
	int ret = call_error(call);

	if (!ret)
		ret = take_answer(part);
	if (!ret && part->req->kind == GET) {
		ret = read_pages(part);
		if (!ret)
			return;
		ret = ret == 1 ? 0 : ret;
	}
	part_arrived(part, ret);
}

/* ---- asking ---- */

static int grow(uint8_t **bytes, size_t *cap, size_t want)
{
	uint8_t *more;

	if (want <= *cap)
		return 0;
	more = realloc(*bytes, want);
	if (!more)
		return -ENOMEM;
	*bytes = more;
	*cap = want;
	return 0;
}

/* The regions of the bufs of a part, each once. */
struct regions {
	struct slime_mr *mr[PAGES_REGIONS_MAX];
	uint8_t n;
};

static int region_number(const struct regions *regions, const struct slime_mr *mr)
{
	int i = 0;

	while (i < regions->n && regions->mr[i] != mr)
		i++;
	return i;
}

/* false: there is no room for all regions of the item. */
static bool add_regions(const struct slime_pages_item *item, struct regions *out)
{
	for (uint32_t b = 0; b < item->n_bufs; b++) {
		if (region_number(out, item->bufs[b].mr) < out->n)
			continue;
		if (out->n == PAGES_REGIONS_MAX)
			return false;
		out->mr[out->n++] = item->bufs[b].mr;
	}
	return true;
}

/* Of n items so many that the regions of their bufs fit into one message: at least one. */
static uint32_t count_that_fit(const struct slime_pages_request *req, const uint32_t *items,
			       uint32_t n)
{
	struct regions regions = { .n = 0 };
	uint32_t k = 0;

	while (k < n && add_regions(&req->items[items[k]], &regions))
		k++;
	return k;
}

static int write_put(const struct part *part, const struct regions *regions, struct sl_writer *w)
{
	pages_name_write(w, slime_agent_name(part->req->pages->agent));
	pages_name_write(w, "default");
	sl_write_u8(w, regions->n);
	for (uint8_t i = 0; i < regions->n; i++) {
		uint8_t desc[SLIME_MR_DESC_MAX];
		int len = slime_mr_export(regions->mr[i], desc, sizeof(desc));

		if (len < 0)
			return len;
		pages_key_write(w, desc, (size_t)len);
	}
	return 0;
}

static void write_source(const struct slime_pages_request *req, uint32_t i,
			 const struct regions *regions, struct sl_writer *w)
{
	const struct slime_pages_item *item = &req->items[i];

	sl_write_u8(w, (uint8_t)item->n_bufs);
	for (uint32_t b = 0; b < item->n_bufs; b++) {
		sl_write_u8(w, (uint8_t)region_number(regions, item->bufs[b].mr));
		sl_write_u64(w, item->bufs[b].offset);
		sl_write_u32(w, (uint32_t)item->bufs[b].len);
	}
	sl_write_u64(w, req->states[i].checksum);
}

static bool is_asked(const struct part *part, uint32_t i)
{
	return part->req->kind != GET || !part->req->states[i].placed;
}

static size_t message_room(const struct part *part)
{
	const struct slime_pages_request *req = part->req;
	size_t len = PAGES_HEAD_LEN + SLIME_PAGES_TENANT_MAX + 8;

	if (req->kind == PUT)
		len += 2 * (2 + SLIME_AGENT_NAME_MAX) + 1 +
		       PAGES_REGIONS_MAX * (2 + SLIME_MR_DESC_MAX);
	for (uint32_t k = 0; k < part->n; k++) {
		const struct slime_pages_item *item = &req->items[part->items[k]];

		len += 2 + item->key_len;
		if (req->kind == PUT)
			len += 1 + (size_t)item->n_bufs * 13 + 8;
	}
	return len;
}

static int write_message(struct part *part, size_t *len, uint32_t *n_asked)
{
	const struct slime_pages_request *req = part->req;
	struct regions regions = { .n = 0 };
	struct pages_head head = { .flags = (uint8_t)req->flags,
				   .tenant = (const uint8_t *)req->pages->tenant,
				   .tenant_len = (uint16_t)strlen(req->pages->tenant),
				   .right = part->use.right };
	struct sl_writer w;
	int ret = grow(&part->message, &part->message_cap, message_room(part));

	if (ret)
		return ret;
	for (uint32_t k = 0; k < part->n; k++)
		head.n += is_asked(part, part->items[k]);
	w = (struct sl_writer){ .at = part->message, .room = part->message_cap };
	pages_head_write(&w, &head);
	for (uint32_t k = 0; req->kind == PUT && k < part->n; k++)
		(void)add_regions(&req->items[part->items[k]], &regions);
	if (req->kind == PUT)
		ret = write_put(part, &regions, &w);
	if (req->kind == PIN)
		sl_write_u32(&w, req->hold_ms);
	for (uint32_t k = 0; k < part->n && !ret; k++) {
		const struct slime_pages_item *item = &req->items[part->items[k]];

		if (!is_asked(part, part->items[k]))
			continue;
		pages_key_write(&w, item->key, item->key_len);
		if (req->kind == PUT)
			write_source(req, part->items[k], &regions, &w);
	}
	assert(!w.failed);
	*len = part->message_cap - w.room;
	*n_asked = head.n;
	return ret;
}

static size_t reply_room(enum kind kind, uint32_t n)
{
	switch (kind) {
	case GET:
		return 8 + (size_t)n * PAGES_PLACE_LEN;
	case EXISTS:
		return (n + 7) / 8;
	case CLEAR:
		return 8;
	default:
		return n * sizeof(uint32_t);
	}
}

static int ask(struct part *part)
{
	struct slime_pages_request *req = part->req;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint32_t n_asked;
	size_t len;
	int ret = write_message(part, &len, &n_asked);

	if (!ret)
		ret = grow(&part->reply, &part->reply_cap, reply_room(req->kind, n_asked));
	if (ret)
		return ret;
	if (req->kind == GET)
		pages_count(&req->pages->counts.lookups, n_asked);
	args.method = slime_rpc_method_id(methods[req->kind]);
	args.request = part->message;
	args.request_len = len;
	args.reply = part->reply;
	args.reply_cap = reply_room(req->kind, n_asked);
	args.timeout_ms = req->pages->timeout_ms;
	return slime_call_start(part->use.ep, &args, part->call);
}

static bool asks(const struct part *part)
{
	for (uint32_t k = 0; k < part->n; k++)
		if (is_asked(part, part->items[k]))
			return true;
	return part->req->kind == CLEAR;
}

static void begin_part(struct part *part)
{
	int ret;

	atomic_store_explicit(&part->state, PART_ASKS, memory_order_relaxed);
	part->error = 0;
	ret = asks(part) ? ask(part) : read_pages(part);
	if (ret)
		part_arrived(part, ret == 1 ? 0 : ret);
}

/* ---- rounds ---- */

static uint16_t owner_locked(struct slime_pages_request *req, const struct item_state *state)
{
	struct members *members = req->pages->members;

	if (state->former)
		return members_former_owner_locked(members, state->id.low);
	if ((req->kind == GET || req->kind == EXISTS) && req->pages->replicas > 1)
		return members_nearest_locked(members, state->id.low, req->pages->replicas);
	return members_owner_locked(members, state->id.low, req->rank);
}

/* Whose turn each item is; those that have none are done. */
static void choose_owners(struct slime_pages_request *req)
{
	bool reads = req->kind == GET || req->kind == EXISTS;
	uint64_t n_dead = 0;

	members_lock(req->pages->members);
	for (uint32_t i = 0; i < req->n; i++) {
		struct item_state *state = &req->states[i];

		if (state->done)
			continue;
		state->member = owner_locked(req, state);
		if (state->member != MEMBER_NONE)
			continue;
		if (req->rank == 0 && !state->former) {
			req->items[i].status = reads ? -ENOENT : -ENOTCONN;
			n_dead++;
		}
		state->done = true;
	}
	members_unlock(req->pages->members);
	pages_count(&req->pages->counts.dead, n_dead);
}

static int make_part(struct slime_pages_request *req, struct part **out)
{
	struct slime_context *ctx = slime_agent_context(req->pages->agent);
	struct part *part = calloc(1, sizeof(*part));
	struct slime_call_attr call = { .fn = on_answer, .arg = part };
	struct slime_op_attr op = { .fn = on_read, .arg = part };
	int ret;

	if (!part)
		return -ENOMEM;
	part->req = req;
	ret = slime_call_create(ctx, &call, &part->call);
	if (!ret)
		ret = slime_op_create(ctx, &op, &part->op);
	if (ret) {
		(void)slime_call_destroy(part->call);
		free(part);
		return ret;
	}
	*out = part;
	return 0;
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
		int ret = make_part(req, &req->parts[req->n_parts]);

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

/* Places of another life of the owner are of no use. */
static void use_cached_places(struct part *part)
{
	struct slime_pages_request *req = part->req;
	uint64_t now_ns = sl_clock_ns(), n = 0;

	for (uint32_t k = 0; k < part->n; k++) {
		struct item_state *state = &req->states[part->items[k]];
		struct slime_pages_item *item = &req->items[part->items[k]];

		if (state->again || state->former ||
		    !places_get(req->pages->places, state->id, now_ns, &state->at) ||
		    state->at.member != part->use.member || state->at.life != part->use.life ||
		    state->at.place.len > room_of(item))
			continue;
		state->placed = state->cached = true;
		members_note_use(req->pages->members, part->use.member, item->key, item->key_len);
		n++;
	}
	pages_count(&req->pages->counts.cached, n);
}

static bool is_lost(struct slime_pages_request *req, struct item_state *state, int error)
{
	state->lost = is_broken(error) && ++state->n_lost < req->pages->replicas;
	state->placed = state->placed && !state->lost;
	return state->lost;
}

static void fail_items(struct slime_pages_request *req, const uint32_t *items, uint32_t n,
		       int error)
{
	bool reads = req->kind == GET || req->kind == EXISTS;
	bool is_dead = reads && is_broken(error) && error != -EACCES;
	uint64_t n_dead = 0;

	for (uint32_t k = 0; k < n; k++) {
		struct slime_pages_item *item = &req->items[items[k]];

		if (req->states[items[k]].done)
			continue;
		if (reads && is_lost(req, &req->states[items[k]], error))
			continue;
		n_dead += is_dead;
		if (item->status)
			item->status = is_dead ? -ENOENT : error;
		req->states[items[k]].done = reads;
	}
	pages_count(&req->pages->counts.dead, n_dead);
}

/* Items in the order of their members: a counting sort. Each run of one member is cut into parts.
 */
static void make_parts(struct slime_pages_request *req)
{
	uint32_t counts[MEMBERS_MAX + 1] = { 0 };

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

		if (n > PAGES_KEYS_MAX)
			n = PAGES_KEYS_MAX;
		if (req->kind == PUT)
			n = count_that_fit(req, &req->order[at], n);
		ret = add_part(req, member, &req->order[at], n);
		if (ret)
			fail_items(req, &req->order[at], n, ret);
		at += n;
	}
}

static void make_clear_parts(struct slime_pages_request *req)
{
	for (uint16_t member = 0; member < MEMBERS_MAX; member++)
		(void)add_part(req, member, NULL, 0);
}

/* true: it has ended already. */
static bool launch(struct slime_pages_request *req)
{
	req->n_parts = 0;
	if (req->kind == CLEAR) {
		make_clear_parts(req);
	} else {
		choose_owners(req);
		make_parts(req);
	}
	/* One more, so that none that ends at once ends the round. */
	atomic_store(&req->n_under_way, req->n_parts + 1);
	for (size_t i = 0; i < req->n_parts; i++) {
		if (req->kind == GET)
			use_cached_places(req->parts[i]);
		begin_part(req->parts[i]);
	}
	return atomic_fetch_sub(&req->n_under_way, 1) == 1;
}

/* ---- judging ---- */

static uint64_t checksum_of(const struct slime_pages_item *item, uint32_t len)
{
	const struct slime_pages_buf *buf = item->bufs;
	struct page_sum *sum;
	uint64_t value;

	if (!item->n_bufs)
		return page_checksum("", 0);
	if (len <= buf->len)
		return page_checksum((const uint8_t *)slime_mr_addr(buf->mr) + buf->offset, len);
	sum = page_sum_create();
	if (!sum)
		return 0;
	page_sum_begin(sum);
	for (; len; buf++) {
		uint32_t n = buf->len < len ? (uint32_t)buf->len : len;

		page_sum_add(sum, (const uint8_t *)slime_mr_addr(buf->mr) + buf->offset, n);
		len -= n;
	}
	value = page_sum_end(sum);
	page_sum_destroy(sum);
	return value;
}

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
		page_seal(&wanted, checksum_of(&req->items[i], at->place.len)) == header->seal);
}

/* true: it is to be asked for again. */
static bool judge_get(struct slime_pages_request *req, uint32_t i)
{
	struct item_state *state = &req->states[i];

	if (state->arrived && is_right(req, i)) {
		req->items[i].len = state->at.place.len;
		settle(req, i, 0);
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
	former = members_former_owner_locked(req->pages->members, state->id.low);
	members_unlock(req->pages->members);
	return former != MEMBER_NONE && former != state->member;
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
			fail_items(req, part->items, part->n, part->error);
		}
	}
	if (req->kind == CLEAR)
		return false;
	if (req->kind != GET && req->kind != EXISTS)
		return ++req->rank < req->pages->replicas;
	for (uint32_t i = 0; i < req->n; i++) {
		struct item_state *state = &req->states[i];

		if (state->done)
			continue;
		if (state->lost || (req->kind == GET && judge_get(req, i)) ||
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

	if (req->kind != GET)
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
static bool have_callbacks_returned(const struct slime_pages_request *req)
{
	for (size_t i = 0; i < req->n_parts; i++)
		if (!slime_call_test(req->parts[i]->call) || !slime_op_test(req->parts[i]->op))
			return false;
	return true;
}

/* The parts of a round have arrived, so that this waits for no peer. */
static int wait_for_callbacks(struct slime_pages_request *req)
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
static void advance(struct slime_pages_request *req)
{
	do {
		if (!judge(req)) {
			finish(req);
			return;
		}
	} while (launch(req));
}

/* ---- public ---- */

static void leave_callback(struct slime_pages_request *req)
{
	if (in_callback == req)
		in_callback = NULL;
}

int slime_pages_request_create(struct slime_pages *pages,
			       const struct slime_pages_request_attr *attr,
			       struct slime_pages_request **out)
{
	struct slime_pages_request *req = calloc(1, sizeof(*req));

	if (!req)
		return -ENOMEM;
	req->pages = pages;
	if (attr) {
		req->fn = attr->fn;
		req->arg = attr->arg;
	}
	atomic_fetch_add(&pages->n_requests, 1);
	*out = req;
	return 0;
}

static void destroy_part(struct part *part)
{
	if (!part)
		return;
	(void)slime_call_destroy(part->call);
	(void)slime_op_destroy(part->op);
	free(part->message);
	free(part->reply);
	free(part->xfers);
	free(part);
}

int slime_pages_request_destroy(struct slime_pages_request *req)
{
	if (!req)
		return 0;
	if (!slime_pages_test(req))
		return -EBUSY;
	if (slime_mr_destroy(req->headers_mr))
		return -EBUSY;
	leave_callback(req);
	for (size_t i = 0; i < req->parts_cap; i++)
		destroy_part(req->parts[i]);
	free(req->parts);
	free(req->headers);
	free(req->states);
	free(req->order);
	atomic_fetch_sub(&req->pages->n_requests, 1);
	free(req);
	return 0;
}

static int make_room(struct slime_pages_request *req, size_t n)
{
	struct slime_mr *mr = NULL;
	void *headers;
	int ret;

	if (n <= req->cap)
		return 0;
	n = n < 64 ? 64 : n + n / 2;
	headers = aligned_alloc(PAGE_HEADER_LEN, n * PAGE_HEADER_LEN);
	if (!headers)
		return -ENOMEM;
	ret = slime_mr_create(slime_agent_context(req->pages->agent), headers, n * PAGE_HEADER_LEN,
			      0, &mr);
	if (!ret && slime_mr_destroy(req->headers_mr))
		ret = -EBUSY;
	if (ret) {
		(void)slime_mr_destroy(mr);
		free(headers);
		return ret;
	}
	free(req->headers);
	free(req->states);
	free(req->order);
	req->headers = headers;
	req->headers_mr = mr;
	req->states = malloc(n * sizeof(*req->states));
	req->order = malloc(n * sizeof(*req->order));
	req->cap = req->states && req->order ? n : 0;
	return req->cap ? 0 : -ENOMEM;
}

static int check_item(const struct slime_pages_item *item)
{
	if (item->n_bufs > PAGES_BUFS_MAX)
		return -EINVAL;
	for (uint32_t b = 0; b < item->n_bufs; b++) {
		const struct slime_pages_buf *buf = &item->bufs[b];
		uint64_t len = buf->mr ? slime_mr_len(buf->mr) : 0;

		if (!buf->mr || buf->len > UINT32_MAX || buf->offset > len ||
		    buf->len > len - buf->offset)
			return -EINVAL;
	}
	return 0;
}

/* The owner reads from the region. */
static int check_access(const struct slime_mr *mr)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr seen;
	int ret = slime_mr_export(mr, desc, sizeof(desc));

	if (ret >= 0)
		ret = slime_remote_mr_import(desc, (size_t)ret, &seen);
	if (ret)
		return ret;
	return seen.access & SLIME_ACCESS_REMOTE_READ ? 0 : -EACCES;
}

static int check_regions(const struct slime_pages_item *item, bool is_put,
			 const struct slime_mr **checked)
{
	int ret = 0;

	for (uint32_t b = 0; b < item->n_bufs && !ret; b++) {
		const struct slime_mr *mr = item->bufs[b].mr;

		if (mr == *checked)
			continue;
		ret = !slime_mr_addr(mr) ? -EOPNOTSUPP : is_put ? check_access(mr) : 0;
		*checked = mr;
	}
	return ret;
}

static int check_items(const struct slime_pages_item *items, size_t n, enum kind kind)
{
	const struct slime_mr *checked = NULL;
	int ret = n > INT_MAX ? -EINVAL : 0;

	if (kind != GET && kind != PUT)
		return ret;
	for (size_t i = 0; i < n && !ret; i++) {
		ret = check_item(&items[i]);
		if (!ret)
			ret = check_regions(&items[i], kind == PUT, &checked);
	}
	return ret;
}

/* The owner compares: what it reads may be the bytes of later, when the put has timed out and its
 * memory is used again. */
static void note_checksum(struct slime_pages_request *req, size_t i)
{
	uint64_t len = room_of(&req->items[i]);

	if (len <= UINT32_MAX)
		req->states[i].checksum = checksum_of(&req->items[i], (uint32_t)len);
}

static void init_item(struct slime_pages_request *req, size_t i)
{
	struct slime_pages_item *item = &req->items[i];

	memset(&req->states[i], 0, sizeof(req->states[i]));
	item->status = -ENOENT;
	if (req->kind == GET)
		item->len = 0;
	if (!item->key_len || item->key_len > SLIME_PAGES_KEY_MAX)
		settle(req, (uint32_t)i, -EINVAL);
	else
		req->states[i].id = page_hash(item->key, item->key_len, 0);
	if (req->kind == PUT)
		note_checksum(req, i);
}

static int begin(struct slime_pages_request *req, enum kind kind, struct slime_pages_item *items,
		 size_t n, uint32_t flags, uint32_t hold_ms)
{
	int ret;

	if (!slime_pages_test(req))
		return -EBUSY;
	ret = check_items(items, n, kind);
	if (!ret)
		ret = make_room(req, n);
	if (ret)
		return ret;
	leave_callback(req);
	req->kind = kind;
	req->flags = flags;
	req->hold_ms = hold_ms;
	req->items = items;
	req->n = n;
	req->rank = 0;
	for (size_t i = 0; i < n; i++)
		init_item(req, i);
	atomic_store_explicit(&req->state, REQUEST_RUNS, memory_order_relaxed);
	if (launch(req)) {
		if (req->fn) {
			(void)wait_for_callbacks(req);
			advance(req);
		} else {
			atomic_store_explicit(&req->state, REQUEST_ARRIVED, memory_order_release);
		}
	}
	return 0;
}

int slime_pages_get(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, GET, items, n, 0, 0);
}

int slime_pages_put(struct slime_pages_request *req, struct slime_pages_item *items, size_t n,
		    uint32_t flags)
{
	return begin(req, PUT, items, n, flags & SLIME_PAGES_REPLACE, 0);
}

int slime_pages_exists(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, EXISTS, items, n, 0, 0);
}

int slime_pages_delete(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, DELETE, items, n, 0, 0);
}

int slime_pages_pin(struct slime_pages_request *req, struct slime_pages_item *items, size_t n,
		    uint32_t hold_ms)
{
	return begin(req, PIN, items, n, 0, hold_ms);
}

int slime_pages_unpin(struct slime_pages_request *req, struct slime_pages_item *items, size_t n)
{
	return begin(req, UNPIN, items, n, 0, 0);
}

int slime_pages_clear(struct slime_pages_request *req)
{
	return begin(req, CLEAR, NULL, 0, 0, 0);
}

/* Wait for one part to go on. */
static int wait_for_part(struct slime_pages_request *req, int64_t timeout_ms)
{
	for (size_t i = 0; i < req->n_parts; i++) {
		struct part *part = req->parts[i];

		switch (atomic_load_explicit(&part->state, memory_order_acquire)) {
		case PART_ASKS:
			return slime_call_wait(part->call, timeout_ms);
		case PART_READS:
			return slime_op_wait(part->op, timeout_ms);
		default:
			break;
		}
	}
	return 0;
}

/* One that is waited for: on the thread that waits. */
static void go_on(struct slime_pages_request *req)
{
	atomic_store_explicit(&req->state, REQUEST_RUNS, memory_order_relaxed);
	advance(req);
}

int slime_pages_wait(struct slime_pages_request *req, int64_t timeout_ms)
{
	uint64_t until = sl_deadline_ns(timeout_ms);
	int ret = 0;

	while (!ret || ret == -ETIMEDOUT) {
		int state = atomic_load_explicit(&req->state, memory_order_acquire);
		uint64_t now = sl_clock_ns();

		if (state == REQUEST_IDLE)
			return 0;
		if (req->fn)
			return -EINVAL;
		if (state == REQUEST_ARRIVED) {
			ret = wait_for_callbacks(req);
			if (!ret)
				go_on(req);
			continue;
		}
		if (ret == -ETIMEDOUT && now >= until)
			return ret;
		ret = wait_for_part(req, until == SL_NEVER ? -1
					 : until <= now
						 ? 0
						 : (int64_t)((until - now) / SL_NS_PER_MS) + 1);
	}
	return ret;
}

bool slime_pages_test(struct slime_pages_request *req)
{
	if (atomic_load_explicit(&req->state, memory_order_acquire) == REQUEST_ARRIVED &&
	    have_callbacks_returned(req))
		go_on(req);
	return in_callback == req ||
	       atomic_load_explicit(&req->state, memory_order_acquire) == REQUEST_IDLE;
}

size_t slime_pages_prefix(const struct slime_pages_request *req)
{
	size_t n = 0;

	while (n < req->n && !req->items[n].status)
		n++;
	return n;
}

void *slime_pages_request_arg(const struct slime_pages_request *req)
{
	return req->arg;
}
