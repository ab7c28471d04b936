/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/regions/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "peeragent/lib/regions/cuda.h"

/* Devices take some GiB a second. */
#define REGISTER_MS 60000

static bool is_unwanted(void *arg)
{
	atomic_bool *unwanted = arg;

	return atomic_load(unwanted);
}

static int alloc_host(struct slime_context *ctx, const struct slime_agent_region *spec,
		      atomic_bool *unwanted, struct memory *m, struct memory_why *why)
{
	struct slime_mem_attr attr = SLIME_MEM_ATTR_INIT;
	bool huge = spec->huge == SLIME_HUGE_2M || spec->huge == SLIME_HUGE_1G;
	int ret;

	attr.huge = spec->huge;
	attr.numa_node = spec->numa_node;
	attr.name = spec->name;
	attr.cancelled = is_unwanted;
	attr.arg = unwanted;
	ret = slime_mem_alloc(ctx, spec->size, &attr, &m->host);
	if (ret == -ENODEV)
		snprintf(why->text, sizeof(why->text), "this host has no NUMA node %d",
			 spec->numa_node);
	else if (ret == -ENOMEM && huge)
		snprintf(
			why->text, sizeof(why->text),
			"too few huge pages: see /sys/kernel/mm/hugepages/hugepages-%dkB/nr_hugepages",
			spec->huge == SLIME_HUGE_1G ? 1048576 : 2048);
	else if (ret)
		snprintf(why->text, sizeof(why->text), "%s", strerror(-ret));
	return ret;
}

static int alloc_gpu(const struct slime_agent_region *spec, struct memory *m,
		     struct memory_why *why)
{
	return cuda_alloc(spec->gpu, spec->size, &m->gpu, why->text, sizeof(why->text));
}

static int alloc(struct slime_context *ctx, const struct slime_agent_region *spec,
		 atomic_bool *unwanted, struct memory *m, struct memory_why *why)
{
	if (is_unwanted(unwanted))
		return -ECANCELED;
	return spec->gpu ? alloc_gpu(spec, m, why) : alloc_host(ctx, spec, unwanted, m, why);
}

static int make_region(struct slime_context *ctx, const struct slime_agent_region *spec,
		       bool restricted, struct memory *m)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	void *addr = m->gpu ? cuda_addr(m->gpu) : slime_mem_addr(m->host);

	attr.access = spec->access;
	attr.restricted = restricted;
	attr.on_demand = spec->on_demand;
	attr.device_memory = m->gpu != NULL;
	attr.dmabuf_fd = m->gpu ? cuda_dmabuf(m->gpu) : -1;
	return slime_mr_create_attr(ctx, addr, spec->size, &attr, &m->mr);
}

/* The library's line of the log has the device and what it lacks. */
static int register_region(const struct slime_agent_region *spec, struct memory *m,
			   struct memory_why *why)
{
	int ret = slime_mr_register(m->mr, REGISTER_MS);

	if (ret)
		snprintf(why->text, sizeof(why->text),
			 "%s is for RDMA devices, which cannot have it: %s",
			 spec->gpu ? "memory of a GPU" : "on_demand", strerror(-ret));
	/* Of slime_agent_wait_ready() it would say that the caller's own time is over. */
	return ret == -ETIMEDOUT ? -EIO : ret;
}

static void free_memory(struct memory *m)
{
	cuda_free(m->gpu);
	slime_mem_destroy(m->host);
	*m = (struct memory){ 0 };
}

int memory_create(struct slime_context *ctx, const struct slime_agent_region *spec, bool restricted,
		  atomic_bool *unwanted, struct memory *out, struct memory_why *why)
{
	struct memory m = { 0 };
	int ret = alloc(ctx, spec, unwanted, &m, why);

	if (ret)
		return ret;
	ret = make_region(ctx, spec, restricted, &m);
	if (ret)
		snprintf(why->text, sizeof(why->text), "%s", strerror(-ret));
	else if (spec->gpu || spec->on_demand)
		ret = register_region(spec, &m, why);
	if (!ret) {
		*out = m;
		return 0;
	}
	if (m.mr && slime_mr_destroy(m.mr))
		*out = m;
	else
		free_memory(&m);
	return ret;
}

int memory_destroy(struct memory *m)
{
	int ret = slime_mr_destroy(m->mr);

	if (!ret)
		free_memory(m);
	return ret;
}
