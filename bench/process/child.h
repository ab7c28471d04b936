/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs for us, in a process group of its own, and dies with us. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	int pidfd;
};

struct child_attr {
	char *const *argv;  /* argv[0] is looked for as execvp(3) does */
	const char *dir;    /* where it runs; NULL: here */
	const char *locale; /* its LC_ALL; NULL: as ours */
	int in, out, err;   /* descriptors that become its 0, 1 and 2 */
	int death_signal;   /* what it gets when we are killed; 0: SIGKILL */
};

/* 0; -ENOENT when there is no such program or directory; what fork(2) and execve(2) say. */
int child_start(struct child *c, const struct child_attr *attr);

/*
 * Wait for its end, and end what is left of its group. signals: of cli_signals_open(), or -1.
 * Returns its exit status, 128 + the signal that killed it, or after ending it ourselves
 *   -ETIMEDOUT  it took longer than timeout_ms
 *   -EINTR      one of the signals came: it is in *caught
 */
int child_wait(struct child *c, int64_t timeout_ms, int signals, int *caught);

#endif
