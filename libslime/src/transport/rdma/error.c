/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "src/transport/rdma/error.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/qp.h"

struct meaning {
	enum ibv_wc_status status;
	int err;
	bool of_rail;
	const char *hint;
};

static const struct meaning meanings[] = {
	{ IBV_WC_LOC_LEN_ERR, EMSGSIZE, false, "a message longer than its buffer" },
	{ IBV_WC_LOC_QP_OP_ERR, EIO, true,
	  "the local port is down, or the device refused a request" },
	{ IBV_WC_LOC_PROT_ERR, EFAULT, false, "local memory is not registered for this" },
	{ IBV_WC_LOC_ACCESS_ERR, EFAULT, false, "local memory is not registered for this" },
	{ IBV_WC_WR_FLUSH_ERR, ECONNRESET, true, "the queue pair went into error" },
	{ IBV_WC_BAD_RESP_ERR, EPROTO, false, "an answer that makes no sense" },
	{ IBV_WC_REM_INV_REQ_ERR, EREMOTEIO, false, "the peer's device found the request invalid" },
	{ IBV_WC_REM_ACCESS_ERR, EREMOTEIO, false,
	  "the peer's memory is not there any more, or not for this" },
	{ IBV_WC_REM_OP_ERR, EREMOTEIO, false, "the peer's device could not do it" },
	{ IBV_WC_RETRY_EXC_ERR, ECONNRESET, true,
	  "the peer does not answer: gone, unreachable, or packets are lost" },
	{ IBV_WC_RNR_RETRY_EXC_ERR, ECONNRESET, false, "the peer posts no receives" },
	{ IBV_WC_FATAL_ERR, EIO, true, "the device failed" },
};

/* Where they are others: a slot that is written to, and the buffer of a receive. */
static const struct meaning meanings_of_messages[] = {
	{ IBV_WC_REM_ACCESS_ERR, ECONNRESET, false,
	  "the peer's memory for messages is gone: it ended" },
	{ IBV_WC_REM_OP_ERR, ECONNRESET, false,
	  "the peer's memory for messages is gone: it ended" },
};

static const struct meaning *find(const struct meaning *in, size_t n, enum ibv_wc_status status)
{
	for (size_t i = 0; i < n; i++) {
		if (in[i].status == status)
			return &in[i];
	}
	return NULL;
}

#define FIND(in, status) find(in, sizeof(in) / sizeof((in)[0]), status)

static const struct meaning *look_up(enum ibv_wc_status status, bool of_message)
{
	static const struct meaning unknown = { .err = EIO, .hint = "" };
	const struct meaning *m = of_message ? FIND(meanings_of_messages, status) : NULL;

	if (!m)
		m = FIND(meanings, status);
	return m ? m : &unknown;
}

int rdma_error_status(enum ibv_wc_status status, bool of_message)
{
	return -look_up(status, of_message)->err;
}

bool rdma_error_is_of_rail(enum ibv_wc_status status)
{
	return look_up(status, false)->of_rail;
}

void rdma_error_text(const struct rdma_qp *q, const struct ibv_wc *wc, bool of_message, char *out,
		     size_t cap)
{
	const char *hint = look_up(wc->status, of_message)->hint;

	snprintf(out, cap, "%.24s: %s (vendor 0x%x)%s%s", q->nic->device.name,
		 ibv_wc_status_str(wc->status), wc->vendor_err, *hint ? ": " : "", hint);
}
