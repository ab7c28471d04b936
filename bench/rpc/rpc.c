/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rpc/rpc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "bench/agents/client.h"
#include "bench/rpc/baseline.h"
#include "bench/rpc/comparison.h"
#include "bench/rpc/report.h"
#include "cli/output/output.h"
#include "cli/process/signals.h"

static int complain(const char *what, int ret)
{
	fprintf(stderr, "slime-bench: %s: %s\n", what, strerror(-ret));
	return EXIT_FAILURE;
}

/* ---- our calls ---- */

static int save_head(void *arg, FILE *to)
{
	return report_print(arg, REPORT_HEAD, to);
}

static int save_figures(void *arg, FILE *to)
{
	return report_print(arg, REPORT_ROWS, to);
}

/* With baselines they are printed beside them, later; at once when they could not be written down
 * for that, or when not all were measured. */
static int print_rows(const struct settings *s, const struct report *r, bool all,
		      enum report_format format)
{
	int status = EXIT_SUCCESS;
	int ret = 0;

	if (s->rpc.results)
		ret = results_write(s->rpc.results, SYSTEM_SLIME, save_head, save_figures,
				    (void *)(uintptr_t)r);
	if (ret)
		status = complain(s->rpc.results, ret);
	else if (s->rpc.n_baselines && all)
		return EXIT_SUCCESS;
	ret = report_print(r, format, stdout);
	return ret ? cli_output_fail(bench_program.name, ret) : status;
}

static void set_job(const struct settings *s, uint64_t size, struct bench_job *job)
{
	*job = (struct bench_job){ .kind = BENCH_RPC,
				   .transport = (enum slime_transport)s->between.transport };
	snprintf(job->peer, sizeof(job->peer), "%s", s->between.peers[0]);
	job->rpc = (struct load_rpc){
		.size = size,
		.threads = (uint32_t)s->between.threads,
		.inflight = (uint32_t)s->rpc.inflight,
		.warmup = BASELINE_WARMUP,
		.iterations = s->rpc.duration_ms ? (uint64_t)s->rpc.iterations
						 : baseline_iterations(&s->rpc, size),
		.duration_ms = (uint32_t)s->rpc.duration_ms,
	};
}

/* What was measured is printed even when a later size fails. */
static int measure_sizes(struct client *c, const char *flags, enum report_format format)
{
	const struct settings *s = c->settings;
	struct report_row *rows = calloc(s->rpc.n_sizes, sizeof(*rows));
	struct report r = {
		.from = s->between.from ? s->between.from : slime_agent_name(c->agent),
		.peer = s->between.peers[0],
		.flags = flags,
		.rows = rows,
	};
	int status = EXIT_FAILURE;
	bool all;

	if (!rows)
		return complain("memory", -ENOMEM);
	for (; r.n_rows < s->rpc.n_sizes; r.n_rows++) {
		struct report_row *row = &rows[r.n_rows];

		set_job(s, s->rpc.sizes[r.n_rows], &row->job);
		if (client_run(c, &row->job, NULL, &row->result, NULL))
			break;
	}
	all = r.n_rows == s->rpc.n_sizes;
	if (r.n_rows)
		status = print_rows(s, &r, all, format);
	free(rows);
	return all ? status : EXIT_FAILURE;
}

static int measure(const struct settings *s, const char *flags, enum report_format format)
{
	struct client client;
	int status = EXIT_FAILURE;
	int sig;

	if (client_init(&client, s))
		return EXIT_FAILURE;
	if (!client_open(&client))
		status = measure_sizes(&client, flags, format);
	sig = client_fini(&client);
	return sig ? client_interrupted(sig) : status;
}

/* ---- what others measured ---- */

static int unreadable(const char *dir, int ret)
{
	char *path = ret == -ENOENT ? results_path(dir, SYSTEM_SLIME, RESULTS_FIGURES) : NULL;
	int status = complain(path ? path : dir, ret);

	free(path);
	return status;
}

int rpc_compare(const char *dir, bool csv)
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

/* One after the other, when our agent has left: nothing disturbs them. */
static int measure_baselines(const struct rpc_settings *rpc)
{
	static const int stopping[] = { SIGINT, SIGTERM };
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
	return outcome == BASELINE_INTERRUPTED ? client_interrupted(caught) : status;
}

int rpc_command(const struct settings *settings, const char *flags, enum report_format format)
{
	const struct rpc_settings *rpc = &settings->rpc;
	int ret = rpc->results ? results_create(rpc->results) : 0;
	int status, printed;

	if (ret)
		return complain(rpc->results, ret);
	status = measure(settings, flags, format);
	if (status || !rpc->n_baselines)
		return status;
	status = measure_baselines(rpc);
	if (status > 128)
		return status;
	printed = rpc_compare(rpc->results, format == REPORT_CSV);
	return printed ? printed : status;
}
