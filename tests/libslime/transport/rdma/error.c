/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a failed completion, and its text for people: docs/rdma.md, "Errors of
 * completions". */
#include <errno.h>
#include <string.h>

#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/error.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/pair.h"

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

/* What they are of a message, where that is something else. */
static const struct {
	enum ibv_wc_status status;
	const char *text;
} deaths[] = {
	{ IBV_WC_REM_ACCESS_ERR,
	  "mlx5_0: remote access error (vendor 0x51): the peer's memory for messages is gone: it "
	  "ended" },
	{ IBV_WC_REM_OP_ERR,
	  "mlx5_0: remote operation error (vendor 0x51): the peer's memory for messages is gone: "
	  "it ended" },
};

#define N_DEATHS (sizeof(deaths) / sizeof(deaths[0]))

/* NULL: it is not. */
static const char *text_of_death(enum ibv_wc_status status)
{
	for (size_t i = 0; i < N_DEATHS; i++) {
		if (deaths[i].status == status)
			return deaths[i].text;
	}
	return NULL;
}

static void status__of_each_completion_is_its_errno(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++)
		assert_int_equal(rdma_error_status(meanings[i].status, false), -meanings[i].err);
}

static void status__of_a_message_that_finds_no_memory_is_a_death(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++)
		assert_int_equal(rdma_error_status(meanings[i].status, true),
				 text_of_death(meanings[i].status) ? -ECONNRESET
								   : -meanings[i].err);
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
		const char *of_death = text_of_death(wc.status);

		rdma_error_text(&q, &wc, false, text, sizeof(text));
		assert_string_equal(text, meanings[i].text);
		rdma_error_text(&q, &wc, true, text, sizeof(text));
		assert_string_equal(text, of_death ? of_death : meanings[i].text);
	}
}

/* ---- a link ---- */

static struct rdma_pair pair;

/* With requests that nobody knows of, until the peer, which does not look, has no receive left. */
static void use_up_receives_of_b(void)
{
	struct ibv_qp *ibv = rdma_endpoint_conn(pair.a.ep)->qps[0]->ibv;
	struct ibv_send_wr *bad, wr = {
		.wr_id = UINT64_MAX,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	uint32_t n_left = rdma_endpoint_conn(pair.b.ep)->qps[0]->n_posted;

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

/* As a kernel does with a process that is killed, before it takes the queue pairs. */
static void take_memory_of_b(bool slots)
{
	struct rdma_rail *rail = rdma_endpoint_conn(pair.b.ep)->qps[0]->path->rail;

	rdma_nic_deregister(rail->nic, slots ? &rail->in : &rail->own);
}

static void assert_reset(const char *why)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(info.cause, -ECONNRESET);
	rdma_assert_says(&info, why);
	rdma_assert_says(&info, "the peer's memory for messages is gone");
}

static void message__that_finds_no_slots_at_the_peer_resets_the_link(void **state)
{
	struct slime_op *recv;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, 4096));
	rdma_settle(&pair);
	assert_ok(slime_op_create(pair.a.ctx, NULL, &recv));
	assert_ok(slime_recv(pair.a.ep, pair.a.mr, 64, 64, 1, SLIME_TAG_ALL, recv));
	take_memory_of_b(true);
	assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_int_equal(rdma_wait(&pair, recv), -ECONNRESET);
	assert_reset("remote access error");
	assert_ok(slime_op_destroy(recv));
}

/* The bytes arrive, and then what is said of them does not. */
static void immediate__that_finds_no_buffer_at_the_peer_resets_the_link(void **state)
{
	struct slime_xfer x;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, 4096));
	assert_ok(rdma_write_now(&pair, 64, 3));
	rdma_settle(&pair);
	take_memory_of_b(false);
	x = rdma_a_and_b(&pair, 0, 0, 64);
	assert_ok(slime_write_imm(pair.a.ep, &x, 1, 0, 7, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_reset("remote operation error");
}

/* A peer may refuse that and live. */
static void transfer__that_is_refused_says_so(void **state)
{
	struct slime_endpoint_info info;
	struct slime_xfer x;
	struct rdma_key *k;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, 4096));
	assert_ok(rdma_write_now(&pair, 64, 3));
	k = rdma_key_at_hand(rdma_endpoint_conn(pair.a.ep)->keys, &pair.b.remote);
	assert_non_null(k);
	k->few[0] ^= 1;
	x = rdma_a_and_b(&pair, 0, 0, 64);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -EREMOTEIO);
	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.cause, -EREMOTEIO);
	rdma_assert_says(&info, "the peer's memory is not there any more, or not for this");
}

#define IN_PAIR(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(status__of_each_completion_is_its_errno),
		cmocka_unit_test(status__of_a_message_that_finds_no_memory_is_a_death),
		cmocka_unit_test(is_of_rail__where_another_may_do_better),
		cmocka_unit_test(text__has_the_device_its_words_its_number_and_what_helps),
		IN_PAIR(link__whose_peer_posts_no_receives_says_so),
		IN_PAIR(message__that_finds_no_slots_at_the_peer_resets_the_link),
		IN_PAIR(immediate__that_finds_no_buffer_at_the_peer_resets_the_link),
		IN_PAIR(transfer__that_is_refused_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
