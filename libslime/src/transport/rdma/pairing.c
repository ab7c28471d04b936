/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int compare(enum slime_rdma_pair by, const struct rdma_rail_address *a,
		   const struct rdma_rail_address *b)
{
	int d;

	switch (by) {
	case SLIME_RDMA_PAIR_NUMA:
		return a->numa_node - b->numa_node;
	case SLIME_RDMA_PAIR_NAME:
		d = strncmp(a->device, b->device, sizeof(a->device));
		return d ? d : a->port - b->port;
	default:
		return a->position - b->position;
	}
}

/* Those that agree stay in the order of their positions. */
static void sort(enum slime_rdma_pair by, const struct rdma_candidate *c,
		 unsigned order[RDMA_RAILS_MAX])
{
	for (unsigned i = 0; i < c->n_rails; i++) {
		unsigned k = i;

		for (; k && compare(by, &c->rails[i], &c->rails[order[k - 1]]) < 0; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

static int agreed(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
		  enum slime_rdma_pair *out)
{
	if (ours->pair != peers->pair && ours->n_rails > 1 && peers->n_rails > 1)
		return -EPROTONOSUPPORT;
	if (ours->pair == peers->pair || ours->n_rails > 1)
		*out = ours->pair;
	else
		*out = peers->n_rails > 1 ? peers->pair : SLIME_RDMA_PAIR_POSITION;
	return 0;
}

static int key_of(enum slime_rdma_pair by, const struct rdma_rail_address *a)
{
	return by == SLIME_RDMA_PAIR_NUMA ? a->numa_node : a->position;
}

static void pair_by_key(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
			struct rdma_pairing *p)
{
	unsigned a[RDMA_RAILS_MAX], b[RDMA_RAILS_MAX];

	sort(p->by, ours, a);
	sort(p->by, peers, b);
	for (unsigned i = 0, k = 0; i < ours->n_rails && k < peers->n_rails;) {
		const struct rdma_rail_address *x = &ours->rails[a[i]];
		int d = compare(p->by, x, &peers->rails[b[k]]);

		if (!d)
			p->rails[p->n++] = (struct rdma_paired){ a[i], b[k], key_of(p->by, x) };
		i += d <= 0;
		k += d >= 0;
	}
	p->in_order = !p->n;
	for (; p->in_order && p->n < ours->n_rails && p->n < peers->n_rails; p->n++)
		p->rails[p->n] = (struct rdma_paired){ p->n, p->n, 0 };
}

/* Indexes of c's rails that by names, in the order of its list; all, if it names none. */
static unsigned list_named(const struct rdma_candidate *c, const struct rdma_candidate *by,
			   unsigned out[RDMA_RAILS_MAX])
{
	unsigned seen = 0, n = 0;

	for (unsigned i = 0; i < c->n_rails && !by->n_named; i++)
		out[n++] = i;
	for (unsigned k = 0; k < by->n_named; k++) {
		for (unsigned i = 0; i < c->n_rails; i++) {
			const struct rdma_rail_address *a = &c->rails[i];

			if (seen & 1u << i ||
			    strncmp(by->named[k].device, a->device, sizeof(a->device)) ||
			    (by->named[k].port && by->named[k].port != a->port))
				continue;
			seen |= 1u << i;
			out[n++] = i;
		}
	}
	return n;
}

static void pair_named(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
		       struct rdma_pairing *p)
{
	unsigned a[RDMA_RAILS_MAX], b[RDMA_RAILS_MAX];
	unsigned n_ours = list_named(ours, peers, a), n_peers = list_named(peers, ours, b);

	p->named = true;
	for (; p->n < n_ours && p->n < n_peers; p->n++)
		p->rails[p->n] = (struct rdma_paired){ a[p->n], b[p->n], 0 };
}

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static int check_bandwidth(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
			   struct rdma_pairing *p)
{
	for (unsigned i = 0; i < p->n; i++)
		p->bandwidth += UINT64_C(1000000) * smaller(ours->rails[p->rails[i].ours].mbps,
							    peers->rails[p->rails[i].peers].mbps);
	return p->bandwidth < ours->min_bandwidth || p->bandwidth < peers->min_bandwidth ? -ENOSPC
											 : 0;
}

int rdma_pairing_make(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
		      struct rdma_pairing *out)
{
	struct rdma_pairing p = { .n = 0 };
	int ret = agreed(ours, peers, &p.by);

	if (ret)
		return ret;
	if (ours->n_named || peers->n_named)
		pair_named(ours, peers, &p);
	else
		pair_by_key(ours, peers, &p);
	if (!p.n)
		return -ENODEV;
	p.n = smaller(p.n, smaller(ours->most_rails, peers->most_rails));
	ret = check_bandwidth(ours, peers, &p);
	*out = p;
	return ret;
}

const char *rdma_pair_words(enum slime_rdma_pair by)
{
	static const char *const words[] = {
		[SLIME_RDMA_PAIR_POSITION] = "position",
		[SLIME_RDMA_PAIR_NUMA] = "NUMA node",
		[SLIME_RDMA_PAIR_NAME] = "name",
	};

	return words[by];
}

void rdma_pairing_text(const struct rdma_pairing *p, unsigned rail, char *out, size_t cap)
{
	const char *words = rdma_pair_words(p->by);
	int at = p->rails[rail].at;

	if (p->named)
		snprintf(out, cap, "paired as an end names ports of the other");
	else if (p->in_order)
		snprintf(out, cap, "paired in order, as no %s is the same", words);
	else if (p->by == SLIME_RDMA_PAIR_NAME)
		snprintf(out, cap, "paired by name");
	else if (at < 0)
		snprintf(out, cap, "paired by NUMA node, which is unknown");
	else
		snprintf(out, cap, "paired by %s %d", words, at);
}
