/* SPDX-License-Identifier: Apache-2.0 */
/* Room in completion queues: who has it, and where there is more. */
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN 4096

static struct rdma_pair pair;

static struct rdma_conn *conn(void)
{
	return rdma_endpoint_conn(pair.a.ep);
}

/* Of what the device kept. */
static int end_with_leftovers(void **state)
{
	return rdma_pair_end(state) ? 0 : -1;
}

static void close_and_keep(struct rdma_qp *q)
{
	fakeverbs_fail_call_of(FAKEVERBS_DESTROY_QP, 1, EBUSY);
	assert_int_equal(rdma_qp_close(q), -EBUSY);
	assert_true(fakeverbs_failed());
}

/* What it has to say still goes to the former queue; of the next one nothing is kept. */
static void room__of_a_queue_pair_that_stays_is_not_its_successors(void **state)
{
	struct rdma_nic *nic;
	struct ibv_pd *pd;
	struct rdma_cq *former;
	struct rdma_qp *q;
	uint32_t room, slot;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	nic = conn()->qps[0]->nic;
	pd = conn()->offer->domain->pds[nic->index];
	assert_ok(rdma_qp_create(nic, pd, RDMA_RECEIVES, &q));
	former = q->cq;
	room = former->room;
	slot = q->slot;
	close_and_keep(q);
	former->failed = true;
	assert_ok(rdma_qp_renew(q, pd));
	former->failed = false;
	assert_ptr_not_equal(q->cq, former);
	assert_int_equal(former->room, room);
	assert_int_not_equal(q->slot, slot);
	former = q->cq;
	assert_ok(rdma_qp_close(q));
	rdma_qp_free(q);
	assert_int_equal(former->room, former->len);
}

/* Both may complete into it. */
static void room__is_there_for_a_queue_pair_that_stays_and_its_successor(void **state)
{
	struct rdma_nic *nic;
	struct ibv_pd *pd;
	struct rdma_cq *cq;
	struct rdma_qp *q;
	uint32_t room;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	nic = conn()->qps[0]->nic;
	pd = conn()->offer->domain->pds[nic->index];
	assert_ok(rdma_qp_create(nic, pd, RDMA_RECEIVES, &q));
	cq = q->cq;
	room = cq->room;
	close_and_keep(q);
	assert_ok(rdma_qp_renew(q, pd));
	assert_ptr_equal(q->cq, cq);
	assert_int_equal(cq->room, room - RDMA_SENDS - RDMA_RECEIVES);
	assert_ok(rdma_qp_close(q));
	rdma_qp_free(q);
	assert_int_equal(cq->room, room);
}

/* ---- two that make a queue at the same time ---- */

static struct rdma_nic *races; /* somebody else makes one for it first */
static struct rdma_cq *others;

struct ibv_cq *__real_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector);

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector)
{
	struct rdma_nic *nic = races;

	races = NULL;
	if (nic)
		assert_ok(rdma_cq_reserve(nic, RDMA_CQ_LEN / 2, &others));
	return __real_ibv_create_cq(ibv, cqe, arg, channel, vector);
}

/* One place is left for a queue, and both come for it. */
static void room__in_the_last_queue_is_there_for_who_came_second(void **state)
{
	struct rdma_nic *nic;
	struct rdma_cq *cq;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	nic = conn()->qps[0]->nic;
	while (nic->n_cqs < RDMA_CQS_MAX - 1)
		assert_ok(rdma_cq_reserve(nic, RDMA_CQ_LEN, &cq));
	assert_ok(rdma_cq_reserve(nic, RDMA_CQ_LEN / 2, &cq));
	assert_int_equal(nic->n_cqs, RDMA_CQS_MAX - 1);
	races = nic;
	assert_ok(rdma_cq_reserve(nic, RDMA_CQ_LEN / 2, &cq));
	assert_ptr_equal(cq, others);
	assert_int_equal(rdma_cq_reserve(nic, RDMA_CQ_LEN / 2, &cq), -ENOSPC);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(
			room__of_a_queue_pair_that_stays_is_not_its_successors, rdma_pair_reset,
			end_with_leftovers, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			room__is_there_for_a_queue_pair_that_stays_and_its_successor,
			rdma_pair_reset, end_with_leftovers, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			room__in_the_last_queue_is_there_for_who_came_second, rdma_pair_reset,
			rdma_pair_end, &pair),
	};

	return cmocka_run_group_tests_name("rdma_room", tests, NULL, NULL);
}
