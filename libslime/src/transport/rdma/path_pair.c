/* SPDX-License-Identifier: Apache-2.0 */
/* Which rails a connection has: of those that both ends offered. */
#include <stdio.h>

#include "base/log.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/wire.h"

static void add_path(struct rdma_conn *c, const struct rdma_paired *pair, unsigned n_qps)
{
	struct rdma_path *p = &c->paths[c->n_paths];

	rdma_path_init(p, c);
	p->index = c->n_paths++;
	p->rail = &c->offer->rails[pair->ours];
	p->peer_rail = pair->peers;
	p->n_qps = n_qps;
	for (unsigned i = 0; i < n_qps; i++) {
		struct rdma_qp *q = p->rail->qps[i];

		q->conn = c;
		q->path = p;
		q->index = c->n_qps;
		if (p->index > 0 && q->n_first > RDMA_RECEIVES_IDLE)
			q->n_first = RDMA_RECEIVES_IDLE;
		q->peer = c->peer.rails[pair->peers].qps[i];
		p->qps[i] = q;
		c->qps[c->n_qps++] = q;
	}
}

/* An end that says nothing of what is left over would seem to have one rail less. */
static void tell_of_unpaired(const struct rdma_conn *c)
{
	const struct rdma_pairing *p = &c->pairing;

	if (p->n < c->offer->n_rails || p->n < c->peer.n_rails)
		sl_info("rdma", "%s: %u rails, paired by %s%s: we offer %u, the peer %u",
			c->conn.name, p->n,
			p->named ? "the ports that are named" : rdma_pair_words(p->by),
			p->in_order ? ", of which none is the same" : "", c->offer->n_rails,
			c->peer.n_rails);
}

/* Of the ports that one end names the other offers none, or it is the other way round. */
static void say_not_offered(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
			    struct sl_why *why)
{
	const struct rdma_candidate *by = ours->n_named ? ours : peers;
	size_t len = (size_t)snprintf(why->text, sizeof(why->text), "%s: ",
				      by == ours ? "the peer does not offer its ports that we name"
						 : "we do not offer the ports that the peer names");

	for (unsigned i = 0; i < by->n_named && len < sizeof(why->text); i++) {
		const struct rdma_port_name *name = &by->named[i];

		len += (size_t)snprintf(why->text + len, sizeof(why->text) - len, "%s%.*s",
					i ? ", " : "", RDMA_NAME_LEN, name->device);
		if (name->port && len < sizeof(why->text))
			len += (size_t)snprintf(why->text + len, sizeof(why->text) - len, ":%u",
						name->port);
	}
}

static void say_too_slow(const struct rdma_pairing *p, const struct rdma_candidate *ours,
			 const struct rdma_candidate *peers, struct sl_why *why)
{
	bool is_ours = ours->min_bandwidth >= peers->min_bandwidth;
	uint64_t wanted = is_ours ? ours->min_bandwidth : peers->min_bandwidth;

	snprintf(why->text, sizeof(why->text),
		 "%u rails have %.1f Gbit/s together, and %s at least %.1f Gbit/s", p->n,
		 (double)p->bandwidth / 1e9, is_ours ? "we want" : "the peer wants",
		 (double)wanted / 1e9);
}

static int pair_rails(struct rdma_conn *c, struct sl_why *why)
{
	struct rdma_candidate ours;
	int ret = rdma_candidate_read(&ours, c->offer->bytes, c->offer->len);

	if (ret)
		return ret;
	ret = rdma_pairing_make(&ours, &c->peer, &c->pairing);
	if (ret == -ENODEV)
		say_not_offered(&ours, &c->peer, why);
	else if (ret == -ENOSPC)
		say_too_slow(&c->pairing, &ours, &c->peer, why);
	else if (ret)
		snprintf(why->text, sizeof(why->text),
			 "we pair rails by %s, the peer by %s: rdma_pair, data.rdma.pair of "
			 "agents, has to be the same at both ends",
			 rdma_pair_words(ours.pair), rdma_pair_words(c->peer.pair));
	return ret;
}

static int check_link_layers(const struct rdma_conn *c, struct sl_why *why)
{
	for (unsigned i = 0; i < c->pairing.n; i++) {
		const struct rdma_paired *pair = &c->pairing.rails[i];
		uint8_t ours = c->offer->rails[pair->ours].local.link_layer;
		uint8_t peers = c->peer.rails[pair->peers].link_layer;

		if (ours == peers)
			continue;
		snprintf(why->text, sizeof(why->text), "rail %u is %s here, and %s at the peer", i,
			 slime_link_layer_name((enum slime_link_layer)ours),
			 slime_link_layer_name((enum slime_link_layer)peers));
		return -EPROTONOSUPPORT;
	}
	return 0;
}

/* All or none: the offer of a connection that was not made goes its own way. */
int rdma_path_pair(struct rdma_conn *c, struct sl_why *why)
{
	unsigned n_qps = c->offer->n_qps < c->peer.n_qps ? c->offer->n_qps : c->peer.n_qps;
	int ret = pair_rails(c, why);

	if (!ret)
		ret = check_link_layers(c, why);
	if (ret)
		return ret;
	tell_of_unpaired(c);
	for (unsigned i = 0; i < c->pairing.n; i++) {
		add_path(c, &c->pairing.rails[i], n_qps);
		rdma_path_explain(&c->paths[i]);
	}
	c->lead = c->paths[0].qps[0];
	return 0;
}
