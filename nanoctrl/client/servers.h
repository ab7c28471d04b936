/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a client, one of which is asked at a time: the next one when it does not answer.
 */
#ifndef NC_SERVERS_H
#define NC_SERVERS_H

#include <stddef.h>
#include <stdint.h>

struct nc_client;

/* How many addresses the servers have; a name that was not resolved yet counts as one. */
size_t nc_client_n_addresses(const struct nc_client *client);

/* The server does not answer: another one is tried next, when there is one. */
void nc_client_avoid(struct nc_client *client, size_t server);

/* The same, and the user hears of it. */
void nc_client_failed(struct nc_client *client, size_t server, const char *cause, uint64_t wait_ms);

/* Half to all of base, doubled for each attempt, up to most. */
uint64_t nc_backoff_ms(unsigned attempts, uint64_t base_ms, uint64_t most_ms);

#endif
