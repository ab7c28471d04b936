/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the transports. */
#include <string.h>

#include <slime/context.h>

static const char *const transport_names[SLIME_TRANSPORT_MAX] = {
	[SLIME_TRANSPORT_NONE] = "none",
	[SLIME_TRANSPORT_SHM] = "shm",
	[SLIME_TRANSPORT_TCP] = "tcp",
	[SLIME_TRANSPORT_RDMA] = "rdma",
};

const char *slime_transport_name(enum slime_transport transport)
{
	if ((unsigned)transport >= SLIME_TRANSPORT_MAX)
		transport = SLIME_TRANSPORT_NONE;
	return transport_names[transport];
}

enum slime_transport slime_transport_by_name(const char *name)
{
	for (int i = SLIME_TRANSPORT_NONE + 1; i < SLIME_TRANSPORT_MAX; i++) {
		if (!strcmp(name, transport_names[i]))
			return (enum slime_transport)i;
	}
	return SLIME_TRANSPORT_NONE;
}
