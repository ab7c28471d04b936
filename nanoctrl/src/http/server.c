/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "http/conn.h"
#include "http/conns.h"
#include "http/dispatch.h"
#include "nanoctrl/net/loop.h"
#include "http/reply.h"
#include "http/worker.h"

#define BACKLOG		1024
#define ACCEPT_BURST	64
#define ACCEPT_PAUSE_MS 100 /* after the process ran out of descriptors, or of memory */
#define DRAIN_POLL_MS	50
#define URL_MAX		80

#define LISTENERS_MAX 2

struct listener {
	int fd;
	struct event *acceptor;
};

struct server {
	struct server_config config;
	struct loop *main;
	struct listener listeners[LISTENERS_MAX];
	unsigned n_listeners; /* 0 once nothing is accepted any more */
	struct event *resume; /* accepting after a pause */
	struct event *drain_timer;
	char url[URL_MAX];
	struct worker *workers;
	unsigned n_workers; /* that were set up */
	_Atomic bool draining;
	uint64_t accept_until_ns, drain_until_ns;
	void (*drained)(void *arg);
	void *drained_arg;
};

/* A connection on its way to its loop. */
struct handover {
	struct loop_task task;
	struct worker *w;
	int fd;
	char peer[INET6_ADDRSTRLEN];
};

static struct sl_log_limit accept_limit = SL_LOG_LIMIT_INIT(5, 10000);

static struct worker *least_busy(struct server *s)
{
	struct worker *best = &s->workers[0];

	for (unsigned i = 1; i < s->n_workers; i++)
		if (s->workers[i].n_conns < best->n_conns)
			best = &s->workers[i];
	return best;
}

static unsigned count_conns(const struct server *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n_workers; i++)
		n += s->workers[i].n_conns;
	return n;
}

static void adopt(void *arg)
{
	struct handover *h = arg;

	conns_adopt(h->w, h->fd, h->peer);
	free(h);
}

static void say_peer(const struct sockaddr_storage *from, char peer[INET6_ADDRSTRLEN])
{
	const void *addr = from->ss_family == AF_INET6
				   ? (const void *)&((const struct sockaddr_in6 *)from)->sin6_addr
				   : (const void *)&((const struct sockaddr_in *)from)->sin_addr;

	if (!inet_ntop(from->ss_family, addr, peer, INET6_ADDRSTRLEN))
		peer[0] = '\0';
}

/* One connection too many is told so, if its socket takes it, and closed. */
static void turn_away(struct server *s, int fd)
{
	static const char body[] = "{\"status\":\"error\",\"code\":\"busy\",\"message\":\"too "
				   "many connections\",\"outcome\":\"not_executed\"}";
	char busy[512];
	int len = snprintf(busy, sizeof(busy),
			   "HTTP/1.1 503 Service Unavailable\r\nRetry-After: %u\r\n"
			   "Content-Type: application/json\r\nConnection: close\r\n"
			   "Content-Length: %zu\r\n\r\n%s",
			   reply_retry_after_s(2), sizeof(body) - 1, body);
	uint32_t held_back;
	ssize_t n = send(fd, busy, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)n;
	close(fd);
	metrics_count(s->workers[0].metrics->turned_away);
	if (sl_log_allow(&accept_limit, &held_back))
		sl_warn("http",
			"more than %u connections: one was turned away (%u more lines held back)",
			s->config.max_connections, held_back);
}

static void hand_over(struct server *s, int fd, const struct sockaddr_storage *from)
{
	struct worker *w = least_busy(s);
	struct handover *h;

	if (count_conns(s) >= s->config.max_connections) {
		turn_away(s, fd);
		return;
	}
	h = malloc(sizeof(*h));
	if (!h) {
		close(fd);
		return;
	}
	h->w = w;
	h->fd = fd;
	say_peer(from, h->peer);
	metrics_count(w->n_conns);
	loop_task_init(&h->task, adopt, h);
	loop_post(w->loop, &h->task);
}

/* Without descriptors the listeners would spin; others are freed meanwhile. */
static void pause_accepting(struct server *s, int err)
{
	uint32_t held_back;

	for (unsigned i = 0; i < s->n_listeners; i++)
		event_del(s->listeners[i].acceptor);
	loop_set_timer(s->resume, ACCEPT_PAUSE_MS);
	if (sl_log_allow(&accept_limit, &held_back))
		sl_error("http", "accept: %s (%u more lines held back)", strerror(err), held_back);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;

	(void)what;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int conn =
			accept4(fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (conn >= 0) {
			hand_over(s, conn, &from);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN)
			pause_accepting(s, errno);
		return;
	}
}

static int accept_all(struct server *s)
{
	int ret = 0;

	for (unsigned i = 0; i < s->n_listeners; i++)
		if (event_add(s->listeners[i].acceptor, NULL))
			ret = -ENOMEM;
	return ret;
}

/* The obstacle passes, or a little later we are here again. */
static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	if (accept_all(arg))
		pause_accepting(arg, ENOMEM);
}

/* The address to bind; 0 or -EINVAL. */
static int parse_host(const struct server_config *config, uint16_t port,
		      struct sockaddr_storage *addr, socklen_t *len)
{
	struct sockaddr_in *in = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, config->host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		*len = sizeof(*in);
		return 0;
	}
	if (inet_pton(AF_INET6, config->host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		*len = sizeof(*in6);
		return 0;
	}
	return -EINVAL;
}

static int listen_on(struct server *s, uint16_t port)
{
	struct listener *l = &s->listeners[s->n_listeners];
	struct sockaddr_storage addr;
	int one = 1, ret;
	socklen_t len;

	ret = parse_host(&s->config, port, &addr, &len);
	if (ret)
		return ret;
	l->fd = socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return -errno;
	s->n_listeners++;
	/* Over connections that linger from before a restart, but never beside another listener. */
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(l->fd, (struct sockaddr *)&addr, len) || listen(l->fd, BACKLOG) ||
	    getsockname(l->fd, (struct sockaddr *)&addr, &len))
		return -errno;
	if (s->n_listeners > 1)
		return 0;
	/* The port is at the same place in both families. */
	snprintf(s->url, sizeof(s->url),
		 addr.ss_family == AF_INET6 ? "http://[%s]:%u" : "http://%s:%u", s->config.host,
		 ntohs(((struct sockaddr_in *)&addr)->sin_port));
	return 0;
}

static void stop_accepting(struct server *s)
{
	if (s->resume)
		event_del(s->resume);
	while (s->n_listeners) {
		struct listener *l = &s->listeners[--s->n_listeners];

		if (l->acceptor)
			event_free(l->acceptor);
		close(l->fd);
	}
}

static void tell_workers(struct server *s, enum worker_task task)
{
	for (unsigned i = 0; i < s->n_workers; i++)
		loop_post(s->workers[i].loop, &s->workers[i].tasks[task]);
}

static void answer(void *arg)
{
	struct worker *w = arg;

	w->asked = false;
}

bool server_loops_run(struct server *s)
{
	bool run = true;

	for (unsigned i = 0; i < s->n_workers; i++) {
		struct worker *w = &s->workers[i];

		if (w->asked) {
			run = false;
			continue;
		}
		w->asked = true;
		loop_post(w->loop, &w->tasks[WORKER_ANSWER]);
	}
	return run;
}

static void drain_worker(void *w)
{
	conns_drain(w);
}

static void close_idle(void *w)
{
	conns_close_idle(w);
}

static void close_all(void *w)
{
	conns_close_all(w);
}

static void end_drain(struct server *s)
{
	unsigned left = count_conns(s);
	void (*done)(void *arg) = s->drained;

	stop_accepting(s);
	if (left)
		sl_warn("http", "shutting down with %u connections still open", left);
	s->drained = NULL;
	if (done)
		done(s->drained_arg);
}

static void on_drain_timer(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;
	uint64_t now = sl_clock_ns();

	(void)fd;
	(void)what;
	if (s->n_listeners && now >= s->accept_until_ns) {
		stop_accepting(s);
		tell_workers(s, WORKER_CLOSE_IDLE);
	}
	if (now >= s->drain_until_ns || (!s->n_listeners && !count_conns(s)))
		end_drain(s);
	else
		loop_set_timer(s->drain_timer, DRAIN_POLL_MS);
}

void server_drain(struct server *s, void (*done)(void *arg), void *arg)
{
	if (s->draining) {
		event_del(s->drain_timer);
		end_drain(s);
		return;
	}
	s->drained = done;
	s->drained_arg = arg;
	s->draining = true;
	s->accept_until_ns = sl_deadline_ns(s->config.drain_accept_ms);
	s->drain_until_ns = sl_deadline_ns(s->config.drain_ms);
	tell_workers(s, WORKER_DRAIN);
	loop_set_timer(s->drain_timer,
		       s->config.drain_accept_ms < DRAIN_POLL_MS ? 0 : DRAIN_POLL_MS);
}

bool server_draining(const struct server *s)
{
	return s->draining;
}

static int open_events(struct server *s)
{
	struct event_base *base = loop_base(s->main);

	s->resume = event_new(base, -1, 0, on_resume, s);
	s->drain_timer = event_new(base, -1, 0, on_drain_timer, s);
	for (unsigned i = 0; i < s->n_listeners; i++) {
		struct listener *l = &s->listeners[i];

		l->acceptor = event_new(base, l->fd, EV_READ | EV_PERSIST, on_accept, s);
		if (!l->acceptor)
			return -ENOMEM;
	}
	return s->resume && s->drain_timer ? 0 : -ENOMEM;
}

static void on_send(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_send_all(arg);
}

static void on_trim(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	malloc_trim(0);
}

static loop_fn *const task_fns[WORKER_TASKS] = {
	[WORKER_ANSWER] = answer,
	[WORKER_DRAIN] = drain_worker,
	[WORKER_CLOSE_IDLE] = close_idle,
	[WORKER_CLOSE_ALL] = close_all,
};

static int worker_init(struct worker *w, struct server *s, unsigned index)
{
	const struct server_hooks *hooks = &s->config.hooks;
	int ret;

	w->server = s;
	w->index = index;
	for (unsigned i = 0; i < WORKER_TASKS; i++)
		loop_task_init(&w->tasks[i], task_fns[i], w);
	w->config = &s->config;
	w->ops = &dispatch_ops;
	/* Without randomness the clock tells processes apart. */
	if (getrandom(&w->id_seed, sizeof(w->id_seed), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(w->id_seed))
		w->id_seed = sl_clock_ns();
	sl_list_init(&w->conns);
	sl_list_init(&w->unsent);
	ret = metrics_create(s->config.n_routes, &w->metrics);
	if (ret)
		return ret;
	ret = loop_create(&w->loop);
	if (ret)
		goto destroy_metrics;
	loop_busy_poll(w->loop, s->config.busy_poll_ns);
	w->send = event_new(loop_base(w->loop), -1, 0, on_send, w);
	w->trim = evtimer_new(loop_base(w->loop), on_trim, NULL);
	if (!w->send || !w->trim) {
		ret = -ENOMEM;
		goto free_events;
	}
	budget_init(&w->budget, s->config.body_memory, w->trim);
	ret = hooks->store_create(hooks->arg, w->loop, &w->store);
	if (ret)
		goto free_events;
	if (!index && hooks->task_create)
		ret = hooks->task_create(hooks->arg, w->store, w->loop, &w->task);
	if (ret)
		goto destroy_store;
	return 0;

destroy_store:
	hooks->store_destroy(w->store);
free_events:
	if (w->send)
		event_free(w->send);
	if (w->trim)
		event_free(w->trim);
	loop_destroy(w->loop);
destroy_metrics:
	metrics_destroy(w->metrics);
	return ret;
}

/* Its loop has ended or never ran. */
static void worker_fini(struct worker *w)
{
	conns_close_all(w);
	if (w->task)
		w->config->hooks.task_destroy(w->task);
	w->config->hooks.store_destroy(w->store);
	event_free(w->send);
	event_free(w->trim);
	loop_destroy(w->loop);
	metrics_destroy(w->metrics);
}

static int open_workers(struct server *s)
{
	s->workers = calloc(s->config.n_loops, sizeof(s->workers[0]));
	if (!s->workers)
		return -ENOMEM;
	for (; s->n_workers < s->config.n_loops; s->n_workers++) {
		int ret = worker_init(&s->workers[s->n_workers], s, s->n_workers);

		if (ret)
			return ret;
	}
	return 0;
}

int server_create(const struct server_config *config, struct loop *main, struct server **out)
{
	struct server *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->config = *config;
	if (s->config.n_loops > SERVER_LOOPS_MAX)
		s->config.n_loops = SERVER_LOOPS_MAX;
	s->main = main;
	ret = listen_on(s, config->port);
	if (!ret && config->second_port)
		ret = listen_on(s, config->second_port);
	if (!ret)
		ret = open_events(s);
	if (!ret)
		ret = open_workers(s);
	if (ret) {
		server_destroy(s);
		return ret;
	}
	*out = s;
	return 0;
}

int server_start(struct server *s)
{
	for (unsigned i = 0; i < s->n_workers; i++) {
		char name[16];
		int ret;

		snprintf(name, sizeof(name), "loop-%u", i);
		ret = loop_run(s->workers[i].loop, name);

		if (ret)
			return ret;
	}
	return accept_all(s);
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	stop_accepting(s);
	tell_workers(s, WORKER_CLOSE_ALL);
	for (unsigned i = 0; i < s->n_workers; i++)
		loop_join(s->workers[i].loop);
	for (unsigned i = 0; i < s->n_workers; i++)
		worker_fini(&s->workers[i]);
	free(s->workers);
	if (s->drain_timer)
		event_free(s->drain_timer);
	if (s->resume)
		event_free(s->resume);
	free(s);
}

const char *server_url(const struct server *s)
{
	return s->url;
}

void server_metrics(struct server *s, struct evbuffer *out)
{
	struct metrics *all[SERVER_LOOPS_MAX];
	uint64_t vain_ns = 0;

	for (unsigned i = 0; i < s->n_workers; i++) {
		all[i] = s->workers[i].metrics;
		vain_ns += loop_vain_ns(s->workers[i].loop);
	}
	metrics_render(all, s->n_workers, s->config.routes, out);
	metrics_render_busy_poll(vain_ns, out);
	if (s->config.hooks.metrics)
		s->config.hooks.metrics(s->config.hooks.arg, out);
}
