/* SPDX-License-Identifier: Apache-2.0 */
#include "store/hold.h"

#include <base/clock.h>
#include <base/log.h>
#include "store/hub.h"

void hold_begin(struct store_hub *hub, const char *why)
{
	atomic_store(&hub->held_ns, sl_clock_ns());
	atomic_fetch_add(&hub->n_holds, 1);
	sl_info("reaper", "no lease ends for %u ms: %s", hub->config.ttl_ms, why);
}

void hold_refused(struct store_hub *hub)
{
	atomic_store(&hub->refused_ns, sl_clock_ns());
}

uint64_t hold_end_ns(struct store_hub *hub, uint32_t ms)
{
	uint64_t held_ns = atomic_load(&hub->held_ns);
	uint64_t refused_ns = atomic_load(&hub->refused_ns);
	uint64_t since_ns = refused_ns > held_ns ? refused_ns : held_ns;

	return since_ns ? since_ns + (uint64_t)ms * SL_NS_PER_MS : 0;
}

uint64_t hold_lease_end_ns(struct store_hub *hub)
{
	return hold_end_ns(hub, hub->config.ttl_ms);
}
