/* SPDX-License-Identifier: Apache-2.0 */
/* What devices, ports and paths do to links, hardware's ways among them that no software device
 * has. */
#include <string.h>

#include "tests/libslime/rdma_pair.h"
#include "tests/support/log_lines.h"

#define LEN 65536

static struct rdma_pair pair;

static struct slime_context_attr quick(void)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = 200;
	return attr;
}

/* Of what the device did not take back. */
static int end_with_leftovers(void **state)
{
	return rdma_pair_end(state) ? 0 : -1;
}

static int begin(void **state)
{
	struct slime_context_attr attr = quick();

	rdma_pair_reset(state);
	return rdma_pair_open(&pair, &attr, LEN);
}

static void exchange_a_message(void)
{
	assert_ok(slime_recv(pair.b.ep, pair.b.mr, 0, 64, 1, SLIME_TAG_ALL, pair.b.op));
	assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.b.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
}

static void assert_says(const struct slime_endpoint_info *info, const char *what)
{
	if (!strstr(info->cause_text, what))
		fail_msg("'%s' does not say '%s'", info->cause_text, what);
}

/* Nothing can be offered to a peer, for this reason. */
static void assert_refused(struct rdma_end *e, int status, const char *why)
{
	struct slime_endpoint_info info;

	assert_int_equal(status, -ECONNREFUSED);
	slime_endpoint_info(e->ep, &info);
	assert_says(&info, why);
}

static struct slime_endpoint_info broken_info(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	do {
		rdma_poll(&pair);
		slime_endpoint_info(e->ep, &info);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	return info;
}

/* ---- InfiniBand ---- */

#define SUBNET UINT64_C(0xfe80000000000000)

static void infiniband__links_by_lid(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET);
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void infiniband__links_across_subnets_by_gid(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 11, SUBNET + 1); /* the same LID, elsewhere */
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* Of one end, and the other does as it. */
static void infiniband__port_that_requires_a_global_route_gets_one(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET);
	fakeverbs_device(1)->ports[0].grh_required = true;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* ---- capabilities ---- */

static void device__that_can_little_is_used_as_far_as_it_can(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fakeverbs_device *d = fakeverbs_device(i);

		d->max_inline = 0;
		d->max_sge = 1;
		d->max_sge_rd = 1;
		d->max_rd_atomic = 1;
		d->max_init_rd_atomic = 1;
		d->ports[0].max_msg_sz = 2048;
		d->ports[0].active_mtu = i ? IBV_MTU_256 : IBV_MTU_4096;
	}
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void device__that_rounds_up_and_forgets_is_fine(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fakeverbs_device(i)->grants_more = true;
		fakeverbs_device(i)->forgets_completions = true;
	}
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void region__that_cannot_be_deregistered_is_told(void **state)
{
	int ret;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	log_lines_keep();
	fakeverbs_fail_call_of(FAKEVERBS_DEREG_MR, 1, EBUSY);
	while ((ret = slime_mr_destroy(pair.a.mr)) == -EBUSY)
		rdma_poll(&pair);
	assert_ok(ret);
	pair.a.mr = NULL;
	assert_int_equal(log_lines_with("fake0: 65536 bytes at"), 1);
	assert_int_equal(log_lines_with("cannot be deregistered"), 1);
	log_lines_release();
}

static void region__that_cannot_be_pinned_fails_its_work_only(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);

	(void)state;
	fakeverbs_device(0)->max_pinned = 0;
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ENOMEM);
	/* Messages need no region of the user's. */
	exchange_a_message();
}

/* ---- several ports ---- */

#define BOTH "fake0,fake1"

static void set_up(unsigned device, bool up)
{
	fakeverbs_set_port_state(device, 1, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
}

static size_t n_qps(unsigned device)
{
	uint32_t numbers[16];

	return fakeverbs_qps(device, numbers, 16);
}

static void next_link(void)
{
	slime_endpoint_close(pair.a.ep);
	slime_endpoint_close(pair.b.ep);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(pair.a.ep));
	assert_ok(slime_endpoint_destroy(pair.b.ep));
	assert_ok(rdma_pair_connect(&pair));
}

static void port__that_is_down_is_left_out_until_it_is_up(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	attr.rdma_devices = BOTH;
	set_up(1, false);
	log_lines_keep();
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(n_qps(1), 0);
	assert_ok(rdma_write_now(&pair, LEN, 9));
	next_link();
	assert_int_equal(n_qps(1), 0);
	assert_int_equal(log_lines_with("links are made without fake1 port 1"), 2); /* contexts */
	log_lines_release();

	set_up(1, true);
	rdma_settle(&pair);
	next_link();
	assert_int_equal(n_qps(0), 2);
	assert_int_equal(n_qps(1), 2);
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void ports__that_are_all_down_make_no_link(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	attr.rdma_devices = BOTH;
	set_up(0, false);
	set_up(1, false);
	assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN), "none of 2 ports can be used");
}

static void export_end(const struct rdma_end *e, uint8_t desc[SLIME_ENDPOINT_DESC_MAX], int *len)
{
	*len = slime_endpoint_export(e->ep, desc, SLIME_ENDPOINT_DESC_MAX);
	assert_true(*len > 0);
}

/* Each end has another picture of what is up: a leaves out fake0, b what it is told to. */
static void connect_with_b_without(int left_out)
{
	struct slime_endpoint_attr to = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[2][SLIME_ENDPOINT_DESC_MAX];
	int len[2];

	to.transports[0] = SLIME_TRANSPORT_RDMA;
	assert_ok(slime_endpoint_create(pair.a.ctx, &to, &pair.a.ep));
	assert_ok(slime_endpoint_create(pair.b.ctx, &to, &pair.b.ep));
	set_up(0, false);
	export_end(&pair.a, desc[0], &len[0]);
	set_up(0, true);
	if (left_out >= 0)
		set_up((unsigned)left_out, false);
	export_end(&pair.b, desc[1], &len[1]);
	if (left_out >= 0)
		set_up((unsigned)left_out, true);
	assert_ok(slime_endpoint_connect(pair.a.ep, desc[1], (size_t)len[1], 5000, pair.a.op));
	assert_ok(slime_endpoint_connect(pair.b.ep, desc[0], (size_t)len[0], 5000, pair.b.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.b.op));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	exchange_a_message();
}

static void rails__go_together_by_the_position_of_their_ports(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	attr.rdma_devices = BOTH;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	/* Nothing gets from one device to the other: those of the same position have to meet. */
	fakeverbs_set_cut(0, 1, true);
	connect_with_b_without(-1);
}

static void rails__without_a_common_position_go_together_in_their_order(void **state)
{
	struct slime_context_attr attr = quick();

	(void)state;
	attr.rdma_devices = BOTH;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	connect_with_b_without(1);
}

/* ---- faults ---- */

static void cut__ends_both_sides_with_a_cause(void **state)
{
	(void)state;
	fakeverbs_set_cut(0, 1, true);
	assert_int_equal(rdma_write_now(&pair, LEN, 9), -ECONNRESET);
	assert_int_equal(broken_info(&pair.a).state, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(broken_info(&pair.b).state, SLIME_ENDPOINT_BROKEN);
}

static void device__that_dies_ends_its_links(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	fakeverbs_kill_device(1);
	info = broken_info(&pair.b);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_says(&info, ibv_event_type_str(IBV_EVENT_DEVICE_FATAL));
	assert_int_equal(broken_info(&pair.a).state, SLIME_ENDPOINT_BROKEN);
}

static bool is_connected(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* Each link completes into a queue of its own here. */
static void completion_queue__that_fails_ends_its_links_only(void **state)
{
	struct slime_context_attr attr = quick();
	struct slime_endpoint *ends[2];
	struct slime_endpoint_info info;
	uint64_t destroyed;
	uint32_t number;

	(void)state;
	fakeverbs_device(0)->max_cqe = fakeverbs_device(1)->max_cqe = 1500;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	ends[0] = pair.a.ep;
	ends[1] = pair.b.ep;
	assert_ok(rdma_pair_connect(&pair));
	destroyed = fakeverbs_counts().calls[FAKEVERBS_DESTROY_CQ];

	fakeverbs_break_cq(0, number);
	do {
		rdma_poll(&pair);
		slime_endpoint_info(ends[0], &info);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	assert_says(&info, ibv_event_type_str(IBV_EVENT_CQ_ERR));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_ok(slime_endpoint_destroy(ends[0]));
	assert_ok(slime_endpoint_destroy(ends[1]));
	while (fakeverbs_counts().calls[FAKEVERBS_DESTROY_CQ] == destroyed)
		rdma_poll(&pair);
	assert_true(is_connected(&pair.a) && is_connected(&pair.b));

	/* There is another for the next link. */
	ends[0] = pair.a.ep;
	ends[1] = pair.b.ep;
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	slime_endpoint_close(ends[0]);
	slime_endpoint_close(ends[1]);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(ends[0]));
	assert_ok(slime_endpoint_destroy(ends[1]));
}

static void count_errors(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	unsigned *n = arg;

	(void)part;
	(void)line;
	*n += level == SLIME_LOG_ERROR;
}

/* As one of soft-RoCE that overflows does, for each completion that is lost. */
static void completion_queue__that_fails_again_and_again_is_logged_once(void **state)
{
	unsigned n_errors = 0;
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	slime_log_set(count_errors, &n_errors, SLIME_LOG_ERROR);
	for (int i = 0; i < 20; i++)
		fakeverbs_break_cq(0, number);
	assert_int_equal(broken_info(&pair.a).cause, -EIO);
	slime_log_set(NULL, NULL, SLIME_LOG_WARN);
	assert_int_equal(n_errors, 1);
}

static void destroy_ends(void)
{
	assert_ok(slime_endpoint_destroy(pair.a.ep));
	assert_ok(slime_endpoint_destroy(pair.b.ep));
	pair.a.ep = pair.b.ep = NULL;
	rdma_settle(&pair);
}

/* An endpoint that nobody has connected has queue pairs on it. */
static void device__that_died_is_not_offered_while_it_is_in_use(void **state)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint *idle;

	(void)state;
	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	assert_ok(slime_endpoint_create(pair.b.ctx, &attr, &idle));
	assert_true(slime_endpoint_export(idle, desc, sizeof(desc)) > 0);
	fakeverbs_kill_device(1);
	broken_info(&pair.b);
	broken_info(&pair.a);
	destroy_ends();
	assert_refused(&pair.b, rdma_pair_connect(&pair), "fake1 failed");
	assert_ok(slime_endpoint_destroy(idle));
}

static void device__that_died_is_used_when_it_is_there_again(void **state)
{
	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	fakeverbs_kill_device(1);
	broken_info(&pair.b);
	broken_info(&pair.a);
	destroy_ends();
	assert_refused(&pair.b, rdma_pair_connect(&pair), "fake1");
	destroy_ends();

	fakeverbs_revive_device(1);
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	exchange_a_message();
}

static void device__named_wrongly_is_refused(void **state)
{
	static const char *const names[] = { "fake0:",	 "fake0:x", "fake0:0",	    "fake0:257",
					     "fake0:1x", ":1",	    "fake0,,fake1", "fake0:-255" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct slime_context_attr attr = quick();

		rdma_pair_reset(state);
		attr.rdma_devices = names[i];
		assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN), "expected a device");
		assert_int_equal(rdma_pair_end(state), 0);
	}
}

/* All that is heard of it are flushes. */
static void link__that_lost_its_address_says_so(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 4096);
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_set_gid(0, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
	fakeverbs_set_cut(0, 1, true);
	fakeverbs_drop_completion(0, number);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	info = broken_info(&pair.a);
	assert_int_equal(info.cause, -ECONNRESET);
	assert_says(&info, "fake0: the link's address, GID index 3, is gone");
}

/* Its flushes are found before the event that says why. */
static void queue_pair__with_a_fatal_event_ends_its_link_for_that_reason(void **state)
{
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_raise_qp(0, number, IBV_EVENT_QP_ACCESS_ERR);
	info = broken_info(&pair.a);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(info.cause, -EIO);
	assert_says(&info, ibv_event_type_str(IBV_EVENT_QP_ACCESS_ERR));
	assert_int_equal(broken_info(&pair.b).state, SLIME_ENDPOINT_BROKEN);
}

static void events__that_end_nothing_end_nothing(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_LID_CHANGE,  IBV_EVENT_PKEY_CHANGE,	    IBV_EVENT_SM_CHANGE,
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		fakeverbs_raise(0, types[i], 1);
	rdma_settle(&pair);
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* The op ends when nothing can land any more: its flush was seen, not before. */
static void op__ends_after_its_queue_pair_was_drained(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 4096);
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_hold_qp(0, number, true);
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	fakeverbs_raise_qp(0, number, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	assert_false(slime_op_test(pair.a.op));
	fakeverbs_hold_qp(0, number, false);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
}

/* What is still on its way over the old link cannot land after what the new one brings. */
static void link__begins_when_the_one_before_is_drained(void **state)
{
	struct slime_endpoint *ends[2] = { pair.a.ep, pair.b.ep };
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(1, &number, 1), 1);
	fakeverbs_hold_qp(1, number, true);
	fakeverbs_raise_qp(1, number, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	assert_ok(rdma_pair_connect(&pair));
	slime_endpoint_info(ends[1], &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_ok(rdma_write_now(&pair, LEN, 9));
	next_link();
	slime_endpoint_close(ends[0]);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(ends[0]));
	assert_ok(slime_endpoint_destroy(ends[1]));
}

static void completion__that_comes_twice_is_taken_once(void **state)
{
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_duplicate_completion(0, number);
	assert_ok(rdma_write_now(&pair, LEN, 9));
	for (int i = 0; i < 100; i++)
		assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* The later one of the same queue pair stands for it. */
static void completion__that_gets_lost_is_made_up_by_the_next(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 4096);
	struct slime_op *other;
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	assert_ok(slime_op_create(pair.a.ctx, NULL, &other));
	fakeverbs_drop_completion(0, number);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, other));
	assert_ok(rdma_wait(&pair, other));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_ok(slime_op_destroy(other));
}

#define N_IMMS 128 /* so many are not signaled but for the last */

/* Each is answered with a message, of which a needs no poll to take one. */
static void send_imms_to_a(void)
{
	for (unsigned i = 0; i < N_IMMS; i++) {
		assert_ok(slime_write_imm(pair.b.ep, NULL, 0, 0, i, pair.b.op));
		assert_ok(rdma_wait(&pair, pair.b.op));
	}
	rdma_settle(&pair);
}

static void post__that_failed_is_not_done_by_what_comes_after_it(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	struct slime_op *op;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_ok(slime_op_create(pair.a.ctx, NULL, &op));
	send_imms_to_a();
	memset(pair.b.bytes, 0, LEN);
	fakeverbs_fail_call_of(FAKEVERBS_POST_SEND, 1, ENOMEM);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_true(fakeverbs_failed());
	for (unsigned i = 0; i < N_IMMS; i++) {
		assert_ok(slime_imm_recv(pair.a.ep, op));
		assert_true(slime_op_test(op));
	}
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_int_equal(pair.b.bytes[0], 0);
	assert_ok(slime_op_destroy(op));
}

#define ALONE(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)
#define IN_PAIR(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ALONE(infiniband__links_by_lid),
		ALONE(infiniband__links_across_subnets_by_gid),
		ALONE(infiniband__port_that_requires_a_global_route_gets_one),
		ALONE(device__that_can_little_is_used_as_far_as_it_can),
		ALONE(device__that_rounds_up_and_forgets_is_fine),
		IN_PAIR(region__that_cannot_be_pinned_fails_its_work_only),
		ALONE(port__that_is_down_is_left_out_until_it_is_up),
		ALONE(ports__that_are_all_down_make_no_link),
		ALONE(rails__go_together_by_the_position_of_their_ports),
		ALONE(rails__without_a_common_position_go_together_in_their_order),
		cmocka_unit_test_prestate_setup_teardown(
			region__that_cannot_be_deregistered_is_told, begin, end_with_leftovers,
			&pair),
		IN_PAIR(cut__ends_both_sides_with_a_cause),
		IN_PAIR(device__that_dies_ends_its_links),
		ALONE(completion_queue__that_fails_ends_its_links_only),
		IN_PAIR(completion_queue__that_fails_again_and_again_is_logged_once),
		IN_PAIR(device__that_died_is_not_offered_while_it_is_in_use),
		IN_PAIR(device__that_died_is_used_when_it_is_there_again),
		ALONE(device__named_wrongly_is_refused),
		IN_PAIR(link__that_lost_its_address_says_so),
		IN_PAIR(queue_pair__with_a_fatal_event_ends_its_link_for_that_reason),
		IN_PAIR(events__that_end_nothing_end_nothing),
		IN_PAIR(op__ends_after_its_queue_pair_was_drained),
		IN_PAIR(link__begins_when_the_one_before_is_drained),
		IN_PAIR(completion__that_comes_twice_is_taken_once),
		IN_PAIR(completion__that_gets_lost_is_made_up_by_the_next),
		IN_PAIR(post__that_failed_is_not_done_by_what_comes_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
