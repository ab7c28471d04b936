/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "bench/rpc/baseline.h"
#include "bench/agents/client.h"
#include "bench/rpc/comparison.h"
#include "bench/ctrl/baseline.h"
#include "bench/ctrl/ctrl.h"
#include "bench/agents/jobs.h"
#include "bench/host/roofline.h"
#include "bench/output/stderr_log.h"
#include "bench/process/ranks.h"
#include "bench/agents/discovery.h"
#include "bench/page/page.h"
#include "bench/page/plot.h"
#include "bench/rpc/plot.h"
#include "bench/agents/report.h"
#include "bench/rnr/rnr.h"
#include "bench/settings.h"
#include "cli/output/output.h"
#include "cli/options/quantity.h"
#include "cli/process/signals.h"
#include "cli/options/standard.h"

/* One run of the program. */
struct bench {
	struct options options;
	struct settings settings;
	struct client client;
	enum bench_kind kind;
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

static int save_head(void *arg, FILE *to)
{
	return report_print(arg, REPORT_HEAD, to);
}

static int save_figures(void *arg, FILE *to)
{
	return report_print(arg, REPORT_ROWS, to);
}

/* all: nothing is missing. Then, with baselines, it is printed beside them, later; at once when it
 * could not be written down for them. */
static int report_rows(const struct bench *b, const struct report_row *rows, size_t n, bool all)
{
	const struct between_settings *between = &b->settings.between;
	const struct rpc_settings *rpc = &b->settings.rpc;
	struct report r = {
		.kind = b->kind,
		.from = between->from ? between->from : slime_agent_name(b->client.agent),
		.peer = between->peer,
		.flags = b->flags,
		.rows = rows,
		.n_rows = n,
	};
	int status = EXIT_SUCCESS;
	int ret = 0;

	if (b->kind == BENCH_RPC && rpc->results)
		ret = results_write(rpc->results, SYSTEM_SLIME, save_head, save_figures, &r);
	if (ret)
		status = complain(rpc->results, ret);
	else if (b->kind == BENCH_RPC && rpc->n_baselines && all)
		return EXIT_SUCCESS;
	ret = report_print(&r, format_of(&b->options), stdout);
	return ret ? cli_output_fail(bench_program.name, ret) : status;
}

/* What was measured is printed even when a later size fails. */
static int run_all(struct bench *b)
{
	size_t n = b->kind == BENCH_RPC ? b->settings.rpc.n_sizes : 1;
	struct report_row *rows = calloc(n ? n : 1, sizeof(*rows));
	size_t done = 0;
	int failed = 0;
	int status;

	if (!rows)
		return complain("memory", -ENOMEM);
	while (done < n && !failed) {
		if (b->kind == BENCH_RPC)
			jobs_rpc(&b->settings, b->settings.rpc.sizes[done], &rows[done].job);
		else
			jobs_transfer(&b->settings, &rows[done].job);
		failed = client_run(&b->client, &rows[done].job, &rows[done].result);
		done += !failed;
	}
	status = done ? report_rows(b, rows, done, !failed) : EXIT_FAILURE;
	free(rows);
	return failed ? EXIT_FAILURE : status;
}

static int interrupted(int sig)
{
	fprintf(stderr, "slime-bench: interrupted\n");
	return 128 + sig;
}

static int measure(struct bench *b)
{
	int status;
	int sig;

	if (client_init(&b->client, &b->settings))
		return EXIT_FAILURE;
	status = client_open(&b->client) ? EXIT_FAILURE : run_all(b);
	sig = client_fini(&b->client);
	return sig ? interrupted(sig) : status;
}

/* ---- what others measured ---- */

static int unreadable(const char *dir, int ret)
{
	char *path = ret == -ENOENT ? results_path(dir, SYSTEM_SLIME, RESULTS_FIGURES) : NULL;
	int status = complain(path ? path : dir, ret);

	free(path);
	return status;
}

static int compare(const char *dir, bool csv)
{
	struct results *r = malloc(sizeof(*r));
	int ret = r ? results_read(r, dir) : -ENOMEM;
	int printed = ret ? 0 : comparison_print(r, csv, stdout);

	free(r);
	if (ret == -EINVAL)
		return EXIT_FAILURE;
	if (ret)
		return unreadable(dir, ret);
	return printed ? cli_output_fail(bench_program.name, printed) : EXIT_SUCCESS;
}

static int no_gnuplot(void)
{
	fprintf(stderr, "slime-bench: gnuplot is not installed (deploy/packages.sh bench)\n");
	return EXIT_FAILURE;
}

static int plot_pages(const char *dir)
{
	int ret = page_plot_draw(dir);

	if (ret == -ENOENT)
		return no_gnuplot();
	if (ret)
		return ret == -EINVAL ? EXIT_FAILURE : complain(dir, ret);
	printf("%s/%s\n%s/%s\n", dir, PAGE_PLOT_PNG, dir, PAGE_PLOT_SVG);
	return EXIT_SUCCESS;
}

static int plot_calls(const char *dir)
{
	struct results *r = malloc(sizeof(*r));
	int ret = r ? results_read(r, dir) : -ENOMEM;
	int drawn = ret ? 0 : plot_draw(r, dir);

	free(r);
	if (drawn == -ENOENT)
		return no_gnuplot();
	if (ret == -EINVAL)
		return EXIT_FAILURE;
	if (ret || drawn)
		return ret ? unreadable(dir, ret) : complain(dir, drawn);
	printf("%s/%s\n%s/%s\n", dir, PLOT_PNG, dir, PLOT_SVG);
	return EXIT_SUCCESS;
}

/* What is there: pages, calls, or both. */
static int plot(const char *dir)
{
	bool pages = page_plot_has(dir);
	char *calls = results_path(dir, SYSTEM_SLIME, RESULTS_FIGURES);
	int status = EXIT_SUCCESS;

	if (pages)
		status = plot_pages(dir);
	if (!status && (!pages || (calls && !access(calls, F_OK))))
		status = plot_calls(dir);
	free(calls);
	return status;
}

/* One after the other, when we have left: nobody disturbs them. */
static int measure_baselines(struct bench *b)
{
	static const int stopping[] = { SIGINT, SIGTERM };
	const struct rpc_settings *rpc = &b->settings.rpc;
	struct baseline_attr attr = { .rpc = rpc };
	enum baseline_outcome outcome = BASELINE_MEASURED;
	struct cli_progress progress;
	int status = EXIT_SUCCESS;
	int caught = 0;

	attr.signals = cli_signals_open(stopping, sizeof(stopping) / sizeof(stopping[0]));
	if (attr.signals < 0)
		return complain("signals", attr.signals);
	cli_progress_init(&progress, stderr);
	attr.progress = &progress;
	for (size_t i = 0; i < rpc->n_baselines && outcome != BASELINE_INTERRUPTED; i++) {
		enum system system = (enum system)(SYSTEM_SLIME + 1 + rpc->baselines[i]);

		cli_progress_say(&progress, "%s ...", system_names[system].title);
		outcome = baseline_run(&attr, system, &caught);
		if (outcome == BASELINE_FAILED)
			status = EXIT_FAILURE;
	}
	cli_signals_close(attr.signals);
	return outcome == BASELINE_INTERRUPTED ? interrupted(caught) : status;
}

static int measure_all(struct bench *b)
{
	const struct rpc_settings *rpc = &b->settings.rpc;
	int ret = rpc->results && b->kind == BENCH_RPC ? results_create(rpc->results) : 0;
	int status, printed;

	if (ret)
		return complain(rpc->results, ret);
	status = measure(b);
	if (status || b->kind != BENCH_RPC || !rpc->n_baselines)
		return status;
	status = measure_baselines(b);
	if (status > 128)
		return status;
	printed = compare(rpc->results, b->options.csv);
	return printed ? printed : status;
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

static int serve_pages(const struct settings *settings)
{
	struct discovery d = { .dir = "" };
	const char *addr = settings->page.discovery_addr;
	struct client client;
	int status = EXIT_FAILURE, sig, ret;

	if (client_init(&client, settings))
		return EXIT_FAILURE;
	ret = addr ? discovery_start(&d, addr) : 0;
	if (ret)
		complain("nanoctrl for the discovery address", ret);
	client.owns_pages = true;
	if (!ret && !client_open(&client))
		status = page_serve(&client);
	sig = client_fini(&client);
	discovery_stop(&d);
	return sig && status ? interrupted(sig) : status;
}

/* As one of several processes, or alone. */
static int drive_pages(const struct settings *settings, const struct rank *seat,
		       struct page_result *out)
{
	struct client client;
	int status = EXIT_FAILURE, sig;

	if (client_init(&client, settings))
		return EXIT_FAILURE;
	if (!client_open(&client))
		status = page_drive(&client, seat, out);
	sig = client_fini(&client);
	return sig ? interrupted(sig) : status;
}

static int judge_pages(const struct settings *settings, struct page_result *out)
{
	struct client client;
	int status = EXIT_FAILURE, sig;

	if (client_init(&client, settings))
		return EXIT_FAILURE;
	if (!client_open(&client))
		status = page_judge(&client, out);
	sig = client_fini(&client);
	return sig ? interrupted(sig) : status;
}

/* Before there are threads. */
static int drive_all(const struct settings *settings, struct page_result *out)
{
	const struct rank alone = RANK_ALONE;
	struct nic_group groups[NIC_GROUPS_MAX];
	unsigned n = (unsigned)settings->page.processes;
	char why[256];
	int n_groups = 0;

	if (settings->page.machine)
		n_groups =
			nic_groups_find(settings->between.devices, NULL, groups, why, sizeof(why));
	if (n_groups == -ENODEV)
		fprintf(stderr, "slime-bench: --machine: %s\n", why);
	else if (n_groups < 0)
		complain("RDMA devices", n_groups);
	if (n_groups < 0)
		return EXIT_FAILURE;
	if (!n_groups && n == 1)
		return drive_pages(settings, &alone, out);
	out->n_groups = (size_t)n_groups;
	return ranks_run(settings, groups, (size_t)n_groups, n, drive_pages, out);
}

/* Afterwards: nothing runs beside it. */
static void note_limits(const struct settings *settings, struct page_result *out)
{
	const struct page_settings *p = &settings->page;
	uint32_t rdma = 1u << SLIME_TRANSPORT_RDMA;
	cpu_set_t cpus;

	out->n_cpus = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
	if (out->transports & rdma)
		out->line_gb_s = roofline_line_gb_s(settings->between.devices);
	if (out->transports & ~rdma)
		out->copy_gb_s = roofline_copy_gb_s(p->page_size * (uint64_t)p->batch_size);
}

/* What was measured is printed even when a later rung fails. */
static int measure_pages(struct bench *b, bool judges)
{
	struct page_result *result = calloc(1, sizeof(*result));
	int status, ret;

	if (!result)
		return complain("memory", -ENOMEM);
	result->settings = &b->settings;
	result->flags = b->flags;
	status = judges ? judge_pages(&b->settings, result) : drive_all(&b->settings, result);
	if (result->n_rungs)
		note_limits(&b->settings, result);
	ret = result->n_rungs ? page_report(result, format_of(&b->options), stdout) : 0;
	free(result);
	return ret ? cli_output_fail(bench_program.name, ret) : status;
}

static int page(struct bench *b, const char *what)
{
	static char discovery[DISCOVERY_URL_MAX];
	static const char *const urls[] = { discovery };
	const char *addr = b->settings.page.discovery_addr;
	bool serves = !strcmp(what, "serve");
	bool judges = !strcmp(what, "judge");

	if (!serves && !judges && strcmp(what, "drive"))
		return cli_usage_error(&bench_program, "page: expected serve, drive or judge");
	if (addr) {
		discovery_url(addr, discovery);
		b->settings.control = (struct control_settings){ .urls = urls, .n_urls = 1 };
	}
	return serves ? serve_pages(&b->settings) : measure_pages(b, judges);
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
	if (!ret && b->options.json && b->settings.rpc.n_baselines && b->kind == BENCH_RPC)
		status =
			cli_usage_error(&bench_program, "--json and --baseline exclude each other");
	else if (!ret)
		status = is(args, "page")	     ? page(b, args->operands[0])
			 : !is(args, "ctrl")	     ? measure_all(b)
			 : b->settings.ctrl.baseline ? measure_baseline(b)
						     : measure_control(b);
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

	b->kind = is(args, "rpc") ? BENCH_RPC : BENCH_TRANSFER;
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
		status = compare(args.operands[0], b.options.csv);
	else if (is(&args, "plot"))
		status = plot(args.operands[0]);
	else if (is(&args, "rnr"))
		status = rnr(&args, &b.options);
	else
		status = measure_command(&b, &args, argc, argv);
	cli_args_fini(&args);
	return cli_output_end(bench_program.name, status);
}
