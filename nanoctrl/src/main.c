/* SPDX-License-Identifier: Apache-2.0 */
/* nanoctrl's command line. */
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

static int run(const struct cli_args *args, const struct options *options,
	       const struct settings *settings)
{
	const char *command = args->command->name;
	bool serves = !strcmp(command, "start") || !strcmp(command, "server");
	/* A command that asks a server by its address needs no directory. */
	bool named = options->address && strcmp(command, "status") != 0;
	struct runtime rt = { .dir = "" };
	int ret = runtime_init(&rt, "nanoctrl", options->runtime_dir);

	if (!strcmp(command, "gc") && !compat.gc) {
		fprintf(stderr, "nanoctrl: gc: this nanoctrl was built without compat\n");
		return 1;
	}
	if (!strcmp(command, "gc"))
		return compat.gc(settings, options, ret ? NULL : &rt);
	/* A command that only asks leaves no directory behind; one that exists has to be ours. */
	if (!ret && !named && (serves || !access(rt.dir, F_OK)))
		ret = runtime_create(&rt);
	if (named)
		ret = 0;
	if (ret == -ENOENT && !rt.dir[0]) {
		fprintf(stderr, "nanoctrl: no runtime directory: neither XDG_RUNTIME_DIR nor HOME "
				"is set, and --runtime-dir names none\n");
		return 1;
	}
	if (ret) {
		fprintf(stderr, "nanoctrl: runtime directory %s: %s\n",
			options->runtime_dir ? options->runtime_dir : rt.dir, strerror(-ret));
		return 1;
	}
	if (!strcmp(command, "start"))
		return instance_start(settings, options, &rt);
	if (!strcmp(command, "status"))
		return instance_status(settings, options, &rt);
	if (!strcmp(command, "stop"))
		return instance_stop(settings, options, &rt);
	if (!strcmp(command, "obs links"))
		return links_show(settings, options, &rt);
	if (!strcmp(command, "obs status"))
		return obs_show(OBS_VIEW_STATUS, settings, options, &rt);
	if (!strcmp(command, "obs peers"))
		return obs_show(OBS_VIEW_PEERS, settings, options, &rt);
	if (!strcmp(command, "obs nics"))
		return obs_show(OBS_VIEW_NICS, settings, options, &rt);
	if (!strcmp(command, "explain"))
		return explain_show(settings, options, &rt, args);
	if (!strcmp(command, "apply") || !strcmp(command, "diff"))
		return apply_run(settings, options, &rt, !strcmp(command, "diff"));
	if (!strcmp(command, "get"))
		return get_run(settings, options, &rt, args);
	if (!strcmp(command, "describe"))
		return describe_run(settings, options, &rt, args);
	if (!strcmp(command, "delete topology"))
		return delete_run(settings, options, &rt, args);
	if (!strcmp(command, "top"))
		return top_run(settings, options, &rt);
	return serve(settings, options, &rt,
		     options->log_file ? options->log_file
		     : rt.log_is_given ? rt.log_file
				       : NULL,
		     NULL);
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
