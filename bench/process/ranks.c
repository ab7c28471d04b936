/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/process/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A process, at the parent. */
struct mate {
	pid_t pid;
	const struct nic_group *group; /* NULL: none */
	struct rank seat;
};

/* What a process says before its rungs. */
struct facts {
	uint32_t n_owners, transports;
	size_t n_rungs;
};

static int read_all(int fd, void *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = read(fd, (char *)to + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *from, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, (const char *)from + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	return 0;
}

int rank_barrier(const struct rank *seat)
{
	char here = 1;
	int ret = seat->in < 0 ? 0 : write_all(seat->out, &here, 1);

	return seat->in < 0 || ret ? ret : read_all(seat->in, &here, 1);
}

/* ---- a process ---- */

/* On the CPUs of its group, and with its device alone. */
static int take_place(const struct nic_group *group, struct settings *settings)
{
	if (!group)
		return 0;
	settings->between.devices = group->device;
	if (group->has_cpus && sched_setaffinity(0, sizeof(group->cpus), &group->cpus))
		return -errno;
	return 0;
}

static int run_mate(const struct mate *m, const struct settings *given, ranks_fn *fn)
{
	struct page_result *result = calloc(1, sizeof(*result));
	struct settings settings = *given;
	int status = EXIT_FAILURE;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	ret = result ? take_place(m->group, &settings) : -ENOMEM;
	if (ret)
		fprintf(stderr, "slime-bench: %s\n", strerror(-ret));
	else
		status = fn(&settings, &m->seat, result);
	if (!ret)
		ret = write_all(
			m->seat.out,
			&(struct facts){ result->n_owners, result->transports, result->n_rungs },
			sizeof(struct facts));
	if (!ret)
		(void)write_all(m->seat.out, result->rungs,
				result->n_rungs * sizeof(result->rungs[0]));
	free(result);
	return status;
}

static int pipes(struct rank *mine, struct rank *theirs)
{
	int up[2], down[2];

	if (pipe2(up, O_CLOEXEC))
		return -errno;
	if (pipe2(down, O_CLOEXEC)) {
		close(up[0]);
		close(up[1]);
		return -errno;
	}
	*mine = (struct rank){ .in = up[0], .out = down[1] };
	*theirs = (struct rank){ .in = down[0], .out = up[1] };
	return 0;
}

static void leave(struct mate *m)
{
	close(m->seat.in);
	close(m->seat.out);
}

/* The children before it would keep its pipes open, beyond the parent's end. */
static int start(struct mate *all, size_t i, const struct settings *settings, ranks_fn *fn)
{
	struct rank theirs;
	int ret = pipes(&all[i].seat, &theirs);

	if (ret)
		return ret;
	all[i].pid = fork();
	if (!all[i].pid) {
		for (size_t k = 0; k <= i; k++)
			leave(&all[k]);
		all[i].seat = theirs;
		exit(run_mate(&all[i], settings, fn));
	}
	ret = all[i].pid < 0 ? -errno : 0;
	close(theirs.in);
	close(theirs.out);
	if (ret)
		leave(&all[i]);
	return ret;
}

/* ---- the parent ---- */

/* Let them measure a rung together. */
static int meet_all(const struct mate *all, size_t n)
{
	char here;
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = read_all(all[i].seat.in, &here, 1);
	for (size_t i = 0; i < n && !ret; i++)
		ret = write_all(all[i].seat.out, &here, 1);
	return ret;
}

static void add(struct page_rung *to, const struct page_rung *from)
{
	page_rung_add(to, from);
	to->threads += from->threads;
	to->cpu_ns += from->cpu_ns;
	if (to->elapsed_ns < from->elapsed_ns)
		to->elapsed_ns = from->elapsed_ns;
}

/* The row of this rung of a group, or of all. */
static struct page_rung *row_of(struct page_result *out, size_t n_groups, size_t rung, size_t group)
{
	return &out->rungs[rung * (n_groups + 1) + group];
}

static int hear(const struct mate *m, const struct nic_group *groups, size_t n_groups,
		struct page_result *out)
{
	struct page_rung *rung = malloc(sizeof(*rung));
	struct facts facts = { 0 };
	int ret = rung ? read_all(m->seat.in, &facts, sizeof(facts)) : -ENOMEM;

	for (size_t i = 0; i < facts.n_rungs && i < PAGE_RUNGS_MAX && !ret; i++) {
		ret = read_all(m->seat.in, rung, sizeof(*rung));
		if (ret)
			break;
		if (m->group)
			add(row_of(out, n_groups, i, (size_t)(m->group - groups)), rung);
		add(row_of(out, n_groups, i, n_groups), rung);
	}
	out->n_owners = facts.n_owners;
	out->transports |= facts.transports;
	out->n_processes++;
	free(rung);
	return ret;
}

static void name_rows(const struct nic_group *groups, size_t n_groups, size_t n_rungs,
		      struct page_result *out)
{
	out->n_rungs = n_rungs * (n_groups + 1);
	for (size_t i = 0; i < n_rungs; i++)
		for (size_t g = 0; g <= n_groups && n_groups; g++)
			snprintf(row_of(out, n_groups, i, g)->note, PAGE_NOTE_MAX, "%s",
				 g < n_groups ? groups[g].device : "all");
}

static int end_all(struct mate *all, size_t n)
{
	int status = EXIT_SUCCESS;

	for (size_t i = 0; i < n; i++) {
		int how;

		leave(&all[i]);
		while (waitpid(all[i].pid, &how, 0) < 0 && errno == EINTR)
			;
		if (!WIFEXITED(how) || WEXITSTATUS(how))
			status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
	}
	return status;
}

int ranks_run(const struct settings *settings, const struct nic_group *groups, size_t n_groups,
	      unsigned n, ranks_fn *fn, struct page_result *out)
{
	size_t n_all = n * (n_groups ? n_groups : 1), n_rungs = settings->page.n_concurrencies;
	struct mate *all = calloc(n_all, sizeof(*all));
	size_t started = 0;
	int ret = all ? 0 : -ENOMEM, status;

	for (size_t i = 0; i < n_rungs * (n_groups + 1); i++)
		load_histogram_init(&out->rungs[i].latency);
	while (started < n_all && !ret) {
		all[started].group = n_groups ? &groups[started / n] : NULL;
		ret = start(all, started, settings, fn);
		started += !ret;
	}
	if (ret)
		fprintf(stderr, "slime-bench: processes: %s\n", strerror(-ret));
	for (size_t i = 0; i < n_rungs && !ret; i++)
		ret = meet_all(all, started);
	for (size_t i = 0; i < started && !ret; i++)
		ret = hear(&all[i], groups, n_groups, out);
	if (!ret)
		name_rows(groups, n_groups, n_rungs, out);
	status = end_all(all, started);
	free(all);
	return ret && !status ? EXIT_FAILURE : status;
}
