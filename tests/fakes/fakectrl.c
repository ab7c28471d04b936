/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakectrl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fakes/fakectrl_server.h"

void fakectrl_reset(void)
{
	server_lock();
	must(sl_list_empty(&server.agents) && sl_list_empty(&server.withdrawals));
	each_object(o, at) server_drop(o);
	server.away = server.holds_withdrawals = false;
	server.n_posts = server.n_full = 0;
	server_unlock();
}

void fakectrl_fill_calls(unsigned n)
{
	server_lock();
	server.n_full = n;
	server_unlock();
}

void fakectrl_go_away(void)
{
	server_lock();
	server.away = true;
	each_agent(c, at)
	{
		if (c->registered)
			server_tell_down(c, CTRL_UNREACHABLE);
	}
	server_unlock();
}

void fakectrl_come_back(bool with_data)
{
	server_lock();
	server.away = false;
	if (!with_data) {
		server.epoch++;
		each_object(o, at) server_drop(o);
	}
	each_agent(c, at)
	{
		if (with_data && c->registered)
			server_tell_up(c);
		else
			c->registered = false;
	}
	each_agent(c, at)
	{
		if (!c->registered)
			server_register(c);
	}
	server_unlock();
}

/* Under the lock. */
static void end_lease(const char *agent, bool again)
{
	each_agent(c, at)
	{
		if (strcmp(c->name, agent) != 0 || !c->registered)
			continue;
		server_end_registration(c, false);
		server_tell_down(c, CTRL_UNREACHABLE);
		if (again)
			server_register(c);
	}
}

void fakectrl_expire(const char *agent)
{
	server_lock();
	end_lease(agent, true);
	server_unlock();
}

void fakectrl_cut_off(const char *agent)
{
	server_lock();
	end_lease(agent, false);
	server_unlock();
}

void fakectrl_withdraw_region(const char *agent, const char *region)
{
	struct object *o;
	struct msg *m;

	server_lock();
	o = server_object(OBJECT_REGION, agent, region, "");
	must(o != NULL);
	each_agent(c, at)
	{
		if (!c->registered || strcmp(c->name, agent))
			continue;
		m = inbox_tell(&c->inbox, MSG_REGION_GONE);
		strcpy(m->name, region);
		m->number = o->number;
	}
	server_drop(o);
	server_unlock();
}

void fakectrl_hold_withdrawals(void)
{
	server_lock();
	server.holds_withdrawals = true;
	server_unlock();
}

void fakectrl_release_withdrawals(void)
{
	struct sl_list *node;

	server_lock();
	server.holds_withdrawals = false;
	while ((node = sl_list_pop(&server.withdrawals))) {
		struct withdrawal *w = SL_CONTAINER_OF(node, struct withdrawal, node);

		server_withdraw(w->from, w->name, w->revision, w->done, w->arg);
		free(w);
	}
	server_unlock();
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
	server_lock();
	while (!(held = holds(arg)) && !ret)
		ret = pthread_cond_timedwait(&server.changed, &server.lock, &until);
	server_unlock();
	return held;
}

struct wanted_object {
	enum object_kind kind;
	const char *owner, *name, *profile;
	bool there;
	int state; /* below 0: any */
};

static bool object_is(const void *arg)
{
	const struct wanted_object *w = arg;
	const struct object *o = server_object(w->kind, w->owner, w->name, w->profile);

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

bool fakectrl_report(const char *agent, const char *peer, const char *profile,
		     struct fakectrl_report *out)
{
	const struct object *o;

	server_lock();
	o = server_object(OBJECT_LINK, agent, peer, profile);
	if (o)
		*out = o->report;
	server_unlock();
	return o;
}

unsigned fakectrl_n_posts(void)
{
	unsigned n;

	server_lock();
	n = server.n_posts;
	server_unlock();
	return n;
}

void fakectrl_post(const char *from, const char *to, const char *profile, uint64_t number,
		   const void *bytes, size_t len)
{
	server_lock();
	each_agent(c, at)
	{
		struct ctrl *peer = server_agent(c->scope, to);

		if (c->registered && peer && !strcmp(c->name, from))
			server_post(c, peer, profile, number, bytes, len);
	}
	server_unlock();
}

uint64_t fakectrl_post_number(const char *from, const char *to, const char *profile)
{
	const struct object *o;
	uint64_t number;

	server_lock();
	o = server_object(OBJECT_OFFER, from, to, profile);
	number = o ? o->number : 0;
	server_unlock();
	return number;
}
