/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "bench/load/memory.h"

uint64_t load_memory_available(void)
{
	struct sl_memory left;

	sl_memory_left("", &left);
	return left.ram;
}

uint64_t load_memory_budget(void)
{
	return load_memory_available() / 2;
}
