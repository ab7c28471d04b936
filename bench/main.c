/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/interrupt.h"
#include "bench/options.h"
#include "bench/report.h"
#include "cli/progress.h"

#define READY_TIMEOUT_MS  10000
#define LINK_TIMEOUT_MS	  15000
#define LOOKUP_TIMEOUT_MS 5000
#define TOKEN_MAX	  4096
/* Above the load itself: link, lookups, warm-up, check. */
#define REMOTE_EXTRA_MS 120000

struct bench {
	const struct options *opt;
	struct slime_agent *agent;
	struct slime_endpoint *from; /* NULL: this process initiates */
	struct cli_progress progress;
	struct interrupt interrupt;
	char *flags;
};

static bool is_interrupted(struct bench *b)
{
	return atomic_load(&b->interrupt.caught) != 0;
}

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "slime-bench: %s: %s\n", what, why);
	return 1;
}

/* ---- what is to be done ---- */

static uint64_t default_iterations(uint64_t size)
{
	uint64_t n = 50000000 / size;

	return n < 50 ? 50 : n > 500 ? 500 : n;
}

static void common_job(const struct options *o, struct bench_job *job)
{
	snprintf(job->peer, sizeof(job->peer), "%s", o->peer);
	job->transport = (enum slime_transport)o->transport;
}

static void rpc_job(const struct options *o, uint64_t size, struct bench_job *job)
{
	*job = (struct bench_job){ .kind = BENCH_RPC };
	common_job(o, job);
	job->rpc = (struct load_rpc){
		.size = size,
		.threads = (uint32_t)o->threads,
		.inflight = (uint32_t)o->inflight,
		.warmup = 20,
		.iterations = (uint64_t)o->iterations,
		.duration_ms = (uint32_t)o->duration_ms,
	};
	if (!o->iterations && !o->duration_ms)
		job->rpc.iterations = default_iterations(size);
}

static void transfer_job(const struct options *o, struct bench_job *job)
{
	*job = (struct bench_job){ .kind = BENCH_TRANSFER };
	common_job(o, job);
	if (o->region)
		snprintf(job->region, sizeof(job->region), "%s", o->region);
	job->transfer = (struct load_transfer){
		.op = (enum load_op)o->op,
		.block_size = o->block_size,
		.batch_size = (uint32_t)o->batch_size,
		.threads = (uint32_t)o->threads,
		.duration_ms = (uint32_t)o->duration_ms,
		.warmup_ms = 200,
		.qps = (uint32_t)o->qps,
	};
}

static int check_options(const struct options *o, bool rpc)
{
	if (!o->peer)
		return cli_usage_error(&bench_program,
				       "--peer is missing: the agent at the other end");
	if (o->json && o->csv)
		return cli_usage_error(&bench_program, "--json and --csv exclude each other");
	if (o->from && !strcmp(o->from, o->peer))
		return cli_usage_error(&bench_program, "--from and --peer are the same agent");
	if (rpc)
		return 0;
	if (o->block_size % 8)
		return cli_usage_error(&bench_program, "--block-size: expected a multiple of 8");
	if (o->op != LOAD_READ && o->region && !o->overwrite)
		return cli_usage_error(
			&bench_program,
			"writing to region %s destroys what it holds: say --overwrite to allow it",
			o->region);
	return 0;
}

/* ---- the agent in this process ---- */

static int read_token(const char *path, char *out, size_t cap)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return -errno;
	n = fread(out, 1, cap - 1, f);
	fclose(f);
	while (n && strchr(" \t\r\n", out[n - 1]))
		n--;
	out[n] = 0;
	return n ? 0 : -EINVAL;
}

static int open_agent(struct bench *b)
{
	const struct options *o = b->opt;
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	char name[SLIME_AGENT_NAME_MAX + 1];
	char token[TOKEN_MAX];
	char host[64];
	int ret;

	if (gethostname(host, sizeof(host)))
		strcpy(host, "host");
	host[sizeof(host) - 1] = 0;
	snprintf(name, sizeof(name), "bench-%s-%d", host, (int)getpid());
	attr.name = name;
	attr.scope = o->scope;
	attr.urls = o->ctrl;
	attr.n_urls = o->n_ctrl;
	attr.data.polling = (enum slime_polling)o->polling;
	if (o->token_file) {
		ret = read_token(o->token_file, token, sizeof(token));
		if (ret)
			return complain(o->token_file, strerror(-ret));
		attr.token = token;
	}
	ret = slime_agent_create(&attr, &b->agent);
	if (!ret)
		ret = interrupt_watch(&b->interrupt, b->agent);
	if (!ret)
		ret = slime_agent_start(b->agent);
	if (!ret)
		ret = slime_agent_wait_ready(b->agent, READY_TIMEOUT_MS);
	if (ret && is_interrupted(b))
		return 1;
	if (ret)
		return complain(o->ctrl[0],
				ret == -ETIMEDOUT ? "nanoctrl does not answer" : strerror(-ret));
	return 0;
}

static int open_from(struct bench *b)
{
	struct slime_agent_link link = { .to = b->opt->from };
	int ret;

	if (!b->opt->from)
		return 0;
	if (slime_agent_peer_find(b->agent, b->opt->from, LOOKUP_TIMEOUT_MS) == -ENOENT) {
		fprintf(stderr, "slime-bench: %s is not registered in scope %s\n", b->opt->from,
			b->opt->scope);
		return 1;
	}
	ret = slime_agent_link_add(b->agent, &link);
	if (!ret)
		ret = slime_agent_endpoint_get(b->agent, b->opt->from, NULL, LINK_TIMEOUT_MS,
					       &b->from);
	if (ret && is_interrupted(b))
		return 1;
	return ret ? complain(b->opt->from, strerror(-ret)) : 0;
}

/* Returns the signal that ended the measurement, or 0. */
static int close_agent(struct bench *b)
{
	int sig = interrupt_fini(&b->interrupt);

	if (b->from)
		slime_agent_endpoint_put(b->agent, b->from);
	slime_agent_destroy(b->agent);
	return sig;
}

/* ---- running ---- */

static int run_job(struct bench *b, struct report_row *row)
{
	const struct options *o = b->opt;
	char message[BENCH_MESSAGE_MAX];
	int64_t timeout = REMOTE_EXTRA_MS + o->duration_ms;
	int ret;

	if (row->job.kind == BENCH_RPC)
		cli_progress_say(&b->progress, "rpc %" PRIu64 " bytes ...", row->job.rpc.size);
	else
		cli_progress_say(&b->progress, "%s %" PRIu64 " x %u for %u ms ...",
				 load_op_names[row->job.transfer.op], row->job.transfer.block_size,
				 row->job.transfer.batch_size, row->job.transfer.duration_ms);
	if (b->from)
		ret = bench_job_run_at(b->agent, b->from, &row->job, timeout, &row->result,
				       message);
	else
		ret = bench_job_run(b->agent, &row->job, NULL, &row->result, message);
	cli_progress_clear(&b->progress);
	if (ret && !is_interrupted(b))
		fprintf(stderr, "slime-bench: %s%s%s\n", o->from ? o->from : "",
			o->from ? ": " : "", message);
	return ret;
}

static int print_rows(struct bench *b, enum bench_kind kind, const struct report_row *rows,
		      size_t n)
{
	const struct options *o = b->opt;
	struct report r = {
		.kind = kind,
		.from = o->from ? o->from : slime_agent_name(b->agent),
		.peer = o->peer,
		.flags = b->flags,
		.rows = rows,
		.n_rows = n,
	};
	int ret = report_print(&r,
			       o->json	? REPORT_JSON
			       : o->csv ? REPORT_CSV
					: REPORT_TABLE,
			       stdout);

	return ret ? complain("standard output", strerror(-ret)) : 0;
}

/* What was measured is printed even when a later size fails. */
static int run_all(struct bench *b, enum bench_kind kind)
{
	const struct options *o = b->opt;
	size_t n = kind == BENCH_RPC ? o->n_sizes : 1;
	struct report_row *rows = calloc(n ? n : 1, sizeof(*rows));
	size_t done = 0;
	int failed = 0;
	int status;

	if (!rows)
		return complain("memory", strerror(ENOMEM));
	while (done < n && !failed) {
		if (kind == BENCH_RPC)
			rpc_job(o, o->sizes[done], &rows[done].job);
		else
			transfer_job(o, &rows[done].job);
		failed = run_job(b, &rows[done]);
		done += !failed;
	}
	status = done ? print_rows(b, kind, rows, done) : 1;
	free(rows);
	return failed ? 1 : status;
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

int main(int argc, char **argv)
{
	struct options opt = { 0 };
	struct bench b = { .opt = &opt };
	struct cli_args args;
	enum bench_kind kind;
	int status;
	int sig;
	int ret;

	b.flags = join(argc, argv);
	if (!b.flags)
		return complain("memory", strerror(ENOMEM));
	ret = cli_args_init(&args, &bench_program, argc, argv, &opt);
	if (ret) {
		free(b.flags);
		return cli_args_exit_status(ret);
	}
	ret = interrupt_init(&b.interrupt);
	if (ret) {
		cli_args_fini(&args);
		free(b.flags);
		return complain("signals", strerror(-ret));
	}
	cli_progress_init(&b.progress, stderr);
	kind = !strcmp(args.command->name, "rpc") ? BENCH_RPC : BENCH_TRANSFER;
	status = check_options(&opt, kind == BENCH_RPC);
	if (!status)
		status = open_agent(&b);
	if (!status)
		status = open_from(&b);
	if (!status)
		status = run_all(&b, kind);
	sig = close_agent(&b);
	if (sig) {
		fprintf(stderr, "slime-bench: interrupted\n");
		status = 128 + sig;
	}
	cli_args_fini(&args);
	free(b.flags);
	return status;
}
