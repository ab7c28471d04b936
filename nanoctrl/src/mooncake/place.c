/* SPDX-License-Identifier: Apache-2.0 */
#include "mooncake/place.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "api/digest.h"

static char place[80];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_place(void)
{
	FILE *in = fopen("/proc/sys/kernel/random/boot_id", "re");
	char boot[40] = "";
	struct stat net;

	if (in && fscanf(in, "%36s", boot) == 1 && stat("/proc/self/ns/net", &net) == 0)
		snprintf(place, sizeof(place), "%s.%ju", boot, (uintmax_t)net.st_ino);
	else if (digest_random(place, 16))
		snprintf(place, sizeof(place), "nowhere");
	if (in)
		fclose(in);
}

const char *mooncake_place(void)
{
	pthread_once(&once, find_place);
	return place;
}
