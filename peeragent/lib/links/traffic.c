/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/traffic.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define WEIGHT 0.3 /* of the latest look */

void traffic_local_nic(const struct slime_endpoint_info *info, char out[TRAFFIC_NIC_NAME])
{
	size_t len = strcspn(info->address, " ");

	out[0] = '\0';
	if (info->transport == SLIME_TRANSPORT_NONE)
		return;
	if (info->transport == SLIME_TRANSPORT_RDMA && len && len < TRAFFIC_NIC_NAME)
		snprintf(out, TRAFFIC_NIC_NAME, "%.*s", (int)len, info->address);
	else
		snprintf(out, TRAFFIC_NIC_NAME, "%s", slime_transport_name(info->transport));
}

/* An RDMA address is "DEVICE GID N to DEVICE GID". */
const char *traffic_remote_nic(const struct slime_endpoint_info *info)
{
	const char *to =
		info->transport == SLIME_TRANSPORT_RDMA ? strstr(info->address, " to ") : NULL;

	return to ? to + 4 : info->address;
}

void traffic_sum(struct slime_endpoint_stats *sum, const struct slime_endpoint_stats *s)
{
	for (int i = 0; i < SLIME_KIND_MAX; i++) {
		sum->kinds[i].submitted += s->kinds[i].submitted;
		sum->kinds[i].completed += s->kinds[i].completed;
		sum->kinds[i].failed += s->kinds[i].failed;
		sum->kinds[i].bytes += s->kinds[i].bytes;
		sum->kinds[i].failed_bytes += s->kinds[i].failed_bytes;
	}
}

uint64_t traffic_bytes(const struct slime_endpoint_stats *s)
{
	static const enum slime_op_kind kinds[] = { SLIME_KIND_READ, SLIME_KIND_WRITE,
						    SLIME_KIND_WRITE_IMM, SLIME_KIND_CALL,
						    SLIME_KIND_SERVE };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		sum += s->kinds[kinds[i]].bytes;
	return sum;
}

void traffic_rate_step(struct traffic_rate *rate, uint64_t bytes, uint64_t elapsed_ns)
{
	uint64_t more = bytes > rate->bytes ? bytes - rate->bytes : 0;

	rate->bytes = bytes;
	if (elapsed_ns)
		rate->bps +=
			WEIGHT * ((double)more * 8 * SL_NS_PER_S / (double)elapsed_ns - rate->bps);
}

/* Those for whom there is no room share the last place. */
static struct traffic_nic *find(struct traffic *t, const char *nic)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->nics[i].name, nic))
			return &t->nics[i];
	if (t->n == TRAFFIC_NICS_MAX)
		return &t->nics[TRAFFIC_NICS_MAX - 1];
	snprintf(t->nics[t->n].name, TRAFFIC_NIC_NAME, "%s",
		 t->n == TRAFFIC_NICS_MAX - 1 ? "others" : nic);
	return &t->nics[t->n++];
}

void traffic_keep(struct traffic *t, const char *nic, const struct slime_endpoint_stats *stats)
{
	if (*nic)
		traffic_sum(&find(t, nic)->past, stats);
}

void traffic_look_begin(struct traffic *t)
{
	for (size_t i = 0; i < t->n; i++) {
		t->nics[i].sum = t->nics[i].past;
		t->nics[i].pending = 0;
	}
}

void traffic_look_add(struct traffic *t, const char *nic, const struct slime_endpoint_stats *stats,
		      uint64_t pending)
{
	struct traffic_nic *n = *nic ? find(t, nic) : NULL;

	if (!n)
		return;
	traffic_sum(&n->sum, stats);
	n->pending += pending;
}

void traffic_look_end(struct traffic *t, uint64_t elapsed_ns)
{
	for (size_t i = 0; i < t->n; i++)
		traffic_rate_step(&t->nics[i].rate, traffic_bytes(&t->nics[i].sum), elapsed_ns);
}
