/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of an agent: ctrl.h, on the state in memory. */
#include "peeragent/lib/control/ctrl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peeragent/lib/plan/topology.h"
#include "tests/fakes/fakectrl_server.h"

bool ctrl_is_url(const char *text)
{
	return !strncmp(text, "http://", 7);
}

int ctrl_create(struct event_base *base, const struct ctrl_attr *attr, const struct ctrl_ops *ops,
		void *arg, struct ctrl **out)
{
	struct slime_topology labels = { .labels = attr->labels, .n_labels = attr->n_labels };
	struct ctrl *c = calloc(1, sizeof(*c));

	must(c && !topology_copy(&labels, &c->labels));
	strcpy(c->name, attr->name);
	strcpy(c->scope, attr->scope);
	strcpy(c->incarnation, attr->incarnation);
	strcpy(c->owner, attr->owner_key);
	must(attr->n_services <= FAKE_SERVICES);
	for (; c->n_services < attr->n_services; c->n_services++)
		strcpy(c->services[c->n_services], attr->services[c->n_services]);
	inbox_init(&c->inbox, base, ops, arg);
	server_lock();
	sl_list_append(&server.agents, &c->node);
	server_unlock();
	*out = c;
	return 0;
}

void ctrl_start(struct ctrl *c)
{
	server_lock();
	c->started = true;
	if (server.away)
		server_tell_down(c, CTRL_UNREACHABLE);
	server_register(c);
	server_unlock();
}

void ctrl_destroy(struct ctrl *c)
{
	if (!c)
		return;
	server_lock();
	sl_list_remove(&c->node);
	if (c->registered)
		server_end_registration(c, false);
	server_unlock();
	inbox_fini(&c->inbox);
	free(c->labels);
	free(c);
}

/* Whether there is a session; the answer is queued, and the caller holds the lock until finish().
 */
static bool begin(struct ctrl *c, ctrl_done_fn *done, void *arg)
{
	struct msg *m;

	server_lock();
	if (server.away || !c->registered) {
		server_unlock();
		return false;
	}
	m = inbox_tell(&c->inbox, MSG_DONE);
	m->done = done;
	m->arg = arg;
	return true;
}

static int finish(void)
{
	server_unlock();
	return 0;
}

int ctrl_leave(struct ctrl *c, ctrl_done_fn *done, void *arg)
{
	bool in_session = begin(c, done, arg);

	if (!in_session)
		server_lock();
	c->ended = true;
	if (in_session)
		server_end_registration(c, true);
	server_unlock();
	return in_session ? 0 : -EAGAIN;
}

void ctrl_list(struct ctrl *c)
{
	server_lock();
	c->list_due = !c->registered || server.away;
	if (!c->list_due)
		server_tell_all(c);
	server_unlock();
}

uint32_t ctrl_lease_ms(const struct ctrl *c)
{
	return c->registered ? FAKE_LEASE_MS : 0;
}

/* It knows no topologies, which are what would ask for it. */
void ctrl_look(struct ctrl *c, const char *agent)
{
	(void)agent;
	ctrl_list(c);
}

int ctrl_set_labels(struct ctrl *c, const struct slime_label *labels, size_t n_labels)
{
	struct slime_topology only = { .labels = labels, .n_labels = n_labels };

	server_lock();
	free(c->labels);
	must(!topology_copy(&only, &c->labels));
	each_agent(other, at)
	{
		if (c->registered && server_sees(other, c))
			server_tell_peer(other, c);
	}
	server_unlock();
	return 0;
}

static void drop(struct ctrl *c, enum object_kind kind, const char *name, const char *profile)
{
	struct object *o = server_object(kind, c->name, name, profile);

	if (o)
		server_drop(o);
}

/* There is one server, whatever it is called. */
int ctrl_set_urls(struct ctrl *c, const char *const *urls, size_t n_urls)
{
	(void)c;
	(void)urls;
	(void)n_urls;
	return 0;
}

int ctrl_put_region(struct ctrl *c, const struct ctrl_region *region, ctrl_done_fn *done, void *arg)
{
	struct object *o;

	if (!begin(c, done, arg))
		return -EAGAIN;
	o = server_put(c, OBJECT_REGION, region->name, "", region->descriptor, region->len);
	o->number = region->revision;
	o->size = region->size;
	o->access = region->access;
	each_agent(other, at)
	{
		struct msg *m;

		if (!server_sees(other, c))
			continue;
		m = inbox_tell(&other->inbox, MSG_REGION_CHANGED);
		strcpy(m->name, c->name);
		strcpy(m->profile, region->name);
	}
	return finish();
}

static void hold_withdrawal(struct ctrl *c, const char *name, uint64_t revision, ctrl_done_fn *done,
			    void *arg)
{
	struct withdrawal *w = calloc(1, sizeof(*w));

	must(w);
	w->from = c;
	strcpy(w->name, name);
	w->revision = revision;
	w->done = done;
	w->arg = arg;
	sl_list_append(&server.withdrawals, &w->node);
}

int ctrl_delete_region(struct ctrl *c, const char *name, uint64_t revision, ctrl_done_fn *done,
		       void *arg)
{
	bool in_session;

	server_lock();
	in_session = c->registered && !server.away;
	if (in_session && server.holds_withdrawals)
		hold_withdrawal(c, name, revision, done, arg);
	else if (in_session)
		server_withdraw(c, name, revision, done, arg);
	server_unlock();
	return in_session ? 0 : -EAGAIN;
}

int ctrl_find_agent(struct ctrl *c, const char *agent, ctrl_done_fn *done, void *arg)
{
	struct msg *m;

	server_lock();
	if (server.away || !c->registered) {
		server_unlock();
		return -EAGAIN;
	}
	m = inbox_tell(&c->inbox, MSG_DONE);
	m->done = done;
	m->arg = arg;
	m->result = server_agent(c->scope, agent) ? 0 : -ENOENT;
	return finish();
}

static bool offers(const struct ctrl *c, const char *service)
{
	for (size_t i = 0; i < c->n_services; i++)
		if (!strcmp(c->services[i], service))
			return true;
	return false;
}

/* One of those that offer the service. */
int ctrl_list_providers(struct ctrl *c, const char *service, ctrl_names_fn *done, void *arg)
{
	struct msg *m;

	server_lock();
	if (server.away || !c->registered) {
		server_unlock();
		return -EAGAIN;
	}
	m = inbox_tell(&c->inbox, MSG_NAMES);
	m->names_done = done;
	m->arg = arg;
	each_agent(other, at)
	{
		if (other->registered && !strcmp(other->scope, c->scope) &&
		    offers(other, service)) {
			strcpy(m->name, other->name);
			m->len = 1;
		}
	}
	return finish();
}

/* As begin(), of a page. */
static struct msg *begin_page(struct ctrl *c, ctrl_page_fn *done, void *arg)
{
	struct msg *m;

	server_lock();
	if (server.away || !c->registered) {
		server_unlock();
		return NULL;
	}
	m = inbox_tell(&c->inbox, MSG_PAGE);
	m->page_done = done;
	m->arg = arg;
	return m;
}

static void list_agent(struct listed *l, const struct ctrl *c)
{
	strcpy(l->name, c->name);
	l->generation = c->generation;
	must(!topology_copy(c->labels, &l->labels) && l->labels->n_labels <= FAKE_PAIRS);
	for (; l->n_attributes < c->n_attributes; l->n_attributes++) {
		size_t i = 2 * l->n_attributes;

		strcpy(l->texts[i], c->attributes[i]);
		strcpy(l->texts[i + 1], c->attributes[i + 1]);
		l->attributes[l->n_attributes] = (struct nc_pair){ l->texts[i], l->texts[i + 1] };
	}
	for (; l->n_services < c->n_services; l->n_services++) {
		strcpy(l->service_names[l->n_services], c->services[l->n_services]);
		l->services[l->n_services].name = l->service_names[l->n_services];
	}
}

/* A page has FAKE_PAGE agents, in the order in which they came; after is how many came before. */
int ctrl_list_agents(struct ctrl *c, const char *selector, const char *after, ctrl_page_fn *done,
		     void *arg)
{
	struct msg *m = begin_page(c, done, arg);
	size_t skip = after ? strtoul(after, NULL, 10) : 0, seen = 0;

	if (!m)
		return -EAGAIN;
	m->agents = calloc(FAKE_PAGE, sizeof(*m->agents));
	must(m->agents);
	each_agent(other, at)
	{
		if (!other->registered || strcmp(other->scope, c->scope) ||
		    (selector && !topology_selects(selector, other->name, other->labels->labels,
						   other->labels->n_labels)) ||
		    seen++ < skip)
			continue;
		m->more = m->n == FAKE_PAGE;
		if (!m->more)
			list_agent(&m->agents[m->n++], other);
	}
	sprintf(m->name, "%zu", skip + m->n);
	return finish();
}

/* The first FAKE_PAGE of them. */
int ctrl_list_regions(struct ctrl *c, const char *agent, ctrl_page_fn *done, void *arg)
{
	struct msg *m = begin_page(c, done, arg);
	struct ctrl *owner;

	if (!m)
		return -EAGAIN;
	owner = server_agent(c->scope, agent);
	m->result = owner ? 0 : -ENOENT;
	m->regions = calloc(FAKE_PAGE, sizeof(*m->regions));
	must(m->regions);
	each_object(o, at)
	{
		struct listed *l = &m->regions[m->n];

		if (!owner || o->kind != OBJECT_REGION || strcmp(o->owner, agent) ||
		    m->n == FAKE_PAGE)
			continue;
		strcpy(l->name, o->name);
		l->generation = owner->generation;
		l->revision = o->number;
		l->size = o->size;
		l->access = (o->access & SLIME_ACCESS_REMOTE_READ ? NC_READ : 0u) |
			    (o->access & SLIME_ACCESS_REMOTE_WRITE ? NC_WRITE : 0u);
		m->n++;
	}
	return finish();
}

int ctrl_get_region(struct ctrl *c, const char *agent, const char *region, ctrl_region_fn *done,
		    void *arg)
{
	struct object *o;
	struct msg *m;

	server_lock();
	if (server.away || !c->registered || server.n_full) {
		server.n_full -= server.n_full > 0;
		server_unlock();
		return -EAGAIN;
	}
	o = server_object(OBJECT_REGION, agent, region, "");
	m = inbox_tell(&c->inbox, MSG_REGION);
	m->region_done = done;
	m->arg = arg;
	m->result = o ? 0 : -ENOENT;
	m->len = o ? o->len : 0;
	if (o)
		memcpy(m->bytes, o->bytes, o->len);
	return finish();
}

int ctrl_post(struct ctrl *c, const char *peer, const char *profile, const char *peer_incarnation,
	      uint64_t number, const void *descriptor, size_t len, ctrl_done_fn *done, void *arg)
{
	struct ctrl *to;

	if (!begin(c, done, arg))
		return -EAGAIN;
	server.n_posts++;
	to = server_agent(c->scope, peer);
	if (to && !strcmp(to->incarnation, peer_incarnation))
		server_post(c, to, profile, number, descriptor, len);
	return finish();
}

int ctrl_withdraw(struct ctrl *c, const char *peer, const char *profile, uint64_t number,
		  ctrl_done_fn *done, void *arg)
{
	struct object *o;
	struct ctrl *to;
	struct msg *m;

	must(number > 0);
	if (!begin(c, done, arg))
		return -EAGAIN;
	o = server_object(OBJECT_OFFER, c->name, peer, profile);
	to = server_agent(c->scope, peer);
	if (o && to) {
		m = inbox_tell(&to->inbox, MSG_OFFER_GONE);
		strcpy(m->name, c->name);
		strcpy(m->profile, profile);
		m->number = o->number;
	}
	drop(c, OBJECT_OFFER, peer, profile);
	return finish();
}

int ctrl_report_link(struct ctrl *c, const struct ctrl_link *link, ctrl_done_fn *done, void *arg)
{
	struct object *o;

	if (!begin(c, done, arg))
		return -EAGAIN;
	o = server_put(c, OBJECT_LINK, link->peer, link->profile, NULL, 0);
	o->state = link->state;
	if (link->transports) {
		o->report = (struct fakectrl_report){ .own_order = link->own_order,
						      .n_connects = link->n_connects,
						      .n_failures = link->n_failures };
		snprintf(o->report.transports, sizeof(o->report.transports), "%s",
			 link->transports);
		snprintf(o->report.source, sizeof(o->report.source), "%.511s",
			 link->source ? link->source : "");
		snprintf(o->report.passed_over, sizeof(o->report.passed_over), "%.511s",
			 link->passed_over);
		snprintf(o->report.last_error, sizeof(o->report.last_error), "%.511s",
			 link->last_error);
	}
	return finish();
}

int ctrl_forget_link(struct ctrl *c, const char *peer, const char *profile, uint64_t revision,
		     ctrl_done_fn *done, void *arg)
{
	must(revision > 0);
	if (!begin(c, done, arg))
		return -EAGAIN;
	drop(c, OBJECT_LINK, peer, profile);
	return finish();
}

/* Nobody looks at them. */
int ctrl_put_snapshot(struct ctrl *c, const struct nc_snapshot *snapshot, ctrl_done_fn *done,
		      void *arg)
{
	(void)snapshot;
	return begin(c, done, arg) ? finish() : -EAGAIN;
}
