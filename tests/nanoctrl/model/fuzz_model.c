/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as any body: refused with a reason, or parsed into something that can be freed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "model/model.h"
#include "compat/model.h"
#include "model/out.h"
#include "model/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void objects(const char *body, size_t len)
{
	int (*const parse[])(const char *, size_t, struct model_object *,
			     struct model_error *) = { model_parse_region, model_parse_link,
						       model_parse_offer };
	struct model_object m;
	struct model_error err;

	for (size_t i = 0; i < sizeof(parse) / sizeof(*parse); i++)
		if (!parse[i](body, len, &m, &err))
			model_object_fini(&m);
}

static void compatible(const char *body, size_t len)
{
	struct store_text info = { body, len };
	struct store_entities found = { .n = 1, .info = &info };
	struct store_peer peer = { info, info, info, info, info, info, info, info };
	struct store_peer_list peers = { .n = 1, .peers = &peer };
	struct out listed = { .at = NULL }, peer_list = { .at = NULL };
	struct compat_request r;
	struct model_error err;
	char *entity;

	for (int form = COMPAT_HEARTBEAT; form <= COMPAT_NOTHING; form++) {
		if (compat_parse((enum compat_form)form, body, len, &r, &err))
			continue;
		entity = compat_entity(&r);
		free(compat_event(&r));
		free(entity);
		free(compat_spec(&r));
		free(compat_mr(&r));
		free(compat_started(&r, r.name, ""));
		free(compat_message("ok", "", r.type, ":", r.id, ""));
		compat_request_fini(&r);
	}
	free(compat_found(&found));
	compat_listed(&listed, &found);
	free(out_finish(&listed));
	free(compat_mr_info(&found));
	compat_peers(&peer_list, &peers);
	free(out_finish(&peer_list));
}

/* Expanded over a few agents, and applied over itself. */
static void topologies(const char *body, size_t len)
{
	const struct topology_label labels[] = { { "role", "x" }, { "rank", "1" } };
	const struct topology_agent agents[] = { { .name = "a", .labels = labels, .n_labels = 2 },
						 { .name = "b", .labels = labels, .n_labels = 1 },
						 { .name = "c", .labels = NULL, .n_labels = 0 } };
	struct store_topology one = { .name = "t", .doc = { body, len } };
	struct store_topologies have = { .n = 1, .list = &one };
	struct model_apply how = { .scope = "s", .name = "t" };
	struct model_topology m;
	struct model_change change;
	struct model_error err;
	struct expansion e;

	for (int force = 0; force < 2; force++) {
		how.force = force;
		how.prune = !force;
		if (!model_apply(&how, &have, body, len, &change, &err))
			model_change_fini(&change);
	}
	if (model_parse_topology(body, len, &m, &err))
		return;
	if (!expand(&m.topology, 1, agents, 3, NULL, 0, &e)) {
		free(model_topology_report(&e.topologies[0], 1));
		expansion_fini(&e);
	}
	model_topology_fini(&m);
}

/* What a body says comes back out of the store one day, or something else does. */
static void stored(const char *body, size_t len)
{
	struct store_agent agent = { .name = "a", .incarnation = "i", .session = "" };
	struct store_object object = { .agent = "a",
				       .incarnation = "i",
				       .name = "p/x",
				       .doc = { body, len },
				       .blob = { body, len } };
	struct store_page page = { .n_agents = 1,
				   .agents = &agent,
				   .n_objects = 1,
				   .objects = &object,
				   .n_owners = 1,
				   .owners = &agent };
	char *text;

	agent.profile.labels = agent.profile.services = object.doc;
	agent.profile.attributes = agent.profile.address = object.doc;
	free(model_agents("s", &page, NULL));
	free(model_services(&page, NULL, NULL));
	free(model_regions(&page, "a=b"));
	if (!model_region(&object, true, &text))
		free(text);
	free(model_links(&page, NULL));
	model_region_allows(&object, &agent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *body = malloc(size + 1);
	struct store_agent agent = { .name = "a" };
	struct store_cursor cursor;
	struct model_agent m;
	struct model_error err;

	if (!body)
		return 0;
	memcpy(body, data, size);
	body[size] = '\0';
	if (!model_parse_registration(body, size, &m, &err))
		model_agent_fini(&m);
	if (!model_parse_update(body, size, &m, &err))
		model_agent_fini(&m);
	model_parse_heartbeat(body, size, &cursor, &err);
	model_parse_message(body, size, &cursor, &err);
	model_parse_cursor(body, &cursor);
	if (model_selector_valid(body))
		model_selector_matches(body, &agent);
	objects(body, size);
	topologies(body, size);
	compatible(body, size);
	stored(body, size);
	free(body);
	return 0;
}
