/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and ports as verbs tell them, on devices in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/resource.h>

#include "src/transport/rdma/device.h"
#include "src/transport/rdma/gid.h"
#include <tests/fakes/fakeverbs.h>

static int setup(void **state)
{
	(void)state;
	fakeverbs_reset();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return (int)fakeverbs_check();
}

static struct sl_device opened(const char *name)
{
	struct sl_device_why why = { "" };
	struct sl_device dev;
	int ret = sl_device_init(&dev, name, &why);

	assert_string_equal(why.text, "");
	assert_int_equal(ret, 0);
	return dev;
}

static void names__are_those_of_the_devices(void **state)
{
	struct sl_device_names names;
	struct sl_device_why why;

	(void)state;
	assert_int_equal(sl_device_names(&names, &why), 0);
	assert_int_equal(names.n, 2);
	assert_string_equal(names.names[0], "fake0");
	assert_string_equal(names.names[1], "fake1");
	sl_device_names_fini(&names);
}

static void names__of_no_device_say_so(void **state)
{
	struct sl_device_names names;
	struct sl_device_why why;

	(void)state;
	fakeverbs_device(0)->name[0] = '\0';
	fakeverbs_device(1)->name[0] = '\0';
	assert_int_equal(sl_device_names(&names, &why), 0);
	assert_int_equal(names.n, 0);
	assert_non_null(strstr(why.text, "no RDMA device"));
	sl_device_names_fini(&names);
}

static void names__of_a_kernel_without_verbs_say_what_to_load(void **state)
{
	struct sl_device_names names;
	struct sl_device_why why;
	struct sl_device dev;

	(void)state;
	fakeverbs_fail_call_of(FAKEVERBS_GET_DEVICE_LIST, 1, ENOSYS);
	assert_int_equal(sl_device_names(&names, &why), -ENOSYS);
	assert_non_null(strstr(why.text, "ib_uverbs"));
	fakeverbs_fail_call_of(FAKEVERBS_GET_DEVICE_LIST, 1, ENOSYS);
	assert_int_equal(sl_device_init(&dev, "fake0", &why), -ENOSYS);
}

/* libibverbs says the same when it cannot open the kernel's files, or knows of no device. */
static void names__without_a_descriptor_left_say_so(void **state)
{
	struct rlimit few, before;
	struct sl_device_names names;
	struct sl_device_why why, of_device;
	struct sl_device dev;
	int ret, of_init;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	fakeverbs_fail_call_of(FAKEVERBS_GET_DEVICE_LIST, 1, ENOSYS);
	ret = sl_device_names(&names, &why);
	of_init = sl_device_init(&dev, "fake9", &of_device);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(ret, -EMFILE);
	assert_non_null(strstr(why.text, strerror(EMFILE)));
	assert_int_equal(of_init, -EMFILE);
	assert_non_null(strstr(of_device.text, strerror(EMFILE)));
}

static void device__tells_its_limits(void **state)
{
	struct sl_device dev;

	(void)state;
	fakeverbs_device(1)->max_qp_wr = 77;
	dev = opened("fake1");
	assert_string_equal(dev.name, "fake1");
	assert_int_equal(dev.attr.orig_attr.max_qp_wr, 77);
	sl_device_fini(&dev);
}

static void device__of_no_such_name_names_those_there_are(void **state)
{
	struct sl_device_why why;
	struct sl_device dev;

	(void)state;
	assert_int_equal(sl_device_init(&dev, "mlx5_9", &why), -ENODEV);
	assert_string_equal(why.text, "there is no RDMA device mlx5_9; there is fake0, fake1");
	fakeverbs_device(0)->name[0] = '\0';
	fakeverbs_device(1)->name[0] = '\0';
	assert_int_equal(sl_device_init(&dev, "mlx5_9", &why), -ENODEV);
	assert_non_null(strstr(why.text, "none at all"));
}

static void device__that_cannot_be_opened_says_which_file_is_missing(void **state)
{
	struct sl_device_why why;
	struct sl_device dev;

	(void)state;
	fakeverbs_fail_call_of(FAKEVERBS_OPEN_DEVICE, 1, EACCES);
	assert_true(sl_device_init(&dev, "fake0", &why) < 0);
	assert_non_null(strstr(why.text, "/dev/infiniband/"));
}

static void device__whose_calls_fail_is_an_error_each_time(void **state)
{
	bool failed = true;

	(void)state;
	for (unsigned n = 1; failed; n++) {
		struct sl_device_why why = { "" };
		struct sl_port port = { 0 };
		struct sl_device dev;
		int ret;

		fakeverbs_fail_call(n, EIO);
		ret = sl_device_init(&dev, "fake0", &why);
		if (!ret) {
			ret = sl_port_init(&port, &dev, 1, &why);
			if (!ret)
				sl_port_fini(&port);
			sl_device_fini(&dev);
		}
		failed = fakeverbs_failed();
		assert_int_equal(ret != 0, failed);
		assert_int_equal(why.text[0] != '\0', failed);
	}
}

static void port__tells_what_it_is_like(void **state)
{
	struct sl_device dev = opened("fake0");
	struct sl_device_why why;
	struct sl_port port;

	(void)state;
	assert_int_equal(sl_port_init(&port, &dev, 1, &why), 0);
	assert_int_equal(port.num, 1);
	assert_int_equal(port.link_layer, SLIME_LINK_ETHERNET);
	assert_int_equal(sl_port_check(&port, &why), 0);
	assert_int_equal(port.n_gids, 4);
	assert_int_equal(port.gids[2].type, SLIME_GID_ROCE_V1);
	assert_int_equal(port.gids[3].type, SLIME_GID_ROCE_V2);
	assert_int_equal(port.gids[3].index, 3);
	sl_port_fini(&port);
	sl_device_fini(&dev);
}

static void port__its_gids_are_its_own(void **state)
{
	const union ibv_gid other = fakeverbs_gid("10.99.0.1");
	struct sl_device_why why;
	struct sl_gid_choice c;
	struct sl_device dev;
	struct sl_port port;

	(void)state;
	fakeverbs_device(0)->n_ports = 2;
	fakeverbs_device(0)->ports[1] = fakeverbs_device(0)->ports[0];
	memset(fakeverbs_device(0)->ports[1].gids, 0, sizeof(fakeverbs_device(0)->ports[1].gids));
	fakeverbs_device(0)->ports[1].gids[7] = (struct fakeverbs_gid){
		.gid = other,
		.type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = if_nametoindex("lo"),
	};
	dev = opened("fake0");
	assert_int_equal(sl_port_init(&port, &dev, 2, &why), 0);
	assert_int_equal(port.n_gids, 1);
	assert_string_equal(port.gids[0].netdev, "lo");
	assert_int_equal(sl_gid_choose(port.gids, port.n_gids, port.link_layer, SL_GID_AUTO, &c),
			 0);
	assert_int_equal(c.gid.index, 7);
	sl_port_fini(&port);
	sl_device_fini(&dev);
}

static void port__of_infiniband_has_a_lid(void **state)
{
	struct sl_device_why why;
	struct sl_device dev;
	struct sl_port port;

	(void)state;
	fakeverbs_make_infiniband(0, 17, 0xfe80000000000000);
	dev = opened("fake0");
	assert_int_equal(sl_port_init(&port, &dev, 1, &why), 0);
	assert_int_equal(port.link_layer, SLIME_LINK_INFINIBAND);
	assert_int_equal(port.attr.lid, 17);
	assert_int_equal(port.gids[0].type, SLIME_GID_IB);
	sl_port_fini(&port);
	sl_device_fini(&dev);
}

static void port__of_iwarp_is_of_no_link_layer(void **state)
{
	struct sl_device_why why;
	struct sl_device dev;
	struct sl_port port;

	(void)state;
	fakeverbs_device(0)->transport_type = IBV_TRANSPORT_IWARP;
	dev = opened("fake0");
	assert_int_equal(sl_port_init(&port, &dev, 1, &why), 0);
	assert_int_equal(sl_port_check(&port, &why), -EOPNOTSUPP);
	sl_port_fini(&port);
	sl_device_fini(&dev);
}

static void port__that_the_device_does_not_have_is_invalid(void **state)
{
	struct sl_device dev = opened("fake0");
	struct sl_device_why why;
	struct sl_port port;

	(void)state;
	assert_int_equal(sl_port_init(&port, &dev, 0, &why), -EINVAL);
	assert_int_equal(sl_port_init(&port, &dev, 2, &why), -EINVAL);
	assert_string_equal(why.text, "fake0 has no port 2, but 1");
	sl_device_fini(&dev);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names__are_those_of_the_devices),
		TEST(names__of_no_device_say_so),
		TEST(names__of_a_kernel_without_verbs_say_what_to_load),
		TEST(names__without_a_descriptor_left_say_so),
		TEST(device__tells_its_limits),
		TEST(device__of_no_such_name_names_those_there_are),
		TEST(device__that_cannot_be_opened_says_which_file_is_missing),
		TEST(device__whose_calls_fail_is_an_error_each_time),
		TEST(port__tells_what_it_is_like),
		TEST(port__its_gids_are_its_own),
		TEST(port__of_infiniband_has_a_lid),
		TEST(port__of_iwarp_is_of_no_link_layer),
		TEST(port__that_the_device_does_not_have_is_invalid),
	};

	return cmocka_run_group_tests_name("rdma_device", tests, NULL, NULL);
}
