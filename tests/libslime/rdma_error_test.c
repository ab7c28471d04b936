/* SPDX-License-Identifier: Apache-2.0 */
/* What a failed completion comes to, and what people are told of it: docs/rdma.md, "What a
 * completion says". */
#include <errno.h>
#include <string.h>

#include "src/endpoint.h"
#include "src/transport/rdma/rdma.h"
#include "tests/libslime/rdma_pair.h"

static const struct {
	enum ibv_wc_status status;
	int err;
	bool of_rail;
	const char *text;
} meanings[] = {
	{ IBV_WC_LOC_LEN_ERR, EMSGSIZE, false,
	  "mlx5_0: local length error (vendor 0x51): a message longer than its buffer" },
	{ IBV_WC_LOC_QP_OP_ERR, EIO, true,
	  "mlx5_0: local QP operation error (vendor 0x51): the local port is down, or the device "
	  "refused a request" },
	{ IBV_WC_LOC_PROT_ERR, EFAULT, false,
	  "mlx5_0: local protection error (vendor 0x51): local memory is not registered for "
	  "this" },
	{ IBV_WC_LOC_ACCESS_ERR, EFAULT, false,
	  "mlx5_0: local access error (vendor 0x51): local memory is not registered for this" },
	{ IBV_WC_WR_FLUSH_ERR, ECONNRESET, true,
	  "mlx5_0: Work Request Flushed Error (vendor 0x51): the queue pair went into error" },
	{ IBV_WC_BAD_RESP_ERR, EPROTO, false,
	  "mlx5_0: bad response error (vendor 0x51): an answer that makes no sense" },
	{ IBV_WC_REM_INV_REQ_ERR, EREMOTEIO, false,
	  "mlx5_0: remote invalid request error (vendor 0x51): the peer's device found the "
	  "request invalid" },
	{ IBV_WC_REM_ACCESS_ERR, EREMOTEIO, false,
	  "mlx5_0: remote access error (vendor 0x51): the peer's memory is not there any more, or "
	  "not for this" },
	{ IBV_WC_REM_OP_ERR, EREMOTEIO, false,
	  "mlx5_0: remote operation error (vendor 0x51): the peer's device could not do it" },
	{ IBV_WC_RETRY_EXC_ERR, ECONNRESET, true,
	  "mlx5_0: transport retry counter exceeded (vendor 0x51): the peer does not answer: "
	  "gone, unreachable, or packets are lost" },
	{ IBV_WC_RNR_RETRY_EXC_ERR, ECONNRESET, false,
	  "mlx5_0: RNR retry counter exceeded (vendor 0x51): the peer posts no receives" },
	{ IBV_WC_FATAL_ERR, EIO, true, "mlx5_0: fatal error (vendor 0x51): the device failed" },
	/* Of which nothing is known but its name. */
	{ IBV_WC_GENERAL_ERR, EIO, false, "mlx5_0: general error (vendor 0x51)" },
};

#define N (sizeof(meanings) / sizeof(meanings[0]))

static void status__of_each_completion_is_its_errno(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++)
		assert_int_equal(rdma_error_status(meanings[i].status), -meanings[i].err);
}

static void is_of_rail__where_another_may_do_better(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++)
		assert_int_equal(rdma_error_is_of_rail(meanings[i].status), meanings[i].of_rail);
}

static void text__has_the_device_its_words_its_number_and_what_helps(void **state)
{
	struct rdma_nic nic = { .device.name = "mlx5_0" };
	struct rdma_qp q = { .nic = &nic };
	char text[160];

	(void)state;
	for (size_t i = 0; i < N; i++) {
		struct ibv_wc wc = { .status = meanings[i].status, .vendor_err = 0x51 };

		rdma_error_text(&q, &wc, text, sizeof(text));
		assert_string_equal(text, meanings[i].text);
	}
}

/* ---- a link ---- */

static struct rdma_pair pair;

/* With requests that nobody knows of, until the peer, which does not look, has no receive left. */
static void use_up_receives_of_b(void)
{
	struct ibv_qp *ibv = rdma_conn_of(sl_endpoint_conn(pair.a.ep))->qps[0]->ibv;
	struct ibv_send_wr *bad, wr = {
		.wr_id = UINT64_MAX,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	uint32_t n_left = rdma_conn_of(sl_endpoint_conn(pair.b.ep))->qps[0]->n_posted;

	while (n_left--) {
		assert_ok(ibv_post_send(ibv, &wr, &bad));
		slime_context_poll(pair.a.ctx);
	}
}

static void link__whose_peer_posts_no_receives_says_so(void **state)
{
	struct slime_context_attr attr = rdma_quick();
	struct slime_endpoint_info info;

	(void)state;
	attr.rdma_rnr_retry = 1;
	attr.rdma_min_rnr_timer = 1;
	assert_ok(rdma_pair_open(&pair, &attr, 4096));
	rdma_settle(&pair);
	use_up_receives_of_b();
	assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, pair.a.op));
	while (!slime_op_test(pair.a.op))
		slime_context_poll(pair.a.ctx);
	assert_int_equal(slime_op_status(pair.a.op), -ECONNRESET);
	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.cause, -ECONNRESET);
	rdma_assert_says(&info, "RNR retry counter exceeded");
	rdma_assert_says(&info, "the peer posts no receives");
	assert_true(fakeverbs_counts().rnr_naks > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(status__of_each_completion_is_its_errno),
		cmocka_unit_test(is_of_rail__where_another_may_do_better),
		cmocka_unit_test(text__has_the_device_its_words_its_number_and_what_helps),
		cmocka_unit_test_prestate_setup_teardown(link__whose_peer_posts_no_receives_says_so,
							 rdma_pair_reset, rdma_pair_end, &pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
