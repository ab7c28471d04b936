/* SPDX-License-Identifier: Apache-2.0 */
#include "server/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "base/log.h"
#include "cli/process/daemon.h"
#include "cli/process/descriptors.h"
#include "cli/process/logsink.h"
#include "cli/process/manager.h"
#include "cli/process/pidfile.h"
#include "cli/process/signals.h"
#include "cli/options/version.h"
#include "api/session.h"
#include "cluster/expander.h"
#include "nanoctrl/net/loop.h"
#include "model/model.h"
#include "server/node.h"
#include "redis/child.h"
#include "redis/url.h"
#include "server/config.h"
#include "http/server.h"
#include "store/store.h"

#define REDIS_WAIT_MS 6000
#define URL_MAX	      96

struct process {
	const struct settings *settings;
	const struct options *options;
	const struct runtime *rt;
	const char *log;
	struct cli_daemon *daemon;
	struct cli_pidfile pidfile;
	char data_dir[PATH_MAX];
	char redis_url[REDIS_CHILD_URL_MAX];
	struct redis_child *redis;
	struct store_hub *hub;
	struct loop *loop;
	struct server *server;
	int signals;
	bool ready;
	struct event *signalled;
	struct event *watchdog; /* NULL when no service manager waits for our signs of life */
};

/* What keeps us from serving goes to whoever waits for us. */
static int fail(struct process *p, int ret, const char *fmt, ...) SLIME_PRINTF(3, 4);

static int fail(struct process *p, int ret, const char *fmt, ...)
{
	char text[CLI_DAEMON_MESSAGE_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sl_error("nanoctrl", "%s", text);
	if (p->daemon)
		cli_daemon_failed(p->daemon, "%s", text);
	return ret;
}

static void on_drained(void *arg)
{
	struct process *p = arg;

	loop_stop(p->loop);
}

/* The next signal that ends us; 0 when there is none. The others are done with on the way. */
static int next_end(struct process *p)
{
	int sig, ret;

	while ((sig = cli_signals_read(p->signals)) == SIGHUP) {
		cli_manager_tell_reloading();
		ret = cli_log_reopen();
		if (ret)
			sl_error("nanoctrl", "cannot open the log again: %s", cli_log_error(ret));
		if (p->ready)
			cli_manager_tell("READY=1");
	}
	return sig > 0 ? sig : 0;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;
	int sig;

	(void)fd;
	(void)what;
	while ((sig = next_end(p))) {
		sl_info("nanoctrl", "%s: shutting down", sig == SIGINT ? "SIGINT" : "SIGTERM");
		cli_manager_tell("STOPPING=1\nSTATUS=finishing what is in flight");
		server_drain(p->server, on_drained, p);
	}
}

/* While there is no loop yet that hears of signals. */
static bool told_to_end(void *arg)
{
	return next_end(arg) != 0;
}

static int open_log(struct process *p)
{
	const struct cli_log_attr attr = serve_log_attr(p->settings, p->log);
	int ret = cli_log_open(&attr);

	return ret ? fail(p, ret, "cannot open the log %s: %s", p->log, cli_log_error(ret)) : 0;
}

static int open_pidfile(struct process *p)
{
	struct cli_pidfile_info holder;
	int ret = cli_pidfile_create(&p->pidfile, p->rt->pid_file);

	if (ret == -EEXIST && !cli_pidfile_read(p->rt->pid_file, &holder))
		return fail(p, ret, "nanoctrl is already running (pid=%d)",
			    (int)holder.process.pid);
	return ret ? fail(p, ret, "cannot lock %s: %s", p->rt->pid_file, strerror(-ret)) : 0;
}

/* Sockets are descriptors: take as many as we may have, and no more connections than they allow. */
static void raise_limits(struct server_config *config)
{
	uint64_t n = cli_descriptors_raise();
	unsigned most = serve_connections(n, config->n_loops);

	if (config->max_connections <= most)
		return;
	sl_warn("nanoctrl", "at most %llu descriptors, so at most %u connections",
		(unsigned long long)n, most);
	config->max_connections = most;
}

static int open_hub(struct process *p)
{
	struct store_config config = serve_store_config(p->settings);
	char why[REDIS_CHILD_WHY_MAX];
	int ret;

	if (!config.url) {
		ret = runtime_data_dir(p->settings->redis.data_dir, p->data_dir);
		if (ret)
			return fail(p, ret, "no usable data directory: %s; --data-dir names one",
				    strerror(-ret));
		ret = redis_child_url(p->data_dir, true, p->redis_url, sizeof(p->redis_url), why);
		if (ret)
			return fail(p, ret, "private Redis: %s", why);
		config.url = p->redis_url;
	}
	ret = store_hub_create(&config, &p->hub);
	return ret ? fail(p, ret, "cannot use the Redis URL: %s", strerror(-ret)) : 0;
}

static int create_store(void *arg, struct loop *loop, struct store **out)
{
	return store_create(arg, loop, out);
}

static int create_expander(void *arg, struct store *store, struct loop *loop, void **out)
{
	struct expander *e;
	int ret = expander_create(store, loop, &e);

	(void)arg;
	if (!ret)
		*out = e;
	return ret;
}

static void destroy_expander(void *task)
{
	expander_destroy(task);
}

static void add_memory(struct evbuffer *out)
{
	FILE *in = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	if (in && fscanf(in, "%lu %lu", &size, &resident) == 2)
		evbuffer_add_printf(out,
				    "# HELP process_resident_memory_bytes Memory in use.\n"
				    "# TYPE process_resident_memory_bytes gauge\n"
				    "process_resident_memory_bytes %llu\n",
				    (unsigned long long)resident *
					    (unsigned long long)sysconf(_SC_PAGESIZE));
	if (in)
		fclose(in);
}

static void add_log(struct evbuffer *out)
{
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_log_dropped_total Lines of the log that were dropped: "
			    "what it is written to did not keep up.\n"
			    "# TYPE nanoctrl_log_dropped_total counter\n"
			    "nanoctrl_log_dropped_total %llu\n",
			    (unsigned long long)cli_log_dropped());
}

static void add_store_metrics(void *arg, struct evbuffer *out)
{
	add_memory(out);
	add_log(out);
	store_hub_metrics(arg, out);
	model_metrics(out);
	api_session_metrics(out);
}

static int open_server(struct process *p)
{
	const struct server_settings *s = &p->settings->server;
	struct server_config config = serve_server_config(p->settings);
	int ret;

	config.hooks = (struct server_hooks){ .store_create = create_store,
					      .store_destroy = store_destroy,
					      .task_create = create_expander,
					      .task_destroy = destroy_expander,
					      .store_trouble = store_trouble,
					      .store_place = store_place,
					      .store_warnings = store_warnings,
					      .metrics = add_store_metrics,
					      .arg = p->hub };
	raise_limits(&config);
	ret = server_create(&config, p->loop, &p->server);
	if (ret && s->second_port)
		return fail(p, ret, "cannot listen on %s port %u or %u: %s", s->host, s->port,
			    s->second_port, strerror(-ret));
	return ret ? fail(p, ret, "cannot listen on %s port %u: %s", s->host, s->port,
			  strerror(-ret))
		   : 0;
}

static int open_redis(struct process *p)
{
	const struct redis_settings *s = &p->settings->redis;
	struct redis_child_attr attr = { .data_dir = p->data_dir,
					 .server = s->program,
					 .max_memory = s->max_memory,
					 .guests = s->compat_port != REDIS_COMPAT_OFF,
					 .wait_ms = REDIS_WAIT_MS,
					 .told_to_end = told_to_end,
					 .arg = p };
	char why[REDIS_CHILD_WHY_MAX], port_file[PATH_MAX + 16];
	int ret;

	if (s->url)
		return 0;
	ret = redis_child_create(&attr, &p->redis, why);
	if (ret == -ECANCELED) {
		sl_info("nanoctrl", "%s", why);
		if (p->daemon)
			cli_daemon_failed(p->daemon, "%s", why);
		return ret;
	}
	if (ret)
		return fail(p, ret, "private Redis: %s", why);
	ret = redis_child_watch(p->redis, loop_base(p->loop));
	if (ret)
		return fail(p, ret, "private Redis: %s", strerror(-ret));
	store_hub_own(p->hub, s->compat_port > 0 ? (unsigned)s->compat_port : 0);
	if (s->compat_port != REDIS_COMPAT_AUTO)
		return 0;
	redis_child_port_file(p->data_dir, port_file, sizeof(port_file));
	ret = store_hub_keep_port(p->hub, port_file);
	return ret ? fail(p, ret, "%s: %s", port_file, strerror(-ret)) : 0;
}

static int open_loop(struct process *p)
{
	static const int handled[] = { SIGTERM, SIGINT, SIGHUP };
	int ret;

	p->signals = cli_signals_open(handled, sizeof(handled) / sizeof(handled[0]));
	if (p->signals < 0)
		return fail(p, p->signals, "signals: %s", strerror(-p->signals));
	ret = loop_create(0, &p->loop);
	if (ret)
		return fail(p, ret, "event loop: %s", strerror(-ret));
	p->signalled =
		event_new(loop_base(p->loop), p->signals, EV_READ | EV_PERSIST, on_signal, p);
	if (!p->signalled || event_add(p->signalled, NULL))
		return fail(p, -ENOMEM, "event loop: %s", strerror(ENOMEM));
	return 0;
}

/* Where others are told to find us: as we listen, but for what was asked for, and with an address
 * in place of a wildcard. */
static void choose_url(const struct process *p, char out[URL_MAX])
{
	const char *url = server_url(p->server), *host = p->settings->server.host;
	unsigned port = p->options->health_port;
	char own[INET_ADDRSTRLEN];

	if (!port)
		sscanf(strrchr(url, ':'), ":%u", &port);
	if (p->options->health_host) {
		host = p->options->health_host;
	} else if (!strcmp(host, "0.0.0.0") || !strcmp(host, "::")) {
		node_address(own);
		host = own;
	}
	snprintf(out, URL_MAX, strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host, port);
}

static int write_meta(const struct process *p, const char *url)
{
	struct redis_url redis = { .shown = NULL };
	const char *why;
	int ret = p->redis ? 0 : redis_url_parse(p->settings->redis.url, &redis, &why);

	if (!ret)
		ret = runtime_write_meta(p->rt, url, p->log, p->redis ? p->data_dir : NULL,
					 redis.shown);
	redis_url_fini(&redis);
	return ret;
}

/* A sign of life only when each loop ran what it was asked at the last one: a loop that hangs
 * serves nobody. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;

	(void)fd;
	(void)what;
	if (server_loops_run(p->server))
		cli_manager_tell("WATCHDOG=1");
	else
		sl_warn("nanoctrl", "an event loop does not run: the service manager is told "
				    "nothing");
}

static int open_watchdog(struct process *p)
{
	unsigned ms = cli_manager_watchdog_ms();
	const struct timeval every = { .tv_sec = ms / 1000, .tv_usec = (long)(ms % 1000) * 1000 };

	if (!ms)
		return 0;
	p->watchdog = event_new(loop_base(p->loop), -1, EV_PERSIST, on_watchdog, p);
	return p->watchdog && !event_add(p->watchdog, &every)
		       ? 0
		       : fail(p, -ENOMEM, "event loop: %s", strerror(ENOMEM));
}

static void tell_manager(struct process *p, const char *url)
{
	char state[CLI_MANAGER_STATE_MAX];
	int ret;

	snprintf(state, sizeof(state), "READY=1\nSTATUS=serves at %s", url);
	ret = cli_manager_tell(state);
	if (ret)
		sl_error("nanoctrl", "cannot tell the service manager: NOTIFY_SOCKET: %s",
			 strerror(-ret));
	p->ready = true;
}

/* Everything is open: others may find us. */
static int announce(struct process *p)
{
	char url[URL_MAX];
	int ret;

	choose_url(p, url);
	ret = cli_pidfile_set_note(&p->pidfile, url);

	if (!ret)
		ret = write_meta(p, url);
	if (ret)
		return fail(p, ret, "%s: %s", p->rt->dir, strerror(-ret));
	ret = server_start(p->server);
	if (ret)
		return fail(p, ret, "threads: %s", strerror(-ret));
	ret = open_watchdog(p);
	if (ret)
		return ret;
	sl_info("nanoctrl", "version %s (%s) serves at %s", cli_version(), cli_commit(), url);
	tell_manager(p, url);
	if (p->daemon)
		return cli_daemon_ready(p->daemon, url);
	printf("nanoctrl serves at %s\n", url);
	return fflush(stdout) ? -errno : 0;
}

static int open_all(struct process *p)
{
	int ret;

	model_memory(malloc, free);
	ret = open_log(p);

	if (!ret)
		ret = open_pidfile(p);
	if (!ret)
		ret = open_loop(p);
	if (!ret)
		ret = open_hub(p);
	if (!ret) /* before Redis is run: a port that is taken is the commoner mistake */
		ret = open_server(p);
	if (!ret)
		ret = open_redis(p);
	return ret ? ret : announce(p);
}

/* In reverse: nobody reaches the store when Redis goes, and the pid file goes last. */
static void close_all(struct process *p)
{
	if (p->watchdog)
		event_free(p->watchdog);
	server_destroy(p->server);
	store_hub_destroy(p->hub);
	redis_child_destroy(p->redis);
	if (p->signalled)
		event_free(p->signalled);
	loop_destroy(p->loop);
	if (p->signals >= 0)
		cli_signals_end(p->signals);
	if (p->pidfile.path) {
		runtime_clean(p->rt);
		cli_pidfile_destroy(&p->pidfile);
	}
}

int serve(const struct settings *settings, const struct options *options, const struct runtime *rt,
	  const char *log, struct cli_daemon *daemon)
{
	struct process p = { .settings = settings,
			     .options = options,
			     .rt = rt,
			     .log = log,
			     .daemon = daemon,
			     .signals = -1 };
	int ret = open_all(&p);

	if (!ret)
		loop_serve(p.loop);
	close_all(&p);
	if (!ret || ret == -ECANCELED)
		sl_info("nanoctrl", "stopped");
	cli_log_close();
	return ret && ret != -ECANCELED ? 1 : 0;
}
