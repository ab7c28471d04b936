/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/traffic.h"

#include <stdio.h>
#include <string.h>

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
		rate->gb_s += WEIGHT * ((double)more / (double)elapsed_ns - rate->gb_s);
}

/* Devices for which there is no room share the last entry. */
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

/* Bytes that one-sided operations moved, which rails share. */
static const enum slime_op_kind shared[] = { SLIME_KIND_READ, SLIME_KIND_WRITE,
					     SLIME_KIND_WRITE_IMM };

static struct slime_endpoint_stats difference(const struct slime_endpoint_stats *now,
					      const struct slime_endpoint_stats *before)
{
	struct slime_endpoint_stats d;

	for (int i = 0; i < SLIME_KIND_MAX; i++) {
		const struct slime_kind_stats *n = &now->kinds[i], *b = &before->kinds[i];

		d.kinds[i] = (struct slime_kind_stats){
			.submitted = n->submitted - b->submitted,
			.completed = n->completed - b->completed,
			.failed = n->failed - b->failed,
			.bytes = n->bytes - b->bytes,
			.failed_bytes = n->failed_bytes - b->failed_bytes,
		};
	}
	return d;
}

/* "mlx5_0:1" as "mlx5_0", the name that connections have. */
static void device_of(const struct slime_rail_info *rail, char out[TRAFFIC_NIC_NAME])
{
	snprintf(out, TRAFFIC_NIC_NAME, "%.*s", (int)strcspn(rail->device, ":"), rail->device);
}

/* A rail counts a byte when it moved it, an operation when it ended: of what ended, a rail has its
 * part of what the rails moved and was not booked yet. */
static void book_rail(struct traffic *t, const char *nic, struct slime_endpoint_stats *rest,
		      const struct slime_endpoint_stats *more, double part, uint64_t *booked)
{
	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++) {
		uint64_t bytes = (uint64_t)((double)more->kinds[shared[i]].bytes * part);

		if (bytes > rest->kinds[shared[i]].bytes)
			bytes = rest->kinds[shared[i]].bytes;
		rest->kinds[shared[i]].bytes -= bytes;
		find(t, nic)->sum.kinds[shared[i]].bytes += bytes;
		*booked += bytes;
	}
}

void traffic_book(struct traffic *t, struct traffic_booked *booked, const char *nic,
		  const struct slime_endpoint_stats *stats, const struct slime_rail_info *rails,
		  size_t n_rails)
{
	struct slime_endpoint_stats more = difference(stats, &booked->stats), rest = more;
	uint64_t unbooked[SLIME_RAILS_MAX] = { 0 }, all = 0;
	char device[TRAFFIC_NIC_NAME];

	if (!*nic)
		return;
	booked->stats = *stats;
	for (size_t i = 0; i < n_rails; i++) {
		if (rails[i].bytes > booked->rails[i])
			unbooked[i] = rails[i].bytes - booked->rails[i];
		all += unbooked[i];
	}
	for (size_t i = 0; i < n_rails && all; i++) {
		device_of(&rails[i], device);
		book_rail(t, device, &rest, &more, (double)unbooked[i] / (double)all,
			  &booked->rails[i]);
	}
	traffic_sum(&find(t, nic)->sum, &rest);
}

void traffic_book_endpoint(struct traffic *t, struct traffic_booked *booked,
			   const struct slime_endpoint *ep)
{
	struct slime_rail_info rails[SLIME_RAILS_MAX];
	struct slime_endpoint_stats stats;
	struct slime_endpoint_info info;
	char nic[TRAFFIC_NIC_NAME];

	slime_endpoint_stats(ep, &stats);
	slime_endpoint_info(ep, &info);
	traffic_local_nic(&info, nic);
	traffic_book(t, booked, nic, &stats, rails,
		     slime_endpoint_rails(ep, rails, SLIME_RAILS_MAX));
}

void traffic_look_begin(struct traffic *t)
{
	for (size_t i = 0; i < t->n; i++)
		t->nics[i].pending = 0;
}

void traffic_look_pending(struct traffic *t, const char *nic, uint64_t pending)
{
	if (*nic)
		find(t, nic)->pending += pending;
}

void traffic_look_end(struct traffic *t, uint64_t elapsed_ns)
{
	for (size_t i = 0; i < t->n; i++)
		traffic_rate_step(&t->nics[i].rate, traffic_bytes(&t->nics[i].sum), elapsed_ns);
}
