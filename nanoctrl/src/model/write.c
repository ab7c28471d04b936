/* SPDX-License-Identifier: Apache-2.0 */
/* The half of the model that writes, and that reads back what the store kept. */
#include "model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <base/selector.h>
#include <event2/buffer.h>
#include <jansson.h>
#include "store/key.h"
#include "model/json_path.h"

static _Atomic uint64_t n_junk;

void model_metrics(struct evbuffer *out)
{
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_model_junk_total Documents in the store that were not "
			    "ours and were left out.\n"
			    "# TYPE nanoctrl_model_junk_total counter\n"
			    "nanoctrl_model_junk_total %" PRIu64 "\n",
			    atomic_load(&n_junk));
}

void model_note_junk(void)
{
	atomic_fetch_add(&n_junk, 1);
}

/* A document of the store; NULL when it is none of that type. Nothing is the empty one. */
static json_t *parsed(struct store_text t, json_type type)
{
	json_error_t why;
	json_t *v;

	if (!t.len)
		return type == JSON_ARRAY ? json_array() : json_object();
	v = json_path_parse(t.at, t.len, 0, &why);
	if (v && json_typeof(v) == type)
		return v;
	json_decref(v);
	return NULL;
}

/* The same, and what is none is counted. */
static json_t *stored(struct store_text t, json_type type)
{
	json_t *v = parsed(t, type);

	if (!v)
		model_note_junk();
	return v;
}

static json_t *stored_or_empty(struct store_text t, json_type type)
{
	json_t *v = stored(t, type);

	return v ? v : stored((struct store_text){ NULL, 0 }, type);
}

static json_t *text_or_null(struct store_text t)
{
	json_t *v = t.len ? json_stringn(t.at, t.len) : NULL;

	return v ? v : json_null();
}

/* A string of ours as JSON; what is not UTF-8 came from elsewhere and reads as "". */
static json_t *word(const char *s)
{
	json_t *v = json_string(s);

	return v ? v : json_string("");
}

void model_format_cursor(char out[MODEL_CURSOR_MAX], const struct store_cursor *c)
{
	snprintf(out, MODEL_CURSOR_MAX, "%" PRIu64 ":%" PRIu64, c->epoch, c->id);
}

static json_t *cursor_text(const struct store_cursor *c)
{
	char text[MODEL_CURSOR_MAX];

	model_format_cursor(text, c);
	return json_string(text);
}

/* Takes root over. */
static char *finish(json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text;
}

/* ---- selectors ---- */

/* The next "key=value" of a selector; false at its end, or when it is malformed (*bad). */
static bool next_term(const char **at, char *key, char *value, bool *bad)
{
	size_t len = strcspn(*at, ",");
	const char *eq = memchr(*at, '=', len);
	size_t key_len = eq ? (size_t)(eq - *at) : 0;
	size_t value_len = eq ? len - key_len - 1 : 0;

	*bad = false;
	if (!**at)
		return false;
	*bad = !key_len || key_len > STORE_NAME_MAX || value_len > STORE_NAME_MAX;
	if (*bad)
		return false;
	memcpy(key, *at, key_len);
	key[key_len] = '\0';
	memcpy(value, eq + 1, value_len);
	value[value_len] = '\0';
	*at += len + ((*at)[len] == ',' ? 1 : 0);
	*bad = !key_name_valid(key);
	return !*bad;
}

bool model_selector_valid(const char *selector)
{
	char key[STORE_NAME_MAX + 1];
	char value[STORE_NAME_MAX + 1];
	bool bad = !*selector || sl_selector_slip(selector);

	while (!bad && next_term(&selector, key, value, &bad))
		;
	return !bad;
}

static bool matches(const char *selector, const char *name, const json_t *labels)
{
	char key[STORE_NAME_MAX + 1];
	char value[STORE_NAME_MAX + 1];
	bool bad;

	while (next_term(&selector, key, value, &bad)) {
		const char *have = strcmp(key, "name") == 0
					   ? name
					   : json_string_value(json_object_get(labels, key));

		if (!have || strcmp(have, value) != 0)
			return false;
	}
	return !bad;
}

bool model_selector_matches(const char *selector, const struct store_agent *agent)
{
	json_t *labels = stored_or_empty(agent->profile.labels, JSON_OBJECT);
	bool ret = matches(selector, agent->name, labels);

	json_decref(labels);
	return ret;
}

bool model_region_allows(const struct store_object *region, const struct store_agent *agent)
{
	json_t *doc = parsed(region->doc, JSON_OBJECT);
	json_t *labels = stored_or_empty(agent->profile.labels, JSON_OBJECT);
	const json_t *allow = json_object_get(doc, "allow");
	bool ret = doc && !allow;
	const json_t *item;
	size_t i;

	json_array_foreach(allow, i, item)
	{
		if (json_is_string(item) && matches(json_string_value(item), agent->name, labels))
			ret = true;
	}
	json_decref(labels);
	json_decref(doc);
	return ret;
}

/* ---- agents ---- */

char *model_grant(const char *scope, const struct store_registration *r,
		  const struct store_grant *g, const char *lease, const struct store_config *c)
{
	return finish(json_pack(
		"{s:s,s:s,s:s,s:I,s:I,s:s,s:s,s:b,s:o,s:I,s:I,s:I}", "status", "ok", "name",
		r->name, "scope", scope, "epoch", (json_int_t)g->cursor.epoch, "generation",
		(json_int_t)g->generation, "incarnation", r->incarnation, "lease", lease, "resumed",
		(int)g->resumed, "cursor", cursor_text(&g->cursor), "ttl_ms", (json_int_t)c->ttl_ms,
		"beat_ms", (json_int_t)c->beat_ms, "grace_ms", (json_int_t)c->grace_ms));
}

char *model_holder(const struct store_holder *h)
{
	const struct store_agent *a = &h->agent;

	return finish(json_pack("{s:I,s:o,s:o,s:I,s:I,s:I,s:I,s:I}", "generation",
				(json_int_t)a->generation, "incarnation", word(a->incarnation),
				"address", text_or_null(a->profile.address), "registered_at_ms",
				(json_int_t)a->registered_at_ms, "at_ms", (json_int_t)h->now_ms,
				"lease_left_ms", (json_int_t)a->lease_left_ms, "ttl_ms",
				(json_int_t)h->ttl_ms, "wait_ms", (json_int_t)h->wait_ms));
}

/* Those that are services: a client takes a list as a whole or not at all. */
static json_t *services_of(const struct store_agent *a)
{
	json_t *services = stored_or_empty(a->profile.services, JSON_ARRAY);

	for (size_t i = json_array_size(services); i--;) {
		const json_t *one = json_array_get(services, i);

		if (json_is_string(json_object_get(one, "name")))
			continue;
		model_note_junk();
		json_array_remove(services, i);
	}
	return services;
}

static json_t *agent_object(const char *scope, const struct store_agent *a)
{
	return json_pack(
		"{s:o,s:s,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:b}", "name", word(a->name),
		"scope", scope, "epoch", (json_int_t)a->epoch, "generation",
		(json_int_t)a->generation, "incarnation", word(a->incarnation), "address",
		text_or_null(a->profile.address), "labels",
		stored_or_empty(a->profile.labels, JSON_OBJECT), "services", services_of(a),
		"attributes", stored_or_empty(a->profile.attributes, JSON_OBJECT), "revision",
		(json_int_t)a->revision, "registered_at_ms", (json_int_t)a->registered_at_ms,
		"lease_left_ms", (json_int_t)a->lease_left_ms, "session", *a->session != 0);
}

char *model_agent(const char *scope, const struct store_page *page)
{
	return finish(json_pack("{s:s,s:o,s:o}", "status", "ok", "cursor",
				cursor_text(&page->cursor), "agent",
				agent_object(scope, &page->agents[0])));
}

/* {"status","epoch","cursor",NAME:[items],"next"}; takes items over. */
static char *page_text(const struct store_page *page, const char *name, json_t *items)
{
	return finish(json_pack("{s:s,s:I,s:o,s:I,s:o,s:o}", "status", "ok", "epoch",
				(json_int_t)page->cursor.epoch, "cursor",
				cursor_text(&page->cursor), "now_ms", (json_int_t)page->now_ms,
				name, items, "next", page->next ? word(page->next) : json_null()));
}

char *model_agents(const char *scope, const struct store_page *page, const char *selector)
{
	json_t *items = json_array();

	for (size_t i = 0; i < page->n_agents; i++)
		if (!selector || model_selector_matches(selector, &page->agents[i]))
			json_array_append_new(items, agent_object(scope, &page->agents[i]));
	return page_text(page, "agents", items);
}

static void add_services(json_t *items, const struct store_agent *a, const char *name)
{
	json_t *services = services_of(a);
	const json_t *one;
	size_t i;

	json_array_foreach(services, i, one)
	{
		const char *have = json_string_value(json_object_get(one, "name"));
		json_t *attributes = json_object_get(one, "attributes");

		if (name && strcmp(name, have) != 0)
			continue;
		attributes = attributes ? json_incref(attributes) : json_object();
		json_array_append_new(items,
				      json_pack("{s:s,s:o,s:o,s:I,s:o,s:o}", "name", have,
						"attributes", attributes, "agent", word(a->name),
						"generation", (json_int_t)a->generation,
						"incarnation", word(a->incarnation), "address",
						text_or_null(a->profile.address)));
	}
	json_decref(services);
}

char *model_services(const struct store_page *page, const char *name, const char *selector)
{
	json_t *items = json_array();

	for (size_t i = 0; i < page->n_agents; i++)
		if (!selector || model_selector_matches(selector, &page->agents[i]))
			add_services(items, &page->agents[i], name);
	return page_text(page, "services", items);
}

/* ---- objects ---- */

static void set(json_t *o, const char *name, json_t *value)
{
	json_object_set_new(o, name, value);
}

static bool are_strings(const json_t *array)
{
	bool all = json_is_array(array);
	const json_t *one;
	size_t i;

	json_array_foreach(array, i, one) all = all && json_is_string(one);
	return all;
}

/* The stored document of a region. It has these members since it was published; a document without
 * them is junk. */
static json_t *stored_region(struct store_text doc)
{
	json_t *o = stored(doc, JSON_OBJECT);
	const json_t *size = json_object_get(o, "size"), *allow = json_object_get(o, "allow");

	if (!o || (json_is_integer(size) && json_integer_value(size) >= 0 &&
		   are_strings(json_object_get(o, "access")) && (!allow || are_strings(allow))))
		return o;
	model_note_junk();
	json_decref(o);
	return NULL;
}

static json_t *region_object(const struct store_object *r, bool with_blob)
{
	json_t *o = stored_region(r->doc);

	if (!o)
		return NULL;
	set(o, "agent", word(r->agent));
	set(o, "name", word(r->name));
	set(o, "generation", json_integer((json_int_t)r->generation));
	set(o, "incarnation", word(r->incarnation));
	set(o, "revision", json_integer((json_int_t)r->revision));
	if (!json_object_get(o, "attributes"))
		set(o, "attributes", json_object());
	if (with_blob)
		set(o, "descriptor", text_or_null(r->blob));
	return o;
}

int model_region(const struct store_object *region, bool with_blob, char **out)
{
	json_t *o = region_object(region, with_blob);

	if (!o)
		return STORE_NOT_FOUND;
	*out = finish(json_pack("{s:s,s:o}", "status", "ok", "region", o));
	return *out ? 0 : -ENOMEM;
}

/* A walk over the objects of a page beside their owners, which are in the same order. */
struct choice {
	const struct store_page *page;
	const char *selector; /* NULL: of all agents */
	size_t at;	      /* of the owner */
	bool known;	      /* whether its objects are chosen: */
	bool chosen;
};

static bool is_chosen(struct choice *c, const struct store_object *o)
{
	const struct store_agent *owners = c->page->owners;

	if (!c->selector)
		return true;
	while (c->at < c->page->n_owners && strcmp(owners[c->at].name, o->agent) != 0) {
		c->at++;
		c->known = false;
	}
	if (c->at == c->page->n_owners)
		return false;
	if (!c->known)
		c->chosen = model_selector_matches(c->selector, &owners[c->at]);
	c->known = true;
	return c->chosen;
}

char *model_regions(const struct store_page *page, const char *selector)
{
	struct choice choice = { .page = page, .selector = selector };
	json_t *items = json_array();

	for (size_t i = 0; i < page->n_objects; i++) {
		const struct store_object *r = &page->objects[i];
		json_t *o = is_chosen(&choice, r) ? region_object(r, false) : NULL;

		if (o)
			json_array_append_new(items, o);
	}
	return page_text(page, "regions", items);
}

static const char *const link_members[] = { "cause", "transport", "connection_epoch",
					    "peer_incarnation" };

static json_t *stored_report(struct store_text doc)
{
	json_t *o = stored(doc, JSON_OBJECT);

	if (!o || json_is_string(json_object_get(o, "state")))
		return o;
	model_note_junk();
	json_decref(o);
	return NULL;
}

/* A report as it is now: the age it had when it came, and how long ago that was. */
static json_t *link_object(const struct store_object *l, uint64_t now_ms)
{
	const char *slash = strrchr(l->name, '/'); /* a selector may have one, too */
	json_t *o = slash ? stored_report(l->doc) : NULL;
	json_int_t at;

	if (!o)
		return NULL;
	at = (json_int_t)l->stored_at_ms - json_integer_value(json_object_get(o, "age_ms"));
	set(o, "agent", word(l->agent));
	set(o, "peer", json_stringn(l->name, (size_t)(slash - l->name)));
	set(o, "profile", word(slash + 1));
	set(o, "generation", json_integer((json_int_t)l->generation));
	set(o, "revision", json_integer((json_int_t)l->revision));
	set(o, "changed_at_ms", json_integer(at));
	set(o, "age_ms", json_integer((json_int_t)now_ms - at));
	for (size_t i = 0; i < sizeof(link_members) / sizeof(*link_members); i++)
		if (!json_object_get(o, link_members[i]))
			set(o, link_members[i], json_null());
	return o;
}

char *model_links(const struct store_page *page, const char *selector)
{
	struct choice choice = { .page = page, .selector = selector };
	json_t *items = json_array();

	for (size_t i = 0; i < page->n_objects; i++) {
		const struct store_object *l = &page->objects[i];
		json_t *o = is_chosen(&choice, l) ? link_object(l, page->now_ms) : NULL;

		if (o)
			json_array_append_new(items, o);
	}
	return page_text(page, "links", items);
}

static json_t *offer_object(const struct store_offer *f)
{
	json_t *o = json_pack("{s:o,s:o,s:o,s:I,s:o,s:I,s:o,s:I}", "from", word(f->from), "to",
			      word(f->to), "profile", word(f->profile), "generation",
			      (json_int_t)f->generation, "incarnation", word(f->incarnation),
			      "peer_generation", (json_int_t)f->to_generation, "peer_incarnation",
			      word(f->to_incarnation), "connection_epoch",
			      (json_int_t)f->connection_epoch);

	if (o && f->blob.len)
		set(o, "descriptor", text_or_null(f->blob));
	return o;
}

char *model_offer(const struct store_offer *offer)
{
	return finish(json_pack("{s:s,s:o}", "status", "ok", "offer", offer_object(offer)));
}

char *model_offers(const struct store_cursor *cursor, const struct store_offer *offers, size_t n)
{
	json_t *items = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, offer_object(&offers[i]));
	return finish(json_pack("{s:s,s:o,s:o}", "status", "ok", "cursor", cursor_text(cursor),
				"offers", items));
}

/* ---- scopes ---- */

char *model_scopes(const struct store_scope *scopes, size_t n, const char *next)
{
	json_t *items = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(items,
				      json_pack("{s:s,s:I,s:I}", "name", scopes[i].name, "agents",
						(json_int_t)scopes[i].n_agents, "topologies",
						(json_int_t)scopes[i].n_topologies));
	return finish(json_pack("{s:s,s:o,s:o}", "status", "ok", "scopes", items, "next",
				strcmp(next, "0") ? word(next) : json_null()));
}

/* ---- events ---- */

/* Of topologies and of what they come to for an agent. */
static json_t *topology_event(uint64_t epoch, const struct store_event *e)
{
	bool wanted = *e->to != '\0';
	struct store_cursor c = { epoch, e->id };

	return json_pack("{s:o,s:o,s:I,s:o,s:I}", "type", word(e->type), "cursor", cursor_text(&c),
			 "at_ms", (json_int_t)e->at_ms, wanted ? "agent" : "topology",
			 word(e->agent), "revision", (json_int_t)e->number);
}

static json_t *event_object(uint64_t epoch, const struct store_event *e)
{
	struct store_cursor c = { epoch, e->id };
	bool offer = *e->to != '\0';
	json_t *o;

	if (!strcmp(e->type, "wanted") || !strncmp(e->type, "topology", 8))
		return topology_event(epoch, e);
	o = json_pack("{s:o,s:o,s:I,s:o,s:I}", "type", word(e->type), "cursor", cursor_text(&c),
		      "at_ms", (json_int_t)e->at_ms, offer ? "from" : "agent", word(e->agent),
		      "generation", (json_int_t)e->generation);

	if (!o)
		return NULL;
	set(o, "incarnation", word(e->incarnation));
	if (offer) {
		set(o, "to", word(e->to));
		set(o, "profile", word(e->object));
		set(o, "connection_epoch", json_integer((json_int_t)e->number));
		return o;
	}
	if (*e->object)
		set(o, "region", word(e->object));
	if (*e->object || strcmp(e->type, "changed") == 0)
		set(o, "revision", json_integer((json_int_t)e->number));
	return o;
}

const char *model_event(uint64_t epoch, const struct store_event *e)
{
	if (!*e->text)
		*e->text = finish(event_object(epoch, e));
	return *e->text;
}

char *model_events(const struct store_events *events, const struct store_cursor *cursor, bool reset,
		   const char *to)
{
	json_t *items = json_array(), *o;

	for (size_t i = 0; events && i < events->n; i++) {
		const struct store_event *e = &events->events[i];

		if (e->id > cursor->id)
			break;
		if (*e->to && strcmp(e->to, to) != 0)
			continue;
		/* The cursor is behind it: no reader would miss it. */
		if (json_array_append_new(items, event_object(events->epoch, e))) {
			json_decref(items);
			return NULL;
		}
	}
	o = json_pack("{s:s,s:o,s:b,s:o}", "status", "ok", "cursor", cursor_text(cursor), "reset",
		      (int)reset, "events", items);
	if (o && events && events->now_ms)
		set(o, "now_ms", json_integer((json_int_t)events->now_ms));
	return finish(o);
}
