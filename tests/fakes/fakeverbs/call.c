/* SPDX-License-Identifier: Apache-2.0 */
/* Counting calls, and making one of them fail. */
#include "tests/fakes/fakeverbs/lab.h"

/* Under the lab's lock. */
static struct {
	bool any; /* of those that may fail */
	enum fakeverbs_call kind;
	unsigned left; /* calls until it fails; 0: none will */
	int err;
	bool failed;
	enum fakeverbs_call failed_call;
} fail;

static const char *const names[FAKEVERBS_CALLS] = {
	[FAKEVERBS_GET_DEVICE_LIST] = "ibv_get_device_list",
	[FAKEVERBS_OPEN_DEVICE] = "ibv_open_device",
	[FAKEVERBS_QUERY_DEVICE] = "ibv_query_device",
	[FAKEVERBS_QUERY_PORT] = "ibv_query_port",
	[FAKEVERBS_QUERY_GID] = "ibv_query_gid",
	[FAKEVERBS_QUERY_PKEY] = "ibv_query_pkey",
	[FAKEVERBS_ALLOC_PD] = "ibv_alloc_pd",
	[FAKEVERBS_REG_MR] = "ibv_reg_mr",
	[FAKEVERBS_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
	[FAKEVERBS_ADVISE_MR] = "ibv_advise_mr",
	[FAKEVERBS_CREATE_COMP_CHANNEL] = "ibv_create_comp_channel",
	[FAKEVERBS_CREATE_CQ] = "ibv_create_cq",
	[FAKEVERBS_REQ_NOTIFY_CQ] = "ibv_req_notify_cq",
	[FAKEVERBS_CREATE_SRQ] = "ibv_create_srq",
	[FAKEVERBS_MODIFY_SRQ] = "ibv_modify_srq",
	[FAKEVERBS_QUERY_SRQ] = "ibv_query_srq",
	[FAKEVERBS_CREATE_QP] = "ibv_create_qp",
	[FAKEVERBS_MODIFY_QP] = "ibv_modify_qp",
	[FAKEVERBS_QUERY_QP] = "ibv_query_qp",
	[FAKEVERBS_POST_SEND] = "ibv_post_send",
	[FAKEVERBS_POST_RECV] = "ibv_post_recv",
	[FAKEVERBS_POST_SRQ_RECV] = "ibv_post_srq_recv",
	[FAKEVERBS_FORK_INIT] = "ibv_fork_init",
	[FAKEVERBS_POLL_CQ] = "ibv_poll_cq",
	[FAKEVERBS_GET_CQ_EVENT] = "ibv_get_cq_event",
	[FAKEVERBS_GET_ASYNC_EVENT] = "ibv_get_async_event",
	[FAKEVERBS_CLOSE_DEVICE] = "ibv_close_device",
	[FAKEVERBS_DEALLOC_PD] = "ibv_dealloc_pd",
	[FAKEVERBS_DEREG_MR] = "ibv_dereg_mr",
	[FAKEVERBS_DESTROY_COMP_CHANNEL] = "ibv_destroy_comp_channel",
	[FAKEVERBS_DESTROY_CQ] = "ibv_destroy_cq",
	[FAKEVERBS_DESTROY_SRQ] = "ibv_destroy_srq",
	[FAKEVERBS_DESTROY_QP] = "ibv_destroy_qp",
};

const char *fakeverbs_call_name(enum fakeverbs_call kind)
{
	return kind < FAKEVERBS_CALLS ? names[kind] : "nothing";
}

/* Whether a dead device refuses it; what it has said and what goes away is still served. */
static bool needs_device(enum fakeverbs_call kind)
{
	return kind < FAKEVERBS_ANY && kind != FAKEVERBS_POST_SEND && kind != FAKEVERBS_POST_RECV &&
	       kind != FAKEVERBS_POST_SRQ_RECV && kind != FAKEVERBS_REQ_NOTIFY_CQ;
}

static bool is_meant(enum fakeverbs_call kind)
{
	return fail.any ? kind < FAKEVERBS_ANY : kind == fail.kind;
}

static int injected(enum fakeverbs_call kind)
{
	if (!fail.left || !is_meant(kind) || --fail.left)
		return 0;
	fail.failed = true;
	fail.failed_call = kind;
	return fail.err;
}

int fv_enter(enum fakeverbs_call kind, const struct fv_device *dev)
{
	int err;

	fv_lock();
	fv_lab.counts.calls[kind]++;
	err = injected(kind);
	if (!err && dev && dev->dead && needs_device(kind))
		err = EIO;
	return err;
}

void fv_leave(void)
{
	fv_unlock();
}

int fv_last_answer(const struct fv_context *ctx)
{
	return ctx->dev->removed ? EIO : 0;
}

static void arm(bool any, enum fakeverbs_call kind, unsigned n, int err)
{
	fv_lock();
	fail.any = any;
	fail.kind = kind;
	fail.left = n;
	fail.err = err;
	fail.failed = false;
	fail.failed_call = FAKEVERBS_CALLS;
	fv_unlock();
}

void fakeverbs_fail_call(unsigned n, int err)
{
	arm(true, FAKEVERBS_CALLS, n, err);
}

void fakeverbs_fail_call_of(enum fakeverbs_call kind, unsigned n, int err)
{
	arm(false, kind, n, err);
}

bool fakeverbs_failed(void)
{
	bool failed;

	fv_lock();
	failed = fail.failed;
	fail.left = 0;
	fv_unlock();
	return failed;
}

enum fakeverbs_call fakeverbs_failed_call(void)
{
	enum fakeverbs_call kind;

	fv_lock();
	kind = fail.failed_call;
	fv_unlock();
	return kind;
}

struct fakeverbs_counts fakeverbs_counts(void)
{
	struct fakeverbs_counts counts;

	fv_lock();
	counts = fv_lab.counts;
	fv_unlock();
	return counts;
}

void fakeverbs_reset_counts(void)
{
	fv_lock();
	memset(&fv_lab.counts, 0, sizeof(fv_lab.counts));
	fv_unlock();
}
