/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distances on the PCI tree. A function's path in sysfs names every function above it, so two
 * paths share their beginning up to where their ways part:
 *
 *	/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0	a NIC
 *	/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:04.0/0000:1a:00.0	a GPU
 *
 * These two meet in a switch, 0000:17:00.0.
 */
#include "src/topo/topo_part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/sysfs.h"

#define CLASS_VGA	  0x0300
#define CLASS_3D	  0x0302
#define CLASS_ACCELERATOR 0x1200
#define VENDOR_AMD	  0x1002
#define VENDOR_NVIDIA	  0x10de
#define VENDOR_INTEL	  0x8086

const char *slime_distance_name(enum slime_distance distance)
{
	static const char *const names[] = {
		[SLIME_DISTANCE_PIX] = "PIX", [SLIME_DISTANCE_PXB] = "PXB",
		[SLIME_DISTANCE_PHB] = "PHB", [SLIME_DISTANCE_NODE] = "NODE",
		[SLIME_DISTANCE_SYS] = "SYS",
	};

	return (size_t)distance < sizeof(names) / sizeof(names[0]) ? names[distance] : "unknown";
}

/* ---- paths ---- */

/* Whether the len bytes at name are like 0000:17:00.0. */
static bool is_function(const char *name, size_t len)
{
	static const char hex[] = "0123456789abcdef";

	if (len < 12 || len > 15 || name[len - 8] != ':' || name[len - 5] != ':' ||
	    name[len - 2] != '.')
		return false;
	for (size_t i = 0; i < len; i++)
		if (i != len - 8 && i != len - 5 && i != len - 2 && !memchr(hex, name[i], 16))
			return false;
	return true;
}

static bool is_host_bridge(const char *name, size_t len)
{
	return len > 3 && !memcmp(name, "pci", 3) && memchr(name, ':', len);
}

/* The next part of a path; false at its end. */
static bool next_part(const char **path, const char **part, size_t *len)
{
	*path += strspn(*path, "/");
	*part = *path;
	*len = strcspn(*path, "/");
	*path += *len;
	return *len > 0;
}

void sl_topo_pci_of(const char *path, char pci[16])
{
	const char *part;
	size_t len;

	pci[0] = '\0';
	while (next_part(&path, &part, &len))
		if (is_function(part, len))
			snprintf(pci, 16, "%.*s", (int)len, part);
}

/* The next host bridge or function. */
static bool next_step(const char **path, const char **part, size_t *len)
{
	while (next_part(path, part, len))
		if (is_function(*part, *len) || is_host_bridge(*part, *len))
			return true;
	return false;
}

static uint32_t count_steps(const char *path)
{
	const char *part;
	uint32_t n = 0;
	size_t len;

	while (next_step(&path, &part, &len))
		n++;
	return n;
}

static uint32_t count_shared(const char *a, const char *b)
{
	const char *part_a, *part_b;
	size_t len_a, len_b;
	uint32_t n = 0;

	while (next_step(&a, &part_a, &len_a) && next_step(&b, &part_b, &len_b) && len_a == len_b &&
	       !memcmp(part_a, part_b, len_a))
		n++;
	return n;
}

void sl_topo_gpu_measure(struct slime_topo_gpu *gpu, const char *gpu_path, const char *path,
			 int numa_node)
{
	uint32_t shared = count_shared(gpu_path, path);
	uint32_t down = count_steps(gpu_path) - shared; /* functions below where they part */
	uint32_t up = count_steps(path) - shared;

	gpu->hops = shared ? up + down : 0;
	if (shared > 1)
		gpu->distance = up <= 2 && down <= 2 ? SLIME_DISTANCE_PIX : SLIME_DISTANCE_PXB;
	else if (shared)
		gpu->distance = SLIME_DISTANCE_PHB;
	else if (numa_node >= 0 && numa_node == gpu->numa_node)
		gpu->distance = SLIME_DISTANCE_NODE;
	else
		gpu->distance = SLIME_DISTANCE_SYS;
}

/* ---- GPUs ---- */

static uint32_t read_hex(const char *root, const char *pci, const char *file)
{
	char text[32];

	if (sl_sysfs_text(text, sizeof(text), root, "bus/pci/devices/%s/%s", pci, file))
		return 0;
	return (uint32_t)strtoul(text, NULL, 16);
}

/* A VGA controller may as well be the screen of a board's management. */
static bool is_gpu(uint32_t class, uint32_t vendor)
{
	switch (class >> 8) {
	case CLASS_3D:
	case CLASS_ACCELERATOR:
		return true;
	case CLASS_VGA:
		return vendor == VENDOR_AMD || vendor == VENDOR_NVIDIA || vendor == VENDOR_INTEL;
	default:
		return false;
	}
}

static void add_if_gpu(struct sl_topo_gpus *gpus, const char *root, const char *pci)
{
	uint32_t vendor = read_hex(root, pci, "vendor");
	struct slime_topo_gpu *gpu = &gpus->gpus[gpus->n];
	int64_t numa;

	if (!is_gpu(read_hex(root, pci, "class"), vendor) || gpus->n == SL_TOPO_GPUS_MAX ||
	    sl_sysfs_real(gpus->paths[gpus->n], root, "bus/pci/devices/%s", pci))
		return;
	*gpu = (struct slime_topo_gpu){ .vendor = (uint16_t)vendor, .numa_node = -1 };
	snprintf(gpu->pci, sizeof(gpu->pci), "%s", pci);
	gpu->device = (uint16_t)read_hex(root, pci, "device");
	if (!sl_sysfs_number(&numa, root, "bus/pci/devices/%s/numa_node", pci))
		gpu->numa_node = (int)numa;
	gpus->n++;
}

int sl_topo_gpus_init(struct sl_topo_gpus *gpus, const char *root)
{
	struct sl_sysfs_names all;
	int ret;

	*gpus = (struct sl_topo_gpus){
		.gpus = calloc(SL_TOPO_GPUS_MAX + 1, sizeof(*gpus->gpus)),
		.paths = calloc(SL_TOPO_GPUS_MAX + 1, sizeof(*gpus->paths)),
	};
	if (!gpus->gpus || !gpus->paths) {
		sl_topo_gpus_fini(gpus);
		return -ENOMEM;
	}
	/* a host without PCI has no such folder */
	ret = sl_sysfs_names(&all, 65536, root, "bus/pci/devices");
	for (size_t i = 0; !ret && i < all.n; i++)
		add_if_gpu(gpus, root, all.names[i]);
	sl_sysfs_names_fini(&all);
	if (ret == -ENOMEM) {
		sl_topo_gpus_fini(gpus);
		return ret;
	}
	return 0;
}

void sl_topo_gpus_fini(struct sl_topo_gpus *gpus)
{
	free(gpus->gpus);
	free(gpus->paths);
}
