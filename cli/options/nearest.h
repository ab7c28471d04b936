/* SPDX-License-Identifier: Apache-2.0 */
/* Which name was probably meant. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

/* Starts empty with word set; offers are compared by the number of edits. */
struct cli_nearest {
	const char *word;
	const char *best; /* the nearest offer, NULL while none is near enough to be a slip */
	unsigned distance;
};

void cli_nearest_offer(struct cli_nearest *n, const char *name);

#endif
