/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "pages/src/part.h"
#include "pages/src/item.h"

#define ERRNO_MAX 4095

static const char *const methods[] = {
	[REQUEST_GET] = PAGES_LOOKUP,  [REQUEST_EXISTS] = PAGES_EXISTS,
	[REQUEST_PUT] = PAGES_PUT,     [REQUEST_DELETE] = PAGES_DELETE,
	[REQUEST_PIN] = PAGES_PIN,     [REQUEST_UNPIN] = PAGES_UNPIN,
	[REQUEST_CLEAR] = PAGES_CLEAR, [REQUEST_STAT] = PAGES_STAT,
};

/* ---- what ends a part ---- */

/* The link, or what we know of the owner, is of no use any more. */
bool part_is_broken(int error)
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
	members_leave(req->pages->members, &part->use, part_is_broken(error));
	atomic_store_explicit(&part->state, PART_ARRIVED, memory_order_release);
	req->part_ended(req);
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
	if (found->place.len > item_room(item)) {
		item->len = found->place.len;
		item_finish(req, i, -EMSGSIZE);
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

/* Of several replicas one that did it is enough; else the first error stays. */
static int take_statuses(struct part *part, const uint8_t *reply, size_t len)
{
	if (len < part->n * sizeof(uint32_t))
		return -EPROTO;
	for (uint32_t k = 0; k < part->n; k++) {
		struct slime_pages_item *item = &part->req->items[part->items[k]];
		int status = (int)sl_get_le32(reply + k * sizeof(uint32_t));

		if (status > 0 || status < -ERRNO_MAX)
			return -EPROTO;
		if (item->status && (!status || item->status == -ENOENT))
			item->status = status;
	}
	return 0;
}

static int take_answer(struct part *part)
{
	const uint8_t *reply = slime_call_reply_data(part->call);
	size_t len = slime_call_reply_len(part->call);

	switch (part->req->kind) {
	case REQUEST_GET:
		return take_places(part, reply, len);
	case REQUEST_EXISTS:
		return take_bits(part, reply, len);
	case REQUEST_CLEAR:
		return 0;
	case REQUEST_STAT:
		return len == PAGES_STAT_LEN ? 0 : -EPROTO;
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
	if (!ret && part->req->kind == REQUEST_GET) {
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

uint64_t part_bytes(const struct slime_pages_request *req, const uint32_t *items, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < n; k++)
		bytes += item_room(&req->items[items[k]]);
	return bytes / PUT_PARTS > PUT_PART_BYTES ? bytes / PUT_PARTS : PUT_PART_BYTES;
}

uint32_t part_count_that_fit(const struct slime_pages_request *req, const uint32_t *items,
			     uint32_t n, uint64_t bytes)
{
	struct regions regions = { .n = 0 };
	uint64_t len = 0;
	uint32_t k = 0;

	while (k < n && len < bytes && add_regions(&req->items[items[k]], &regions))
		len += item_room(&req->items[items[k++]]);
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

/* The owner compares: what it reads may be the bytes of later, when the put has timed out and its
 * memory is used again. */
static void note_checksum(struct slime_pages_request *req, uint32_t i)
{
	uint64_t len = item_room(&req->items[i]);

	if (!req->states[i].summed && len <= UINT32_MAX)
		req->states[i].checksum = item_checksum(&req->items[i], (uint32_t)len);
	req->states[i].summed = true;
}

static void write_source(struct slime_pages_request *req, uint32_t i, const struct regions *regions,
			 struct sl_writer *w)
{
	const struct slime_pages_item *item = &req->items[i];

	note_checksum(req, i);

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
	return part->req->kind != REQUEST_GET || !part->req->states[i].placed;
}

static size_t message_room(const struct part *part)
{
	const struct slime_pages_request *req = part->req;
	size_t len = PAGES_HEAD_LEN + SLIME_PAGES_TENANT_MAX + 8;

	if (req->kind == REQUEST_PUT)
		len += 2 * (2 + SLIME_AGENT_NAME_MAX) + 1 +
		       PAGES_REGIONS_MAX * (2 + SLIME_MR_DESC_MAX);
	for (uint32_t k = 0; k < part->n; k++) {
		const struct slime_pages_item *item = &req->items[part->items[k]];

		len += 2 + item->key_len;
		if (req->kind == REQUEST_PUT)
			len += 1 + (size_t)item->n_bufs * 13 + 8;
	}
	return len;
}

static int write_message(struct part *part, size_t *len, uint32_t *n_asked)
{
	struct slime_pages_request *req = part->req;
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
	for (uint32_t k = 0; req->kind == REQUEST_PUT && k < part->n; k++)
		(void)add_regions(&req->items[part->items[k]], &regions);
	if (req->kind == REQUEST_PUT)
		ret = write_put(part, &regions, &w);
	if (req->kind == REQUEST_PIN)
		sl_write_u32(&w, req->hold_ms);
	for (uint32_t k = 0; k < part->n && !ret; k++) {
		const struct slime_pages_item *item = &req->items[part->items[k]];

		if (!is_asked(part, part->items[k]))
			continue;
		pages_key_write(&w, item->key, item->key_len);
		if (req->kind == REQUEST_PUT)
			write_source(req, part->items[k], &regions, &w);
	}
	assert(!w.failed);
	*len = part->message_cap - w.room;
	*n_asked = head.n;
	return ret;
}

static size_t reply_room(enum request_kind kind, uint32_t n)
{
	switch (kind) {
	case REQUEST_GET:
		return 8 + (size_t)n * PAGES_PLACE_LEN;
	case REQUEST_EXISTS:
		return (n + 7) / 8;
	case REQUEST_CLEAR:
		return 8;
	case REQUEST_STAT:
		return PAGES_STAT_LEN;
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
	if (req->kind == REQUEST_GET)
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
	return request_asks_all(part->req);
}

void part_begin(struct part *part)
{
	int ret;

	atomic_store_explicit(&part->state, PART_ASKS, memory_order_relaxed);
	part->error = 0;
	ret = asks(part) ? ask(part) : read_pages(part);
	if (ret)
		part_arrived(part, ret == 1 ? 0 : ret);
}

/* ---- life ---- */

int part_create(struct slime_pages_request *req, struct part **out)
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

void part_destroy(struct part *part)
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

/* Places of another life of the owner are of no use. */
void part_use_cached_places(struct part *part)
{
	struct slime_pages_request *req = part->req;
	uint64_t now_ns = sl_clock_ns(), n = 0;

	for (uint32_t k = 0; k < part->n; k++) {
		struct item_state *state = &req->states[part->items[k]];
		struct slime_pages_item *item = &req->items[part->items[k]];

		if (state->again || state->former ||
		    !places_get(req->pages->places, state->id, now_ns, &state->at) ||
		    state->at.member != part->use.member || state->at.life != part->use.life ||
		    state->at.place.len > item_room(item))
			continue;
		state->placed = state->cached = true;
		members_note_use(req->pages->members, part->use.member, item->key, item->key_len);
		n++;
	}
	pages_count(&req->pages->counts.cached, n);
}
