/* SPDX-License-Identifier: Apache-2.0 */
/* nanoctrl's command line. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/config.h"
#include "cli/option.h"
#include "cli/output.h"
#include "gc.h"
#include "instance.h"
#include "links.h"
#include "obs.h"
#include "redis_url.h"
#include "serve.h"
#include "settings.h"
#include "top.h"

/* A password on the command line is not for everybody who may run ps. The values were copied. */
static void hide_secrets(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *from = strstr(argv[i], "://");
		char *to = from ? strrchr(from, '@') : NULL;

		if (to)
			memset(from + 3, 'x', (size_t)(to - from - 3));
	}
}

static bool is_loopback(const char *host)
{
	return !strncmp(host, "127.", 4) || !strcmp(host, "::1");
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
	if (!ret)
		check_redis_url(config, out);
	exposed = !ret && !cli_config_n_errors(config) && !is_loopback(out->server.host) &&
		  !out->server.insecure;
	if (exposed)
		cli_config_refuse(
			config, "server.host",
			"expected a loopback address, or --insecure: whoever reaches another "
			"one may do anything");
	if (cli_config_n_errors(config)) {
		cli_config_print_errors(config, stderr);
		return exposed ? -EACCES : -EINVAL;
	}
	if (ret)
		fprintf(stderr, "nanoctrl: %s\n", strerror(-ret));
	return ret;
}

static int run(const char *command, const struct options *options, const struct settings *settings)
{
	bool serves = !strcmp(command, "start") || !strcmp(command, "server");
	struct runtime rt;
	int ret = runtime_init(&rt, options->runtime_dir);

	if (!strcmp(command, "gc"))
		return gc_list(settings, options);
	/* Who only asks leaves no directory behind; one that is there has to be ours. */
	if (!ret && (serves || !access(rt.dir, F_OK)))
		ret = runtime_create(&rt);
	if (ret) {
		fprintf(stderr, "nanoctrl: runtime directory %s: %s\n",
			options->runtime_dir ? options->runtime_dir : rt.dir, strerror(-ret));
		return 1;
	}
	if (!strcmp(command, "start"))
		return instance_start(settings, options, &rt);
	if (!strcmp(command, "status"))
		return instance_status(settings, &rt);
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
	if (!strcmp(command, "top"))
		return top_run(settings, options, &rt);
	return serve(settings, &rt, options->log_file, NULL);
}

int main(int argc, char **argv)
{
	struct cli_config *config;
	struct options options = { 0 };
	struct settings settings = { 0 };
	struct cli_args args;
	int status = CLI_EXIT_USAGE;
	int ret = cli_args_init(&args, &nanoctrl_program, argc, argv, &options);

	if (ret)
		return cli_args_exit_status(ret);
	ret = cli_config_create(&config);
	if (!ret) {
		ret = read_settings(config, &options, &args, &settings);
		hide_secrets(argc, argv);
		if (!ret)
			status = run(args.command->name, &options, &settings);
		else if (ret != -EINVAL)
			status = 1;
		cli_config_destroy(config);
	}
	cli_args_fini(&args);
	return cli_output_end("nanoctrl", status);
}
