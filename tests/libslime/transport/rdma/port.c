/* SPDX-License-Identifier: Apache-2.0 */
/* What a port's attributes mean, as devices report them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "src/transport/rdma/device.h"

static struct sl_port port_in(enum slime_link_layer layer, enum ibv_port_state state)
{
	return (struct sl_port){ .num = 1, .link_layer = layer, .attr.state = state };
}

static void assert_unusable(const struct sl_port *port, int ret, const char *word)
{
	struct sl_device_why why = { "" };

	assert_int_equal(sl_port_check(port, &why), ret);
	assert_non_null(strstr(why.text, word));
}

static void port_check__of_an_active_port_is_fine(void **state)
{
	struct sl_port roce = port_in(SLIME_LINK_ETHERNET, IBV_PORT_ACTIVE);
	struct sl_port ib = port_in(SLIME_LINK_INFINIBAND, IBV_PORT_ACTIVE);
	struct sl_device_why why;

	(void)state;
	assert_int_equal(sl_port_check(&roce, &why), 0);
	assert_int_equal(sl_port_check(&ib, &why), 0);
}

static void port_check__of_a_down_port_names_what_brings_it_up(void **state)
{
	struct sl_port roce = port_in(SLIME_LINK_ETHERNET, IBV_PORT_DOWN);
	struct sl_port ib = port_in(SLIME_LINK_INFINIBAND, IBV_PORT_DOWN);
	struct sl_port unmanaged = port_in(SLIME_LINK_INFINIBAND, IBV_PORT_INIT);

	(void)state;
	assert_unusable(&roce, -ENETDOWN, "port 1 is DOWN: its network interface");
	assert_unusable(&ib, -ENETDOWN, "port 1 is DOWN: no cable");
	assert_unusable(&unmanaged, -ENETDOWN, "port 1 is INIT: it waits for");
}

static void port_check__of_another_link_layer_is_not_supported(void **state)
{
	struct sl_port iwarp = port_in(SLIME_LINK_UNKNOWN, IBV_PORT_ACTIVE);

	(void)state;
	assert_unusable(&iwarp, -EOPNOTSUPP, "neither");
}

static void mtu_bytes__of_no_mtu_is_zero(void **state)
{
	(void)state;
	assert_int_equal(sl_mtu_bytes(IBV_MTU_256), 256);
	assert_int_equal(sl_mtu_bytes(IBV_MTU_4096), 4096);
	assert_int_equal(sl_mtu_bytes((enum ibv_mtu)0), 0);
	assert_int_equal(sl_mtu_bytes((enum ibv_mtu)6), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(port_check__of_an_active_port_is_fine),
		cmocka_unit_test(port_check__of_a_down_port_names_what_brings_it_up),
		cmocka_unit_test(port_check__of_another_link_layer_is_not_supported),
		cmocka_unit_test(mtu_bytes__of_no_mtu_is_zero),
	};

	return cmocka_run_group_tests_name("rdma_port", tests, NULL, NULL);
}
