/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/rpc/baseline.h"
#include "bench/process/child.h"

#define TIMEOUT_MS    600000
#define NOT_INSTALLED 77 /* a program's exit status */
#define ROOM_PER_SIZE 48

/* How to get what its program measures. */
static const char *const sources[N_SYSTEMS] = {
	[SYSTEM_RAY] = "bench/baselines/setup.sh ray",
	[SYSTEM_PULSING] = "bench/baselines/setup.sh pulsing",
	[SYSTEM_ZEROMQ] = "deploy/packages.sh bench",
	[SYSTEM_GRPC] = "deploy/packages.sh bench",
};

#define BUILD                          \
	"deploy/packages.sh bench && " \
	"cmake --preset release && cmake --build --preset release --target "

/* How to make its program. */
static const char *const builds[N_SYSTEMS] = {
	[SYSTEM_RAY] = "cmake --preset release",
	[SYSTEM_PULSING] = "cmake --preset release",
	[SYSTEM_ZEROMQ] = BUILD "baseline-zeromq",
	[SYSTEM_GRPC] = BUILD "baseline-grpc",
};

uint64_t baseline_iterations(const struct rpc_settings *rpc, uint64_t size)
{
	uint64_t n = 50000000 / size;

	if (rpc->iterations)
		return (uint64_t)rpc->iterations;
	return n < 50 ? 50 : n > 500 ? 500 : n;
}

/* "1024:500,4096:500": sizes, and how often each is called. */
static char *sweep_text(const struct rpc_settings *rpc)
{
	char *text = calloc(rpc->n_sizes + 1, ROOM_PER_SIZE);
	size_t used = 0;

	for (size_t i = 0; text && i < rpc->n_sizes; i++)
		used += (size_t)snprintf(text + used, ROOM_PER_SIZE, "%s%" PRIu64 ":%" PRIu64,
					 i ? "," : "", rpc->sizes[i],
					 baseline_iterations(rpc, rpc->sizes[i]));
	return text;
}

/* Where the programs are, from the folder of ours: in a build tree, and in an installed prefix. */
#define IN_BUILD  "../baselines"
#define IN_PREFIX BENCH_BIN_TO_BASELINES

/* "DIR/baseline-ray", where DIR is the one of this build or prefix unless another was named. */
static char *program_path(const struct rpc_settings *rpc, enum system system)
{
	char self[4096];
	ssize_t len;
	char *path;
	bool built;

	if (rpc->programs)
		return asprintf(&path, "%s/baseline-%s", rpc->programs, system_names[system].key) <
				       0
			       ? NULL
			       : path;
	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return NULL;
	self[len] = '\0';
	*strrchr(self, '/') = '\0';
	if (asprintf(&path, "%s/" IN_BUILD, self) < 0)
		return NULL;
	built = access(path, F_OK) == 0;
	free(path);
	return asprintf(&path, "%s/%s/baseline-%s", self, built ? IN_BUILD : IN_PREFIX,
			system_names[system].key) < 0
		       ? NULL
		       : path;
}

/* Its exit status, or a negative errno. */
static int run_program(const struct baseline_attr *attr, char *program, const char *out,
		       const char *log, int *caught)
{
	char warmup[16];
	char *sweep = sweep_text(attr->rpc);
	char *argv[] = { program, "--sweep", sweep, "--warmup", warmup, NULL };
	struct child_attr how = { .argv = argv };
	struct child child;
	int ret = -ENOMEM;

	snprintf(warmup, sizeof(warmup), "%d", BASELINE_WARMUP);
	how.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	how.out = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	how.err = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (how.in < 0 || how.out < 0 || how.err < 0)
		ret = -errno;
	else if (sweep)
		ret = child_start(&child, &how);
	for (int i = 0; i < 3; i++) {
		int fd = (int[]){ how.in, how.out, how.err }[i];

		if (fd >= 0)
			close(fd);
	}
	free(sweep);
	return ret ? ret : child_wait(&child, TIMEOUT_MS, attr->signals, caught);
}

static enum baseline_outcome fail(enum system system, const char *why, const char *log)
{
	fprintf(stderr, "slime-bench: %s: %s: left out, see %s\n", system_names[system].key, why,
		log);
	return BASELINE_FAILED;
}

/* Either of the program, which a build makes, or of what it measures. */
static void say_absent(enum system system, const char *program, bool unbuilt)
{
	const struct system_name *name = &system_names[system];

	if (unbuilt)
		fprintf(stderr, "slime-bench: %s: %s was not built (%s): left out\n", name->title,
			program, builds[system]);
	else
		fprintf(stderr, "slime-bench: %s is not installed (%s): left out\n", name->title,
			sources[system]);
}

static int save_head(void *arg, FILE *to)
{
	const struct sweep *sweep = arg;

	return fputs(sweep->head, to) == EOF ? -EIO : 0;
}

static int save_figures(void *arg, FILE *to)
{
	sweep_print(arg, to);
	return 0;
}

/* What the program printed, in two files. */
static enum baseline_outcome save(const char *dir, enum system system, const char *printed,
				  const char *log)
{
	struct sweep *sweep = malloc(sizeof(*sweep));
	enum baseline_outcome outcome = BASELINE_MEASURED;
	int ret;

	if (!sweep)
		return fail(system, strerror(ENOMEM), log);
	if (sweep_read(sweep, printed)) {
		outcome = fail(system, "it did not print figures", log);
	} else {
		ret = results_write(dir, system, save_head, save_figures, sweep);
		if (ret)
			outcome = fail(system, strerror(-ret), dir);
	}
	free(sweep);
	return outcome;
}

static enum baseline_outcome judge(int ret, enum system system, const char *program,
				   const char *log)
{
	char why[64];

	if (ret == -EINTR)
		return BASELINE_INTERRUPTED;
	if (ret == NOT_INSTALLED || ret == -ENOENT) {
		say_absent(system, program, ret == -ENOENT);
		return BASELINE_ABSENT;
	}
	if (ret) {
		if (ret == -ETIMEDOUT)
			snprintf(why, sizeof(why), "it took longer than %d s", TIMEOUT_MS / 1000);
		else if (ret > 0)
			snprintf(why, sizeof(why), "it ended with status %d", ret);
		return fail(system, ret == -ETIMEDOUT || ret > 0 ? why : strerror(-ret), log);
	}
	return BASELINE_MEASURED;
}

enum baseline_outcome baseline_run(const struct baseline_attr *attr, enum system system,
				   int *caught)
{
	const char *dir = attr->rpc->results;
	char *program = program_path(attr->rpc, system);
	char *printed = results_path(dir, system, "out");
	char *log = results_path(dir, system, "log");
	enum baseline_outcome outcome = BASELINE_FAILED;

	if (program && printed && log) {
		int ret;

		/* An earlier figure must not stand for one that was not taken. */
		results_remove(dir, system);
		ret = run_program(attr, program, printed, log, caught);

		cli_progress_clear(attr->progress);
		outcome = judge(ret, system, program, log);
		if (outcome == BASELINE_MEASURED)
			outcome = save(dir, system, printed, log);
		unlink(printed);
		if (outcome == BASELINE_MEASURED || outcome == BASELINE_ABSENT)
			unlink(log);
	} else {
		fail(system, strerror(ENOMEM), dir);
	}
	free(program);
	free(printed);
	free(log);
	return outcome;
}
