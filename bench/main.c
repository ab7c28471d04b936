/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "bench/ctrl/baseline.h"
#include "bench/ctrl/ctrl.h"
#include "bench/output/stderr_log.h"
#include "bench/agents/discovery.h"
#include "bench/page/page.h"
#include "bench/plot/plot.h"
#include "bench/rpc/rpc.h"
#include "bench/transfer/transfer.h"
#include "bench/rnr/rnr.h"
#include "bench/settings.h"
#include "cli/output/output.h"
#include "cli/options/quantity.h"
#include "cli/options/standard.h"

/* One run of the program. */
struct bench {
	struct options options;
	struct settings settings;
	char *flags; /* the command line as given */
};

static int complain(const char *what, int ret)
{
	fprintf(stderr, "slime-bench: %s: %s\n", what, strerror(-ret));
	return EXIT_FAILURE;
}

/* ---- measuring ---- */

static enum report_format format_of(const struct options *o)
{
	return o->json ? REPORT_JSON : o->csv ? REPORT_CSV : REPORT_TABLE;
}

/* What was measured is printed even when a later step fails. */
static int measure_control(struct bench *b)
{
	struct ctrl_result *result = calloc(1, sizeof(*result));
	int status, ret;

	if (!result)
		return complain("memory", -ENOMEM);
	result->flags = b->flags;
	status = ctrl_measure(&b->settings, result);
	ret = result->n_rows && status <= 128 ? ctrl_report(result, format_of(&b->options), stdout)
					      : 0;
	free(result);
	return ret ? cli_output_fail(bench_program.name, ret) : status;
}

static int measure_baseline(struct bench *b)
{
	struct ctrl_baseline result = { .settings = &b->settings, .flags = b->flags };
	int status = ctrl_baseline_measure(&result);
	int ret = status ? 0 : ctrl_baseline_report(&result, format_of(&b->options), stdout);

	return ret ? cli_output_fail(bench_program.name, ret) : status;
}

static bool is(const struct cli_args *args, const char *command)
{
	return !strcmp(args->command->name, command);
}

/* The command line in one string, for the head of the result, which is lines of text or JSON. */
static char *join(int argc, char **argv)
{
	size_t len = 1;
	char *all;

	for (int i = 1; i < argc; i++)
		len += strlen(argv[i]) + 1;
	all = calloc(1, len);
	for (int i = 1; all && i < argc; i++) {
		if (i > 1)
			strcat(all, " ");
		strcat(all, argv[i]);
	}
	if (all)
		sl_utf8_make_printable(all);
	return all;
}

/* Agents that are found by an address alone find nanoctrl there. */
static void use_discovery(struct settings *s)
{
	static char url[DISCOVERY_URL_MAX];
	static const char *const urls[] = { url };

	if (!s->control.discovery_addr)
		return;
	discovery_url(s->control.discovery_addr, url);
	s->control.urls = urls;
	s->control.n_urls = 1;
}

static int run_command(struct bench *b, const struct cli_args *args)
{
	const char *what = args->n_operands ? args->operands[0] : NULL;
	enum report_format format = format_of(&b->options);

	if (is(args, "ctrl"))
		return b->settings.ctrl.baseline ? measure_baseline(b) : measure_control(b);
	if (is(args, "rpc"))
		return rpc_command(&b->settings, b->flags, format);
	use_discovery(&b->settings);
	if (is(args, "page"))
		return page_command(&b->settings, what, b->flags, format);
	return transfer_command(&b->settings, what, b->flags, format);
}

static int read_and_measure(struct bench *b, const struct cli_args *args)
{
	struct cli_config *config;
	int status = CLI_EXIT_USAGE;
	int ret;

	if (b->options.json && b->options.csv)
		return cli_usage_error(&bench_program, "--json and --csv exclude each other");
	stderr_log_open();
	ret = cli_config_create(&config);
	if (ret)
		return complain("configuration", ret);
	ret = settings_read(config, &b->options, args, &b->settings);
	if (!ret && b->options.json && b->settings.rpc.n_baselines && is(args, "rpc"))
		status =
			cli_usage_error(&bench_program, "--json and --baseline exclude each other");
	else if (!ret)
		status = run_command(b, args);
	else if (ret != -EINVAL)
		status = complain("configuration", ret);
	cli_config_destroy(config);
	return status;
}

/* ---- what devices tell ---- */

/* The words after rnr --watch. Returns what was expected, NULL when all is well. */
static const char *read_pace(const struct cli_args *args, struct rnr_options *o)
{
	if (args->n_operands && !o->watch)
		return "INTERVAL and COUNT are for --watch";
	if (args->n_operands > 0 &&
	    (cli_duration_parse(args->operands[0], &o->interval_ns) ||
	     o->interval_ns < RNR_INTERVAL_MIN_NS || o->interval_ns > RNR_INTERVAL_MAX_NS))
		return "expected an INTERVAL such as 500ms, from 10ms to 1d";
	if (args->n_operands > 1 &&
	    (cli_integer_parse(args->operands[1], &o->n_samples) || o->n_samples < 1))
		return "expected how many samples, 1 or more";
	return NULL;
}

static int rnr(const struct cli_args *args, const struct options *options)
{
	struct rnr_options o = {
		.sysfs = options->sysfs,
		.json = options->json,
		.watch = options->watch,
		.interval_ns = RNR_INTERVAL_DEFAULT_NS,
	};
	const char *wrong = read_pace(args, &o);

	return wrong ? cli_usage_error(&bench_program, "rnr: %s", wrong) : rnr_print(&o, stdout);
}

/* The commands that measure between agents. */
static int measure_command(struct bench *b, const struct cli_args *args, int argc, char **argv)
{
	int status;

	b->flags = join(argc, argv);
	status = b->flags ? read_and_measure(b, args) : complain("memory", -ENOMEM);
	free(b->flags);
	return status;
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct cli_args args;
	int status;
	int ret = cli_standard_open();

	if (ret)
		return EXIT_FAILURE;
	ret = cli_args_init(&args, &bench_program, argc, argv, &b.options);
	if (ret)
		return cli_args_exit_status(ret);
	if (is(&args, "compare"))
		status = rpc_compare(args.operands[0], b.options.csv);
	else if (is(&args, "plot"))
		status = plot_command(args.operands[0]);
	else if (is(&args, "rnr"))
		status = rnr(&args, &b.options);
	else
		status = measure_command(&b, &args, argc, argv);
	cli_args_fini(&args);
	return cli_output_end(bench_program.name, status);
}
