/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "src/progress/context.h"
#include "src/core/copy.h"
#include "src/rpc/mailbox.h"
#include "src/rpc/rpc_call.h"

/* ---- how it is described ---- */

/* Where the fields of it are; between the secret and the offset are zeros. */
enum {
	AT_ADDR = 0,
	AT_LEN = 8,
	AT_GENERATION = 16,
	AT_ID = 24,
	AT_ACCESS = 28,
	AT_KIND = 30,
	AT_SECRET = 32,
	AT_OFFSET = 56,
};

void sl_loan_describe(const struct slime_context *ctx, const struct sl_region *r, uint64_t offset,
		      struct sl_loan *out)
{
	out->remote = (struct slime_remote_mr){
		.owner = ctx->id,
		.addr = (uintptr_t)r->base,
		.len = r->len,
		.generation = r->generation,
		.id = r->id,
		.access = r->access,
		.secret = { r->secret[0], r->secret[1] },
		.kind = r->kind,
	};
	out->offset = offset;
}

void sl_loan_write(const struct sl_loan *lent, uint8_t *to)
{
	const struct slime_remote_mr *r = &lent->remote;

	memset(to, 0, SL_LOAN_LEN);
	sl_put_le64(to + AT_ADDR, r->addr);
	sl_put_le64(to + AT_LEN, r->len);
	sl_put_le64(to + AT_GENERATION, r->generation);
	sl_put_le32(to + AT_ID, r->id);
	sl_put_le16(to + AT_ACCESS, (uint16_t)r->access);
	sl_put_le16(to + AT_KIND, (uint16_t)r->kind);
	sl_put_le64(to + AT_SECRET, r->secret[0]);
	sl_put_le64(to + AT_SECRET + 8, r->secret[1]);
	sl_put_le64(to + AT_OFFSET, lent->offset);
}

bool sl_loan_read(const uint8_t *from, uint64_t owner, uint64_t len, struct sl_loan *out)
{
	struct slime_remote_mr *r = &out->remote;
	uint8_t bytes[SL_LOAN_LEN];

	/* The peer can still change it: decide on a copy. */
	memcpy(bytes, from, sizeof(bytes));
	*r = (struct slime_remote_mr){
		.owner = owner,
		.addr = sl_get_le64(bytes + AT_ADDR),
		.len = sl_get_le64(bytes + AT_LEN),
		.generation = sl_get_le64(bytes + AT_GENERATION),
		.id = sl_get_le32(bytes + AT_ID),
		.access = sl_get_le16(bytes + AT_ACCESS),
		.kind = sl_get_le16(bytes + AT_KIND),
		.secret = { sl_get_le64(bytes + AT_SECRET), sl_get_le64(bytes + AT_SECRET + 8) },
	};
	out->offset = sl_get_le64(bytes + AT_OFFSET);
	return r->len && r->addr + r->len >= r->addr && out->offset <= r->len &&
	       len <= r->len - out->offset;
}

uint8_t *sl_loan_view(struct sl_conn *conn, const struct sl_loan *lent, uint64_t len,
		      uint32_t access)
{
	if (!conn->ops->view || (lent->remote.access & access) != access)
		return NULL;
	return conn->ops->view(conn, &lent->remote, lent->offset, len, access);
}

/* ---- what a call lends ---- */

/* tcp reaches no memory without us: a table entry lends it, and taking that out takes it back. */
static bool lends_any_memory(const struct sl_mailbox *mb)
{
	return mb->ep->transport == SLIME_TRANSPORT_TCP;
}

/* Whether the peer can reach the user's region as it is. */
static bool is_reachable(const struct sl_mailbox *mb, const struct slime_mr *mr)
{
	if (lends_any_memory(mb) || mr->region->kind == SL_REGION_MEMFD)
		return true;
	return mb->ep->any_region &&
	       !(mr->region->restricted && mb->ep->transport == SLIME_TRANSPORT_SHM);
}

/* The call's peer alone is told of it, and no descriptor of it has a secret. */
static int lend_region(struct sl_mailbox *mb, const void *ptr, uint64_t len, uint32_t access,
		       struct sl_region **region, struct sl_loan *lent)
{
	struct sl_region what = {
		.access = access,
		.loan_to = mb->ep->self.endpoint,
		.kind = SL_REGION_FOREIGN,
		.dmabuf_fd = -1,
		.base = (uint8_t *)(uintptr_t)ptr,
		.len = len,
		.memfd = -1,
	};
	int ret = sl_region_add(&mb->ctx->regions, &what, region);

	if (!ret)
		sl_loan_describe(mb->ctx, *region, 0, lent);
	return ret;
}

/* A call's second chunk does not wait for its first one. */
static int lend_chunk(struct sl_mailbox *mb, uint64_t len, const struct sl_chunk *first,
		      struct sl_chunk **chunk, struct sl_loan *lent)
{
	int ret = sl_pool_get(&mb->rpc->pool, &mb->calling, len, true, first, chunk);

	if (!ret)
		sl_loan_describe(mb->ctx, sl_chunk_mr(*chunk)->region, (*chunk)->offset, lent);
	return ret;
}

/* Of what has to be lent, whether it lies where the peer can have it. */
static bool lies_well(const struct sl_mailbox *mb, const void *ptr, const struct slime_mr *mr)
{
	return mr ? is_reachable(mb, mr) : ptr && lends_any_memory(mb);
}

/*
 * Whether there is room for both chunks of a call that needs two. Checked before it takes one: when
 * it returned its own first chunk, that would wake it for nothing.
 */
static bool has_room(struct sl_mailbox *mb, const struct slime_call *call)
{
	const struct slime_call_args *a = &call->args;

	if (!(call->flags & SL_REQUEST_LOAN) || !(call->flags & SL_REPLY_LOAN) ||
	    lies_well(mb, a->request, a->request_mr) || lies_well(mb, a->reply, a->reply_mr))
		return true;
	return sl_pool_would_admit(&mb->rpc->pool, &mb->calling, a->request_len + a->reply_cap);
}

static int lend_request(struct sl_mailbox *mb, struct slime_call *call)
{
	const struct slime_call_args *a = &call->args;

	if (a->request_mr && is_reachable(mb, a->request_mr)) {
		if (!(a->request_mr->region->access & SLIME_ACCESS_REMOTE_READ))
			return -EACCES;
		sl_loan_describe(mb->ctx, a->request_mr->region, a->request_offset, &call->request);
		return 0;
	}
	if (a->request && lends_any_memory(mb))
		return lend_region(mb, a->request, a->request_len, SLIME_ACCESS_REMOTE_READ,
				   &call->request_region, &call->request);
	return lend_chunk(mb, a->request_len, NULL, &call->request_chunk, &call->request);
}

static int lend_reply(struct sl_mailbox *mb, struct slime_call *call)
{
	const struct slime_call_args *a = &call->args;

	if (a->reply_mr && is_reachable(mb, a->reply_mr)) {
		if (!(a->reply_mr->region->access & SLIME_ACCESS_REMOTE_WRITE))
			return -EACCES;
		sl_loan_describe(mb->ctx, a->reply_mr->region, a->reply_offset, &call->reply);
		return 0;
	}
	if (a->reply && lends_any_memory(mb))
		return lend_region(mb, a->reply, a->reply_cap, SLIME_ACCESS_REMOTE_WRITE,
				   &call->reply_region, &call->reply);
	return lend_chunk(mb, a->reply_cap, call->request_chunk, &call->reply_chunk, &call->reply);
}

static void put_chunk(struct sl_mailbox *mb, struct sl_chunk **chunk)
{
	if (*chunk)
		sl_rpc_put_chunk(mb->rpc, *chunk);
	*chunk = NULL;
}

/* Take back a region that was lent for one call: false while the peer still uses it. */
static bool take_region_back(struct sl_mailbox *mb, struct sl_region **region)
{
	struct sl_region *r = *region;

	if (!r)
		return true;
	if (atomic_load(&r->state) == SL_REGION_LIVE)
		sl_region_withdraw(r);
	if (atomic_load(&r->n_users))
		return false;
	sl_region_remove(&mb->ctx->regions, r);
	*region = NULL;
	return true;
}

static void forget_region(struct sl_mailbox *mb, struct sl_region **region)
{
	if (!*region)
		return;
	sl_region_withdraw(*region);
	sl_region_remove(&mb->ctx->regions, *region);
	*region = NULL;
}

void sl_loan_forget(struct sl_mailbox *mb, struct slime_call *call)
{
	put_chunk(mb, &call->request_chunk);
	put_chunk(mb, &call->reply_chunk);
	forget_region(mb, &call->request_region);
	forget_region(mb, &call->reply_region);
}

/* No memory is there: its length is wrong. */
static bool wraps(const void *ptr, uint64_t len)
{
	return ptr && len > UINTPTR_MAX - (uintptr_t)ptr;
}

int sl_loan_begin(struct sl_mailbox *mb, struct slime_call *call)
{
	const struct slime_call_args *a = &call->args;
	int ret;

	if (wraps(a->request, a->request_len) || wraps(a->reply, a->reply_cap))
		return -EINVAL;
	ret = has_room(mb, call) ? 0 : -EAGAIN;
	if (!ret && call->flags & SL_REQUEST_LOAN)
		ret = lend_request(mb, call);
	if (!ret && call->flags & SL_REPLY_LOAN)
		ret = lend_reply(mb, call);
	if (ret) {
		sl_loan_forget(mb, call);
		return ret;
	}
	if (call->request_chunk)
		sl_copy_whole(call->request_chunk->addr, sl_loan_request_bytes(a), a->request_len);
	return 0;
}

bool sl_loan_end(struct sl_mailbox *mb, struct slime_call *call)
{
	bool request_back = take_region_back(mb, &call->request_region);
	bool reply_back = take_region_back(mb, &call->reply_region);

	put_chunk(mb, &call->request_chunk);
	if (call->reply_chunk && call->reply_at != call->reply_chunk->addr)
		put_chunk(mb, &call->reply_chunk);
	return request_back && reply_back;
}

bool sl_loan_link_lost(struct sl_mailbox *mb, int status)
{
	switch (status) {
	case -ENOTCONN:
	case -ECANCELED:
	case -ECONNRESET:
	case -EPROTO:
	case -ETIMEDOUT:
		/* Otherwise the peer would wait for an answer that is not given. */
		sl_endpoint_fail(mb->ep, -ECONNRESET, "a transfer failed with the link");
		return true;
	default:
		return false;
	}
}
