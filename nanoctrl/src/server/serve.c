/* SPDX-License-Identifier: Apache-2.0 */
#include "server/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>

#include "base/log.h"
#include "cli/options/version.h"
#include "cli/process/daemon.h"
#include "cli/process/descriptors.h"
#include "cli/process/logsink.h"
#include "api/session.h"
#include "cluster/expander.h"
#include "nanoctrl/net/loop.h"
#include "model/model.h"
#include "mooncake/sweep.h"
#include "daemon/process.h"
#include "redis/child.h"
#include "redis/url.h"
#include "server/compat.h"
#include "server/config.h"
#include "http/server.h"
#include "store/store.h"

#define REDIS_WAIT_MS 6000

struct serving {
	struct process process;
	const struct settings *settings;
	const struct options *options;
	const char *log;
	char data_dir[PATH_MAX];
	char redis_url[REDIS_CHILD_URL_MAX];
	struct redis_child *redis;
	struct store_hub *hub;
	struct route routes[ROUTES_MAX];
};

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

static int open_hub(struct serving *s)
{
	struct store_config config = serve_store_config(s->settings);
	char why[REDIS_CHILD_WHY_MAX];
	int ret;

	if (!config.url) {
		ret = runtime_data_dir(s->settings->redis.data_dir, s->data_dir);
		if (ret)
			return process_fail(&s->process, ret,
					    "no usable data directory: %s; --data-dir names one",
					    strerror(-ret));
		ret = redis_child_url(s->data_dir, true, s->redis_url, sizeof(s->redis_url), why);
		if (ret)
			return process_fail(&s->process, ret, "private Redis: %s", why);
		config.url = s->redis_url;
	}
	ret = store_hub_create(&config, &s->hub);
	return ret ? process_fail(&s->process, ret, "cannot use the Redis URL: %s", strerror(-ret))
		   : 0;
}

static int create_store(void *arg, struct loop *loop, struct store **out)
{
	const struct serving *s = arg;

	return store_create(s->hub, loop, out);
}

/* What works beside requests. */
struct tasks {
	struct expander *expander;
	struct mooncake_sweep *sweep; /* NULL: Mooncake's clients are not served */
};

static void destroy_tasks(void *task)
{
	struct tasks *t = task;

	mooncake_sweep_destroy(t->sweep);
	expander_destroy(t->expander);
	free(t);
}

static int create_tasks(void *arg, struct store *store, struct loop *loop, void **out)
{
	const struct serving *s = arg;
	struct tasks *t = calloc(1, sizeof(*t));
	int ret = t ? expander_create(store, loop, &t->expander) : -ENOMEM;

	if (ret) {
		free(t);
		return ret;
	}
	if (s->settings->server.mooncake != COMPAT_OFF)
		ret = mooncake_sweep_create(store, loop, &t->sweep);
	if (ret)
		destroy_tasks(t);
	else
		*out = t;
	return ret;
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

static void add_build(struct evbuffer *out)
{
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_build_info What this server was built from.\n"
			    "# TYPE nanoctrl_build_info gauge\n"
			    "nanoctrl_build_info{version=\"%s\",commit=\"%s\"} 1\n",
			    cli_version(), cli_commit());
}

static void add_store_metrics(void *arg, struct evbuffer *out)
{
	const struct serving *s = arg;

	add_memory(out);
	add_log(out);
	add_build(out);
	store_hub_metrics(s->hub, out);
	if (s->settings->server.mooncake != COMPAT_OFF)
		mooncake_metrics(out);
	model_metrics(out);
	api_session_metrics(out);
}

static int open_server(struct serving *s)
{
	const struct server_settings *given = &s->settings->server;
	struct server_config config = serve_server_config(s->settings, s->routes);
	int ret;

	config.hooks = (struct server_hooks){ .store_create = create_store,
					      .store_destroy = store_destroy,
					      .task_create = create_tasks,
					      .task_destroy = destroy_tasks,
					      .store_trouble = store_trouble,
					      .store_place = store_place,
					      .store_warnings = store_warnings,
					      .metrics = add_store_metrics,
					      .arg = s };
	raise_limits(&config);
	ret = server_create(&config, s->process.loop, &s->process.server);
	if (ret && given->second_port)
		return process_fail(&s->process, ret, "cannot listen on %s port %u or %u: %s",
				    given->host, given->port, given->second_port, strerror(-ret));
	return ret ? process_fail(&s->process, ret, "cannot listen on %s port %u: %s", given->host,
				  given->port, strerror(-ret))
		   : 0;
}

static int open_redis(struct serving *s)
{
	const struct redis_settings *given = &s->settings->redis;
	struct redis_child_attr attr = { .data_dir = s->data_dir,
					 .server = given->program,
					 .max_memory = given->max_memory,
					 .guests = given->compat_port != REDIS_COMPAT_OFF,
					 .wait_ms = REDIS_WAIT_MS,
					 .told_to_end = process_told_to_end,
					 .arg = &s->process };
	char why[REDIS_CHILD_WHY_MAX], port_file[PATH_MAX + 16];
	int ret;

	if (given->url)
		return 0;
	ret = redis_child_create(&attr, &s->redis, why);
	if (ret == -ECANCELED) {
		sl_info("nanoctrl", "%s", why);
		if (s->process.daemon)
			cli_daemon_failed(s->process.daemon, "%s", why);
		return ret;
	}
	if (ret)
		return process_fail(&s->process, ret, "private Redis: %s", why);
	ret = redis_child_watch(s->redis, loop_base(s->process.loop));
	if (ret)
		return process_fail(&s->process, ret, "private Redis: %s", strerror(-ret));
	if (compat.store)
		compat.set_port(s->hub, given->compat_port > 0 ? (unsigned)given->compat_port : 0);
	if (given->compat_port != REDIS_COMPAT_AUTO)
		return 0;
	redis_child_port_file(s->data_dir, port_file, sizeof(port_file));
	ret = compat.keep_port(s->hub, port_file);
	return ret ? process_fail(&s->process, ret, "%s: %s", port_file, strerror(-ret)) : 0;
}

static int write_meta(const struct serving *s, const char *url)
{
	struct redis_url redis = { .shown = NULL };
	const char *why;
	int ret = s->redis ? 0 : redis_url_parse(s->settings->redis.url, &redis, &why);

	if (!ret)
		ret = runtime_write_meta(s->process.rt, url, s->log, s->redis ? s->data_dir : NULL,
					 redis.shown);
	redis_url_fini(&redis);
	return ret;
}

/* Everything is open: others may find us. */
static int announce(struct serving *s)
{
	char url[PROCESS_URL_MAX];
	int ret;

	process_url(&s->process, s->settings->server.host, s->options->health_host,
		    s->options->health_port, url);
	ret = write_meta(s, url);
	return ret ? process_fail(&s->process, ret, "%s: %s", s->process.rt->dir, strerror(-ret))
		   : process_announce(&s->process, url);
}

static int open_all(struct serving *s, const struct runtime *rt, struct cli_daemon *daemon)
{
	const struct cli_log_attr log = serve_log_attr(s->settings, s->log);
	int ret;

	model_memory(malloc, free);
	ret = process_open(&s->process, rt, &log, daemon);
	if (!ret)
		ret = open_hub(s);
	if (!ret) /* before Redis is run: a port that is taken is the commoner mistake */
		ret = open_server(s);
	if (!ret)
		ret = open_redis(s);
	return ret ? ret : announce(s);
}

int serve(const struct settings *settings, const struct options *options, const struct runtime *rt,
	  const char *log, struct cli_daemon *daemon)
{
	struct serving s = { .settings = settings, .options = options, .log = log };
	int ret = open_all(&s, rt, daemon);

	if (!ret)
		loop_serve(s.process.loop);
	/* When Redis goes, no other loop uses the store. */
	process_close_server(&s.process);
	store_hub_destroy(s.hub);
	redis_child_destroy(s.redis);
	process_close(&s.process);
	if (!ret || ret == -ECANCELED)
		sl_info("nanoctrl", "stopped");
	cli_log_close();
	return ret && ret != -ECANCELED ? 1 : 0;
}
