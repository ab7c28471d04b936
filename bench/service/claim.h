/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CLAIM_H
#define BENCH_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include <slime/agent.h>

/* Who may write to the region, and until when. Plain: whoever shares it has a lock. */
struct bench_claim {
	char agent[SLIME_AGENT_NAME_MAX + 1];
	char profile[SLIME_AGENT_NAME_MAX + 1]; /* of the link it was made over */
	uint64_t until_ns;
};

bool bench_claim_is_free_for(const struct bench_claim *claim, const char *agent);

/* In place of the one there was; ms 0 gives it back. */
void bench_claim_take(struct bench_claim *claim, const char *agent, const char *profile,
		      uint32_t ms);

/* End the claim that was seen; a later one stays, be it of the same agent. */
void bench_claim_drop(struct bench_claim *claim, const struct bench_claim *seen);

#endif
