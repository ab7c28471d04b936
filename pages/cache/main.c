/* SPDX-License-Identifier: Apache-2.0 */
/* slime-cache: the directory of DLSlimeCache as a server, and its command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>

#include "base/log.h"
#include "cache/api.h"
#include "cache/directory.h"
#include "cache/registration.h"
#include "cache/settings.h"
#include "cli/options/standard.h"
#include "cli/output/output.h"
#include "cli/process/descriptors.h"
#include "cli/process/logsink.h"
#include "daemon/background.h"
#include "daemon/process.h"
#include "http/route.h"
#include "http/server.h"
#include "nanoctrl/net/loop.h"

#define LEAVE_MS	1000
#define PROBE_MS	2000
#define MAX_CONNECTIONS 1024
#define MAX_BODY	(8 * 1024 * 1024)

struct cache {
	struct process process;
	const struct cache_settings *settings;
	const struct runtime *rt;
	struct store store;
};

/* ---- what the HTTP server asks for ---- */

static int create_store(void *arg, struct loop *loop, struct store **out)
{
	struct cache *c = arg;

	(void)loop;
	*out = &c->store;
	return 0;
}

/* It is the cache's, and there is one loop. */
static void destroy_store(struct store *store)
{
	(void)store;
}

static const char *no_trouble(const struct store *store)
{
	(void)store;
	return NULL;
}

static void add_warnings(const struct store *store, struct evbuffer *out)
{
	char trouble[256];

	if (!store->registration)
		return;
	registration_trouble(store->registration, trouble, sizeof(trouble));
	if (*trouble)
		evbuffer_add_printf(out, "clients do not find it at the control plane: %s\n",
				    trouble);
}

/* ---- serving ---- */

static int open_directory(struct cache *c)
{
	uint64_t slab = 0, memory = 0;
	int ret;

	cache_size(c->settings->slab_size, &slab);
	cache_size(c->settings->memory_size, &memory);
	ret = directory_create(slab, memory, &c->store.directory);
	return ret ? process_fail(&c->process, ret, "the directory: %s", strerror(-ret)) : 0;
}

static int open_server(struct cache *c)
{
	const struct cache_settings *s = c->settings;
	struct server_config config = SERVER_CONFIG_INIT;
	int ret;

	cli_descriptors_raise();
	config.host = s->host;
	config.port = s->port;
	config.names = s->names;
	config.n_names = s->n_names;
	config.routes = cache_routes;
	config.n_routes = n_cache_routes;
	config.max_connections = MAX_CONNECTIONS;
	config.limits.body_bytes = MAX_BODY;
	config.drain_accept_ms = 0;
	config.access_log = !s->quiet;
	config.hooks = (struct server_hooks){ .store_create = create_store,
					      .store_destroy = destroy_store,
					      .store_trouble = no_trouble,
					      .store_warnings = add_warnings,
					      .arg = c };
	ret = server_create(&config, c->process.loop, &c->process.server);
	return ret ? process_fail(&c->process, ret, "cannot listen on %s port %u: %s", s->host,
				  s->port, strerror(-ret))
		   : 0;
}

/* At the address that others are told. */
static int open_registration(struct cache *c, const char *url)
{
	const struct cache_settings *s = c->settings;
	struct registration_attr attr = { .base = loop_base(c->process.loop),
					  .url = s->ctrl,
					  .scope = s->scope,
					  .service_id = s->service_id,
					  .beat_ms = (unsigned)s->beat_ms };
	char host[PROCESS_URL_MAX];
	unsigned port;
	int ret;

	if (!s->ctrl || sscanf(url, "http://%95[^/]", host) != 1)
		return 0;
	sscanf(strrchr(host, ':'), ":%u", &port);
	*strrchr(host, ':') = '\0';
	attr.host = s->advertise_host ? s->advertise_host : host;
	attr.port = (uint16_t)port;
	ret = registration_create(&attr, &c->store.registration);
	return ret ? process_fail(&c->process, ret, "registration: %s", strerror(-ret)) : 0;
}

static int announce(struct cache *c, const char *log)
{
	const struct cache_settings *s = c->settings;
	char url[PROCESS_URL_MAX];
	int ret;

	process_url(&c->process, s->host, NULL, 0, url);
	ret = open_registration(c, url);
	if (ret)
		return ret;
	process_url(&c->process, s->host, s->health_host, s->health_port, url);
	ret = runtime_write_meta(c->rt, url, log, NULL, NULL);
	if (ret)
		return process_fail(&c->process, ret, "%s: %s", c->rt->dir, strerror(-ret));
	sl_info("slime-cache", "keeps the directory only: no bytes of its clients move");
	return process_announce(&c->process, url);
}

static int open_all(struct cache *c, const char *log, struct cli_daemon *daemon)
{
	const struct cli_log_attr attr = { .file = log,
					   .level = (enum slime_log_level)c->settings->log_level,
					   .queued = "access" };
	int ret = process_open(&c->process, c->rt, &attr, daemon);

	if (!ret)
		ret = open_directory(c);
	if (!ret)
		ret = open_server(c);
	return ret ? ret : announce(c, log);
}

static int serve(void *arg, const char *log, struct cli_daemon *daemon)
{
	struct cache *c = arg;
	int ret = open_all(c, log, daemon);

	if (!ret)
		loop_serve(c->process.loop);
	registration_destroy(c->store.registration, LEAVE_MS);
	process_close_server(&c->process);
	directory_destroy(c->store.directory);
	process_close(&c->process);
	if (!ret)
		sl_info("slime-cache", "stopped");
	cli_log_close();
	return ret ? 1 : 0;
}

/* ---- commands ---- */

/* A default asks for nothing. */
static void find_difference(void *arg, char *out, size_t room)
{
	const struct cache *c = arg;
	struct runtime_meta meta;
	const char *port;

	if (!runtime_read_meta(c->rt, &meta))
		return;
	port = strrchr(meta.address, ':');
	if (c->settings->port && c->settings->port != CACHE_PORT && port &&
	    atoi(port + 1) != c->settings->port)
		snprintf(out, room, "its port is %s, not %u", port + 1, c->settings->port);
}

static int start(struct cache *c)
{
	const struct background b = { .rt = c->rt,
				      .log_file = c->settings->log_file,
				      .wait_ms = (int)c->settings->wait_ms,
				      .ready_ms = (int)c->settings->wait_ms,
				      .serve = serve,
				      .find_difference = find_difference,
				      .arg = c };
	struct cli_pidfile_info info;
	int status;

	if (background_runs(&b, &info))
		return background_say_running(&b, &info);
	status = background_start(&b);
	if (!status && !c->process.daemon) /* this is no child that ended */
		printf("note: it keeps the directory only: no bytes of its clients move\n");
	return status;
}

static int say_stopped(const struct runtime *rt, const char *url)
{
	struct runtime_meta meta;
	bool left = runtime_read_meta(rt, &meta);

	if (!left)
		printf("slime-cache is not running (no pid file)\n");
	else
		printf("pid: %ld\nprocess: not running\naddress: %s\n", meta.pid, meta.address);
	if (url || left)
		background_print_health(background_health(rt, url ? url : meta.address, 0));
	if (left && *meta.log)
		printf("log: %s\n", meta.log);
	return 1;
}

static int status(const struct cache *c)
{
	struct cli_pidfile_info info;
	struct runtime_meta meta;
	const char *url = c->settings->address;
	int ret = background_find(c->rt, PROBE_MS, &info);

	if (ret == CLI_PIDFILE_FREE)
		return say_stopped(c->rt, url);
	if (ret)
		return background_complain_of_pidfile(c->rt, ret);
	url = url ? url : info.note;
	printf("pid: %d\nprocess: running\naddress: %s\n", (int)info.process.pid, url);
	ret = background_health(c->rt, url, info.process.pid);
	background_print_health(ret);
	if (!ret)
		background_say_ready(url);
	if (runtime_read_meta(c->rt, &meta) && *meta.log)
		printf("log: %s\n", meta.log);
	printf("runtime: %s\n", c->rt->dir);
	return ret ? 1 : 0;
}

static int stop(const struct cache *c)
{
	struct cli_pidfile_info info;
	int ret = background_find(c->rt, PROBE_MS, &info);

	if (ret == CLI_PIDFILE_FREE) {
		bool stale = !access(c->rt->meta_file, F_OK) || !access(c->rt->pid_file, F_OK);

		background_clean(c->rt);
		printf("slime-cache is not running%s\n", stale ? " (stale pid file cleaned)" : "");
		return 0;
	}
	if (ret)
		return background_complain_of_pidfile(c->rt, ret);
	ret = background_end(c->rt, &info.process, c->settings->timeout_ms, c->settings->force);
	if (ret < 0)
		return 1;
	if (ret)
		background_clean(c->rt);
	printf("slime-cache %s (pid=%d)\n", ret ? "killed" : "stopped", (int)info.process.pid);
	return 0;
}

static int check(const struct cache_settings *s)
{
	uint64_t slab = 0, memory = 0;

	cache_size(s->slab_size, &slab);
	cache_size(s->memory_size, &memory);
	if (memory % slab)
		return cli_usage_error(&cache_program,
				       "--memory-size: expected a multiple of --slab-size");
	if (memory / slab > DIRECTORY_SLABS_MAX)
		return cli_usage_error(&cache_program, "--memory-size: more than %llu slabs",
				       (unsigned long long)DIRECTORY_SLABS_MAX);
	if (strncmp(s->host, "127.", 4) != 0 && strcmp(s->host, "::1") != 0 && !s->insecure)
		return cli_usage_error(&cache_program,
				       "--host: expected a loopback address, or --insecure: "
				       "any client that reaches another one may do anything");
	return 0;
}

static int run(struct cache *c, const char *command)
{
	bool serves = !strcmp(command, "start") || !strcmp(command, "server");
	int ret = serves ? check(c->settings) : 0;
	struct runtime rt;

	if (ret)
		return ret;
	ret = runtime_init(&rt, "slime-cache", c->settings->runtime_dir);
	if (!ret && (serves || !access(rt.dir, F_OK)))
		ret = runtime_create(&rt);
	if (ret) {
		fprintf(stderr, "slime-cache: runtime directory %s: %s\n", rt.dir, strerror(-ret));
		return 1;
	}
	c->rt = &rt;
	if (!strcmp(command, "start"))
		return start(c);
	if (!strcmp(command, "status"))
		return status(c);
	if (!strcmp(command, "stop"))
		return stop(c);
	return serve(c,
		     c->settings->log_file ? c->settings->log_file
		     : rt.log_is_given	   ? rt.log_file
					   : NULL,
		     NULL);
}

int main(int argc, char **argv)
{
	struct cache_settings settings = { .host = NULL };
	struct cache c = { .settings = &settings };
	struct cli_args args;
	int ret;

	if (cli_standard_open())
		return EXIT_FAILURE;
	ret = cli_args_init(&args, &cache_program, argc, argv, &settings);
	if (ret)
		return cli_args_exit_status(ret);
	ret = run(&c, args.command->name);
	cli_args_fini(&args);
	return cli_output_end("slime-cache", ret);
}
