/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ctrl/publications.h"

#define LIMIT_MS     60000
#define REGION_BYTES (UINT64_C(1) << 30)
/* As long as those that agents publish for their links. */
#define DESCRIPTOR_LEN 256

static const uint8_t descriptor[DESCRIPTOR_LEN];

struct publications {
	struct crowd *crowd;
	size_t n_regions, n_links;
	size_t n_busy; /* owners that have not published all */
};

/* One call after the other. */
struct owner {
	struct publications *all;
	struct agent *agent;
	size_t n_done;
};

static void on_published(void *arg, const struct nc_error *error);

static int publish_region(struct owner *o, size_t i)
{
	char name[32];
	const struct nc_region region = {
		.name = name,
		.revision = 1,
		.size = REGION_BYTES,
		.access = NC_READ | NC_WRITE,
		.descriptor = descriptor,
		.descriptor_len = sizeof(descriptor),
	};

	snprintf(name, sizeof(name), "region-%zu", i);
	return nc_publish(o->agent->client, &region, on_published, o);
}

static const char *peer_name(const struct owner *o, size_t link)
{
	const struct crowd *c = o->all->crowd;

	return c->agents[(o->agent->index + 1 + link) % c->n].name;
}

static int report_link(struct owner *o, size_t i)
{
	const struct nc_link link = {
		.peer = peer_name(o, i),
		.profile = "default",
		.revision = 1,
		.state = NC_CONNECTED,
		.transport = "rdma",
		.connection_epoch = 1,
		.peer_incarnation = o->all->crowd->incarnation,
	};

	return nc_report_link(o->agent->client, &link, on_published, o);
}

static int post_offer(struct owner *o, size_t i)
{
	return nc_post_offer(o->agent->client, peer_name(o, i), "default", 1, NULL, descriptor,
			     sizeof(descriptor), on_published, o);
}

static void publish_next(struct owner *o)
{
	const struct publications *all = o->all;
	size_t i = o->n_done, n_regions = all->n_regions, n_links = all->n_links;

	if (i < n_regions)
		crowd_called(o->agent, "region", publish_region(o, i));
	else if (i < n_regions + n_links)
		crowd_called(o->agent, "link", report_link(o, i - n_regions));
	else if (i < n_regions + 2 * n_links)
		crowd_called(o->agent, "offer", post_offer(o, i - n_regions - n_links));
	else if (--o->all->n_busy == 0)
		crowd_finish(all->crowd);
}

static void on_published(void *arg, const struct nc_error *error)
{
	struct owner *o = arg;

	if (!crowd_answered(o->agent, "publishing", error))
		return;
	o->n_done++;
	publish_next(o);
}

int publications_make(struct crowd *c, size_t n_owners, size_t n_regions, size_t n_links)
{
	struct publications all = {
		.crowd = c, .n_regions = n_regions, .n_links = n_links, .n_busy = n_owners
	};
	struct owner *owners;
	int ret;

	if (!n_regions && !n_links)
		return 0;
	owners = calloc(n_owners, sizeof(*owners));
	if (!owners) {
		crowd_fail(c, "what agents publish: %s", strerror(ENOMEM));
		return -1;
	}
	for (size_t i = 0; i < n_owners && !c->over; i++) {
		owners[i] = (struct owner){ &all, &c->agents[c->n - n_owners + i], 0 };
		publish_next(&owners[i]);
	}
	ret = crowd_run(c, NULL, "publishing", LIMIT_MS);
	free(owners);
	return ret;
}
