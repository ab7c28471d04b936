/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/plan/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peeragent/lib/plan/block.h"

bool topology_is_name(const char *text, size_t max)
{
	size_t len = text ? strlen(text) : 0;

	return len >= 1 && len <= max && strcmp(text, ".") && strcmp(text, "..") &&
	       strspn(text,
		      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@-") == len;
}

bool topology_is_scope(const char *scope)
{
	static const char *const reserved[] = { "agent",    "mr",  "stream", "spec",
						"exchange", "obs", "inbox",  "nanoctrl" };

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (!strcmp(scope, reserved[i]))
			return false;
	}
	return topology_is_name(scope, SLIME_AGENT_NAME_MAX) && !strchr(scope, ':');
}

bool topology_is_selector(const char *to)
{
	return strchr(to, '=') != NULL;
}

const char *topology_profile(const struct slime_agent_link *link)
{
	return link->profile ? link->profile : TOPOLOGY_DEFAULT_PROFILE;
}

static const char *label_value(const char *key, size_t len, const char *name,
			       const struct slime_label *labels, size_t n_labels)
{
	if (len == 4 && !memcmp(key, "name", 4))
		return name;
	for (size_t i = 0; i < n_labels; i++) {
		if (strlen(labels[i].key) == len && !memcmp(labels[i].key, key, len))
			return labels[i].value;
	}
	return NULL;
}

bool topology_selects(const char *selector, const char *name, const struct slime_label *labels,
		      size_t n_labels)
{
	for (const char *at = selector;; at++) {
		size_t key_len = strcspn(at, "=");
		const char *value = label_value(at, key_len, name, labels, n_labels);
		size_t len;

		if (at[key_len] != '=')
			return false;
		at += key_len + 1;
		len = strcspn(at, ",");
		if (!value || strlen(value) != len || memcmp(value, at, len))
			return false;
		at += len;
		if (!*at)
			return true;
	}
}

bool topology_link_matches(const struct slime_agent_link *link, const char *name,
			   const struct slime_label *labels, size_t n_labels)
{
	return topology_is_selector(link->to) ? topology_selects(link->to, name, labels, n_labels)
					      : !strcmp(link->to, name);
}

/* ---- copy ---- */

static void copy_labels(struct block *b, const struct slime_topology *from,
			struct slime_topology *to)
{
	const struct slime_label *list = block_take_labels(b, from->labels, from->n_labels);

	if (to)
		to->labels = list;
}

static void copy_regions(struct block *b, const struct slime_topology *from,
			 struct slime_topology *to)
{
	struct slime_agent_region *list =
		block_take(b, from->n_regions * sizeof(*list), _Alignof(struct slime_agent_region));

	for (size_t i = 0; i < from->n_regions; i++) {
		struct slime_agent_region r = from->regions[i];

		r.name = block_take_text(b, r.name);
		r.allow = r.n_allow ? block_take_texts(b, r.allow, r.n_allow) : NULL;
		r.gpu = block_take_text(b, r.gpu);
		if (list)
			list[i] = r;
	}
	if (to)
		to->regions = list;
}

static void copy_links(struct block *b, const struct slime_topology *from,
		       struct slime_topology *to)
{
	struct slime_agent_link *list =
		block_take(b, from->n_links * sizeof(*list), _Alignof(struct slime_agent_link));

	for (size_t i = 0; i < from->n_links; i++) {
		struct slime_agent_link l = from->links[i];

		l.to = block_take_text(b, l.to);
		l.profile = block_take_text(b, l.profile);
		l.devices = block_take_text(b, l.devices);
		l.peer_devices = block_take_text(b, l.peer_devices);
		if (list)
			list[i] = l;
	}
	if (to)
		to->links = list;
}

static struct slime_topology *copy_into(struct block *b, const struct slime_topology *from)
{
	struct slime_topology *to = block_take(b, sizeof(*to), _Alignof(struct slime_topology));

	if (to)
		*to = *from;
	copy_labels(b, from, to);
	copy_regions(b, from, to);
	copy_links(b, from, to);
	return to;
}

int topology_copy(const struct slime_topology *from, struct slime_topology **out)
{
	struct block b = { NULL, 0 };

	copy_into(&b, from);
	b.at = malloc(b.len);
	if (!b.at)
		return -ENOMEM;
	b.len = 0;
	*out = copy_into(&b, from);
	return 0;
}

/* ---- difference ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_labels(const struct slime_topology *a, const struct slime_topology *b)
{
	if (a->n_labels != b->n_labels)
		return false;
	for (size_t i = 0; i < a->n_labels; i++) {
		const char *key = a->labels[i].key;
		const char *value = label_value(key, strlen(key), NULL, b->labels, b->n_labels);

		if (!same_text(value, a->labels[i].value))
			return false;
	}
	return true;
}

static bool allows(const struct slime_agent_region *r, const char *selector)
{
	for (size_t i = 0; i < r->n_allow; i++) {
		if (!strcmp(r->allow[i], selector))
			return true;
	}
	return false;
}

static bool same_readers(const struct slime_agent_region *a, const struct slime_agent_region *b)
{
	if (a->n_allow != b->n_allow)
		return false;
	for (size_t i = 0; i < a->n_allow; i++) {
		if (!allows(b, a->allow[i]))
			return false;
	}
	return true;
}

static bool same_memory(const struct slime_agent_region *a, const struct slime_agent_region *b)
{
	return a->size == b->size && a->huge == b->huge && a->numa_node == b->numa_node &&
	       a->access == b->access && a->on_demand == b->on_demand && same_text(a->gpu, b->gpu);
}

static const struct slime_agent_region *region_named(const struct slime_topology *t,
						     const char *name)
{
	for (size_t i = 0; i < t->n_regions; i++) {
		if (!strcmp(t->regions[i].name, name))
			return &t->regions[i];
	}
	return NULL;
}

static const struct slime_agent_link *link_like(const struct slime_topology *t,
						const struct slime_agent_link *like)
{
	for (size_t i = 0; i < t->n_links; i++) {
		if (!strcmp(t->links[i].to, like->to) &&
		    !strcmp(topology_profile(&t->links[i]), topology_profile(like)))
			return &t->links[i];
	}
	return NULL;
}

bool topology_links_alike(const struct slime_agent_link *a, const struct slime_agent_link *b)
{
	return !memcmp(a->transports, b->transports, sizeof(a->transports)) && a->qps == b->qps &&
	       a->rails == b->rails && a->min_bandwidth == b->min_bandwidth &&
	       a->max_bandwidth == b->max_bandwidth && same_text(a->devices, b->devices) &&
	       same_text(a->peer_devices, b->peer_devices);
}

static void add(struct plan *p, enum plan_verb verb, size_t index)
{
	p->steps[p->n++] = (struct plan_step){ verb, index };
}

static void plan_ends(const struct slime_topology *want, const struct slime_topology *have,
		      struct plan *p)
{
	for (size_t i = 0; i < have->n_links; i++) {
		const struct slime_agent_link *l = link_like(want, &have->links[i]);

		if (!l || !topology_links_alike(l, &have->links[i]))
			add(p, PLAN_LINK_CLOSE, i);
	}
	for (size_t i = 0; i < have->n_regions; i++) {
		const struct slime_agent_region *r = region_named(want, have->regions[i].name);

		if (!r || !same_memory(r, &have->regions[i]))
			add(p, PLAN_REGION_WITHDRAW, i);
	}
}

static void plan_beginnings(const struct slime_topology *want, const struct slime_topology *have,
			    struct plan *p)
{
	for (size_t i = 0; i < want->n_regions; i++) {
		const struct slime_agent_region *r = region_named(have, want->regions[i].name);

		if (!r || !same_memory(r, &want->regions[i]))
			add(p, PLAN_REGION_OFFER, i);
		else if (!same_readers(r, &want->regions[i]))
			add(p, PLAN_REGION_REPUBLISH, i);
	}
	if (!same_labels(want, have))
		add(p, PLAN_LABELS, 0);
	for (size_t i = 0; i < want->n_links; i++) {
		const struct slime_agent_link *l = link_like(have, &want->links[i]);

		if (!l || !topology_links_alike(l, &want->links[i]))
			add(p, PLAN_LINK_OPEN, i);
	}
}

int topology_diff(const struct slime_topology *want, const struct slime_topology *have,
		  struct plan *out)
{
	size_t most = want->n_links + have->n_links + want->n_regions + have->n_regions + 1;
	struct plan p = { calloc(most, sizeof(*p.steps)), 0 };

	if (!p.steps)
		return -ENOMEM;
	plan_ends(want, have, &p);
	plan_beginnings(want, have, &p);
	*out = p;
	return 0;
}
