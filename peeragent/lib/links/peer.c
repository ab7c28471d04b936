/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer *peer_create(const char *name)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	snprintf(peer->name, sizeof(peer->name), "%s", name);
	sl_list_init(&peer->node);
	sl_list_init(&peer->links);
	return peer;
}

void peer_destroy(struct peer *peer)
{
	sl_list_remove(&peer->node);
	free(peer);
}

static bool is_before(uint64_t epoch, uint64_t generation, uint64_t than_epoch,
		      uint64_t than_generation)
{
	return epoch < than_epoch || (epoch == than_epoch && generation < than_generation);
}

enum peer_change peer_update(struct peer *peer, const char *incarnation, uint64_t epoch,
			     uint64_t generation)
{
	bool same_process = !strcmp(peer->incarnation, incarnation);
	bool same = peer->up && epoch == peer->epoch && generation == peer->generation;

	/* Answers to what we asked before it ended arrive after the news of its end. */
	if (is_before(epoch, generation, peer->epoch, peer->generation) ||
	    !is_before(peer->gone_epoch, peer->gone_generation, epoch, generation))
		return PEER_OLD;
	peer->epoch = epoch;
	peer->generation = generation;
	peer->up = true;
	snprintf(peer->incarnation, sizeof(peer->incarnation), "%s", incarnation);
	if (!same_process)
		return PEER_INCARNATION;
	return same ? PEER_SAME : PEER_AGAIN;
}

bool peer_end(struct peer *peer, uint64_t epoch, uint64_t generation)
{
	if (is_before(epoch, generation, peer->epoch, peer->generation))
		return false;
	peer->gone_epoch = epoch;
	peer->gone_generation = generation;
	peer->up = false;
	return true;
}
