/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether clients that speak to Redis themselves get to it where they are told it is: they connect
 * over TCP, say no password and choose no database, and so does a probe. What it finds is known to
 * all loops. That it fails counts once our own connection, asked behind it, has answered: a Redis
 * that is away is not at a wrong address.
 */
#include "compat/reach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <base/utf8.h>
#include "compat/store.h"
#include <base/clock.h>
#include <base/log.h>
#include "store/reply.h"
#include "redis/dial.h"
#include "nanoctrl/net/loop.h"
#include "nanoctrl/net/resolver.h"

#define PROBE_MS 2000	/* for an answer */
#define ROUND_MS 10000	/* the configured address is probed so often, also without requests */
#define GOOD_MS	 30000	/* a later request probes again, */
#define BAD_MS	 1000	/* and so soon before a client is refused because of it */
#define SAID_MS	 600000 /* an address that was not asked for since is no warning any more */
#define LINE_MAX 128	/* of an answer */

static const char ping[] = "*1\r\n$4\r\nPING\r\n";

struct probe {
	struct sl_list node; /* of its store's */
	struct store *store;
	struct dial dial;
	struct bufferevent *bev; /* NULL: it has ended, and our own connection is asked */
	struct event *timer;	 /* its end, too: when nothing of libevent's is on the stack */
	struct sl_list askers;
	struct reach_known found;
};

struct asker {
	struct sl_list node;
	bool strict;
	store_reach_fn *fn;
	void *arg;
};

/* ---- what is known ---- */

static struct reach_known look_up(struct store_hub *hub, const char *address)
{
	struct reach_known known = { .verdict = REACH_UNKNOWN };

	pthread_mutex_lock(&hub->lock);
	for (size_t i = 0; i < REACH_MAX; i++)
		if (strcmp(hub->compat->reach[i].address, address) == 0)
			known = hub->compat->reach[i];
	pthread_mutex_unlock(&hub->lock);
	return known;
}

/* Its place, or that of the one that is known longest. */
static struct reach_known *place_of(struct store_hub *hub, const char *address)
{
	struct reach_known *oldest = &hub->compat->reach[0];

	for (size_t i = 0; i < REACH_MAX; i++) {
		if (strcmp(hub->compat->reach[i].address, address) == 0)
			return &hub->compat->reach[i];
		if (hub->compat->reach[i].at_ns < oldest->at_ns)
			oldest = &hub->compat->reach[i];
	}
	memset(oldest, 0, sizeof(*oldest));
	return oldest;
}

/* Changes are in the log. */
static void keep(struct store_hub *hub, const struct reach_known *found)
{
	struct reach_known before, *place;

	pthread_mutex_lock(&hub->lock);
	place = place_of(hub, found->address);
	before = *place;
	*place = *found;
	pthread_mutex_unlock(&hub->lock);
	if (found->verdict == REACH_YES && before.verdict > REACH_YES)
		sl_info("reach", "agents of DLSlime can reach Redis at %s again", found->address);
	else if (found->verdict > REACH_YES &&
		 (before.verdict != found->verdict || strcmp(before.why, found->why) != 0))
		sl_warn("reach", "agents of DLSlime are told that Redis is at %s: %s",
			found->address, found->why);
}

static void forget_all(struct store_hub *hub)
{
	pthread_mutex_lock(&hub->lock);
	memset(hub->compat->reach, 0, sizeof(hub->compat->reach));
	pthread_mutex_unlock(&hub->lock);
}

void reach_warn(struct store_hub *hub, struct evbuffer *out)
{
	uint64_t now = sl_clock_ns();

	pthread_mutex_lock(&hub->lock);
	for (size_t i = 0; i < REACH_MAX; i++)
		if (hub->compat->reach[i].verdict > REACH_YES &&
		    now - hub->compat->reach[i].at_ns < SAID_MS * SL_NS_PER_MS)
			evbuffer_add_printf(
				out, "agents of DLSlime are told that Redis is at %s: %s\n",
				hub->compat->reach[i].address, hub->compat->reach[i].why);
	pthread_mutex_unlock(&hub->lock);
}

/* A peer that refuses us refuses all clients. If nothing answers us, other hosts may still get an
 * answer, unless they are on this host as well. */
static int judge(const struct reach_known *known, bool strict)
{
	return known->verdict == REACH_REFUSES || (known->verdict == REACH_SILENT && strict)
		       ? -ENOTSUP
		       : 0;
}

static void answer(const struct reach_known *known, bool strict, store_reach_fn *fn, void *arg)
{
	char why[sizeof(known->why) + STORE_REDIS_ADDRESS_MAX + 80];
	int result = judge(known, strict);

	if (result)
		snprintf(why, sizeof(why),
			 "Redis is to be at %s for clients of this route, and they could not "
			 "reach it: %s",
			 known->address, known->why);
	fn(arg, result, result ? why : "");
}

/* ---- a probe ---- */

static void hang_up(struct probe *p)
{
	dial_end(&p->dial);
	if (p->bev)
		bufferevent_free(p->bev);
	p->bev = NULL;
}

static void end_probe(struct probe *p)
{
	struct sl_list *e;

	sl_list_remove(&p->node);
	if (p->found.verdict != REACH_UNKNOWN)
		keep(p->store->hub, &p->found);
	while ((e = sl_list_pop(&p->askers))) {
		struct asker *a = SL_CONTAINER_OF(e, struct asker, node);

		answer(&p->found, a->strict, a->fn, a->arg);
		free(a);
	}
	hang_up(p);
	event_free(p->timer);
	free(p);
}

/* Redis was there all the time, or nothing follows from what was found. */
static void on_own_answer(void *arg, int result, const redisReply *reply)
{
	struct probe *p = arg;

	(void)reply;
	if (result)
		p->found.verdict = REACH_UNKNOWN;
	end_probe(p);
}

static void ask_own(struct probe *p)
{
	const char *args[] = { "PING" };

	if (redis_command(p->store->redis, 1, args, NULL, on_own_answer, p)) {
		p->found.verdict = REACH_UNKNOWN;
		end_probe(p);
	}
}

/* The first that is found counts. */
static void find(struct probe *p, enum reach_verdict verdict, const char *what, const char *more)
{
	struct reach_known *found = &p->found;

	if (found->verdict != REACH_UNKNOWN)
		return;
	found->verdict = verdict;
	snprintf(found->why, sizeof(found->why), "%s%s", what, more);
	sl_utf8_make_printable(found->why);
	if (p->bev)
		bufferevent_disable(p->bev, EV_READ | EV_WRITE);
	event_active(p->timer, EV_TIMEOUT, 0);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct probe *p = arg;

	(void)fd;
	(void)what;
	event_del(p->timer);
	if (p->found.verdict == REACH_UNKNOWN)
		snprintf(p->found.why, sizeof(p->found.why), "nothing answers there");
	if (p->found.verdict == REACH_UNKNOWN)
		p->found.verdict = REACH_SILENT;
	p->found.at_ns = sl_clock_ns();
	hang_up(p);
	if (p->found.verdict == REACH_YES)
		end_probe(p);
	else
		ask_own(p);
}

/* One that is loading, say, is reached. */
static void on_read(struct bufferevent *bev, void *arg)
{
	struct probe *p = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	char line[LINE_MAX + 1] = "";
	char *end;

	evbuffer_copyout(in, line, LINE_MAX);
	end = strstr(line, "\r\n");
	if (!end && evbuffer_get_length(in) < LINE_MAX)
		return;
	if (end)
		*end = '\0';
	if (strcmp(line, "+PONG") == 0 || (*line == '-' && store_is_refusal(line + 1)))
		find(p, REACH_YES, "", "");
	else if (*line == '-')
		find(p, REACH_REFUSES,
		     "it refuses those without a password in database 0: ", line + 1);
	else
		find(p, REACH_REFUSES, "what answers there is no Redis", "");
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct probe *p = arg;
	int err = EVUTIL_SOCKET_ERROR();

	if (what & BEV_EVENT_CONNECTED)
		bufferevent_write(bev, ping, sizeof(ping) - 1);
	else if (what & BEV_EVENT_EOF)
		find(p, REACH_REFUSES, "what is there closes the connection", "");
	else
		find(p, REACH_SILENT,
		     "from here it cannot be reached: ", dial_error(&p->dial, err));
}

/* HOST:PORT. */
static bool take_apart(const char *address, char host[256], uint16_t *port)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;
	unsigned long n = colon ? strtoul(colon + 1, NULL, 10) : 0;

	if (!len || len > 255 || n < 1 || n > 65535)
		return false;
	memcpy(host, address, len);
	host[len] = '\0';
	*port = (uint16_t)n;
	return true;
}

static void connect_to(struct probe *p)
{
	struct store *store = p->store;
	char host[256];
	uint16_t port;

	if (!take_apart(p->found.address, host, &port)) {
		find(p, REACH_SILENT, "it is no HOST:PORT", "");
		return;
	}
	p->bev = bufferevent_socket_new(store->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!p->bev) {
		find(p, REACH_SILENT, "no memory to try it", "");
		return;
	}
	bufferevent_setcb(p->bev, on_read, NULL, on_event, p);
	bufferevent_enable(p->bev, EV_READ | EV_WRITE);
	dial(&p->dial, p->bev, store->base, &store->compat->resolver, host, port);
}

/* That of this address which is under way, or a new one. NULL: no memory. */
static struct probe *begin_probe(struct store *store, const char *address)
{
	struct probe *p;

	for (struct sl_list *e = store->compat->probes.next; e != &store->compat->probes;
	     e = e->next) {
		p = SL_CONTAINER_OF(e, struct probe, node);
		if (strcmp(p->found.address, address) == 0)
			return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->store = store;
	p->timer = evtimer_new(store->base, on_timer, p);
	if (!p->timer) {
		free(p);
		return NULL;
	}
	sl_list_init(&p->askers);
	sl_list_append(&store->compat->probes, &p->node);
	snprintf(p->found.address, sizeof(p->found.address), "%s", address);
	loop_set_timer(p->timer, PROBE_MS);
	connect_to(p);
	return p;
}

/* ---- requests ---- */

/* Our own connection is one of such a client: or the private Redis has said that it listens. */
static bool is_proven(const struct store *store, const char *address)
{
	const struct redis_url *url = &store->hub->url;
	char own[STORE_REDIS_ADDRESS_MAX];
	uint16_t port = (uint16_t)atomic_load(&store->hub->compat->port.open);
	const char *host = "127.0.0.1";

	if (!url->path && url->password)
		return false;
	if (!url->path)
		host = redis_host(store->redis, &port);
	snprintf(own, sizeof(own), "%s:%u", host, port);
	return strcmp(own, address) == 0;
}

static bool is_fresh(const struct reach_known *known, bool strict)
{
	uint64_t ms = (sl_clock_ns() - known->at_ns) / SL_NS_PER_MS;

	return known->verdict != REACH_UNKNOWN && ms < (judge(known, strict) ? BAD_MS : GOOD_MS);
}

/* Whether an address that we cannot reach is unreachable for this client, too. */
static bool is_strict(const char *address, struct store_text client)
{
	char host[256], from[256];
	uint16_t port;

	snprintf(from, sizeof(from), "%.*s", (int)(client.len < 255 ? client.len : 255),
		 client.len ? client.at : "");
	return store_is_this_host(from) ||
	       (take_apart(address, host, &port) && store_is_this_host(host));
}

void store_reach(struct store *store, const char *address, struct store_text client,
		 store_reach_fn *fn, void *arg)
{
	struct reach_known known;
	bool strict;
	struct asker *a;
	struct probe *p;

	/* Without Redis the call that follows says so. */
	if (store->closing || redis_trouble(store->redis) || is_proven(store, address)) {
		fn(arg, 0, "");
		return;
	}
	strict = is_strict(address, client);
	known = look_up(store->hub, address);
	if (is_fresh(&known, strict)) {
		answer(&known, strict, fn, arg);
		return;
	}
	a = malloc(sizeof(*a));
	p = a ? begin_probe(store, address) : NULL;
	if (!p) {
		free(a);
		fn(arg, -ENOMEM, "");
		return;
	}
	*a = (struct asker){ .strict = strict, .fn = fn, .arg = arg };
	sl_list_append(&p->askers, &a->node);
}

/* ---- life ---- */

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	struct store *store = arg;
	const char *address = store_configured_address(store);

	(void)fd;
	(void)what;
	if (!address || is_proven(store, address))
		return;
	begin_probe(store, address);
	loop_set_timer(store->compat->reach_timer, ROUND_MS);
}

int reach_create(struct store *store)
{
	store->compat->reach_timer = evtimer_new(store->base, on_round, store);
	return store->compat->reach_timer ? 0 : -ENOMEM;
}

static void probe_configured(struct store *store)
{
	forget_all(store->hub);
	loop_set_timer(store->compat->reach_timer, 0);
}

static void opened(void *arg, int result)
{
	(void)result;
	probe_configured(arg);
}

/* A restarted private Redis listens on its unix socket only. Clients that know its TCP port connect
 * there without asking us, so the port is opened again at once; where that fails, the next
 * registration tries again. A configured address leads to the port, and is probed once it is open.
 */
void reach_up(struct store *store)
{
	const struct store_hub *hub = store->hub;

	if (hub->compat->port.port &&
	    (atomic_load(&hub->compat->port.kept) || store_configured_address(store)))
		private_port_open(store, opened, store);
	else
		probe_configured(store);
}

void reach_down(struct store *store)
{
	evtimer_del(store->compat->reach_timer);
}

void reach_end(struct store *store)
{
	while (!sl_list_empty(&store->compat->probes)) {
		struct probe *p = SL_CONTAINER_OF(store->compat->probes.next, struct probe, node);

		p->found.verdict = REACH_UNKNOWN;
		end_probe(p);
	}
}

void reach_destroy(struct store *store)
{
	nc_resolver_destroy(store->compat->resolver);
	if (store->compat->reach_timer)
		event_free(store->compat->reach_timer);
}
