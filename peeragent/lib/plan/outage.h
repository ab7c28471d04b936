/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log lines of an outage, a time in which a link is not connected: each reason once, at
 * intervals that it lasts, and its end. No I/O, no clock.
 */
#ifndef AGENT_OUTAGE_H
#define AGENT_OUTAGE_H

#include <stdint.h>

#define OUTAGE_REASONS_MAX 8
#define OUTAGE_REMIND_MS   300000

/* All zero: nothing was said of it. */
struct outage {
	uint64_t said_ns; /* the last line */
	uint32_t n_tries; /* that failed */
	uint32_t n_reasons;
	uint64_t reasons[OUTAGE_REASONS_MAX]; /* that were said, by their hashes */
};

enum outage_line {
	OUTAGE_KNOWN, /* nothing that the log has not */
	OUTAGE_NEW,
	OUTAGE_LASTS, /* for long, since the last line */
};

/* The link is not connected for this reason. Beyond OUTAGE_REASONS_MAX of them no other is new. */
enum outage_line outage_note(struct outage *o, const char *reason, uint64_t now_ns);

#endif
