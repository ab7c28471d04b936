/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/transfer/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/agents/client.h"
#include "bench/host/roofline.h"
#include "bench/process/ranks.h"
#include "cli/output/output.h"

#define SERVICE	   "bench"
#define READY_MS   15000
#define LOOKUP_MS  1000
#define REFRESH_MS 50

struct transfer {
	const struct settings *settings;
	size_t n_sizes, n_peers, n_each; /* processes for each peer */
	struct transfer_result *out;
};

/* What a process measured. */
struct share {
	char from[SLIME_AGENT_NAME_MAX + 1];
	char peer[SLIME_AGENT_NAME_MAX + 1];
	size_t n;
	struct transfer_row *rows; /* of each size */
};

static int complain(const char *what, int ret)
{
	fprintf(stderr, "slime-bench: %s: %s\n", what, strerror(-ret));
	return -1;
}

/* ---- a process ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

typedef char agent_name[SLIME_AGENT_NAME_MAX + 1];

/* All targets, in the order of their names: the same for each process. */
static int find_targets(const struct client *c, size_t n, agent_name *names, size_t room)
{
	uint64_t until = sl_clock_ns() + READY_MS * SL_NS_PER_MS;
	int found;

	while ((found = slime_agent_providers(c->agent, SERVICE, names, room, LOOKUP_MS)) <
		       (int)n &&
	       sl_clock_ns() < until && !atomic_load(&c->interrupt.caught)) {
		struct timespec pause = { .tv_nsec = REFRESH_MS * 1000000 };

		nanosleep(&pause, NULL);
	}
	if (found == (int)n)
		qsort(names, n, sizeof(*names), by_name);
	else if (!atomic_load(&c->interrupt.caught) && found >= 0)
		fprintf(stderr, "slime-bench: expected %zu targets, found %d\n", n, found);
	else if (found < 0)
		return complain("targets", found);
	return found == (int)n ? 0 : -1;
}

static int choose_peer(const struct client *c, size_t n_targets, size_t which, agent_name out)
{
	const struct between_settings *between = &c->settings->between;
	agent_name *names;
	int ret;

	if (between->n_peers) {
		snprintf(out, sizeof(agent_name), "%s", between->peers[which]);
		return 0;
	}
	names = calloc(TRANSFER_PEERS_MAX + 1, sizeof(*names));
	ret = names ? find_targets(c, n_targets, names, TRANSFER_PEERS_MAX + 1)
		    : complain("memory", -ENOMEM);
	if (!ret)
		memcpy(out, names[which], sizeof(agent_name));
	free(names);
	return ret;
}

static void set_job(const struct settings *s, const char *peer, uint64_t block_size,
		    struct bench_job *job)
{
	const struct transfer_settings *t = &s->transfer;

	*job = (struct bench_job){ .kind = BENCH_TRANSFER,
				   .transport = (enum slime_transport)s->between.transport };
	snprintf(job->peer, sizeof(job->peer), "%s", peer);
	if (t->region)
		snprintf(job->region, sizeof(job->region), "%s", t->region);
	job->transfer = (struct load_transfer){
		.op = (enum load_op)t->op,
		.block_size = block_size,
		.batch_size = (uint32_t)t->batch_size,
		.threads = (uint32_t)s->between.threads,
		.duration_ms = (uint32_t)t->duration_ms,
		.warmup_ms = 200,
		.qps = (uint32_t)t->qps,
	};
}

static int begin(void *rank)
{
	return rank_barrier(rank);
}

/* Each size, together with the other processes. */
static int measure_sizes(struct client *c, const struct rank *rank, struct share *out)
{
	const struct load_control control = { .begin = begin, .arg = (void *)(uintptr_t)rank };
	const struct settings *s = c->settings;

	for (; out->n < s->transfer.n_block_sizes; out->n++) {
		struct transfer_row *row = &out->rows[out->n];
		struct bench_job job;

		row->block_size = s->transfer.block_sizes[out->n];
		memcpy(row->peer, out->peer, sizeof(row->peer));
		set_job(s, out->peer, row->block_size, &job);
		if (client_run(c, &job, rank->in < 0 ? NULL : &control, &row->result,
			       &row->latency))
			return -1;
	}
	return 0;
}

static int measure(const struct transfer *t, size_t peer, const struct rank *rank,
		   struct share *out)
{
	const char *from = t->settings->between.from;
	struct client client;
	int ret = -1, sig;

	if (client_init(&client, t->settings))
		return EXIT_FAILURE;
	if (!client_open(&client) && !choose_peer(&client, t->n_peers, peer, out->peer)) {
		snprintf(out->from, sizeof(out->from), "%s",
			 from ? from : slime_agent_name(client.agent));
		ret = measure_sizes(&client, rank, out);
	}
	sig = client_fini(&client);
	return sig ? client_interrupted(sig) : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int share_init(struct share *s, size_t n_sizes)
{
	*s = (struct share){ .rows = calloc(n_sizes, sizeof(*s->rows)) };
	return s->rows ? 0 : complain("memory", -ENOMEM);
}

static int run(void *arg, size_t i, const struct rank *rank)
{
	const struct transfer *t = arg;
	struct share share;
	int status;

	if (share_init(&share, t->n_sizes))
		return EXIT_FAILURE;
	status = measure(t, i / t->n_each, rank, &share);
	if (!status && rank_send(rank, share.rows, share.n * sizeof(*share.rows)))
		status = EXIT_FAILURE;
	free(share.rows);
	return status;
}

/* ---- the process that sums up ---- */

/* The row of a size and a peer; the one behind the last peer is of all. */
static struct transfer_row *row_of(const struct transfer *t, size_t size, size_t peer)
{
	size_t each = t->n_peers > 1 ? t->n_peers + 1 : 1;

	return &t->out->rows[size * each + (t->n_peers > 1 ? peer : 0)];
}

/* Processes that measure one peer all see its CPU time. */
static void add(struct transfer_row *to, const struct transfer_row *from, bool same_peer)
{
	struct bench_result *sum = &to->result;
	const struct bench_result *r = &from->result;

	to->block_size = from->block_size;
	sum->transport = r->transport;
	sum->verified = (!sum->trips || sum->verified) && r->verified;
	sum->trips += r->trips;
	sum->bytes += r->bytes;
	sum->late += r->late;
	sum->cpu_ns += r->cpu_ns;
	if (!same_peer)
		sum->peer_cpu_ns += r->peer_cpu_ns;
	else if (sum->peer_cpu_ns < r->peer_cpu_ns)
		sum->peer_cpu_ns = r->peer_cpu_ns;
	if (sum->elapsed_ns < r->elapsed_ns)
		sum->elapsed_ns = r->elapsed_ns;
	load_histogram_merge(&to->latency, &from->latency);
	bench_result_latency(sum, &to->latency);
}

static int receive(void *arg, size_t i, const struct rank *rank)
{
	const struct transfer *t = arg;
	size_t peer = i / t->n_each;
	struct transfer_row *row = malloc(sizeof(*row));
	int ret = row ? 0 : -ENOMEM;

	for (size_t k = 0; k < t->n_sizes && !ret; k++) {
		ret = rank_receive(rank, row, sizeof(*row));
		if (ret)
			break;
		memcpy(row_of(t, k, peer)->peer, row->peer, sizeof(row->peer));
		add(row_of(t, k, peer), row, true);
	}
	free(row);
	return ret;
}

/* When all ranks have reported. */
static void add_rows_of_all(const struct transfer *t)
{
	for (size_t k = 0; k < t->n_sizes && t->n_peers > 1; k++)
		for (size_t p = 0; p < t->n_peers; p++)
			add(row_of(t, k, t->n_peers), row_of(t, k, p), false);
}

static int measure_ranks(struct transfer *t)
{
	size_t n_rows = t->n_sizes * (t->n_peers > 1 ? t->n_peers + 1 : 1);
	const struct ranks_attr attr = {
		.n = t->n_peers * t->n_each,
		.n_barriers = t->n_sizes,
		.run = run,
		.receive = receive,
		.arg = t,
	};
	int status;

	t->out->n_processes = attr.n;
	t->out->rows = calloc(n_rows, sizeof(*t->out->rows));
	if (!t->out->rows) {
		complain("memory", -ENOMEM);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < n_rows; i++)
		load_histogram_init(&t->out->rows[i].latency);
	status = ranks_run(&attr);
	if (status)
		return status;
	add_rows_of_all(t);
	t->out->n_rows = n_rows;
	return EXIT_SUCCESS;
}

/* What was measured is printed even when a later size fails. */
static int measure_alone(struct transfer *t)
{
	const struct rank alone = RANK_ALONE;
	struct share share;
	int status;

	if (share_init(&share, t->n_sizes))
		return EXIT_FAILURE;
	status = measure(t, 0, &alone, &share);
	memcpy(t->out->from, share.from, sizeof(share.from));
	t->out->n_processes = 1;
	t->out->rows = share.rows;
	t->out->n_rows = share.n;
	return status;
}

/* Afterwards: nothing runs beside it. What another host can do is not known. */
static void note_limits(const struct transfer *t)
{
	const struct transfer_settings *s = &t->settings->transfer;
	bool rdma = t->out->rows[0].result.transport == SLIME_TRANSPORT_RDMA;

	if (t->settings->between.from)
		return;
	if (rdma)
		t->out->line_gb_s = roofline_line_gb_s(t->settings->between.devices);
	else
		t->out->copy_gb_s = roofline_cpus() *
				    roofline_copy_gb_s(s->block_sizes[0] * (uint64_t)s->batch_size);
}

int transfer_command(const struct settings *settings, const char *what, const char *flags,
		     enum report_format format)
{
	const struct transfer_settings *s = &settings->transfer;
	struct transfer_result result = { .settings = settings, .flags = flags };
	struct transfer t = {
		.settings = settings,
		.n_sizes = s->n_block_sizes,
		.n_peers =
			settings->between.n_peers ? settings->between.n_peers : (size_t)s->targets,
		.n_each = (size_t)s->processes,
		.out = &result,
	};
	int status, ret = 0;

	if (what && strcmp(what, "target"))
		return cli_usage_error(&bench_program, "transfer: expected target, or nothing");
	if (what)
		return transfer_target(settings);
	status = t.n_peers * t.n_each > 1 ? measure_ranks(&t) : measure_alone(&t);
	if (result.n_rows) {
		note_limits(&t);
		ret = transfer_report(&result, format, stdout);
	}
	free(result.rows);
	return ret ? cli_output_fail(bench_program.name, ret) : status;
}
