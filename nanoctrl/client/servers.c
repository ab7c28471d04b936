/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/client/servers.h"

#include "base/random.h"
#include "nanoctrl/client/client.h"

size_t nc_client_n_addresses(const struct nc_client *client)
{
	size_t n = 0;

	for (size_t i = 0; i < client->n_urls; i++)
		n += client->names[i].n ? client->names[i].n : 1;
	return n;
}

void nc_client_avoid(struct nc_client *client, size_t server)
{
	/* Several connections may find the same server dead: only the first moves on. */
	if (server == client->server)
		client->server = (server + 1) % client->n_urls;
}

void nc_client_failed(struct nc_client *client, size_t server, const char *cause, uint64_t wait_ms)
{
	if (client->on_retry)
		client->on_retry(client->arg, client->urls[server].text, cause, wait_ms);
	nc_client_avoid(client, server);
}

uint64_t nc_backoff_ms(unsigned attempts, uint64_t base_ms, uint64_t most_ms)
{
	uint64_t ms = base_ms << (attempts < 16 ? attempts : 16);

	if (ms > most_ms)
		ms = most_ms;
	return ms - sl_random_up_to(ms / 2);
}
