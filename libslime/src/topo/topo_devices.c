/* SPDX-License-Identifier: Apache-2.0 */
#include "src/topo/topo_part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/core/sysfs.h"

/* The caller's pointer is to the first member. */
struct devices {
	struct slime_topo_devices pub;
	struct sl_topo_device **all;
	const char *root;
	bool ask;
	char why[SL_DEVICE_WHY_MAX];
};

/* Without any device: whether the kernel could have some. */
static void say_none(struct devices *d, bool class_exists)
{
	if (class_exists)
		snprintf(d->why, sizeof(d->why),
			 "there is no network adapter with a loaded RDMA driver "
			 "(mlx5_ib, bnxt_re, irdma, ...); soft-RoCE makes one of any interface: "
			 "rdma link add rxe0 type rxe netdev eth0");
	else
		snprintf(d->why, sizeof(d->why),
			 "the kernel has no RDMA support: %s/class/infiniband is missing; load the "
			 "adapter's RDMA driver (modprobe mlx5_ib, or rdma_rxe) and ib_uverbs",
			 d->root);
}

static int add_devices(struct devices *d, const struct sl_sysfs_names *names,
		       const struct sl_topo_gpus *gpus)
{
	int ret = 0;

	d->all = calloc(names->n + 1, sizeof(struct sl_topo_device *));
	if (!d->all)
		return -ENOMEM;
	d->pub.devices = (const struct slime_topo_device *const *)d->all;
	for (size_t i = 0; !ret && i < names->n; i++) {
		ret = sl_topo_device_create(d->root, names->names[i], d->ask, gpus,
					    &d->all[d->pub.n_devices]);
		d->pub.n_devices += !ret;
	}
	return ret;
}

static int read_devices(struct devices *d)
{
	struct sl_sysfs_names names;
	struct sl_topo_gpus gpus;
	int ret = sl_sysfs_names(&names, SL_TOPO_DEVICES_MAX, d->root, "class/infiniband");

	if (ret && ret != -ENOENT)
		return ret;
	if (!names.n) {
		say_none(d, !ret);
		return 0;
	}
	ret = sl_topo_gpus_init(&gpus, d->root);
	if (!ret) {
		ret = add_devices(d, &names, &gpus);
		sl_topo_gpus_fini(&gpus);
	}
	sl_sysfs_names_fini(&names);
	return ret;
}

int slime_topo_devices_create(const char *sysfs_root, struct slime_topo_devices **out)
{
	struct devices *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	d->root = sysfs_root ? sysfs_root : "/sys";
	d->ask = !sysfs_root;
	d->pub.why = d->why;
	ret = read_devices(d);
	if (ret) {
		sl_error("topo", "the RDMA devices of %s cannot be read: %s", d->root,
			 strerror(-ret));
		slime_topo_devices_destroy(&d->pub);
		return ret == -ENOMEM || ret == -E2BIG ? ret : -EIO;
	}
	*out = &d->pub;
	return 0;
}

void slime_topo_devices_destroy(struct slime_topo_devices *devices)
{
	struct devices *d = (struct devices *)devices;

	if (!d)
		return;
	for (size_t i = 0; i < d->pub.n_devices; i++)
		sl_topo_device_destroy(d->all[i]);
	free(d->all);
	free(d);
}
