/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "bench/agents/agent_name.h"

void agent_name_make(char out[static AGENT_NAME_ROOM])
{
	char host[64];

	if (gethostname(host, sizeof(host)))
		strcpy(host, "host");
	host[sizeof(host) - 1] = '\0';
	snprintf(out, AGENT_NAME_ROOM, "bench-%s-%d-%04x", host, (int)getpid(),
		 (unsigned)sl_random_up_to(0xffff));
}
