/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "bench/name.h"

void bench_name(char out[static BENCH_NAME_MAX])
{
	char host[64];

	if (gethostname(host, sizeof(host)))
		strcpy(host, "host");
	host[sizeof(host) - 1] = '\0';
	snprintf(out, BENCH_NAME_MAX, "bench-%s-%d-%04x", host, (int)getpid(),
		 (unsigned)sl_random_up_to(0xffff));
}
