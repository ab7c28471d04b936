/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the regions of the node's file that the tables cannot do, and of the resources that
 * this machine needs for them. */
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/options/quantity.h"
#include "peeragent/lib/plan/topology.h"
#include "peeragent/src/config.h"

/* A key of the i-th region, as a path. */
struct key {
	char path[48];
};

static struct key key_of(size_t i, const char *name)
{
	struct key key;

	snprintf(key.path, sizeof(key.path), "regions.%zu.%s", i, name);
	return key;
}

static bool has_node(int64_t node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lld", (long long)node);
	return !access(path, F_OK);
}

/* Of this machine and within our control group; the regions before it have their part. */
struct memory {
	uint64_t all, left;
};

static void check_size(struct config *c, size_t i, struct memory *memory)
{
	uint64_t size = c->node.regions[i].size;
	char text[CLI_QUANTITY_MAX];

	if (size > memory->all)
		cli_config_refuse(c->source, key_of(i, "size").path,
				  "expected at most the memory of this machine, or of the control "
				  "group here, %s",
				  cli_size_format(text, sizeof(text), (int64_t)memory->all));
	else if (size > memory->left)
		cli_config_refuse(c->source, key_of(i, "size").path,
				  "expected at most what the regions before it leave of the memory "
				  "of this machine, or of the control group here, %s",
				  cli_size_format(text, sizeof(text), (int64_t)memory->left));
	else
		memory->left -= size;
}

static void check_host(struct config *c, size_t i, struct memory *memory)
{
	const struct node_region *r = &c->node.regions[i];

	if (r->gpu)
		cli_config_refuse(c->source, key_of(i, "gpu").path,
				  "expected backing: cuda with it");
	if (r->numa >= 0 && !has_node(r->numa))
		cli_config_refuse(c->source, key_of(i, "numa").path,
				  "expected a NUMA node of this machine, any or local, got %lld",
				  (long long)r->numa);
	check_size(c, i, memory);
}

/* Whether it is a GPU that CUDA knows, CUDA says. */
static bool has_pci(const char *address)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	return !access(path, F_OK);
}

static void check_gpu(struct config *c, size_t i)
{
	const struct node_region *r = &c->node.regions[i];

	if (!r->gpu)
		cli_config_refuse(c->source, key_of(i, "gpu").path,
				  "expected the PCI address of a GPU, as 0000:17:00.0");
	else if (!has_pci(r->gpu))
		cli_config_refuse(c->source, key_of(i, "gpu").path,
				  "expected a PCI address of this machine, got \"%s\"", r->gpu);
	if (r->huge_pages)
		cli_config_refuse(c->source, key_of(i, "huge_pages").path,
				  "expected none: the memory is a GPU's");
	if (r->numa != -1)
		cli_config_refuse(c->source, key_of(i, "numa").path,
				  "expected none: the memory is a GPU's");
}

/* Memory that only RDMA devices reach, or page. */
static void check_rdma(struct config *c, size_t i)
{
	const struct node_region *r = &c->node.regions[i];
	struct key key = key_of(i, r->backing == NODE_BACKING_CUDA ? "backing" : "on_demand");

	if (!config_uses(c, SLIME_TRANSPORT_RDMA))
		cli_config_refuse(
			c->source, key.path,
			"expected rdma among data.transports, or those of a link, with it");
	else
		config_check_device(c, key.path, r->on_demand);
}

/* Taking the last one out would open the region. */
static void check_allow(struct config *c, size_t i)
{
	struct key key = key_of(i, "allow");

	if (!c->node.regions[i].n_allow && cli_config_given(c->source, key.path))
		cli_config_refuse(
			c->source, key.path,
			"expected at least one selector, or no allow at all, which is every "
			"agent of the scope");
}

void config_check_regions(struct config *c)
{
	struct sl_memory most;
	struct memory memory;

	sl_memory_most("", &most);
	memory.left = memory.all = sl_memory_total(&most);
	/* More are refused as a whole. */
	for (size_t i = 0; i < c->node.n_regions && i < TOPOLOGY_MAX_REGIONS; i++) {
		const struct node_region *r = &c->node.regions[i];

		check_allow(c, i);
		if (r->backing == NODE_BACKING_CUDA)
			check_gpu(c, i);
		else
			check_host(c, i, &memory);
		if (r->backing == NODE_BACKING_CUDA || r->on_demand)
			check_rdma(c, i);
	}
}
