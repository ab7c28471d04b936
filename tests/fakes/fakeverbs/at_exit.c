/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that know nothing of the fake: what they leave behind makes them fail. */
#include <stdio.h>
#include <unistd.h>

#include "tests/fakes/fakeverbs.h"

__attribute__((destructor)) static void check(void)
{
	unsigned n = fakeverbs_check();

	if (!n)
		return;
	fprintf(stderr, "fakeverbs: %u things are left or were wrong\n", n);
	_exit(1);
}
