/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/entry_report.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static void write_transports(const enum slime_transport *list, char *out, size_t cap)
{
	size_t len = 0;

	out[0] = '\0';
	for (int i = 0; i < SLIME_TRANSPORT_MAX && list[i] != SLIME_TRANSPORT_NONE; i++)
		len += (size_t)snprintf(out + len, cap - len, "%s%s", i ? "," : "",
					slime_transport_name(list[i]));
}

static void write_source(const struct entry *e, char *out, size_t cap)
{
	const struct wanted *w = e->by;

	if (!w)
		snprintf(out, cap, "the peer");
	else if (w->source == LINK_OF_CLUSTER)
		snprintf(out, cap, "topology %s", w->cluster ? w->cluster : "");
	else
		snprintf(out, cap, w->source == LINK_OF_FILE ? "the agent" : "the program");
}

void entry_report_init(struct entry_report *r, const struct entry *e)
{
	bool connected = e->link.phase == LINK_CONNECTED;

	memset(&r->info, 0, sizeof(r->info));
	if (connected)
		slime_endpoint_info(e->connection->ep, &r->info);
	write_transports(entry_transports(e), r->transports, sizeof(r->transports));
	write_source(e, r->source, sizeof(r->source));
	r->link = (struct ctrl_link){
		.peer = e->peer->name,
		.profile = e->profile,
		.state = entry_state(e),
		.cause = e->cause,
		.transport = connected ? slime_transport_name(r->info.transport) : NULL,
		.peer_incarnation = e->peer->incarnation[0] ? e->peer->incarnation : NULL,
		.attempt = e->link.attempt,
		.age_ms = (sl_clock_ns() - e->since_ns) / SL_NS_PER_MS,
		.source = r->source,
		.transports = r->transports,
		.own_order = r->info.own_order,
		.passed_over = r->info.passed_over,
		.no_foreign_memory = r->info.no_foreign_memory,
		/* Of one that is broken it is the cause. */
		.last_error = e->link.phase != LINK_BROKEN && strcmp(e->last_error, e->cause)
				      ? e->last_error
				      : "",
		.max_bandwidth = r->info.max_bandwidth,
		.n_connects = e->n_connects,
		.n_failures = connected ? 0 : e->link.failures,
	};
}
