/* SPDX-License-Identifier: Apache-2.0 */
/* What devices, ports and paths do to links, hardware's ways among them that no software device
 * has. */
#include <stdio.h>
#include <string.h>

#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN 65536

static struct rdma_pair pair;

/* ---- InfiniBand ---- */

#define SUBNET UINT64_C(0xfe80000000000000)

static void infiniband__links_by_lid(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET);
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void infiniband__links_across_subnets_by_gid(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 11, SUBNET + 1); /* the same LID, elsewhere */
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* Of one end, and the other does as it. */
static void infiniband__port_that_requires_a_global_route_gets_one(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_make_infiniband(0, 11, SUBNET);
	fakeverbs_make_infiniband(1, 12, SUBNET);
	fakeverbs_device(1)->ports[0].grh_required = true;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* What packets look like on the one side means nothing on the other. */
static void infiniband__and_ethernet_make_no_link(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_make_infiniband(1, 12, SUBNET);
	log_lines_keep();
	assert_int_equal(rdma_pair_open(&pair, &attr, LEN), -ECONNREFUSED);
	assert_int_equal(log_lines_with("rail 0 is Ethernet here, and InfiniBand at the peer"), 1);
	assert_int_equal(log_lines_with("rail 0 is InfiniBand here, and Ethernet at the peer"), 1);
	log_lines_release();
}

/* ---- capabilities ---- */

static void device__that_can_little_is_used_as_far_as_it_can(void **state)
{
	struct slime_context_attr attr = rdma_quick();

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

static void device__without_reads_is_refused(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_device(0)->max_init_rd_atomic = 0;
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN), "it has no RDMA reads");
}

/* As that of a network adapter of Azure. */
static void device__that_does_not_tell_its_longest_message_is_used(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		fakeverbs_device(i)->ports[0].max_msg_sz = 0;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* As irdma's: then queue pairs are in RESET once, when they are made, and have one try, which is
 * not a short one here. */
static void device__whose_queue_pairs_cannot_be_reset_makes_links(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		fakeverbs_device(i)->cannot_reset = true;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void device__that_rounds_up_and_forgets_is_fine(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fakeverbs_device(i)->grants_more = true;
		fakeverbs_device(i)->forgets_completions = true;
	}
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void device__named_wrongly_is_refused(void **state)
{
	static const char *const names[] = { "fake0:",	 "fake0:x", "fake0:0",	    "fake0:257",
					     "fake0:1x", ":1",	    "fake0,,fake1", "fake0:-255" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct slime_context_attr attr = rdma_quick();

		rdma_pair_reset(state);
		attr.rdma_devices = names[i];
		rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN),
				    "expected a device");
		assert_int_equal(rdma_pair_end(state), 0);
	}
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

static void port__that_is_down_is_left_out_until_it_is_up(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	attr.rdma_devices = BOTH;
	set_up(1, false);
	log_lines_keep();
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(n_qps(1), 0);
	assert_ok(rdma_write_now(&pair, LEN, 9));
	rdma_next_link(&pair);
	assert_int_equal(n_qps(1), 0);
	assert_int_equal(log_lines_with("links are made without fake1 port 1"), 2); /* contexts */
	log_lines_release();

	set_up(1, true);
	rdma_settle(&pair);
	rdma_next_link(&pair);
	assert_int_equal(n_qps(0), 2);
	assert_int_equal(n_qps(1), 2);
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void ports__that_are_all_down_make_no_link(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	attr.rdma_devices = BOTH;
	set_up(0, false);
	set_up(1, false);
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN),
			    "none of 2 ports can be used");
}

/* Nobody has named a device. */
static void port__that_is_not_the_first_is_found_when_it_alone_can_be_used(void **state)
{
	struct slime_context_attr attr = rdma_quick();
	struct fakeverbs_device *d = fakeverbs_device(0);
	struct slime_rail_info rail;

	(void)state;
	d->n_ports = 2;
	d->ports[1] = d->ports[0];
	memset(d->ports[0].gids, 0, sizeof(d->ports[0].gids));
	d->ports[0].state = IBV_PORT_DOWN;
	attr.rdma_devices = ";fake1";
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(slime_endpoint_rails(pair.a.ep, &rail, 1), 1);
	assert_string_equal(rail.device, "fake0:2");
}

static void open_unnamed(void)
{
	struct slime_context_attr attr = rdma_quick();

	attr.rdma_devices = ";fake1"; /* which is the other one, for a */
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void assert_over(const char *device)
{
	struct slime_rail_info rail;

	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(slime_endpoint_rails(pair.a.ep, &rail, 1), 1);
	assert_string_equal(rail.device, device);
}

static void finish_jobs(void)
{
	do
		rdma_settle(&pair);
	while (rdma_is_working(&pair));
}

/* Nothing is left of the links, and nobody looks at devices any more. */
static void end_links(void)
{
	rdma_pair_destroy_endpoints(&pair);
	finish_jobs();
}

static void port__that_goes_down_gives_way_to_another_where_none_is_named(void **state)
{
	(void)state;
	open_unnamed();
	assert_over("fake0:1");
	log_lines_keep();
	set_up(0, false);
	end_links();
	assert_ok(rdma_pair_connect(&pair));
	assert_over("fake1:1");
	assert_int_equal(log_lines_with("fake0 port 1 cannot be used: the next links are made with "
					"fake1 port 1"),
			 1);
	log_lines_release();
}

/* What is on its way from the former one cannot land after what the new link brings. */
static void link__from_another_port_begins_when_the_one_before_is_drained(void **state)
{
	struct slime_endpoint *ends[2];
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	open_unnamed();
	ends[0] = pair.a.ep;
	ends[1] = pair.b.ep;
	assert_int_equal(fakeverbs_qps(1, &number, 1), 1);
	fakeverbs_hold_qp(1, number, true);
	set_up(0, false);
	fakeverbs_raise_qp(1, number, IBV_EVENT_QP_FATAL);
	while (!rdma_is_broken(&pair.a))
		rdma_poll(&pair);
	assert_ok(slime_endpoint_destroy(ends[0]));
	while (rdma_is_working(&pair))
		rdma_poll(&pair);
	assert_ok(rdma_pair_connect(&pair));
	assert_over("fake1:1");
	slime_endpoint_info(ends[1], &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_ok(slime_endpoint_destroy(ends[1]));
}

/* While it is down nobody hears of other devices: the first link that is tried looks. */
static void port__that_is_down_gives_way_to_one_that_comes_up_where_none_is_named(void **state)
{
	(void)state;
	open_unnamed();
	assert_over("fake0:1");
	set_up(1, false);
	set_up(0, false);
	end_links();
	rdma_assert_refused(&pair.a, rdma_pair_connect(&pair), "fake0");
	end_links();
	set_up(1, true);
	rdma_assert_refused(&pair.a, rdma_pair_connect(&pair), "fake0");
	end_links();
	assert_ok(rdma_pair_connect(&pair));
	assert_over("fake1:1");
}

/* What is registered may be large. */
static void port__that_is_down_keeps_its_regions_where_there_is_no_other(void **state)
{
	(void)state;
	open_unnamed();
	set_up(1, false);
	set_up(0, false);
	end_links();
	rdma_assert_refused(&pair.a, rdma_pair_connect(&pair), "fake0");
	set_up(0, true);
	set_up(1, true);
	end_links();
	fakeverbs_reset_counts();
	assert_ok(rdma_pair_connect(&pair));
	assert_over("fake0:1");
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_OPEN_DEVICE], 0);
}

static void assert_stays(const char *device)
{
	end_links();
	fakeverbs_reset_counts();
	assert_ok(rdma_pair_connect(&pair));
	assert_over(device);
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_OPEN_DEVICE], 0);
}

/* It was about to give way, and links used it yet. */
static void port__that_is_up_again_stays_where_none_is_named(void **state)
{
	(void)state;
	open_unnamed();
	assert_over("fake0:1");
	log_lines_keep_from(SLIME_LOG_INFO);
	set_up(0, false);
	finish_jobs();
	assert_int_equal(log_lines_with("the next links are made with fake1 port 1"), 1);
	set_up(0, true);
	finish_jobs();
	assert_stays("fake0:1");
	assert_int_equal(log_lines_with("fake0 port 1 can be used again"), 1);
	log_lines_release();
}

/* That is no event of the port. */
static void port__that_makes_links_again_stays_where_none_is_named(void **state)
{
	struct fakeverbs_port *port = &fakeverbs_device(0)->ports[0];
	struct fakeverbs_port with_addresses = *port;

	(void)state;
	open_unnamed();
	assert_over("fake0:1");
	memset(port->gids, 0, sizeof(port->gids));
	rdma_assert_refused(&pair.a, rdma_pair_connect_another(&pair), "fake0");
	finish_jobs();
	*port = with_addresses;
	assert_ok(rdma_pair_connect_another(&pair));
	assert_over("fake0:1");
	rdma_pair_destroy_former(&pair);
	assert_stays("fake0:1");
}

/* Each device may take long to be opened. */
static void link__that_cannot_be_made_waits_for_no_other_device(void **state)
{
	uint64_t n_opened;

	(void)state;
	open_unnamed();
	assert_over("fake0:1");
	end_links();
	memset(fakeverbs_device(0)->ports[0].gids, 0, sizeof(struct fakeverbs_gid[FAKEVERBS_GIDS]));
	rdma_busy_begin(&pair.a);
	fakeverbs_reset_counts();
	rdma_assert_refused(&pair.a, rdma_pair_connect(&pair), "fake0");
	n_opened = fakeverbs_counts().calls[FAKEVERBS_OPEN_DEVICE];
	rdma_busy_end();
	assert_int_equal(n_opened, 0);
	end_links();
	assert_ok(rdma_pair_connect(&pair));
	assert_over("fake1:1");
}

/* ---- all ports ---- */

/* Those that a's links use, as "fake0:1 fake1:1 ". */
static void assert_used(const char *expected)
{
	struct slime_device_stats used[SLIME_RAILS_MAX];
	char text[256] = "";
	size_t n = slime_context_device_stats(pair.a.ctx, used, SLIME_RAILS_MAX);

	for (size_t i = 0; i < n && i < SLIME_RAILS_MAX; i++) {
		strcat(text, used[i].device);
		strcat(text, " ");
	}
	assert_string_equal(text, expected);
}

static void copy_device(unsigned to)
{
	*fakeverbs_device(to) = *fakeverbs_device(0);
	snprintf(fakeverbs_device(to)->name, sizeof(fakeverbs_device(to)->name), "fake%u", to);
}

static void open_all_ports(void)
{
	struct slime_context_attr attr = rdma_quick();

	attr.rdma_devices = "all;fake0";
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

static void all__takes_each_port_that_is_or_may_come_to_be_usable(void **state)
{
	struct fakeverbs_device *second = fakeverbs_device(1);

	(void)state;
	copy_device(2);
	fakeverbs_device(2)->transport_type = IBV_TRANSPORT_IWARP;
	fakeverbs_device(2)->node_type = IBV_NODE_RNIC;
	second->n_ports = 2;
	second->ports[1] = second->ports[0];
	set_up(1, false);
	log_lines_keep_from(SLIME_LOG_INFO);
	open_all_ports();
	assert_used("fake0:1 fake1:1 fake1:2 ");
	assert_int_equal(log_lines_with("3 of 4 ports of this host: fake2: "), 1);
	assert_int_equal(log_lines_with("links are made without fake1 port 1"), 1);
	log_lines_release();
}

static void all__of_more_than_a_link_has_takes_those_that_are_up(void **state)
{
	(void)state;
	for (unsigned i = 2; i < 10; i++)
		copy_device(i);
	set_up(1, false);
	set_up(3, false);
	log_lines_keep_from(SLIME_LOG_INFO);
	open_all_ports();
	assert_used("fake0:1 fake2:1 fake4:1 fake5:1 fake6:1 fake7:1 fake8:1 fake9:1 ");
	assert_int_equal(log_lines_with("8 of 10 ports of this host: a link has at most 8"), 1);
	log_lines_release();
}

static void all__where_there_is_none_is_refused(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_device(0)->name[0] = fakeverbs_device(1)->name[0] = '\0';
	attr.rdma_devices = "all";
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN), "there is no RDMA device");
}

/* What is missing in the kernel is a long story, and the same for each link. */
static void any__where_there_is_none_is_short_in_causes_and_whole_in_the_log_once(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_device(0)->name[0] = fakeverbs_device(1)->name[0] = '\0';
	attr.rdma_devices = ";fake1";
	log_lines_keep_from(SLIME_LOG_INFO);
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN),
			    "rdma: this host has no RDMA device");
	rdma_pair_destroy_endpoints(&pair);
	rdma_assert_refused(&pair.a, rdma_pair_connect(&pair),
			    "rdma: this host has no RDMA device");
	assert_int_equal(log_lines_with("no link of this process goes over rdma: there is no RDMA "
					"device that libibverbs has a driver for"),
			 1);
	log_lines_release();
}

static void all__beside_names_is_refused(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	attr.rdma_devices = "fake0,all";
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, &attr, LEN),
			    "nothing else is named beside it");
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
	rdma_exchange_a_message(&pair);
}

static void rails__go_together_by_the_position_of_their_ports(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	attr.rdma_devices = BOTH;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	/* Nothing gets from one device to the other: those of the same position have to meet. */
	fakeverbs_set_cut(0, 1, true);
	connect_with_b_without(-1);
}

static void rails__without_a_common_position_go_together_in_their_order(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	attr.rdma_devices = BOTH;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	connect_with_b_without(1);
}

#define ALONE(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ALONE(infiniband__links_by_lid),
		ALONE(infiniband__links_across_subnets_by_gid),
		ALONE(infiniband__port_that_requires_a_global_route_gets_one),
		ALONE(infiniband__and_ethernet_make_no_link),
		ALONE(device__that_can_little_is_used_as_far_as_it_can),
		ALONE(device__without_reads_is_refused),
		ALONE(device__that_does_not_tell_its_longest_message_is_used),
		ALONE(device__whose_queue_pairs_cannot_be_reset_makes_links),
		ALONE(device__that_rounds_up_and_forgets_is_fine),
		ALONE(port__that_is_down_is_left_out_until_it_is_up),
		ALONE(ports__that_are_all_down_make_no_link),
		ALONE(port__that_is_not_the_first_is_found_when_it_alone_can_be_used),
		ALONE(port__that_goes_down_gives_way_to_another_where_none_is_named),
		ALONE(link__from_another_port_begins_when_the_one_before_is_drained),
		ALONE(port__that_is_down_gives_way_to_one_that_comes_up_where_none_is_named),
		ALONE(port__that_is_down_keeps_its_regions_where_there_is_no_other),
		ALONE(port__that_is_up_again_stays_where_none_is_named),
		ALONE(port__that_makes_links_again_stays_where_none_is_named),
		ALONE(link__that_cannot_be_made_waits_for_no_other_device),
		ALONE(all__takes_each_port_that_is_or_may_come_to_be_usable),
		ALONE(all__of_more_than_a_link_has_takes_those_that_are_up),
		ALONE(all__where_there_is_none_is_refused),
		ALONE(any__where_there_is_none_is_short_in_causes_and_whole_in_the_log_once),
		ALONE(all__beside_names_is_refused),
		ALONE(rails__go_together_by_the_position_of_their_ports),
		ALONE(rails__without_a_common_position_go_together_in_their_order),
		ALONE(device__named_wrongly_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
