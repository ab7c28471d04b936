/* SPDX-License-Identifier: Apache-2.0 */
/* The control calls of verbs, each looked at on its way: who makes them, and how much they take. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN	65536
#define LINKS	7
#define RECORDS 64
/* docs/decisions/0013-memory-of-an-rdma-link.md */
#define PINNED_MAX (1100u * 1024)

struct created {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint32_t depth; /* of both queues */
};

static struct rdma_pair pair;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct created created[RECORDS];
static unsigned n_created;
static size_t n_pinned; /* bytes */
static _Atomic unsigned n_polled_calls;
static unsigned n_locked_creates; /* of completion queues, while others cannot give room back */
static _Thread_local bool polling;
static pthread_t last_destroyer;     /* of a queue pair */
static void (*after_alloc_pd)(void); /* the next one */
static unsigned adds_left;	     /* to an epoll set, until one fails; 0: none will */
static unsigned n_adds;		     /* that were tried */

/* ---- the calls ---- */

struct ibv_pd *__real_ibv_alloc_pd(struct ibv_context *ibv);
struct ibv_cq *__real_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector);
struct ibv_qp *__real_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __real_ibv_destroy_qp(struct ibv_qp *qp);
struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned access);
int __real_ibv_dereg_mr(struct ibv_mr *mr);
int __real_epoll_ctl(int set, int what, int fd, struct epoll_event *event);
int __real_slime_context_poll(struct slime_context *ctx);

struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *ibv);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_destroy_qp(struct ibv_qp *qp);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned access);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr);
int __wrap_epoll_ctl(int set, int what, int fd, struct epoll_event *event);
int __wrap_slime_context_poll(struct slime_context *ctx);

static void note_call(void)
{
	n_polled_calls += polling;
}

struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *ibv)
{
	struct ibv_pd *pd = __real_ibv_alloc_pd(ibv);
	void (*then)(void) = after_alloc_pd;

	note_call();
	after_alloc_pd = NULL;
	if (then)
		then();
	return pd;
}

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector)
{
	pthread_mutex_t *cq_lock = &((struct rdma_cq *)arg)->nic->t->cq_lock;

	note_call();
	if (pthread_mutex_trylock(cq_lock))
		n_locked_creates++;
	else
		pthread_mutex_unlock(cq_lock);
	return __real_ibv_create_cq(ibv, cqe, arg, channel, vector);
}

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = __real_ibv_create_qp(pd, attr);

	note_call();
	pthread_mutex_lock(&lock);
	if (qp && n_created < RECORDS)
		created[n_created++] = (struct created){
			.qp = qp,
			.cq = qp->send_cq,
			.depth = attr->cap.max_send_wr + attr->cap.max_recv_wr,
		};
	pthread_mutex_unlock(&lock);
	return qp;
}

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	note_call();
	return __real_ibv_modify_qp(qp, attr, mask);
}

int __wrap_ibv_destroy_qp(struct ibv_qp *qp)
{
	note_call();
	pthread_mutex_lock(&lock);
	last_destroyer = pthread_self();
	pthread_mutex_unlock(&lock);
	return __real_ibv_destroy_qp(qp);
}

static void note_pinned(size_t len)
{
	note_call();
	pthread_mutex_lock(&lock);
	n_pinned += len;
	pthread_mutex_unlock(&lock);
}

/* The header makes the one a macro that may call the other. */
#undef ibv_reg_mr

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	note_pinned(len);
	return __real_ibv_reg_mr(pd, addr, len, access);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned access)
{
	note_pinned(len);
	return __real_ibv_reg_mr_iova2(pd, addr, len, iova, access);
}

int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
	note_call();
	return __real_ibv_dereg_mr(mr);
}

int __wrap_epoll_ctl(int set, int what, int fd, struct epoll_event *event)
{
	n_adds += what == EPOLL_CTL_ADD;
	if (what == EPOLL_CTL_ADD && adds_left && !--adds_left) {
		errno = ENOSPC;
		return -1;
	}
	return __real_epoll_ctl(set, what, fd, event);
}

int __wrap_slime_context_poll(struct slime_context *ctx)
{
	int n;

	polling = true;
	n = __real_slime_context_poll(ctx);
	polling = false;
	return n;
}

/* ---- links ---- */

static int begin(void **state)
{
	(void)state;
	fakeverbs_reset();
	memset(&pair, 0, sizeof(pair));
	n_created = 0;
	n_polled_calls = 0;
	n_locked_creates = 0;
	n_pinned = 0;
	log_lines_keep();
	return 0;
}

static int end(void **state)
{
	(void)state;
	rdma_pair_close(&pair);
	log_lines_release();
	return fakeverbs_check() ? -1 : 0;
}

/* ---- who makes them ---- */

static void control_calls__are_made_by_nobody_who_polls(void **state)
{
	uint32_t number;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 1));
	assert_ok(rdma_pair_connect_another(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 1));
	assert_true(fakeverbs_qps(0, &number, 1) == 2);
	fakeverbs_raise_qp(0, number, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	slime_endpoint_close(pair.a.ep);
	rdma_settle(&pair);
	assert_true(n_created >= 4 && n_pinned >= 2 * LEN);
	assert_true(fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP] >= 4 * 3);
	assert_int_equal(n_polled_calls, 0);
}

/* With the memory that was registered there, which may be much. */
static void devices__of_which_one_failed_are_closed_by_nobody_who_polls(void **state)
{
	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 1));
	fakeverbs_kill_device(0);
	rdma_pair_destroy_endpoints(&pair);
	while (!fakeverbs_counts().calls[FAKEVERBS_CLOSE_DEVICE])
		rdma_poll(&pair);
	assert_int_equal(n_polled_calls, 0);
	fakeverbs_revive_device(0);
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 2));
}

/* It gives room back when a link ends. */
static void completion_queue__is_made_while_nobody_who_polls_has_to_wait(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_cqe = fakeverbs_device(1)->max_cqe = 4200;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	for (unsigned i = 1; i < LINKS; i++)
		assert_ok(rdma_pair_connect_another(&pair));
	assert_true(fakeverbs_counts().calls[FAKEVERBS_CREATE_CQ] > 2);
	assert_int_equal(n_locked_creates, 0);
}

/* ---- how much ---- */

static void link__pins_little_more_than_a_mebibyte(void **state)
{
	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	n_pinned = 0;
	assert_ok(rdma_pair_connect(&pair));
	assert_in_range(n_pinned, 2, 2 * PINNED_MAX);
	n_pinned = 0;
	assert_ok(rdma_pair_connect_another(&pair));
	assert_in_range(n_pinned, 2, 2 * PINNED_MAX);
}

/* Each device registers the slots, and the receives and frames of its own rail. */
static void rails__each_pin_as_much_as_a_link_of_one_rail(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	size_t of_one;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fakeverbs_device *d = fakeverbs_device(i);

		d->n_ports = 2;
		d->ports[1] = d->ports[0];
	}
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	n_pinned = 0;
	assert_ok(rdma_pair_connect(&pair));
	of_one = n_pinned;
	rdma_pair_close(&pair);
	attr.rdma_devices = "fake0:1,fake0:2;fake1:1,fake1:2";
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	n_pinned = 0;
	assert_ok(rdma_pair_connect(&pair));
	assert_int_equal(n_pinned, 2 * of_one);
}

/* Each request of each queue pair may end at once, when they are flushed. */
static unsigned check_room(void)
{
	unsigned n_cqs = 0;

	for (unsigned i = 0; i < n_created; i++) {
		uint32_t depth = 0;
		bool first = true;

		for (unsigned k = 0; k < n_created; k++) {
			if (created[k].cq != created[i].cq)
				continue;
			first = first && k >= i;
			depth += created[k].depth;
		}
		assert_true(depth <= (uint32_t)created[i].cq->cqe);
		n_cqs += first;
	}
	return n_cqs;
}

static void completion_queue__holds_all_of_its_links_and_there_is_another(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_cqe = fakeverbs_device(1)->max_cqe = 4200;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(check_room(), 2); /* one at each end */
	for (unsigned i = 1; i < LINKS; i++) {
		assert_ok(rdma_pair_connect_another(&pair));
		check_room();
	}
	assert_int_equal(n_created, 2 * LINKS);
	assert_int_equal(check_room(), 6); /* three links in each */
	assert_ok(rdma_write_now(&pair, LEN, 1));
}

/* All that their queues take is under way when they are flushed, and nobody polls meanwhile. */
static void completion_queue__is_not_overrun_by_flushes(void **state)
{
	struct slime_op *ops[3];
	struct slime_endpoint *eps[3];
	static struct slime_xfer xfers[2000];
	uint32_t numbers[3];

	(void)state;
	fakeverbs_device(0)->max_cqe = 4200; /* for three links, and little more */
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 1));
	assert_ok(rdma_pair_connect_another(&pair));
	assert_ok(rdma_pair_connect_another(&pair));
	eps[0] = pair.former[0];
	eps[1] = pair.former[2];
	eps[2] = pair.a.ep;
	for (size_t i = 0; i < 2000; i++)
		xfers[i] = rdma_a_and_b(&pair, i * 32, i * 16, 16);
	assert_int_equal(fakeverbs_qps(0, numbers, 3), 3);
	for (unsigned i = 0; i < 3; i++)
		fakeverbs_hold_qp(0, numbers[i], true);
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &ops[i]));
		assert_ok(slime_read(eps[i], xfers, 2000, 0, ops[i]));
	}
	for (unsigned i = 0; i < 3; i++)
		fakeverbs_raise_qp(0, numbers[i], IBV_EVENT_QP_FATAL);
	for (unsigned i = 0; i < 3; i++)
		fakeverbs_hold_qp(0, numbers[i], false);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rdma_wait(&pair, ops[i]), -ECONNRESET);
		assert_ok(slime_op_destroy(ops[i]));
	}
	rdma_settle(&pair);
	assert_int_equal(log_lines_with(ibv_event_type_str(IBV_EVENT_CQ_ERR)), 0);
}

static void link__that_no_completion_queue_holds_is_refused(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	fakeverbs_device(0)->max_cqe = 600;
	assert_int_not_equal(rdma_pair_open(&pair, NULL, LEN), 0);
	slime_endpoint_info(pair.a.ep, &info);
	assert_non_null(strstr(info.cause_text, strerror(ENOSPC)));
}

/* ---- what there is too little of ---- */

static void assert_a_says(const char *what)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(pair.a.ep, &info);
	rdma_assert_says(&info, what);
}

/* It is not memory that lacks, whatever the device's errno. */
static void link__beyond_the_queue_pairs_of_its_device_says_so(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_qp = 1;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_not_equal(rdma_pair_connect_another(&pair), 0);
	assert_a_says("fake0: no queue pair: ");
	assert_a_says(" (of 1 for all;");
}

static void link__whose_memory_may_not_be_locked_says_so(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_pinned = LEN;
	assert_int_not_equal(rdma_pair_open(&pair, NULL, LEN), 0);
	assert_a_says("fake0: memory of the link cannot be registered: ");
	assert_a_says("ulimit -l");
}

/* ---- while an offer is made ---- */

/* Whoever asked for it may do it while the token's holder has an event of one of them. */
static void offer__that_fails_leaves_its_queue_pairs_to_a_worker(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	uint64_t n;

	(void)state;
	attr.rdma_qps = 2;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	last_destroyer = pthread_self();
	n = fakeverbs_counts().calls[FAKEVERBS_DESTROY_QP];
	fakeverbs_fail_call_of(FAKEVERBS_CREATE_QP, 2, ENOMEM);
	assert_int_not_equal(rdma_pair_connect(&pair), 0);
	while (rdma_is_working(&pair))
		rdma_poll(&pair);
	assert_true(fakeverbs_counts().calls[FAKEVERBS_DESTROY_QP] > n);
	assert_false(pthread_equal(last_destroyer, pthread_self()));
}

static void kill_the_second_of_b(void)
{
	fakeverbs_kill_device(2);
	rdma_settle(&pair);
}

static void device__that_dies_while_a_domain_is_made_fails_the_offer(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_info info;

	(void)state;
	attr.rdma_devices = "fake0;fake1,fake2";
	(void)fakeverbs_device(2);
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	pair.a.isolated = pair.b.isolated = true;
	after_alloc_pd = kill_the_second_of_b;
	assert_int_not_equal(rdma_pair_connect_another(&pair), 0);
	slime_endpoint_info(pair.b.ep, &info);
	assert_non_null(strstr(info.cause_text, strerror(ENODEV)));
}

static uint64_t n_taken;

static void raise_and_poll(void)
{
	fakeverbs_raise(1, IBV_EVENT_LID_CHANGE, 1);
	rdma_settle(&pair);
	n_taken = fakeverbs_counts().calls[FAKEVERBS_GET_ASYNC_EVENT];
}

/* Whoever sets them up may have to close them, and does not hold the token. */
static void devices__are_not_watched_before_all_is_set_up(void **state)
{
	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	n_taken = 1;
	after_alloc_pd = raise_and_poll;
	assert_ok(rdma_pair_connect(&pair));
	assert_int_equal(n_taken, 0);
	rdma_settle(&pair);
	assert_true(fakeverbs_counts().calls[FAKEVERBS_GET_ASYNC_EVENT] > 0);
}

/* Those of either end, two for each device; they are closed, and opened by who tries again. */
static void devices__that_cannot_be_watched_are_opened_again(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 6; n++) {
		struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

		attr.rdma_devices = "fake0,fake1;fake2";
		(void)fakeverbs_device(2);
		assert_ok(rdma_pair_create(&pair, &attr, LEN));
		adds_left = n;
		assert_int_not_equal(rdma_pair_connect(&pair), 0);
		assert_int_equal(adds_left, 0);
		assert_ok(slime_endpoint_destroy(pair.a.ep));
		assert_ok(slime_endpoint_destroy(pair.b.ep));
		pair.a.ep = pair.b.ep = NULL;
		rdma_settle(&pair);
		assert_ok(rdma_pair_connect(&pair));
		assert_ok(rdma_write_now(&pair, LEN, 1));
		rdma_pair_close(&pair);
	}
}

/* It may be used before the one that cannot is closed. */
static void device__beside_one_that_cannot_be_watched_is_watched(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_devices = "fake0,fake1;fake2";
	(void)fakeverbs_device(2);
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	adds_left = 2 + 1; /* b's device comes first; of a's first one it fails, of the other not */
	n_adds = 0;
	assert_int_not_equal(rdma_pair_connect(&pair), 0);
	assert_int_equal(n_adds, 2 + 1 + 2);
	rdma_pair_close(&pair);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(control_calls__are_made_by_nobody_who_polls),
		TEST(devices__of_which_one_failed_are_closed_by_nobody_who_polls),
		TEST(completion_queue__is_made_while_nobody_who_polls_has_to_wait),
		TEST(link__pins_little_more_than_a_mebibyte),
		TEST(rails__each_pin_as_much_as_a_link_of_one_rail),
		TEST(completion_queue__holds_all_of_its_links_and_there_is_another),
		TEST(completion_queue__is_not_overrun_by_flushes),
		TEST(link__that_no_completion_queue_holds_is_refused),
		TEST(link__beyond_the_queue_pairs_of_its_device_says_so),
		TEST(link__whose_memory_may_not_be_locked_says_so),
		TEST(offer__that_fails_leaves_its_queue_pairs_to_a_worker),
		TEST(device__that_dies_while_a_domain_is_made_fails_the_offer),
		TEST(devices__are_not_watched_before_all_is_set_up),
		TEST(devices__that_cannot_be_watched_are_opened_again),
		TEST(device__beside_one_that_cannot_be_watched_is_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
