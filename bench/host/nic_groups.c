/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/host/nic_groups.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <slime/topo.h>

/* "0-3,8" as the kernel writes CPUs; false for what is no such list, or an empty one. */
static bool read_cpus(const char *path, cpu_set_t *out)
{
	FILE *in = fopen(path, "re");
	unsigned from, to;
	char next = ',';
	int n;

	CPU_ZERO(out);
	while (in && next == ',' && (n = fscanf(in, "%u", &from)) == 1) {
		to = from;
		n = fscanf(in, "%c", &next);
		if (n == 1 && next == '-' && fscanf(in, "%u%c", &to, &next) < 1)
			break;
		for (unsigned cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++)
			CPU_SET(cpu, out);
	}
	if (in)
		fclose(in);
	return CPU_COUNT(out) > 0;
}

bool nic_groups_have(const char *names, const char *device)
{
	size_t len = strlen(device);

	if (names && !strcmp(names, "all"))
		return true;
	for (const char *at = names; at && *at;
	     at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
		if (strcspn(at, ",:") == len && !strncmp(at, device, len))
			return true;
	return !names;
}

/* The first port that can be used; NULL: none. */
static const struct slime_topo_port *port_of(const struct slime_topo_device *d)
{
	for (size_t i = 0; i < d->n_ports; i++)
		if (d->ports[i]->usable)
			return d->ports[i];
	return NULL;
}

static void fill(struct nic_group *g, const struct slime_topo_device *d, const char *sysfs)
{
	const struct slime_topo_port *port = port_of(d);
	char path[PATH_MAX];

	*g = (struct nic_group){ .numa_node = d->numa_node,
				 .port = port->num,
				 .gid_index = port->link_layer == SLIME_LINK_ETHERNET
						      ? port->gid_index
						      : -1 };
	snprintf(g->device, sizeof(g->device), "%s", d->name);
	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist",
		 sysfs ? sysfs : "/sys", d->numa_node);
	g->has_cpus = d->numa_node >= 0 && read_cpus(path, &g->cpus);
}

int nic_groups_find(const char *named, const char *sysfs, struct nic_group out[NIC_GROUPS_MAX],
		    char *why, size_t room)
{
	struct slime_topo_devices *found;
	int n = 0, ret = slime_topo_devices_create(sysfs, &found);

	if (ret)
		return ret;
	for (size_t i = 0; i < found->n_devices && n < NIC_GROUPS_MAX; i++)
		if (nic_groups_have(named, found->devices[i]->name) && port_of(found->devices[i]))
			fill(&out[n++], found->devices[i], sysfs);
	if (!n)
		snprintf(why, room, "%s",
			 found->why && *found->why ? found->why
						   : "no RDMA device that is asked for has a port "
						     "that can be used (slime-bench devices)");
	slime_topo_devices_destroy(found);
	return n ? n : -ENODEV;
}
