/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer sends of itself over rdma: the candidate in its descriptor, and frames. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/desc.h"
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/wire.h"
#include <slime/topo.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Names go into log lines. */
static void check_name(const char name[RDMA_NAME_LEN])
{
	for (size_t i = 0; i < RDMA_NAME_LEN && name[i]; i++)
		must(name[i] > ' ' && name[i] <= '~');
}

/* What it asks for holds, or there is no link. */
static void check_limits(const struct rdma_candidate *c)
{
	struct rdma_pairing p;
	unsigned ours = 0, peers = 0;
	int ret = rdma_pairing_make(c, c, &p);

	must(!ret || ret == -ENODEV || ret == -ENOSPC);
	must(ret || p.bandwidth >= c->min_bandwidth);
	for (unsigned i = 0; !ret && i < p.n; i++) {
		ours |= 1u << p.rails[i].ours;
		peers |= 1u << p.rails[i].peers;
	}
	must(ret || (p.n && p.n <= c->most_rails && (unsigned)__builtin_popcount(ours) == p.n &&
		     (unsigned)__builtin_popcount(peers) == p.n));
}

/* With itself each rail has its partner, and with whatever else none has two. */
static void check_pairing(const struct rdma_candidate *c)
{
	struct rdma_candidate other = *c, whole;
	struct rdma_pairing p;
	unsigned ours = 0, peers = 0;

	check_limits(c);
	other.n_named = 0;
	other.most_rails = RDMA_RAILS_MAX;
	other.min_bandwidth = 0;
	whole = other;
	must(rdma_pairing_make(&whole, &whole, &p) == 0 && p.n == c->n_rails && !p.in_order);
	other.n_rails = 1 + (unsigned)(c->slots % RDMA_RAILS_MAX);
	for (unsigned i = 0; i < RDMA_RAILS_MAX; i++)
		other.rails[i] = c->rails[(c->slots >> (8 * i)) % c->n_rails];
	must(rdma_pairing_make(&whole, &other, &p) == 0 && p.n);
	for (unsigned i = 0; i < p.n; i++) {
		must(p.rails[i].ours < c->n_rails && p.rails[i].peers < other.n_rails);
		ours |= 1u << p.rails[i].ours;
		peers |= 1u << p.rails[i].peers;
	}
	must((unsigned)__builtin_popcount(ours) == p.n &&
	     (unsigned)__builtin_popcount(peers) == p.n);
}

/* What was accepted is within its bounds, and reads the same again. */
static void read_candidate(const uint8_t *data, size_t len)
{
	uint8_t bytes[SL_CANDIDATE_MAX];
	struct sl_writer w = { .at = bytes, .room = sizeof(bytes) };
	struct rdma_candidate c, again;

	if (rdma_candidate_read(&c, data, len))
		return;
	must(c.n_rails && c.n_rails <= RDMA_RAILS_MAX && c.n_qps && c.n_qps <= RDMA_QPS_MAX);
	must((unsigned)c.pair <= SLIME_RDMA_PAIR_NAME);
	for (unsigned i = 0; i < c.n_rails; i++) {
		check_name(c.rails[i].device);
		must(c.rails[i].position < RDMA_RAILS_MAX);
		must(c.rails[i].numa_node >= -1 && c.rails[i].numa_node < 1024);
	}
	check_pairing(&c);
	rdma_candidate_write(&c, &w);
	must(!w.failed && sizeof(bytes) - w.room == len);
	must(rdma_candidate_read(&again, bytes, len) == 0);
	must(!memcmp(&again, &c, sizeof(c)));
}

/* A port and a queue pair of a rail: refused, or within its bounds, and the same again. */
static void read_rail(const struct sl_msg *m)
{
	const struct rdma_rail_address before = { .link_layer = SLIME_LINK_ETHERNET };
	struct rdma_rail_address a = before, again = before;
	struct sl_msg said = { .kind = RDMA_RAIL };

	if (rdma_rail_read(&a, 2, m)) {
		must(!memcmp(&a, &before, sizeof(a)));
		return;
	}
	must(m->flags < 2 && a.port && a.mtu >= 1 && a.mtu <= 5);
	rdma_rail_write(&a, m->flags, &said);
	must(!rdma_rail_read(&again, 2, &said) && !memcmp(&a, &again, sizeof(a)));
}

static void read_frame(const uint8_t *data, size_t len)
{
	uint8_t again[RDMA_FRAME_LEN];
	struct sl_msg m;

	if (len < RDMA_FRAME_LEN)
		return;
	rdma_frame_read(&m, data);
	rdma_frame_write(&m, again);
	must(!memcmp(again, data, sizeof(again)));
	read_rail(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	read_candidate(data, len);
	read_frame(data, len);
	return 0;
}
