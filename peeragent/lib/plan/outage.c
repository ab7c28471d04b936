/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/plan/outage.h"

#include <stdbool.h>

#include "base/clock.h"

/* FNV-1a */
static uint64_t hash(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return h;
}

static bool is_new(struct outage *o, const char *reason)
{
	uint64_t h = hash(reason);

	for (uint32_t i = 0; i < o->n_reasons; i++) {
		if (o->reasons[i] == h)
			return false;
	}
	if (o->n_reasons == OUTAGE_REASONS_MAX)
		return false;
	o->reasons[o->n_reasons++] = h;
	return true;
}

enum outage_line outage_note(struct outage *o, const char *reason, uint64_t now_ns)
{
	enum outage_line line = OUTAGE_KNOWN;

	/* Both ends see a try fail, and the first reason of a try counts: two reasons that take
	 * turns are no news. */
	if (is_new(o, reason))
		line = OUTAGE_NEW;
	else if (now_ns - o->said_ns >= OUTAGE_REMIND_MS * SL_NS_PER_MS)
		line = OUTAGE_LASTS;
	if (line != OUTAGE_KNOWN)
		o->said_ns = now_ns;
	return line;
}
