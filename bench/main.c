/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/client.h"
#include "bench/report.h"
#include "bench/settings.h"

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

/* ---- what is to be done ---- */

static void common_job(const struct between_settings *b, struct bench_job *job)
{
	snprintf(job->peer, sizeof(job->peer), "%s", b->peer);
	job->transport = (enum slime_transport)b->transport;
}

static uint64_t default_iterations(uint64_t size)
{
	uint64_t n = 50000000 / size;

	return n < 50 ? 50 : n > 500 ? 500 : n;
}

static void rpc_job(const struct settings *s, uint64_t size, struct bench_job *job)
{
	*job = (struct bench_job){ .kind = BENCH_RPC };
	common_job(&s->between, job);
	job->rpc = (struct load_rpc){
		.size = size,
		.threads = (uint32_t)s->between.threads,
		.inflight = (uint32_t)s->rpc.inflight,
		.warmup = 20,
		.iterations = (uint64_t)s->rpc.iterations,
		.duration_ms = (uint32_t)s->rpc.duration_ms,
	};
	if (!s->rpc.iterations && !s->rpc.duration_ms)
		job->rpc.iterations = default_iterations(size);
}

static void transfer_job(const struct settings *s, struct bench_job *job)
{
	const struct transfer_settings *t = &s->transfer;

	*job = (struct bench_job){ .kind = BENCH_TRANSFER };
	common_job(&s->between, job);
	if (t->region)
		snprintf(job->region, sizeof(job->region), "%s", t->region);
	job->transfer = (struct load_transfer){
		.op = (enum load_op)t->op,
		.block_size = t->block_size,
		.batch_size = (uint32_t)t->batch_size,
		.threads = (uint32_t)s->between.threads,
		.duration_ms = (uint32_t)t->duration_ms,
		.warmup_ms = 200,
		.qps = (uint32_t)t->qps,
	};
}

/* ---- running ---- */

static int print_rows(const struct bench *b, const struct report_row *rows, size_t n)
{
	const struct between_settings *between = &b->settings.between;
	struct report r = {
		.kind = b->kind,
		.from = between->from ? between->from : slime_agent_name(b->client.agent),
		.peer = between->peer,
		.flags = b->flags,
		.rows = rows,
		.n_rows = n,
	};
	int ret = report_print(&r,
			       b->options.json	? REPORT_JSON
			       : b->options.csv ? REPORT_CSV
						: REPORT_TABLE,
			       stdout);

	return ret ? complain("standard output", ret) : 0;
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
			rpc_job(&b->settings, b->settings.rpc.sizes[done], &rows[done].job);
		else
			transfer_job(&b->settings, &rows[done].job);
		failed = client_run(&b->client, &rows[done].job, &rows[done].result);
		done += !failed;
	}
	status = done ? print_rows(b, rows, done) : EXIT_FAILURE;
	free(rows);
	return failed ? EXIT_FAILURE : status;
}

static int measure(struct bench *b)
{
	int status;
	int sig;

	if (client_init(&b->client, &b->settings))
		return EXIT_FAILURE;
	status = client_open(&b->client) ? EXIT_FAILURE : run_all(b);
	sig = client_fini(&b->client);
	if (!sig)
		return status;
	fprintf(stderr, "slime-bench: interrupted\n");
	return 128 + sig;
}

/* The command line in one string, for the head of the result. */
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
	return all;
}

static int read_and_measure(struct bench *b, const struct cli_args *args)
{
	struct cli_config *config;
	int status = CLI_EXIT_USAGE;
	int ret;

	if (b->options.json && b->options.csv)
		return cli_usage_error(&bench_program, "--json and --csv exclude each other");
	ret = cli_config_create(&config);
	if (ret)
		return complain("configuration", ret);
	ret = settings_read(config, &b->options, args, &b->settings);
	if (!ret)
		status = measure(b);
	else if (ret != -EINVAL)
		status = complain("configuration", ret);
	cli_config_destroy(config);
	return status;
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct cli_args args;
	int status;
	int ret = cli_args_init(&args, &bench_program, argc, argv, &b.options);

	if (ret)
		return cli_args_exit_status(ret);
	b.kind = !strcmp(args.command->name, "rpc") ? BENCH_RPC : BENCH_TRANSFER;
	b.flags = join(argc, argv);
	status = b.flags ? read_and_measure(&b, &args) : complain("memory", -ENOMEM);
	free(b.flags);
	cli_args_fini(&args);
	return status;
}
