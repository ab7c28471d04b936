/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/agent/listing.h"

#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/nanoctrl_client.h"
#include "peeragent/lib/plan/block.h"

static const struct slime_label *take_pairs(struct block *b, const struct nc_pairs *pairs)
{
	struct slime_label *list =
		block_take(b, pairs->n * sizeof(*list), _Alignof(struct slime_label));

	for (size_t i = 0; i < pairs->n; i++) {
		struct slime_label pair = { block_take_text(b, pairs->list[i].key),
					    block_take_text(b, pairs->list[i].value) };

		if (list)
			list[i] = pair;
	}
	return list;
}

static const char *const *take_services(struct block *b, const struct nc_agent *agent)
{
	const char **list = block_take(b, agent->n_services * sizeof(*list), _Alignof(char *));

	for (size_t i = 0; i < agent->n_services; i++) {
		const char *name = block_take_text(b, agent->services[i].name);

		if (list)
			list[i] = name;
	}
	return list;
}

static struct slime_agent_peer take_peer(struct block *b, const struct nc_agent *agent)
{
	return (struct slime_agent_peer){
		.name = block_take_text(b, agent->name),
		.address = block_take_text(b, agent->address ? agent->address : ""),
		.generation = agent->generation,
		.labels = take_pairs(b, &agent->labels),
		.n_labels = agent->labels.n,
		.services = take_services(b, agent),
		.n_services = agent->n_services,
		.attributes = take_pairs(b, &agent->attributes),
		.n_attributes = agent->attributes.n,
	};
}

static struct slime_agent_peers *copy_peers(struct block *b, const struct nc_page *page,
					    const char *self)
{
	struct slime_agent_peers *to =
		block_take(b, sizeof(*to), _Alignof(struct slime_agent_peers));
	struct slime_agent_peer *list =
		block_take(b, page->n * sizeof(*list), _Alignof(struct slime_agent_peer));
	const char *next = block_take_text(b, page->next);
	size_t n = 0;

	for (size_t i = 0; i < page->n; i++) {
		struct slime_agent_peer peer;

		if (!strcmp(page->agents[i].name, self))
			continue;
		peer = take_peer(b, &page->agents[i]);
		if (list)
			list[n++] = peer;
	}
	if (to)
		*to = (struct slime_agent_peers){ .peers = list, .n = n, .next = next };
	return to;
}

struct slime_agent_peers *listing_peers(const struct nc_page *page, const char *self)
{
	struct block b = { NULL, 0 };

	copy_peers(&b, page, self);
	b.at = malloc(b.len);
	b.len = 0;
	return b.at ? copy_peers(&b, page, self) : NULL;
}

static uint32_t access_of(unsigned access)
{
	return (access & NC_READ ? (uint32_t)SLIME_ACCESS_REMOTE_READ : 0) |
	       (access & NC_WRITE ? (uint32_t)SLIME_ACCESS_REMOTE_WRITE : 0);
}

static int compare_regions(const void *a, const void *b)
{
	const struct slime_agent_region_info *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static struct slime_agent_regions *copy_regions(struct block *b, const struct nc_page *page)
{
	struct slime_agent_regions *to =
		block_take(b, sizeof(*to), _Alignof(struct slime_agent_regions));
	struct slime_agent_region_info *list =
		block_take(b, page->n * sizeof(*list), _Alignof(struct slime_agent_region_info));

	for (size_t i = 0; i < page->n; i++) {
		const struct nc_region *r = &page->regions[i];
		struct slime_agent_region_info info = {
			.name = block_take_text(b, r->name),
			.size = r->size,
			.access = access_of(r->access),
			.generation = r->generation,
			.revision = r->revision,
		};

		if (list)
			list[i] = info;
	}
	if (list)
		qsort(list, page->n, sizeof(*list), compare_regions);
	if (to)
		*to = (struct slime_agent_regions){ .regions = list, .n = page->n };
	return to;
}

struct slime_agent_regions *listing_regions(const struct nc_page *page)
{
	struct block b = { NULL, 0 };

	copy_regions(&b, page);
	b.at = malloc(b.len);
	b.len = 0;
	return b.at ? copy_regions(&b, page) : NULL;
}

void slime_agent_peers_free(struct slime_agent_peers *peers)
{
	free(peers);
}

void slime_agent_regions_free(struct slime_agent_regions *regions)
{
	free(regions);
}
