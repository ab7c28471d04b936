/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/rdma/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What an address reaches, the best last. */
enum reach {
	REACH_NONE,
	REACH_LINK,
	REACH_GLOBAL,
	REACH_IPV4,
};

static const char *const reach_names[] = {
	[REACH_NONE] = "no address",
	[REACH_LINK] = "link-local",
	[REACH_GLOBAL] = "global IPv6",
	[REACH_IPV4] = "IPv4",
};

static bool is_zero(const uint8_t raw[16])
{
	static const uint8_t zero[16];

	return !memcmp(raw, zero, sizeof(zero));
}

static bool is_mapped(const uint8_t raw[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(raw, prefix, sizeof(prefix));
}

static enum reach reach_of(const uint8_t raw[16])
{
	if (is_zero(raw) || raw[0] == 0xff)
		return REACH_NONE;
	if (is_mapped(raw))
		return REACH_IPV4;
	return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? REACH_LINK : REACH_GLOBAL;
}

const char *slime_gid_type_name(enum slime_gid_type type)
{
	static const char *const names[] = {
		[SLIME_GID_IB] = "IB",
		[SLIME_GID_ROCE_V1] = "RoCE v1",
		[SLIME_GID_ROCE_V2] = "RoCE v2",
	};

	return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

const char *slime_link_layer_name(enum slime_link_layer layer)
{
	switch (layer) {
	case SLIME_LINK_INFINIBAND:
		return "InfiniBand";
	case SLIME_LINK_ETHERNET:
		return "Ethernet";
	default:
		return "unknown";
	}
}

const char *slime_gid_text(const uint8_t raw[16], char text[SLIME_GID_TEXT_MAX])
{
	bool mapped = is_mapped(raw);

	/* cannot fail: the family is known and the room suffices */
	inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? raw + 12 : raw, text, SLIME_GID_TEXT_MAX);
	return text;
}

/* ---- the choice ---- */

static int take(const struct slime_gid *gid, const char *reason, struct sl_gid_choice *out)
{
	char text[SLIME_GID_TEXT_MAX];

	out->gid = *gid;
	snprintf(out->why, sizeof(out->why), "GID index %u, %s, %s%s%.15s: %s", gid->index,
		 slime_gid_type_name(gid->type), slime_gid_text(gid->raw, text),
		 gid->netdev[0] ? " of " : "", gid->netdev, reason);
	return 0;
}

static const struct slime_gid *find(const struct slime_gid *gids, size_t n, uint32_t index)
{
	for (size_t i = 0; i < n; i++)
		if (gids[i].index == index && !is_zero(gids[i].raw))
			return &gids[i];
	return NULL;
}

static int take_index(const struct slime_gid *gids, size_t n, int wanted, const char *reason,
		      struct sl_gid_choice *out)
{
	const struct slime_gid *gid = wanted < 0 ? NULL : find(gids, n, (uint32_t)wanted);

	if (gid)
		return take(gid, reason, out);
	snprintf(out->why, sizeof(out->why), "the GID table has no entry at index %d (%s)", wanted,
		 reason);
	return -EADDRNOTAVAIL;
}

/* Of those that a queue pair can name. */
static const struct slime_gid *best_roce_v2(const struct slime_gid *gids, size_t n)
{
	const struct slime_gid *best = NULL;

	for (size_t i = 0; i < n; i++) {
		enum reach reach = reach_of(gids[i].raw);
		enum reach of_best = best ? reach_of(best->raw) : REACH_NONE;

		if (gids[i].type != SLIME_GID_ROCE_V2 || reach == REACH_NONE || reach < of_best)
			continue;
		if (gids[i].index > SL_GID_INDEX_MAX)
			continue;
		if (reach > of_best || gids[i].index < best->index)
			best = &gids[i];
	}
	return best;
}

static bool is_beyond(const struct slime_gid *gid)
{
	return gid->type == SLIME_GID_ROCE_V2 && reach_of(gid->raw) != REACH_NONE &&
	       gid->index > SL_GID_INDEX_MAX;
}

static void say_that_none(const struct slime_gid *gids, size_t n, struct sl_gid_choice *out)
{
	size_t n_beyond = 0;

	for (size_t i = 0; i < n; i++)
		n_beyond += is_beyond(&gids[i]);
	if (n_beyond)
		snprintf(out->why, sizeof(out->why),
			 "the indices of %zu RoCE v2 GIDs are above %d, which no queue pair takes: "
			 "give the network interface fewer addresses",
			 n_beyond, SL_GID_INDEX_MAX);
	else
		snprintf(out->why, sizeof(out->why),
			 "no RoCE v2 GID among %zu: give the network interface an IP address", n);
}

static int choose_roce(const struct slime_gid *gids, size_t n, struct sl_gid_choice *out)
{
	const struct slime_gid *best = best_roce_v2(gids, n);
	char reason[64];

	if (best) {
		snprintf(reason, sizeof(reason), "automatic, the first RoCE v2 one that is %s",
			 reach_names[reach_of(best->raw)]);
		return take(best, reason, out);
	}
	say_that_none(gids, n, out);
	return -EADDRNOTAVAIL;
}

int sl_gid_choose(const struct slime_gid *gids, size_t n, enum slime_link_layer layer, int wanted,
		  struct sl_gid_choice *out)
{
	memset(out, 0, sizeof(*out));
	if (layer != SLIME_LINK_INFINIBAND && layer != SLIME_LINK_ETHERNET) {
		snprintf(out->why, sizeof(out->why),
			 "the port's link layer is neither InfiniBand nor Ethernet");
		return -EOPNOTSUPP;
	}
	if (wanted != SL_GID_AUTO)
		return take_index(gids, n, wanted, "configured", out);
	if (layer == SLIME_LINK_INFINIBAND)
		return take_index(gids, n, 0, "automatic, InfiniBand takes the first", out);
	return choose_roce(gids, n, out);
}

bool sl_gid_is_global(enum slime_link_layer layer, const uint8_t local[16],
		      const uint8_t remote[16])
{
	return layer != SLIME_LINK_INFINIBAND || memcmp(local, remote, 8) != 0;
}
