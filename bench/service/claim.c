/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/service/claim.h"

bool bench_claim_is_free_for(const struct bench_claim *claim, const char *agent)
{
	return sl_clock_ns() >= claim->until_ns || !strcmp(claim->agent, agent);
}

void bench_claim_take(struct bench_claim *claim, const char *agent, const char *profile,
		      uint32_t ms)
{
	snprintf(claim->agent, sizeof(claim->agent), "%s", agent);
	snprintf(claim->profile, sizeof(claim->profile), "%s", profile);
	claim->until_ns = ms ? sl_clock_ns() + ms * SL_NS_PER_MS : 0;
}

void bench_claim_drop(struct bench_claim *claim, const struct bench_claim *seen)
{
	if (claim->until_ns == seen->until_ns && !strcmp(claim->agent, seen->agent) &&
	    !strcmp(claim->profile, seen->profile))
		claim->until_ns = 0;
}
