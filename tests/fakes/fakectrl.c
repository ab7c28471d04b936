/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakectrl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/list.h"
#include "peeragent/lib/ctrl.h"
#include "peeragent/lib/topology.h"

#define NAME 256

/* Also where assert() is nothing. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

enum kind {
	MSG_UP,
	MSG_DOWN,
	MSG_PEER,
	MSG_GONE,
	MSG_LIST_BEGIN,
	MSG_LIST_END,
	MSG_OFFER,
	MSG_OFFER_GONE,
	MSG_DONE,
	MSG_REGION,
	MSG_NAMES,
};

/* Something that an agent is told on its loop. */
struct msg {
	struct sl_list node;
	enum kind kind;
	char name[NAME];
	char profile[NAME];
	char incarnation[CTRL_INCARNATION_MAX + 1];
	struct slime_topology *labels;
	uint64_t epoch, generation, number;
	bool flag;
	enum ctrl_trouble trouble;
	int result;
	ctrl_done_fn *done;
	ctrl_region_fn *region_done;
	ctrl_names_fn *names_done;
	void *arg;
	size_t len;
	uint8_t bytes[CTRL_DESCRIPTOR_MAX];
};

struct ctrl {
	struct sl_list node;
	const struct ctrl_ops *ops;
	void *arg;
	char name[NAME], scope[NAME], incarnation[CTRL_INCARNATION_MAX + 1];
	char owner[CTRL_OWNER_KEY_LEN + 1];
	struct slime_topology *labels;
	int fd;
	struct event *event;
	struct sl_list inbox;
	bool started, registered, ended;
	uint64_t generation;
};

/* What one agent keeps at the server. */
struct object {
	struct sl_list node;
	enum { OBJECT_OFFER, OBJECT_REGION, OBJECT_LINK } kind;
	char owner[NAME], name[NAME], profile[NAME];
	uint64_t number;
	enum slime_link_state state;
	size_t len;
	uint8_t bytes[CTRL_DESCRIPTOR_MAX];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct sl_list agents, objects;
	bool ready, away;
	uint64_t epoch, generation;
	unsigned n_posts;
} server = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void lock(void)
{
	pthread_mutex_lock(&server.lock);
	if (server.ready)
		return;
	sl_list_init(&server.agents);
	sl_list_init(&server.objects);
	server.epoch = 1;
	server.ready = true;
}

static void unlock(void)
{
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

#define each_agent(c, tmp)                                              \
	for (struct sl_list * tmp##_n, *tmp = server.agents.next;       \
	     tmp##_n = tmp->next, tmp != &server.agents; tmp = tmp##_n) \
		for (struct ctrl *c = SL_CONTAINER_OF(tmp, struct ctrl, node); c; c = NULL)
#define each_object(o, tmp)                                              \
	for (struct sl_list * tmp##_n, *tmp = server.objects.next;       \
	     tmp##_n = tmp->next, tmp != &server.objects; tmp = tmp##_n) \
		for (struct object *o = SL_CONTAINER_OF(tmp, struct object, node); o; o = NULL)

/* ---- messages ---- */

static struct msg *tell(struct ctrl *c, enum kind kind)
{
	struct msg *m = calloc(1, sizeof(*m));

	must(m);
	m->kind = kind;
	sl_list_append(&c->inbox, &m->node);
	eventfd_write(c->fd, 1);
	return m;
}

static void tell_peer(struct ctrl *c, const struct ctrl *peer)
{
	struct msg *m = tell(c, MSG_PEER);

	strcpy(m->name, peer->name);
	strcpy(m->incarnation, peer->incarnation);
	m->epoch = server.epoch;
	m->generation = peer->generation;
	must(!topology_copy(peer->labels, &m->labels));
}

static bool sees(const struct ctrl *c, const struct ctrl *other)
{
	return c != other && c->registered && !strcmp(c->scope, other->scope);
}

static void deliver(struct ctrl *c, struct msg *m)
{
	const char *name = m->name;
	struct ctrl_peer peer = { m->name, m->incarnation, m->epoch, m->generation, NULL, 0 };
	struct ctrl_offer offer = { m->name,	   m->profile, m->incarnation, m->epoch,
				    m->generation, m->number,  m->bytes,       m->len };

	switch (m->kind) {
	case MSG_UP:
		c->ops->up(c->arg, m->flag);
		break;
	case MSG_DOWN:
		c->ops->down(c->arg, m->trouble, "as the fake was told");
		break;
	case MSG_PEER:
		peer.labels = m->labels->labels;
		peer.n_labels = m->labels->n_labels;
		c->ops->peer(c->arg, &peer);
		break;
	case MSG_GONE:
		c->ops->peer_gone(c->arg, m->name, m->epoch, m->generation, m->flag);
		break;
	case MSG_LIST_BEGIN:
		c->ops->list_begin(c->arg);
		break;
	case MSG_LIST_END:
		c->ops->list_end(c->arg);
		break;
	case MSG_OFFER:
		c->ops->offer(c->arg, &offer);
		break;
	case MSG_OFFER_GONE:
		c->ops->offer_gone(c->arg, m->name, m->profile, m->number);
		break;
	case MSG_DONE:
		m->done(m->arg, m->result);
		break;
	case MSG_REGION:
		m->region_done(m->arg, m->result, m->bytes, m->len);
		break;
	case MSG_NAMES:
		m->names_done(m->arg, 0, m->len ? &name : NULL, m->len);
		break;
	}
}

static struct msg *next_msg(struct ctrl *c)
{
	struct sl_list *node;

	lock();
	node = sl_list_pop(&c->inbox);
	unlock();
	return node ? SL_CONTAINER_OF(node, struct msg, node) : NULL;
}

static void free_msg(struct msg *m)
{
	free(m->labels);
	free(m);
}

static void on_inbox(evutil_socket_t fd, short what, void *arg)
{
	struct ctrl *c = arg;
	struct msg *m;
	eventfd_t n;

	(void)what;
	eventfd_read(fd, &n);
	while ((m = next_msg(c))) {
		deliver(c, m);
		free_msg(m);
	}
}

/* ---- what the server does ---- */

static struct ctrl *agent_named(const char *scope, const char *name)
{
	each_agent(c, at)
	{
		if (c->registered && !strcmp(c->scope, scope) && !strcmp(c->name, name))
			return c;
	}
	return NULL;
}

static void drop_object(struct object *o)
{
	sl_list_remove(&o->node);
	free(o);
}

/* Of an agent that ended: what it keeps, and what is posted for it. */
static void drop_objects(const char *name)
{
	each_object(o, at)
	{
		if (!strcmp(o->owner, name) || (o->kind == OBJECT_OFFER && !strcmp(o->name, name)))
			drop_object(o);
	}
}

static void end_registration(struct ctrl *c, bool left)
{
	c->registered = false;
	drop_objects(c->name);
	each_agent(other, at)
	{
		struct msg *m;

		if (!sees(other, c))
			continue;
		m = tell(other, MSG_GONE);
		strcpy(m->name, c->name);
		m->epoch = server.epoch;
		m->generation = c->generation;
		m->flag = left;
	}
}

static void tell_down(struct ctrl *c, enum ctrl_trouble trouble)
{
	tell(c, MSG_DOWN)->trouble = trouble;
}

static void tell_offer(struct ctrl *to, const struct object *o)
{
	const struct ctrl *from = agent_named(to->scope, o->owner);
	struct msg *m;

	if (!from)
		return;
	m = tell(to, MSG_OFFER);
	strcpy(m->name, from->name);
	strcpy(m->profile, o->profile);
	strcpy(m->incarnation, from->incarnation);
	m->epoch = server.epoch;
	m->generation = from->generation;
	m->number = o->number;
	m->len = o->len;
	memcpy(m->bytes, o->bytes, o->len);
}

static void tell_all(struct ctrl *c)
{
	tell(c, MSG_LIST_BEGIN);
	each_agent(other, at)
	{
		if (sees(other, c))
			tell_peer(c, other);
	}
	tell(c, MSG_LIST_END);
	each_object(o, at)
	{
		if (o->kind == OBJECT_OFFER && !strcmp(o->name, c->name))
			tell_offer(c, o);
	}
}

static void do_register(struct ctrl *c)
{
	struct ctrl *holder = agent_named(c->scope, c->name);

	if (server.away || c->ended || !c->started)
		return;
	if (holder && holder != c) {
		if (strcmp(holder->owner, c->owner) != 0) {
			tell_down(c, CTRL_NAME_TAKEN);
			return;
		}
		holder->ended = true;
		end_registration(holder, true);
		tell_down(holder, CTRL_SUPERSEDED);
	}
	c->registered = true;
	c->generation = ++server.generation;
	tell(c, MSG_UP)->flag = true;
	tell_all(c);
	each_agent(other, at)
	{
		if (sees(other, c))
			tell_peer(other, c);
	}
}

/* ---- ctrl.h ---- */

int ctrl_create(struct event_base *base, const struct ctrl_attr *attr, const struct ctrl_ops *ops,
		void *arg, struct ctrl **out)
{
	struct slime_topology labels = { .labels = attr->labels, .n_labels = attr->n_labels };
	struct ctrl *c = calloc(1, sizeof(*c));

	must(c && !topology_copy(&labels, &c->labels));
	c->ops = ops;
	c->arg = arg;
	strcpy(c->name, attr->name);
	strcpy(c->scope, attr->scope);
	strcpy(c->incarnation, attr->incarnation);
	strcpy(c->owner, attr->owner_key);
	sl_list_init(&c->inbox);
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->event = event_new(base, c->fd, EV_READ | EV_PERSIST, on_inbox, c);
	must(c->fd >= 0 && c->event && !event_add(c->event, NULL));
	lock();
	sl_list_append(&server.agents, &c->node);
	unlock();
	*out = c;
	return 0;
}

void ctrl_start(struct ctrl *c)
{
	lock();
	c->started = true;
	if (server.away)
		tell_down(c, CTRL_UNREACHABLE);
	do_register(c);
	unlock();
}

void ctrl_destroy(struct ctrl *c)
{
	struct sl_list *node;

	if (!c)
		return;
	lock();
	sl_list_remove(&c->node);
	if (c->registered)
		end_registration(c, false);
	unlock();
	while ((node = sl_list_pop(&c->inbox)))
		free_msg(SL_CONTAINER_OF(node, struct msg, node));
	event_free(c->event);
	close(c->fd);
	free(c->labels);
	free(c);
}

/* Whether there is a session; the answer is queued, and the caller holds the lock until finish().
 */
static bool begin(struct ctrl *c, ctrl_done_fn *done, void *arg)
{
	struct msg *m;

	lock();
	if (server.away || !c->registered) {
		unlock();
		return false;
	}
	m = tell(c, MSG_DONE);
	m->done = done;
	m->arg = arg;
	return true;
}

static int finish(void)
{
	unlock();
	return 0;
}

int ctrl_leave(struct ctrl *c, ctrl_done_fn *done, void *arg)
{
	bool in_session = begin(c, done, arg);

	if (!in_session)
		lock();
	c->ended = true;
	if (in_session)
		end_registration(c, true);
	unlock();
	return in_session ? 0 : -EAGAIN;
}

void ctrl_list(struct ctrl *c)
{
	lock();
	if (c->registered && !server.away)
		tell_all(c);
	unlock();
}

int ctrl_set_labels(struct ctrl *c, const struct slime_label *labels, size_t n_labels)
{
	struct slime_topology only = { .labels = labels, .n_labels = n_labels };

	lock();
	free(c->labels);
	must(!topology_copy(&only, &c->labels));
	each_agent(other, at)
	{
		if (c->registered && sees(other, c))
			tell_peer(other, c);
	}
	unlock();
	return 0;
}

static struct object *find_object(int kind, const char *owner, const char *name,
				  const char *profile)
{
	each_object(o, at)
	{
		if ((int)o->kind == kind && !strcmp(o->owner, owner) && !strcmp(o->name, name) &&
		    !strcmp(o->profile, profile))
			return o;
	}
	return NULL;
}

static struct object *put(struct ctrl *c, int kind, const char *name, const char *profile,
			  const void *bytes, size_t len)
{
	struct object *o = find_object(kind, c->name, name, profile);

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

static void drop(struct ctrl *c, int kind, const char *name, const char *profile)
{
	struct object *o = find_object(kind, c->name, name, profile);

	if (o)
		drop_object(o);
}

int ctrl_put_region(struct ctrl *c, const struct ctrl_region *region, ctrl_done_fn *done, void *arg)
{
	if (!begin(c, done, arg))
		return -EAGAIN;
	put(c, OBJECT_REGION, region->name, "", region->descriptor, region->len);
	return finish();
}

int ctrl_delete_region(struct ctrl *c, const char *name, ctrl_done_fn *done, void *arg)
{
	if (!begin(c, done, arg))
		return -EAGAIN;
	drop(c, OBJECT_REGION, name, "");
	return finish();
}

int ctrl_find_agent(struct ctrl *c, const char *agent, ctrl_done_fn *done, void *arg)
{
	struct msg *m;

	lock();
	if (server.away || !c->registered) {
		unlock();
		return -EAGAIN;
	}
	m = tell(c, MSG_DONE);
	m->done = done;
	m->arg = arg;
	m->result = agent_named(c->scope, agent) ? 0 : -ENOENT;
	return finish();
}

/* Of all the others one. */
int ctrl_list_names(struct ctrl *c, ctrl_names_fn *done, void *arg)
{
	struct msg *m;

	lock();
	if (server.away || !c->registered) {
		unlock();
		return -EAGAIN;
	}
	m = tell(c, MSG_NAMES);
	m->names_done = done;
	m->arg = arg;
	each_agent(other, at)
	{
		if (other != c && other->registered && !strcmp(other->scope, c->scope)) {
			strcpy(m->name, other->name);
			m->len = 1;
		}
	}
	return finish();
}

int ctrl_get_region(struct ctrl *c, const char *agent, const char *region, ctrl_region_fn *done,
		    void *arg)
{
	struct object *o;
	struct msg *m;

	lock();
	if (server.away || !c->registered) {
		unlock();
		return -EAGAIN;
	}
	o = find_object(OBJECT_REGION, agent, region, "");
	m = tell(c, MSG_REGION);
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
	struct object *o;

	if (!begin(c, done, arg))
		return -EAGAIN;
	server.n_posts++;
	to = agent_named(c->scope, peer);
	if (to && !strcmp(to->incarnation, peer_incarnation)) {
		o = put(c, OBJECT_OFFER, peer, profile, descriptor, len);
		o->number = number;
		tell_offer(to, o);
	}
	return finish();
}

int ctrl_withdraw(struct ctrl *c, const char *peer, const char *profile, ctrl_done_fn *done,
		  void *arg)
{
	struct object *o;
	struct ctrl *to;
	struct msg *m;

	if (!begin(c, done, arg))
		return -EAGAIN;
	o = find_object(OBJECT_OFFER, c->name, peer, profile);
	to = agent_named(c->scope, peer);
	if (o && to) {
		m = tell(to, MSG_OFFER_GONE);
		strcpy(m->name, c->name);
		strcpy(m->profile, profile);
		m->number = o->number;
	}
	drop(c, OBJECT_OFFER, peer, profile);
	return finish();
}

int ctrl_report_link(struct ctrl *c, const struct ctrl_link *link, ctrl_done_fn *done, void *arg)
{
	if (!begin(c, done, arg))
		return -EAGAIN;
	put(c, OBJECT_LINK, link->peer, link->profile, NULL, 0)->state = link->state;
	return finish();
}

int ctrl_forget_link(struct ctrl *c, const char *peer, const char *profile, ctrl_done_fn *done,
		     void *arg)
{
	if (!begin(c, done, arg))
		return -EAGAIN;
	drop(c, OBJECT_LINK, peer, profile);
	return finish();
}

/* ---- what tests do ---- */

void fakectrl_reset(void)
{
	lock();
	must(sl_list_empty(&server.agents));
	each_object(o, at) drop_object(o);
	server.away = false;
	server.n_posts = 0;
	unlock();
}

void fakectrl_go_away(void)
{
	lock();
	server.away = true;
	each_agent(c, at)
	{
		if (c->registered)
			tell_down(c, CTRL_UNREACHABLE);
	}
	unlock();
}

void fakectrl_come_back(bool with_data)
{
	lock();
	server.away = false;
	if (!with_data) {
		server.epoch++;
		each_object(o, at) drop_object(o);
	}
	each_agent(c, at)
	{
		if (with_data && c->registered)
			tell(c, MSG_UP)->flag = false;
		else
			c->registered = false;
	}
	each_agent(c, at)
	{
		if (!c->registered)
			do_register(c);
	}
	unlock();
}

void fakectrl_expire(const char *agent)
{
	lock();
	each_agent(c, at)
	{
		if (strcmp(c->name, agent) != 0 || !c->registered)
			continue;
		end_registration(c, false);
		tell_down(c, CTRL_UNREACHABLE);
		do_register(c);
	}
	unlock();
}

static bool wait_for(bool (*holds)(const void *), const void *arg, int timeout_ms)
{
	struct timespec until;
	bool held;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	lock();
	while (!(held = holds(arg)) && !ret)
		ret = pthread_cond_timedwait(&server.changed, &server.lock, &until);
	unlock();
	return held;
}

struct wanted_object {
	int kind;
	const char *owner, *name, *profile;
	bool there;
	int state; /* below 0: any */
};

static bool object_is(const void *arg)
{
	const struct wanted_object *w = arg;
	const struct object *o = find_object(w->kind, w->owner, w->name, w->profile);

	return w->there ? o && (w->state < 0 || (int)o->state == w->state) : !o;
}

bool fakectrl_wait_link(const char *agent, const char *peer, const char *profile,
			enum slime_link_state state, int timeout_ms)
{
	struct wanted_object w = { OBJECT_LINK, agent, peer, profile, true, (int)state };

	return wait_for(object_is, &w, timeout_ms);
}

bool fakectrl_wait_no_link(const char *agent, const char *peer, const char *profile, int timeout_ms)
{
	struct wanted_object w = { OBJECT_LINK, agent, peer, profile, false, -1 };

	return wait_for(object_is, &w, timeout_ms);
}

bool fakectrl_wait_region(const char *agent, const char *region, bool there, int timeout_ms)
{
	struct wanted_object w = { OBJECT_REGION, agent, region, "", there, -1 };

	return wait_for(object_is, &w, timeout_ms);
}

unsigned fakectrl_n_posts(void)
{
	unsigned n;

	lock();
	n = server.n_posts;
	unlock();
	return n;
}
