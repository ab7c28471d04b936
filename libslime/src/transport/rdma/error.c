/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "src/transport/rdma/rdma.h"

static const struct {
	enum ibv_wc_status status;
	int err;
	bool of_rail;
	const char *hint;
} meanings[] = {
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

int rdma_error_status(enum ibv_wc_status status)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].status == status)
			return -meanings[i].err;
	}
	return -EIO;
}

bool rdma_error_is_of_rail(enum ibv_wc_status status)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].status == status)
			return meanings[i].of_rail;
	}
	return false;
}

void rdma_error_text(const struct rdma_qp *q, const struct ibv_wc *wc, char *out, size_t cap)
{
	const char *hint = "";

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].status == wc->status)
			hint = meanings[i].hint;
	}
	snprintf(out, cap, "%.24s: %s (vendor 0x%x)%s%s", q->nic->device.name,
		 ibv_wc_status_str(wc->status), wc->vendor_err, *hint ? ": " : "", hint);
}
