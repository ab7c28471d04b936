/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/page/machine.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host/perftest.h"
#include "bench/process/ranks.h"

#define PERFTEST_S	   2
#define PERFTEST_DEPTH_MAX 128

struct machine {
	const struct settings *settings;
	struct nic_group groups[NIC_GROUPS_MAX];
	size_t n_groups;
	size_t n_each; /* processes of a group, or of all without groups */
	struct page_result *out;
};

/* What a process says before its rungs. */
struct facts {
	uint32_t n_owners, transports;
	size_t n_rungs;
};

/* ---- a process ---- */

static int announce(struct client *c)
{
	return slime_agent_service_add(c->agent, PAGE_READER_SERVICE);
}

static int drive(const struct settings *settings, const struct rank *rank, struct page_result *out)
{
	static const struct client_role role = { .prepare = announce };
	struct client client;
	int status = EXIT_FAILURE, sig;

	if (client_init(&client, settings))
		return EXIT_FAILURE;
	client.role = &role;
	if (!client_open(&client))
		status = page_drive(&client, rank, out);
	sig = client_fini(&client);
	return sig ? client_interrupted(sig) : status;
}

/* On the CPUs of its group, and with its device alone. */
static int take_place(const struct nic_group *group, struct settings *settings)
{
	settings->between.devices = group->device;
	if (group->has_cpus && sched_setaffinity(0, sizeof(group->cpus), &group->cpus))
		return -errno;
	return 0;
}

static int run(void *arg, size_t i, const struct rank *rank)
{
	const struct machine *m = arg;
	struct page_result *result = calloc(1, sizeof(*result));
	struct settings settings = *m->settings;
	int ret = result ? 0 : -ENOMEM, status = EXIT_FAILURE;
	struct facts facts;

	if (!ret && m->n_groups)
		ret = take_place(&m->groups[i / m->n_each], &settings);
	if (ret) {
		fprintf(stderr, "slime-bench: %s\n", strerror(-ret));
		free(result);
		return EXIT_FAILURE;
	}
	status = drive(&settings, rank, result);
	facts = (struct facts){ result->n_owners, result->transports, result->n_rungs };
	/* One that has not been at every barrier says nothing: it would be taken for a barrier. */
	if (facts.n_rungs == settings.page.n_concurrencies &&
	    !rank_send(rank, &facts, sizeof(facts)))
		(void)rank_send(rank, result->rungs, facts.n_rungs * sizeof(result->rungs[0]));
	free(result);
	return status;
}

/* ---- the process that sums up ---- */

static void add(struct page_rung *to, const struct page_rung *from)
{
	page_rung_add(to, from);
	to->threads += from->threads;
	to->cpu_ns += from->cpu_ns;
	if (to->elapsed_ns < from->elapsed_ns)
		to->elapsed_ns = from->elapsed_ns;
}

/* The row of this rung of a group; the one behind the last group is of all. */
static struct page_rung *row_of(struct machine *m, size_t rung, size_t group)
{
	return &m->out->rungs[rung * (m->n_groups + 1) + group];
}

static int receive(void *arg, size_t i, const struct rank *rank)
{
	struct machine *m = arg;
	struct page_rung *rung = malloc(sizeof(*rung));
	struct facts facts = { 0 };
	int ret = rung ? rank_receive(rank, &facts, sizeof(facts)) : -ENOMEM;

	for (size_t k = 0; k < facts.n_rungs && k < PAGE_RUNGS_MAX && !ret; k++) {
		ret = rank_receive(rank, rung, sizeof(*rung));
		if (ret)
			break;
		if (m->n_groups)
			add(row_of(m, k, i / m->n_each), rung);
		add(row_of(m, k, m->n_groups), rung);
	}
	m->out->n_owners = facts.n_owners;
	m->out->transports |= facts.transports;
	m->out->n_processes++;
	free(rung);
	return ret;
}

static void init_rows(struct machine *m, size_t n_rungs)
{
	for (size_t i = 0; i < n_rungs; i++) {
		for (size_t g = 0; g <= m->n_groups; g++) {
			struct page_rung *row = row_of(m, i, g);

			load_histogram_init(&row->latency);
			if (m->n_groups)
				snprintf(row->note, PAGE_NOTE_MAX, "%s",
					 g < m->n_groups ? m->groups[g].device : "all");
		}
	}
}

static int run_all(struct machine *m)
{
	size_t n_rungs = m->settings->page.n_concurrencies;
	const struct ranks_attr attr = {
		.n = m->n_each * (m->n_groups ? m->n_groups : 1),
		.n_barriers = n_rungs,
		.run = run,
		.receive = receive,
		.arg = m,
	};
	int status;

	m->out->n_groups = m->n_groups;
	init_rows(m, n_rungs);
	status = ranks_run(&attr);
	if (m->out->n_processes == attr.n)
		m->out->n_rungs = n_rungs * (m->n_groups + 1);
	return status;
}

/* The devices without us, afterwards: as long as it is installed. */
static void measure_bare(struct machine *m)
{
	const struct settings *s = m->settings;
	int64_t depth = s->page.batch_size, qps = s->between.max_channels;
	const struct perftest p = {
		.size = s->page.page_size,
		.depth = (unsigned)(depth < PERFTEST_DEPTH_MAX ? depth : PERFTEST_DEPTH_MAX),
		.qps = qps ? (unsigned)qps : 1,
		.duration_s = PERFTEST_S,
	};
	double *gb_s = m->out->bare_gb_s;
	char why[320] = "";
	int ret = perftest_read(&p, m->groups, m->n_groups, gb_s, why, sizeof(why));

	if (ret && ret != -ENOENT)
		fprintf(stderr, "slime-bench: --machine: %s\n", *why ? why : strerror(-ret));
	for (size_t i = 0; i < m->n_groups && !ret; i++)
		gb_s[m->n_groups] += gb_s[i];
	m->out->has_bare = !ret;
}

int machine_drive(const struct settings *settings, struct page_result *out)
{
	const struct rank alone = RANK_ALONE;
	struct machine m = { .settings = settings,
			     .n_each = (size_t)settings->page.processes,
			     .out = out };
	char why[256] = "";
	int n = 0, status;

	if (settings->page.machine)
		n = nic_groups_find(settings->between.devices, NULL, m.groups, why, sizeof(why));
	if (n < 0) {
		fprintf(stderr, "slime-bench: --machine: %s\n", *why ? why : strerror(-n));
		return EXIT_FAILURE;
	}
	m.n_groups = (size_t)n;
	if (!n && m.n_each == 1)
		return drive(settings, &alone, out);
	status = run_all(&m);
	if (n && out->n_rungs)
		measure_bare(&m);
	return status;
}
