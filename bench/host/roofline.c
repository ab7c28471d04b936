/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/host/roofline.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <slime/topo.h>

#include "base/clock.h"
#include "bench/host/nic_groups.h"

#define COPY_NS	   (50 * SL_NS_PER_MS)
#define BLOCK_MAX  (4 << 20)
#define BLOCK_MIN  65536
#define MBPS_OF_GB 8000.0

uint32_t roofline_cpus(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
}

double roofline_copy_gb_s(size_t block)
{
	size_t len = block < BLOCK_MIN ? BLOCK_MIN : block > BLOCK_MAX ? BLOCK_MAX : block;
	uint8_t *from = calloc(2, len);
	uint64_t best = UINT64_MAX, begin = sl_clock_ns(), at = begin;

	if (!from)
		return 0;
	while (at - begin < COPY_NS) {
		uint64_t now;

		memcpy(from + len, from, len);
		__asm__ volatile("" : : "r"(from) : "memory"); /* each copy is made */
		now = sl_clock_ns();
		best = now - at < best ? now - at : best;
		at = now;
	}
	free(from);
	return best ? (double)len / (double)best : 0;
}

static double rate_of(const struct slime_topo_device *d)
{
	double mbps = 0;

	for (size_t i = 0; i < d->n_ports; i++)
		mbps += d->ports[i]->usable ? d->ports[i]->mbps : 0;
	return mbps / MBPS_OF_GB;
}

double roofline_line_gb_s(const char *devices)
{
	struct slime_topo_devices *found;
	double sum = 0;

	if (slime_topo_devices_create(NULL, &found))
		return 0;
	for (size_t i = 0; i < found->n_devices; i++)
		if (nic_groups_have(devices, found->devices[i]->name))
			sum += rate_of(found->devices[i]);
	slime_topo_devices_destroy(found);
	return sum;
}
