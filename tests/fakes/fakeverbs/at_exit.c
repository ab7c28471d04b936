/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that know nothing of the fake: what they leave behind makes them fail, and so does a
 * message that met a receiver without a posted buffer. */
#include <stdio.h>
#include <unistd.h>

#include "tests/fakes/fakeverbs.h"

__attribute__((destructor)) static void check(void)
{
	unsigned n = fakeverbs_check();
	uint64_t n_rnr = fakeverbs_counts().rnr_naks;

	if (n)
		fprintf(stderr, "fakeverbs: %u things are left or were wrong\n", n);
	if (n_rnr)
		fprintf(stderr, "fakeverbs: %llu times a receiver was not ready\n",
			(unsigned long long)n_rnr);
	if (n || n_rnr)
		_exit(1);
}
