/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/process/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A rank, at the process that started it. */
struct process {
	pid_t pid;
	struct rank rank;
};

int rank_receive(const struct rank *rank, void *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = read(rank->in, (char *)to + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += (size_t)n;
	}
	return 0;
}

int rank_send(const struct rank *rank, const void *from, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(rank->out, (const char *)from + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	return 0;
}

int rank_barrier(const struct rank *rank)
{
	char here = 1;
	int ret = rank->in < 0 ? 0 : rank_send(rank, &here, 1);

	return rank->in < 0 || ret ? ret : rank_receive(rank, &here, 1);
}

static int open_pipes(struct rank *mine, struct rank *theirs)
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

static void close_pipes(const struct rank *rank)
{
	close(rank->in);
	close(rank->out);
}

/* The ranks before it would keep its pipes open, beyond the parent's end. */
static int start(struct process *all, size_t i, const struct ranks_attr *attr)
{
	struct rank theirs;
	int ret = open_pipes(&all[i].rank, &theirs);

	if (ret)
		return ret;
	all[i].pid = fork();
	if (!all[i].pid) {
		for (size_t k = 0; k <= i; k++)
			close_pipes(&all[k].rank);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		exit(attr->run(attr->arg, i, &theirs));
	}
	ret = all[i].pid < 0 ? -errno : 0;
	close_pipes(&theirs);
	if (ret)
		close_pipes(&all[i].rank);
	return ret;
}

/* Let them measure together. */
static int meet_all(const struct process *all, size_t n)
{
	char here;
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = rank_receive(&all[i].rank, &here, 1);
	for (size_t i = 0; i < n && !ret; i++)
		ret = rank_send(&all[i].rank, &here, 1);
	return ret;
}

static int end_all(const struct process *all, size_t n)
{
	int status = EXIT_SUCCESS;

	for (size_t i = 0; i < n; i++)
		close_pipes(&all[i].rank);
	for (size_t i = 0; i < n; i++) {
		int how = 0, ended;

		while (waitpid(all[i].pid, &how, 0) < 0 && errno == EINTR)
			;
		ended = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
		if (!status)
			status = ended;
	}
	return status;
}

int ranks_run(const struct ranks_attr *attr)
{
	struct process *all = calloc(attr->n, sizeof(*all));
	int ret = all ? 0 : -ENOMEM, status;
	size_t started = 0;

	signal(SIGPIPE, SIG_IGN); /* a rank may end before it is told something */
	while (started < attr->n && !ret) {
		ret = start(all, started, attr);
		started += !ret;
	}
	if (ret)
		fprintf(stderr, "slime-bench: processes: %s\n", strerror(-ret));
	for (size_t i = 0; i < attr->n_barriers && !ret; i++)
		ret = meet_all(all, started);
	for (size_t i = 0; i < started && !ret; i++)
		ret = attr->receive(attr->arg, i, &all[i].rank);
	status = end_all(all, started);
	free(all);
	return ret && !status ? EXIT_FAILURE : status;
}
