/* SPDX-License-Identifier: Apache-2.0 */
/* The RDMA devices that a whole machine is driven by, each with the CPUs of its NUMA node. */
#ifndef BENCH_NIC_GROUPS_H
#define BENCH_NIC_GROUPS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#define NIC_GROUPS_MAX 16
#define NIC_NAME_MAX   80

struct nic_group {
	char device[NIC_NAME_MAX];
	unsigned port; /* the first that can be used */
	int gid_index; /* -1: InfiniBand needs none */
	int numa_node; /* -1: unknown */
	bool has_cpus; /* false: it runs where the kernel likes */
	cpu_set_t cpus;
};

/* Whether names has the device, with commas between them, each with or without a port behind a
 * colon; NULL and "all" have every one. */
bool nic_groups_have(const char *names, const char *device);

/*
 * A group for each device with a port that can be used, or of the devices named (with commas
 * between them; NULL: all). sysfs NULL: "/sys". The number of groups; -ENODEV: there is none, and
 * why says so, for people; -ENOMEM, -EIO.
 */
int nic_groups_find(const char *named, const char *sysfs, struct nic_group out[NIC_GROUPS_MAX],
		    char *why, size_t room);

#endif
