/* SPDX-License-Identifier: Apache-2.0 */
/* With which attributes queue pairs come up: what was configured, what both ends can, and where the
 * peer is. */
#include <pthread.h>
#include <string.h>

#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/wire.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN	65536
#define LONG	(1u << 20) /* more than one queue pair takes of an op */
#define LINKS	7
#define RECORDS 64

/* One queue pair's way up. */
struct rise {
	struct ibv_qp *qp;
	struct ibv_qp_attr init, rtr, rts;
};

static struct rdma_pair pair;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rise rises[RECORDS];
static unsigned n_rises; /* begun */
static unsigned n_risen;
static unsigned n_reachable; /* from where on packets are taken */
static bool is_unprepared;   /* one was, before its receives were posted */

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

/* Those of all queue pairs, of which each carries messages. */
static void note_receives(void)
{
	is_unprepared |= fakeverbs_counts().recv_wrs < ++n_reachable * RDMA_RECEIVES;
}

static void note(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	unsigned i = n_rises;

	if (attr->qp_state == IBV_QPS_INIT && n_rises < RECORDS)
		rises[n_rises++] = (struct rise){ .qp = qp, .init = *attr };
	while (i > 0 && rises[i - 1].qp != qp)
		i--;
	if (i > 0 && attr->qp_state == IBV_QPS_RTR) {
		rises[i - 1].rtr = *attr;
		note_receives();
	}
	if (i > 0 && attr->qp_state == IBV_QPS_RTS) {
		rises[i - 1].rts = *attr;
		n_risen++;
	}
}

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	pthread_mutex_lock(&lock);
	note(qp, attr);
	pthread_mutex_unlock(&lock);
	return __real_ibv_modify_qp(qp, attr, mask);
}

/* Of the only queue pair of that device. */
static const struct rise *rise_on(const char *device)
{
	assert_int_equal(n_rises, 2);
	assert_int_equal(n_risen, 2);
	for (unsigned i = 0; i < n_rises; i++) {
		if (!strcmp(ibv_get_device_name(rises[i].qp->context->device), device))
			return &rises[i];
	}
	fail_msg("no queue pair on %s", device);
	return NULL;
}

/* ---- links ---- */

static int begin(void **state)
{
	rdma_pair_reset(state);
	n_rises = n_risen = n_reachable = 0;
	is_unprepared = false;
	log_lines_keep_from(SLIME_LOG_INFO);
	return 0;
}

static int end(void **state)
{
	log_lines_release();
	return rdma_pair_end(state);
}

/* ---- what was configured ---- */

static void link__takes_the_path_that_it_was_told(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_hop_limit = 33;
	attr.rdma_traffic_class = 106;
	attr.rdma_service_level = 3;
	attr.rdma_flow_label = 0xabcde;
	attr.rdma_pkey_index = 2;
	attr.rdma_gid_index = 1;
	attr.rdma_min_rnr_timer = 14;
	attr.rdma_timeout = 11;
	attr.rdma_retry_count = 5;
	attr.rdma_rnr_retry = 3;
	for (unsigned i = 0; i < 2; i++)
		fakeverbs_device(i)->ports[0].pkeys[2] = 0x8001;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(n_risen, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct rise *r = &rises[i];

		assert_int_equal(r->init.pkey_index, 2);
		assert_int_equal(r->init.port_num, 1);
		assert_int_equal(r->rtr.ah_attr.is_global, 1);
		assert_int_equal(r->rtr.ah_attr.port_num, 1);
		assert_int_equal(r->rtr.ah_attr.sl, 3);
		assert_int_equal(r->rtr.ah_attr.grh.sgid_index, 1);
		assert_int_equal(r->rtr.ah_attr.grh.hop_limit, 33);
		assert_int_equal(r->rtr.ah_attr.grh.traffic_class, 106);
		assert_int_equal(r->rtr.ah_attr.grh.flow_label, 0xabcde);
		assert_int_equal(r->rtr.min_rnr_timer, 14);
		assert_int_equal(r->rts.timeout, 11);
		assert_int_equal(r->rts.retry_cnt, 5);
		assert_int_equal(r->rts.rnr_retry, 3);
	}
}

static void link__with_a_pkey_that_its_port_has_not_is_refused(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_pkey_index = FAKEVERBS_PKEYS;
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN),
			    "the port has 4 partition keys, and none at index 4 (configured)");
}

/* Routers pass it on, and neither a peer that is not there nor a receiver that is not ready is
 * asked for ever, or at once. */
static void link__told_nothing_can_be_routed(void **state)
{
	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(n_risen, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct rise *r = &rises[i];

		assert_int_equal(r->init.pkey_index, 0);
		assert_int_equal(r->rtr.ah_attr.sl, 0);
		assert_int_equal(r->rtr.ah_attr.grh.sgid_index, 3);
		assert_int_equal(r->rtr.ah_attr.grh.hop_limit, 64);
		assert_int_equal(r->rtr.ah_attr.grh.traffic_class, 0);
		assert_int_equal(r->rtr.ah_attr.grh.flow_label, 0);
		assert_int_equal(r->rtr.min_rnr_timer, 12);
		assert_int_equal(r->rts.timeout, 14);
		assert_int_equal(r->rts.retry_cnt, 6);
		assert_int_equal(r->rts.rnr_retry, 6);
	}
}

/* Who would put packets into somebody's link has to know it. */
static void link__begins_at_a_number_of_its_own(void **state)
{
	unsigned n_near = 0;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	for (unsigned i = 1; i < LINKS; i++)
		assert_ok(rdma_pair_connect_another(&pair));
	assert_int_equal(n_risen, 2 * LINKS);
	for (unsigned i = 0; i < n_rises; i++) {
		for (unsigned k = 0; k < i; k++)
			n_near +=
				((rises[i].rts.sq_psn - rises[k].rts.sq_psn + 8) & 0xffffff) <= 16;
	}
	/* By chance it is one pair in a million. */
	assert_in_range(n_near, 0, 2);
}

/* The peer may be first, and what it says finds a receive. */
static void link__has_its_receives_before_it_can_be_reached(void **state)
{
	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	for (unsigned i = 1; i < LINKS; i++)
		assert_ok(rdma_pair_connect_another(&pair));
	assert_true(n_reachable >= 2 * LINKS);
	assert_false(is_unprepared);
}

static void context__refuses_what_no_queue_pair_takes(void **state)
{
	struct slime_context_attr attrs[14];
	const size_t n = sizeof(attrs) / sizeof(attrs[0]);
	struct slime_context *ctx;

	(void)state;
	for (size_t i = 0; i < n; i++)
		attrs[i] = (struct slime_context_attr)SLIME_CONTEXT_ATTR_INIT;
	attrs[0].rdma_qps = 0;
	attrs[1].rdma_qps = RDMA_QPS_MAX + 1;
	attrs[2].rdma_min_rnr_timer = 32;
	attrs[3].rdma_hop_limit = 0;
	attrs[4].rdma_traffic_class = 256;
	attrs[5].rdma_service_level = 16;
	attrs[6].rdma_gid_index = 256;
	attrs[7].rdma_timeout = 32;
	attrs[8].rdma_retry_count = 8;
	attrs[9].rdma_rnr_retry = 8;
	attrs[10].rdma_flow_label = 1u << 20;
	attrs[11].rdma_pkey_index = 65536;
	attrs[12].rdma_hop_limit = 256;
	attrs[13].rdma_timeout = 0; /* for ever */
	for (size_t i = 0; i < n; i++)
		assert_int_equal(slime_context_create(&attrs[i], &ctx), -EINVAL);
	assert_int_equal(log_lines_with("rdma_"), n);
}

static void context__takes_as_many_queue_pairs_as_links_have_room_for(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_qps = RDMA_QPS_MAX;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(n_risen, 2 * RDMA_QPS_MAX);
	assert_ok(rdma_write_now(&pair, LEN, 1));
}

/* ---- what both ends can ---- */

/* Each of four limits is another end's smaller one. */
static void link__has_as_many_reads_under_way_as_both_ends_can(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_init_rd_atomic = 3;
	fakeverbs_device(0)->max_rd_atomic = 7;
	fakeverbs_device(1)->max_init_rd_atomic = 5;
	fakeverbs_device(1)->max_rd_atomic = 2;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(rise_on("fake0")->rts.max_rd_atomic, 2);
	assert_int_equal(rise_on("fake1")->rtr.max_dest_rd_atomic, 2);
	assert_int_equal(rise_on("fake1")->rts.max_rd_atomic, 5);
	assert_int_equal(rise_on("fake0")->rtr.max_dest_rd_atomic, 5);
}

/* Each end has made as many as it was told to. */
static void link_ends_of(uint32_t qps_of_a, uint32_t qps_of_b)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct rdma_pair other;
	struct rdma_end b;

	attr.rdma_qps = qps_of_a;
	assert_ok(rdma_pair_create(&pair, &attr, LONG));
	attr.rdma_qps = qps_of_b;
	assert_ok(rdma_pair_create(&other, &attr, LONG));
	b = pair.b;
	pair.b = other.b;
	other.b = b;
	rdma_pair_close(&other);
	assert_ok(rdma_pair_connect(&pair));
}

/* What one end has more of is not used. */
static void link__has_as_many_queue_pairs_as_the_end_that_has_fewer(void **state)
{
	static const uint32_t qps[][2] = { { 4, 2 }, { 2, 4 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		n_rises = n_risen = 0;
		link_ends_of(qps[i][0], qps[i][1]);
		assert_int_equal(n_risen, 2 * 2);
		assert_ok(rdma_write_now(&pair, LONG, 1));
		assert_ok(rdma_read_now(&pair, LONG, 2));
		rdma_exchange_a_message(&pair);
		rdma_pair_close(&pair);
	}
}

static void link__has_the_smaller_mtu_of_both_ends(void **state)
{
	(void)state;
	fakeverbs_device(0)->ports[0].active_mtu = IBV_MTU_4096;
	fakeverbs_device(1)->ports[0].active_mtu = IBV_MTU_2048;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(rise_on("fake0")->rtr.path_mtu, IBV_MTU_2048);
	assert_int_equal(rise_on("fake1")->rtr.path_mtu, IBV_MTU_2048);
}

/* The port raises no event when that changes. */
static void link__has_the_mtu_that_its_ports_have_now(void **state)
{
	(void)state;
	fakeverbs_device(0)->ports[0].active_mtu = IBV_MTU_4096;
	fakeverbs_device(1)->ports[0].active_mtu = IBV_MTU_4096;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	fakeverbs_device(1)->ports[0].active_mtu = IBV_MTU_1024;
	n_rises = n_risen = 0;
	rdma_next_link(&pair);
	assert_int_equal(rise_on("fake0")->rtr.path_mtu, IBV_MTU_1024);
	assert_int_equal(rise_on("fake1")->rtr.path_mtu, IBV_MTU_1024);
}

/* ---- where the peer is ---- */

#define SUBNET UINT64_C(0xfe80000000000000)

static void infiniband__within_a_subnet_goes_by_lid_alone(void **state)
{
	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET);
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(rise_on("fake0")->rtr.ah_attr.dlid, 12);
	assert_int_equal(rise_on("fake1")->rtr.ah_attr.dlid, 11);
	assert_int_equal(rise_on("fake0")->rtr.ah_attr.is_global, 0);
	assert_int_equal(rise_on("fake1")->rtr.ah_attr.is_global, 0);
}

static void assert_routed(const struct rise *r, uint16_t dlid, unsigned to)
{
	assert_int_equal(r->rtr.ah_attr.dlid, dlid);
	assert_int_equal(r->rtr.ah_attr.is_global, 1);
	assert_int_equal(r->rtr.ah_attr.grh.sgid_index, 0);
	assert_memory_equal(&r->rtr.ah_attr.grh.dgid, &fakeverbs_device(to)->ports[0].gids[0].gid,
			    16);
}

static void infiniband__between_subnets_has_a_global_route(void **state)
{
	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET + 1);
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_routed(rise_on("fake0"), 12, 1);
	assert_routed(rise_on("fake1"), 11, 0);
}

static void infiniband__with_a_port_that_asks_for_it_has_a_global_route(void **state)
{
	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET);
	fakeverbs_device(0)->ports[0].grh_required = true;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_routed(rise_on("fake0"), 12, 1);
	assert_routed(rise_on("fake1"), 11, 0);
}

/* ---- where we are ---- */

/* In the log, and of a link. */
static void address__that_was_chosen_is_told_once_with_the_reason(void **state)
{
	struct slime_endpoint_info info;
	struct slime_rail_info rail;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	/* The port is asked again, and its address is the same. */
	fakeverbs_raise(0, IBV_EVENT_LID_CHANGE, 1);
	rdma_settle(&pair);
	assert_ok(rdma_pair_connect_another(&pair));
	assert_int_equal(log_lines_with("fake0 port 1: GID index 3, RoCE v2, 10.88.0.1"), 1);
	assert_int_equal(log_lines_with("fake1 port 1: GID index 3, RoCE v2, 10.88.0.2"), 1);
	assert_int_equal(log_lines_with(": automatic, the first RoCE v2 one that is IPv4"), 2);
	slime_endpoint_info(pair.a.ep, &info);
	assert_non_null(strstr(info.address, "fake0 GID 3 to fake1 "));
	assert_int_equal(slime_endpoint_rails(pair.a.ep, &rail, 1), 1);
	assert_non_null(strstr(rail.why, "; GID index 3, RoCE v2, 10.88.0.1"));
	assert_non_null(strstr(rail.why, ": automatic, the first RoCE v2 one that is IPv4"));
}

#define TEST(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(link__takes_the_path_that_it_was_told),
		TEST(link__with_a_pkey_that_its_port_has_not_is_refused),
		TEST(link__told_nothing_can_be_routed),
		TEST(link__begins_at_a_number_of_its_own),
		TEST(link__has_its_receives_before_it_can_be_reached),
		TEST(context__refuses_what_no_queue_pair_takes),
		TEST(context__takes_as_many_queue_pairs_as_links_have_room_for),
		TEST(link__has_as_many_reads_under_way_as_both_ends_can),
		TEST(link__has_as_many_queue_pairs_as_the_end_that_has_fewer),
		TEST(link__has_the_smaller_mtu_of_both_ends),
		TEST(link__has_the_mtu_that_its_ports_have_now),
		TEST(infiniband__within_a_subnet_goes_by_lid_alone),
		TEST(infiniband__between_subnets_has_a_global_route),
		TEST(infiniband__with_a_port_that_asks_for_it_has_a_global_route),
		TEST(address__that_was_chosen_is_told_once_with_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
