/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/devices.h"

#include <inttypes.h>
#include <event2/buffer.h>

#include <slime/stats.h>

#define METRIC "slime_rdma_events_total"
/* As many as a context has. */
#define DEVICES_MAX 8

/* A name is the kernel's word, but ends no label early. */
static void print_events(const struct slime_device_stats *d, struct evbuffer *out)
{
	char device[sizeof(d->device)];
	size_t i = 0;

	for (const char *at = d->device; *at; at++)
		device[i++] = *at == '"' || *at == '\\' ? '_' : *at;
	device[i] = '\0';
	for (int k = 0; k < SLIME_DEVICE_EVENTS; k++)
		evbuffer_add_printf(out, METRIC "{device=\"%s\",kind=\"%s\"} %" PRIu64 "\n", device,
				    slime_device_event_name((enum slime_device_event)k),
				    d->events[k]);
}

void devices_print(const struct slime_context *ctx, struct evbuffer *out)
{
	struct slime_device_stats all[DEVICES_MAX];
	size_t n = slime_context_device_stats(ctx, all, DEVICES_MAX);

	if (n)
		evbuffer_add_printf(out, "# HELP " METRIC
					 " what RDMA devices told of themselves\n# TYPE " METRIC
					 " counter\n");
	for (size_t i = 0; i < n && i < DEVICES_MAX; i++)
		print_events(&all[i], out);
}
