/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakectrl_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

void must(bool holds)
{
	if (!holds)
		abort();
}

void server_lock(void)
{
	pthread_mutex_lock(&server.lock);
	if (server.ready)
		return;
	sl_list_init(&server.agents);
	sl_list_init(&server.objects);
	sl_list_init(&server.withdrawals);
	server.epoch = 1;
	server.ready = true;
}

void server_unlock(void)
{
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

/* ---- who and what is there ---- */

struct ctrl *server_agent(const char *scope, const char *name)
{
	each_agent(c, at)
	{
		if (c->registered && !strcmp(c->scope, scope) && !strcmp(c->name, name))
			return c;
	}
	return NULL;
}

struct object *server_object(enum object_kind kind, const char *owner, const char *name,
			     const char *profile)
{
	each_object(o, at)
	{
		if (o->kind == kind && !strcmp(o->owner, owner) && !strcmp(o->name, name) &&
		    !strcmp(o->profile, profile))
			return o;
	}
	return NULL;
}

void server_drop(struct object *o)
{
	sl_list_remove(&o->node);
	free(o);
}

struct object *server_put(struct ctrl *c, enum object_kind kind, const char *name,
			  const char *profile, const void *bytes, size_t len)
{
	struct object *o = server_object(kind, c->name, name, profile);

	if (!o) {
		o = calloc(1, sizeof(*o));
		must(o);
		o->kind = kind;
		strcpy(o->owner, c->name);
		strcpy(o->name, name);
		strcpy(o->profile, profile);
		sl_list_append(&server.objects, &o->node);
	}
	must(len <= sizeof(o->bytes));
	o->len = len;
	if (len)
		memcpy(o->bytes, bytes, len);
	return o;
}

/* Of an agent that ended: what it keeps, and what is posted for it. */
static void drop_objects(const char *name)
{
	each_object(o, at)
	{
		if (!strcmp(o->owner, name) || (o->kind == OBJECT_OFFER && !strcmp(o->name, name)))
			server_drop(o);
	}
}

bool server_sees(const struct ctrl *c, const struct ctrl *other)
{
	return c != other && c->registered && !strcmp(c->scope, other->scope);
}

void server_withdraw(struct ctrl *c, const char *region, uint64_t revision, ctrl_done_fn *done,
		     void *arg)
{
	struct object *o = server_object(OBJECT_REGION, c->name, region, "");
	struct msg *m = inbox_tell(&c->inbox, MSG_DONE);

	m->done = done;
	m->arg = arg;
	if (o && o->number > revision)
		m->result = -ESTALE;
	else if (o)
		server_drop(o);
}

/* ---- telling ---- */

void server_tell_peer(struct ctrl *c, const struct ctrl *peer)
{
	struct msg *m = inbox_tell(&c->inbox, MSG_PEER);

	strcpy(m->name, peer->name);
	strcpy(m->incarnation, peer->incarnation);
	m->epoch = server.epoch;
	m->generation = peer->generation;
	must(!topology_copy(peer->labels, &m->labels));
}

void server_tell_down(struct ctrl *c, enum ctrl_trouble trouble)
{
	inbox_tell(&c->inbox, MSG_DOWN)->trouble = trouble;
}

void server_tell_offer(struct ctrl *to, const struct object *o)
{
	const struct ctrl *from = server_agent(to->scope, o->owner);
	struct msg *m;

	if (!from)
		return;
	m = inbox_tell(&to->inbox, MSG_OFFER);
	strcpy(m->name, from->name);
	strcpy(m->profile, o->profile);
	strcpy(m->incarnation, from->incarnation);
	m->epoch = server.epoch;
	m->generation = from->generation;
	m->number = o->number;
	m->len = o->len;
	memcpy(m->bytes, o->bytes, o->len);
}

void server_post(struct ctrl *from, struct ctrl *to, const char *profile, uint64_t number,
		 const void *bytes, size_t len)
{
	struct object *o = server_put(from, OBJECT_OFFER, to->name, profile, bytes, len);

	o->number = number;
	server_tell_offer(to, o);
}

void server_tell_all(struct ctrl *c)
{
	inbox_tell(&c->inbox, MSG_LIST_BEGIN);
	each_agent(other, at)
	{
		if (server_sees(other, c))
			server_tell_peer(c, other);
	}
	inbox_tell(&c->inbox, MSG_LIST_END);
	each_object(o, at)
	{
		if (o->kind == OBJECT_OFFER && !strcmp(o->name, c->name))
			server_tell_offer(c, o);
	}
}

void server_tell_up(struct ctrl *c)
{
	inbox_tell(&c->inbox, MSG_UP)->flag = false;
	if (c->list_due)
		server_tell_all(c);
	c->list_due = false;
}

/* ---- registrations ---- */

void server_end_registration(struct ctrl *c, bool left)
{
	c->registered = false;
	drop_objects(c->name);
	each_agent(other, at)
	{
		struct msg *m;

		if (!server_sees(other, c))
			continue;
		m = inbox_tell(&other->inbox, MSG_GONE);
		strcpy(m->name, c->name);
		m->epoch = server.epoch;
		m->generation = c->generation;
		m->flag = left;
	}
}

void server_register(struct ctrl *c)
{
	struct ctrl *holder = server_agent(c->scope, c->name);

	if (server.away || c->ended || !c->started)
		return;
	if (holder && holder != c) {
		if (strcmp(holder->owner, c->owner) != 0) {
			server_tell_down(c, CTRL_NAME_TAKEN);
			return;
		}
		holder->ended = true;
		server_end_registration(holder, true);
		server_tell_down(holder, CTRL_SUPERSEDED);
	}
	c->registered = true;
	c->generation = ++server.generation;
	c->list_due = false;
	inbox_tell(&c->inbox, MSG_UP)->flag = true;
	server_tell_all(c);
	each_agent(other, at)
	{
		if (server_sees(other, c))
			server_tell_peer(other, c);
	}
}
