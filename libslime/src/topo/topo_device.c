/* SPDX-License-Identifier: Apache-2.0 */
#include "src/topo/topo_part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/sysfs.h"

#define DEVICE_DIR "class/infiniband/%s"

/* ---- what sysfs has of the device itself ---- */

static void read_line(char *text, size_t cap, const char *root, const char *name, const char *file)
{
	if (sl_sysfs_text(text, cap, root, DEVICE_DIR "/%s", name, file))
		text[0] = '\0';
}

/* "5054:00ff:fe12:3456" */
static uint64_t read_guid(const char *root, const char *name)
{
	unsigned words[4];
	char text[64];

	read_line(text, sizeof(text), root, name, "node_guid");
	if (sscanf(text, "%4x:%4x:%4x:%4x", &words[0], &words[1], &words[2], &words[3]) != 4)
		return 0;
	return (uint64_t)words[0] << 48 | (uint64_t)words[1] << 32 | (uint64_t)words[2] << 16 |
	       words[3];
}

/* InfiniBand and RoCE are channel adapters, "1: CA"; iWARP is "4: RNIC". */
static bool speaks_ib(const char *root, const char *name)
{
	char text[64];

	read_line(text, sizeof(text), root, name, "node_type");
	return text[0] == '1';
}

/* A software device has no such links. path is where the device lies on its bus, or "". */
static void read_bus(struct sl_topo_device *d, const char *root, char path[PATH_MAX])
{
	char driver[PATH_MAX];
	int64_t numa;

	d->pub.numa_node = -1;
	if (sl_sysfs_real(path, root, DEVICE_DIR "/device", d->name)) {
		path[0] = '\0';
		return;
	}
	sl_topo_pci_of(path, d->pci);
	if (!sl_sysfs_real(driver, root, DEVICE_DIR "/device/driver", d->name))
		snprintf(d->driver, sizeof(d->driver), "%.63s", strrchr(driver, '/') + 1);
	if (!sl_sysfs_number(&numa, root, DEVICE_DIR "/device/numa_node", d->name))
		d->pub.numa_node = (int)numa;
}

/* ---- what only the device has ---- */

static void take_limits(struct slime_topo_limits *limits, const struct ibv_device_attr_ex *attr)
{
	const struct ibv_device_attr *a = &attr->orig_attr;
	const uint32_t paging = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;

	*limits = (struct slime_topo_limits){
		.max_qp = (uint32_t)a->max_qp,
		.max_qp_wr = (uint32_t)a->max_qp_wr,
		.max_sge = (uint32_t)a->max_sge,
		.max_cq = (uint32_t)a->max_cq,
		.max_cqe = (uint32_t)a->max_cqe,
		.max_rd_atomic = (uint32_t)a->max_qp_init_rd_atom,
		.max_dest_rd_atomic = (uint32_t)a->max_qp_rd_atom,
		.max_mr = (uint32_t)a->max_mr,
		.max_mr_size = a->max_mr_size,
		.on_demand_paging =
			(attr->odp_caps.general_caps & IBV_ODP_SUPPORT) &&
			(attr->odp_caps.per_transport_caps.rc_odp_caps & paging) == paging,
	};
}

/* The least of all ports. */
static void take_message_size(struct sl_topo_device *d, const struct sl_device *verbs)
{
	struct ibv_port_attr attr;

	for (uint8_t i = 1; i <= verbs->attr.orig_attr.phys_port_cnt; i++)
		if (!ibv_query_port(verbs->ibv, i, &attr) &&
		    (!d->limits.max_msg_size || attr.max_msg_sz < d->limits.max_msg_size))
			d->limits.max_msg_size = attr.max_msg_sz;
}

static bool open_verbs(struct sl_topo_device *d, struct sl_device *verbs)
{
	struct sl_device_why why;

	if (sl_device_init(verbs, d->name, &why)) {
		memcpy(d->why, why.text, sizeof(d->why));
		return false;
	}
	take_limits(&d->limits, &verbs->attr);
	take_message_size(d, verbs);
	d->pub.limits = &d->limits;
	return true;
}

/* ---- ports ---- */

static int add_ports(struct sl_topo_device *d, const struct sl_topo_port_of *of,
		     const struct sl_sysfs_names *nums)
{
	int ret = 0;

	d->ports = calloc(nums->n + 1, sizeof(struct sl_topo_port *));
	if (!d->ports)
		return -ENOMEM;
	d->pub.ports = (const struct slime_topo_port *const *)d->ports;
	for (size_t i = 0; !ret && i < nums->n; i++) {
		uint32_t num = (uint32_t)strtoul(nums->names[i], NULL, 10);

		ret = sl_topo_port_create(of, num, &d->ports[d->pub.n_ports]);
		d->pub.n_ports += !ret;
	}
	return ret;
}

static int read_ports(struct sl_topo_device *d, const struct sl_topo_port_of *of)
{
	struct sl_sysfs_names nums;
	int ret = sl_sysfs_names(&nums, SL_TOPO_PORTS_MAX, of->root, DEVICE_DIR "/ports", d->name);

	if (ret == -ENOENT)
		return 0;
	if (!ret)
		ret = add_ports(d, of, &nums);
	sl_sysfs_names_fini(&nums);
	return ret;
}

/* ---- GPUs ---- */

static int nearer(const void *a, const void *b)
{
	const struct slime_topo_gpu *x = *(const struct slime_topo_gpu *const *)a;
	const struct slime_topo_gpu *y = *(const struct slime_topo_gpu *const *)b;

	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	if (x->hops != y->hops)
		return x->hops < y->hops ? -1 : 1;
	return strcmp(x->pci, y->pci);
}

static int measure_gpus(struct sl_topo_device *d, const struct sl_topo_gpus *gpus, const char *path)
{
	if (!gpus->n || !path[0])
		return 0;
	d->gpus = calloc(gpus->n, sizeof(struct slime_topo_gpu *));
	if (!d->gpus)
		return -ENOMEM;
	d->pub.gpus = (const struct slime_topo_gpu *const *)d->gpus;
	for (size_t i = 0; i < gpus->n; i++) {
		struct slime_topo_gpu *gpu = malloc(sizeof(*gpu));

		if (!gpu)
			return -ENOMEM;
		*gpu = gpus->gpus[i];
		sl_topo_gpu_measure(gpu, gpus->paths[i], path, d->pub.numa_node);
		d->gpus[d->pub.n_gpus++] = gpu;
	}
	qsort(d->gpus, gpus->n, sizeof(struct slime_topo_gpu *), nearer);
	return 0;
}

/* ---- all of it ---- */

static void point(struct sl_topo_device *d)
{
	d->pub.name = d->name;
	d->pub.driver = d->driver;
	d->pub.firmware = d->firmware;
	d->pub.board = d->board;
	d->pub.pci = d->pci;
	d->pub.why = d->why;
}

static int read_parts(struct sl_topo_device *d, const char *root, bool ask,
		      const struct sl_topo_gpus *gpus)
{
	struct sl_device verbs;
	bool opened = ask && open_verbs(d, &verbs);
	struct sl_topo_port_of of = {
		.root = root,
		.device = d->name,
		.speaks_ib = speaks_ib(root, d->name),
		.verbs = opened ? &verbs : NULL,
		.why_not = d->why,
	};
	char path[PATH_MAX];
	int ret = read_ports(d, &of);

	if (opened)
		sl_device_fini(&verbs);
	if (ret)
		return ret;
	read_bus(d, root, path);
	return measure_gpus(d, gpus, path);
}

int sl_topo_device_create(const char *root, const char *name, bool ask,
			  const struct sl_topo_gpus *gpus, struct sl_topo_device **out)
{
	struct sl_topo_device *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	point(d);
	snprintf(d->name, sizeof(d->name), "%s", name);
	read_line(d->firmware, sizeof(d->firmware), root, name, "fw_ver");
	read_line(d->board, sizeof(d->board), root, name, "board_id");
	d->pub.node_guid = read_guid(root, name);
	ret = read_parts(d, root, ask, gpus);
	if (ret) {
		sl_topo_device_destroy(d);
		return ret;
	}
	*out = d;
	return 0;
}

void sl_topo_device_destroy(struct sl_topo_device *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->pub.n_ports; i++)
		sl_topo_port_destroy(d->ports[i]);
	for (size_t i = 0; i < d->pub.n_gpus; i++)
		free(d->gpus[i]);
	free(d->ports);
	free(d->gpus);
	free(d);
}
