/* SPDX-License-Identifier: Apache-2.0 */
/* nanoctrl's command line. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/loopback.h"
#include "cli/options/config.h"
#include "cli/options/option.h"
#include "cli/output/output.h"
#include "cli/options/standard.h"
#include "commands/apply.h"
#include "commands/describe.h"
#include "commands/explain.h"
#include "commands/get.h"
#include "commands/instance.h"
#include "commands/links.h"
#include "commands/obs.h"
#include "redis/url.h"
#include "server/compat.h"
#include "server/serve.h"
#include "server/settings.h"
#include "commands/top.h"

/* A password on the command line must not be shown to all users who can run ps. The values were
 * copied. */
static void hide_secrets(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *from = strstr(argv[i], "://");
		char *to = from ? strrchr(from, '@') : NULL;

		if (to)
			memset(from + 3, 'x', (size_t)(to - from - 3));
	}
}

static void check_redis_url(struct cli_config *config, const struct settings *s)
{
	struct redis_url url;
	const char *why = "no memory";

	if (!s->redis.url)
		return;
	if (redis_url_parse(s->redis.url, &url, &why))
		cli_config_refuse(config, "redis.url", "expected a Redis URL: %s", why);
	else
		redis_url_fini(&url);
}

static void check_lease(struct cli_config *config, const struct lease_settings *lease)
{
	if (2 * lease->beat_ms > lease->ttl_ms)
		cli_config_refuse(config, "lease.beat",
				  "expected at most half of lease.ttl, or healthy agents are given "
				  "up: got %" PRId64 " ms of %" PRId64 " ms",
				  lease->beat_ms, lease->ttl_ms);
}

static void check_compat(struct cli_config *config, const struct settings *s)
{
	if (s->server.compat != COMPAT_OFF)
		cli_config_refuse(config, "server.compat",
				  "expected off: this nanoctrl was built without compat");
	if (s->redis.compat_port != REDIS_COMPAT_OFF)
		cli_config_refuse(config, "redis.compat_port",
				  "expected off: this nanoctrl was built without compat");
}

/* 0, or -EINVAL after saying what is wrong with the configuration; -EACCES when it is well-formed
 * and asks for what it may not have. */
static int read_settings(struct cli_config *config, const struct options *options,
			 const struct cli_args *args, struct settings *out)
{
	int ret = options->config ? cli_config_load(config, options->config) : 0;
	bool exposed;

	if (ret != -ENOMEM)
		ret = cli_config_apply(config, args);
	if (ret != -ENOMEM)
		ret = cli_config_read(config, settings_table, out);
	if (!ret) {
		check_redis_url(config, out);
		check_lease(config, &out->lease);
		if (!compat.store)
			check_compat(config, out);
	}
	exposed = !ret && !cli_config_n_errors(config) &&
		  !sl_is_loopback_address(out->server.host) && !out->server.insecure;
	if (exposed)
		cli_config_refuse(
			config, "server.host",
			"expected a loopback address, or --insecure: any client that reaches another "
			"one may do anything");
	if (cli_config_n_errors(config)) {
		cli_config_print_errors(config, stderr);
		return exposed ? -EACCES : -EINVAL;
	}
	if (ret)
		fprintf(stderr, "nanoctrl: %s\n", strerror(-ret));
	return ret;
}

/* What a command gets. */
struct call {
	const struct cli_args *args;
	const struct options *options;
	const struct settings *settings;
	const struct runtime *rt; /* NULL: it could not be found */
};

static int run_server(const struct call *c)
{
	const char *log = c->options->log_file	? c->options->log_file
			  : c->rt->log_is_given ? c->rt->log_file
						: NULL;

	return serve(c->settings, c->options, c->rt, log, NULL);
}

static int run_start(const struct call *c)
{
	return instance_start(c->settings, c->options, c->rt);
}

static int run_status(const struct call *c)
{
	return instance_status(c->settings, c->options, c->rt);
}

static int run_stop(const struct call *c)
{
	return instance_stop(c->settings, c->options, c->rt);
}

static int run_obs_links(const struct call *c)
{
	return links_show(c->settings, c->options, c->rt);
}

static int run_obs_status(const struct call *c)
{
	return obs_show(OBS_VIEW_STATUS, c->settings, c->options, c->rt);
}

static int run_obs_peers(const struct call *c)
{
	return obs_show(OBS_VIEW_PEERS, c->settings, c->options, c->rt);
}

static int run_obs_nics(const struct call *c)
{
	return obs_show(OBS_VIEW_NICS, c->settings, c->options, c->rt);
}

static int run_explain(const struct call *c)
{
	return explain_show(c->settings, c->options, c->rt, c->args);
}

static int run_apply(const struct call *c)
{
	return apply_run(c->settings, c->options, c->rt, false);
}

static int run_diff(const struct call *c)
{
	return apply_run(c->settings, c->options, c->rt, true);
}

static int run_get(const struct call *c)
{
	return get_run(c->settings, c->options, c->rt, c->args);
}

static int run_describe(const struct call *c)
{
	return describe_run(c->settings, c->options, c->rt, c->args);
}

static int run_delete(const struct call *c)
{
	return delete_run(c->settings, c->options, c->rt, c->args);
}

static int run_top(const struct call *c)
{
	return top_run(c->settings, c->options, c->rt);
}

static int run_gc(const struct call *c)
{
	if (!compat.gc) {
		fprintf(stderr, "nanoctrl: gc: this nanoctrl was built without compat\n");
		return 1;
	}
	return compat.gc(c->settings, c->options, c->rt);
}

enum needs_dir {
	DIR_ASKS,   /* looks into it; with --address it asks that server instead */
	DIR_ALWAYS, /* looks into it, with --address as well */
	DIR_MAKES,  /* makes it */
	DIR_MAY,    /* looks into it if it can be found */
};

/* The commands of settings.c, by name. */
static const struct {
	const char *name;
	enum needs_dir dir;
	int (*run)(const struct call *c);
} runs[] = {
	{ "start", DIR_MAKES, run_start },
	{ "server", DIR_MAKES, run_server },
	{ "status", DIR_ALWAYS, run_status },
	{ "stop", DIR_ASKS, run_stop },
	{ "obs links", DIR_ASKS, run_obs_links },
	{ "obs status", DIR_ASKS, run_obs_status },
	{ "obs peers", DIR_ASKS, run_obs_peers },
	{ "obs nics", DIR_ASKS, run_obs_nics },
	{ "explain", DIR_ASKS, run_explain },
	{ "apply", DIR_ASKS, run_apply },
	{ "diff", DIR_ASKS, run_diff },
	{ "get", DIR_ASKS, run_get },
	{ "describe", DIR_ASKS, run_describe },
	{ "delete topology", DIR_ASKS, run_delete },
	{ "top", DIR_ASKS, run_top },
	{ "gc", DIR_MAY, run_gc },
};

#define N_RUNS (sizeof(runs) / sizeof(*runs))

/* Makes rt usable for a command that needs its directory so; else says why not: 1. */
static int open_runtime(struct runtime *rt, enum needs_dir need, const struct options *options,
			int found)
{
	int ret = found;

	if (options->address && need == DIR_ASKS)
		return 0;
	/* A command that only asks leaves no directory behind; one that exists has to be ours. */
	if (!ret && (need == DIR_MAKES || !access(rt->dir, F_OK)))
		ret = runtime_create(rt);
	if (ret == -ENOENT && !rt->dir[0])
		fprintf(stderr, "nanoctrl: no runtime directory: neither XDG_RUNTIME_DIR nor HOME "
				"is set, and --runtime-dir names none\n");
	else if (ret)
		fprintf(stderr, "nanoctrl: runtime directory %s: %s\n",
			options->runtime_dir ? options->runtime_dir : rt->dir,
			ret == -EPERM ? "another user owns it, or may write into it: be its owner, "
					"or ask a server by --address"
				      : strerror(-ret));
	return ret ? 1 : 0;
}

static int run(const struct cli_args *args, const struct options *options,
	       const struct settings *settings)
{
	struct runtime rt = { .dir = "" };
	int found = runtime_init(&rt, "nanoctrl", options->runtime_dir);
	struct call call = { args, options, settings, &rt };
	size_t i = 0;

	while (i < N_RUNS && strcmp(runs[i].name, args->command->name) != 0)
		i++;
	assert(i < N_RUNS); /* settings.c names no other */
	if (runs[i].dir == DIR_MAY)
		call.rt = found ? NULL : &rt;
	else if (open_runtime(&rt, runs[i].dir, options, found))
		return 1;
	return runs[i].run(&call);
}

/* DLSlime's variables for the level of the log: words as "debug" or "info,hyper=warn", of which the
 * first is the one of the server itself. */
static void adopt_log_level(void)
{
	static const char *const names[] = { "NANOCTRL_RUST_LOG", "DLSLIME_CTRL_RUST_LOG" };
	static const char *const levels[][2] = { { "error", "error" }, { "warn", "warn" },
						 { "info", "info" },   { "debug", "debug" },
						 { "trace", "debug" }, { "off", "error" } };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *text = getenv(names[i]);
		size_t len = text ? strcspn(text, ",") : 0;

		for (size_t j = 0; j < sizeof(levels) / sizeof(*levels); j++)
			if (len && len == strlen(levels[j][0]) &&
			    !strncasecmp(text, levels[j][0], len))
				setenv("NANOCTRL_LOG_LEVEL", levels[j][1], 0);
	}
}

static int run_program(int argc, char **argv)
{
	struct cli_config *config;
	struct options options = { 0 };
	struct settings settings = { 0 };
	struct cli_args args;
	char address[OPTIONS_ADDRESS_MAX];
	int status = CLI_EXIT_USAGE;
	int ret = cli_args_init(&args, &nanoctrl_program, argc, argv, &options);

	if (ret)
		return cli_args_exit_status(ret);
	if (options.address && !options_address(options.address, address))
		options.address = address;
	ret = cli_config_create(&config);
	if (!ret) {
		ret = read_settings(config, &options, &args, &settings);
		hide_secrets(argc, argv);
		if (!ret)
			status = run(&args, &options, &settings);
		else if (ret != -EINVAL)
			status = 1;
		cli_config_destroy(config);
	}
	cli_args_fini(&args);
	return cli_output_end("nanoctrl", status);
}

int main(int argc, char **argv)
{
	if (cli_standard_open())
		return EXIT_FAILURE;
	adopt_log_level();
	return run_program(argc, argv);
}
