/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX: an echo of tagged messages, one in flight, beside blocks that the client asks for, by one
 * worker and one thread at either end. Its transports are UCX_TLS, posix and cma unless it is set.
 * A block is a tagged message as well: UCX fetches a long one by cma from the sender's memory,
 * while ucp_get() of memory that UCX did not allocate goes in pieces through posix, and takes
 * longer.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/clock.h"
#include "bench/baselines/mixed.h"
#include "bench/baselines/peer.h"
#include "bench/rounds/memory.h"

#define PACKET_MAX 8192
/* The number of the block is added to the last two. */
#define TAG_CALL  1
#define TAG_REPLY 2
#define TAG_ASK	  0x100
#define TAG_BLOCK 0x200

struct mixed;

/* A block in flight. */
struct lane {
	struct mixed *m;
	unsigned number;
	uint8_t *block;
	uint8_t asked;
	void *request; /* of the server: it waits for an ask */
	bool pending;
};

struct mixed {
	uint64_t size;
	uint8_t *bytes;	 /* of a call */
	uint8_t *blocks; /* MIXED_INFLIGHT of them, at either end */
	ucp_context_h ctx;
	ucp_worker_h worker;
	ucp_ep_h ep;
	struct lane lanes[MIXED_INFLIGHT];
	unsigned n_pending;
	uint64_t n_blocks;
	int failed;
};

static int failed(ucs_status_t status)
{
	if (status == UCS_OK)
		return 0;
	fprintf(stderr, "baseline-ucx-mixed: %s\n", ucs_status_string(status));
	return -EIO;
}

/* ---- both ends ---- */

static int open_worker(struct mixed *m)
{
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_TAG,
	};
	ucp_worker_params_t worker = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucs_status_t status;

	m->blocks = memory_map(-1, MIXED_INFLIGHT * MIXED_BLOCK);
	if (!m->blocks)
		return -ENOMEM;
	memset(m->blocks, 'b', MIXED_INFLIGHT * MIXED_BLOCK);
	for (unsigned i = 0; i < MIXED_INFLIGHT; i++)
		m->lanes[i] =
			(struct lane){ .m = m, .number = i, .block = m->blocks + i * MIXED_BLOCK };
	setenv("UCX_TLS", "posix,cma", 0);
	status = ucp_init(&params, NULL, &m->ctx);
	if (status == UCS_OK)
		status = ucp_worker_create(m->ctx, &worker, &m->worker);
	return failed(status);
}

static int connect_over(struct mixed *m, int channel)
{
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	uint8_t theirs[PACKET_MAX];
	ucp_address_t *own;
	size_t len;
	ssize_t n;
	int ret = failed(ucp_worker_get_address(m->worker, &own, &len));

	if (ret)
		return ret;
	ret = len > PACKET_MAX ? -EMSGSIZE : pair_tell(channel, own, len);
	ucp_worker_release_address(m->worker, own);
	if (ret)
		return ret;
	n = pair_hear_some(channel, theirs, sizeof(theirs));
	if (n <= 0)
		return n ? (int)n : -ECONNRESET;
	params.address = (const ucp_address_t *)theirs;
	return failed(ucp_ep_create(m->worker, &params, &m->ep));
}

/* Make progress until a request, of a message of a call, is through. */
static int complete(struct mixed *m, ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return failed(UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(m->worker);
	ucp_request_free(request);
	return failed(status);
}

static int send_message(struct mixed *m, ucp_tag_t tag, size_t len)
{
	ucp_request_param_t none = { 0 };

	return complete(m, ucp_tag_send_nbx(m->ep, m->bytes, len, tag, &none));
}

static int receive_message(struct mixed *m, ucp_tag_t tag, size_t *len)
{
	ucp_tag_recv_info_t info = { 0 };
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.recv_info.tag_info = &info,
	};
	ucs_status_ptr_t request =
		ucp_tag_recv_nbx(m->worker, m->bytes, m->size, tag, UINT64_MAX, &param);
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return failed(UCS_PTR_STATUS(request));
	while ((status = ucp_tag_recv_request_test(request, &info)) == UCS_INPROGRESS)
		ucp_worker_progress(m->worker);
	ucp_request_free(request);
	*len = info.length;
	return failed(status);
}

static void close_worker(struct mixed *m)
{
	ucp_request_param_t none = { 0 };

	(void)complete(m, ucp_ep_close_nbx(m->ep, &none));
	ucp_worker_destroy(m->worker);
	ucp_cleanup(m->ctx);
	memory_unmap(m->blocks, MIXED_INFLIGHT * MIXED_BLOCK);
}

/* ---- the server ---- */

static void await_ask(struct lane *lane);

static void on_sent(void *request, ucs_status_t status, void *arg)
{
	(void)status;
	(void)arg;
	ucp_request_free(request);
}

static void on_ask(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
		.cb.send = on_sent,
	};
	struct lane *lane = arg;

	(void)info;
	lane->request = NULL;
	ucp_request_free(request);
	if (status != UCS_OK)
		return; /* cancelled */
	(void)ucp_tag_send_nbx(lane->m->ep, lane->block, MIXED_BLOCK, TAG_BLOCK + lane->number,
			       &param);
	await_ask(lane);
}

static void await_ask(struct lane *lane)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = on_ask,
		.user_data = lane,
	};

	lane->request = ucp_tag_recv_nbx(lane->m->worker, &lane->asked, 1, TAG_ASK + lane->number,
					 UINT64_MAX, &param);
}

/* An empty message is the end. */
static int serve(void *arg, int channel)
{
	struct mixed *m = arg;
	size_t len = 0;
	char end;
	int ret = open_worker(m);

	if (!ret)
		ret = connect_over(m, channel);
	for (unsigned i = 0; i < MIXED_INFLIGHT && !ret; i++)
		await_ask(&m->lanes[i]);
	while (!ret) {
		ret = receive_message(m, TAG_CALL, &len);
		if (!ret && !len)
			break;
		if (!ret)
			ret = send_message(m, TAG_REPLY, len);
	}
	if (!ret)
		ret = (int)pair_hear_some(channel, &end, 1);
	for (unsigned i = 0; i < MIXED_INFLIGHT; i++) {
		while (m->lanes[i].request) {
			ucp_request_cancel(m->worker, m->lanes[i].request);
			ucp_worker_progress(m->worker);
		}
	}
	close_worker(m);
	return ret;
}

/* ---- the client ---- */

static void on_block(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
	struct lane *lane = arg;
	struct mixed *m = lane->m;

	(void)info;
	ucp_request_free(request);
	lane->pending = false;
	m->n_pending--;
	m->n_blocks++;
	if (status != UCS_OK)
		m->failed = failed(status);
}

static void ask(struct lane *lane)
{
	struct mixed *m = lane->m;
	ucp_request_param_t on_sent_param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
		.cb.send = on_sent,
	};
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = on_block,
		.user_data = lane,
	};

	m->n_pending++;
	lane->pending = true;
	(void)ucp_tag_recv_nbx(m->worker, lane->block, MIXED_BLOCK, TAG_BLOCK + lane->number,
			       UINT64_MAX, &param);
	(void)ucp_tag_send_nbx(m->ep, &lane->asked, 1, TAG_ASK + lane->number, &on_sent_param);
}

/* Blocks that came are asked for again, outside of their callbacks. */
static void keep_in_flight(struct mixed *m)
{
	for (unsigned i = 0; i < MIXED_INFLIGHT && m->n_pending < MIXED_INFLIGHT; i++) {
		if (!m->lanes[i].pending)
			ask(&m->lanes[i]);
	}
}

/* One call, while blocks come. */
static int call_once(struct mixed *m)
{
	ucp_request_param_t none = { 0 };
	ucs_status_ptr_t reply =
		ucp_tag_recv_nbx(m->worker, m->bytes, m->size, TAG_REPLY, UINT64_MAX, &none);
	ucp_tag_recv_info_t info;
	ucs_status_t status = UCS_OK;
	int ret;

	if (UCS_PTR_IS_ERR(reply))
		return failed(UCS_PTR_STATUS(reply));
	ret = send_message(m, TAG_CALL, m->size);
	while (!ret && reply &&
	       (status = ucp_tag_recv_request_test(reply, &info)) == UCS_INPROGRESS) {
		ucp_worker_progress(m->worker);
		keep_in_flight(m);
	}
	if (reply)
		ucp_request_free(reply);
	return ret ? ret : failed(status);
}

static int mixed_round(void *arg, struct rounds *r)
{
	struct mixed *m = arg;
	uint64_t begin, now;
	int ret;

	m->n_blocks = 0;
	keep_in_flight(m);
	begin = sl_clock_ns();
	do {
		ret = call_once(m);
		now = sl_clock_ns();
		rounds_add(r, now - begin, 0);
		begin = now;
	} while (!ret && !m->failed && !rounds_over(r, now));
	while (m->n_pending)
		ucp_worker_progress(m->worker);
	r->bytes = m->n_blocks * MIXED_BLOCK;
	return ret ? ret : m->failed;
}

static int measure(struct mixed *m, const struct rounds_attr *attr, struct pair *pair)
{
	struct rounds_side side = { .round = mixed_round, .arg = m, .pair = pair };
	int ret = open_worker(m);

	if (!ret)
		ret = connect_over(m, pair->channel);
	if (ret)
		return ret;
	ret = rounds_run(attr, &side);
	(void)send_message(m, TAG_CALL, 0);
	close_worker(m);
	return ret;
}

static int run(const struct peer_options *o)
{
	struct mixed m = { .size = o->size };
	struct pair pair;
	int ret, end;

	m.bytes = calloc(1, m.size);
	if (!m.bytes)
		return -ENOMEM;
	ret = pair_start(&pair, serve, &m);
	if (!ret) {
		ret = measure(&m, &o->rounds, &pair);
		end = pair_end(&pair);
		ret = ret ? ret : end;
	}
	free(m.bytes);
	return ret;
}

int main(int argc, char **argv)
{
	char version[128];

	snprintf(version, sizeof(version), "ucx       %s, tagged calls beside tagged blocks",
		 ucp_get_version_string());
	return peer_main("baseline-ucx-mixed", version, run, argc, argv);
}
