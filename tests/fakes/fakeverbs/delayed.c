/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that know nothing of the fake: each request takes a while, and those of different
 * queue pairs overtake each other. */
#include "tests/fakes/fakeverbs.h"

#define MAX_NS 100000

__attribute__((constructor)) static void delay(void)
{
	fakeverbs_set_delay(0, MAX_NS, 1);
}
