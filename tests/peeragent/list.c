/* SPDX-License-Identifier: Apache-2.0 */
/* list URL SCOPE SELECTOR PEER: an agent that prints the agents of the scope which the selector
 * matches ("": all), page by page, and the regions of a peer. */
#include <stdio.h>
#include <string.h>

#include <slime/agent.h>

#define TIMEOUT_MS 60000

static void print_peer(const struct slime_agent_peer *p)
{
	printf("peer %s %s", p->name, p->address);
	for (size_t i = 0; i < p->n_labels; i++)
		printf(" %s=%s", p->labels[i].key, p->labels[i].value);
	for (size_t i = 0; i < p->n_services; i++)
		printf(" %s", p->services[i]);
	for (size_t i = 0; i < p->n_attributes; i++)
		printf(" %s: %s", p->attributes[i].key, p->attributes[i].value);
	printf("\n");
}

static int print_peers(struct slime_agent *agent, const char *selector)
{
	char after[SLIME_AGENT_NAME_MAX + 1] = "";
	struct slime_agent_peers *page;
	int ret;

	do {
		ret = slime_agent_peers(agent, *selector ? selector : NULL, *after ? after : NULL,
					TIMEOUT_MS, &page);
		if (ret)
			return ret;
		printf("page\n");
		for (size_t i = 0; i < page->n; i++)
			print_peer(&page->peers[i]);
		snprintf(after, sizeof(after), "%s", page->next ? page->next : "");
		slime_agent_peers_free(page);
	} while (*after);
	return 0;
}

static int print_regions(struct slime_agent *agent, const char *peer)
{
	struct slime_agent_regions *all;
	int ret = slime_agent_regions(agent, peer, TIMEOUT_MS, &all);

	for (size_t i = 0; !ret && i < all->n; i++)
		printf("region %s %llu %u %llu\n", all->regions[i].name,
		       (unsigned long long)all->regions[i].size, all->regions[i].access,
		       (unsigned long long)all->regions[i].generation);
	if (!ret)
		slime_agent_regions_free(all);
	return ret;
}

int main(int argc, char **argv)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	struct slime_agent *agent;
	int ret;

	if (argc != 5)
		return 2;
	attr.name = "lister";
	attr.urls = (const char *const *)&argv[1];
	attr.n_urls = 1;
	attr.scope = argv[2];
	ret = slime_agent_create(&attr, &agent);
	if (!ret)
		ret = slime_agent_start(agent);
	if (!ret)
		ret = print_peers(agent, argv[3]);
	if (!ret)
		ret = print_regions(agent, argv[4]);
	if (ret)
		fprintf(stderr, "%s\n", strerror(-ret));
	slime_agent_destroy(agent);
	return ret ? 1 : 0;
}
