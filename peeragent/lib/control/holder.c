/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/control/holder.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "nanoctrl/client/nanoctrl_client.h"

/* A beat that a dead process sent may arrive so long after we were first refused. */
#define LAST_WORDS_MS 1000
/* Ended leases are found in rounds, and the machine may be busy. */
#define MARGIN_MS 5000

static bool renewed_since(const struct nc_holder *seen, uint64_t since_ms)
{
	int64_t due_ms = (int64_t)seen->at_ms + seen->lease_left_ms;

	return due_ms - (int64_t)seen->ttl_ms > (int64_t)since_ms + LAST_WORDS_MS;
}

enum holder_verdict holder_look(struct holder *h, const struct nc_holder *seen, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + ((uint64_t)seen->wait_ms + MARGIN_MS) * SL_NS_PER_MS;
	bool first = !h->waiting;

	if (!seen->at_ms)
		return HOLDER_LIVES;
	if (first)
		*h = (struct holder){ true, seen->at_ms, until_ns };
	if (renewed_since(seen, h->since_ms))
		return HOLDER_LIVES;
	/* Also later than it was said at first: a server that starts ends no lease for a while. */
	if (seen->wait_ms && until_ns > h->until_ns)
		h->until_ns = until_ns;
	if (now_ns > h->until_ns)
		return HOLDER_STAYS;
	return first ? HOLDER_SEEN : HOLDER_WAIT;
}

void holder_forget(struct holder *h)
{
	h->waiting = false;
}

void holder_describe(const struct nc_holder *seen, char *out, size_t len)
{
	time_t at = (time_t)(seen->registered_at_ms / 1000);
	char since[32] = "";
	struct tm tm;

	if (gmtime_r(&at, &tm))
		strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S UTC", &tm);
	snprintf(out, len, "incarnation %s%s%.64s has it since %s", seen->incarnation,
		 seen->address[0] ? " at " : "", seen->address, since);
}
