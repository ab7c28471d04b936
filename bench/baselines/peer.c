/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/baselines/peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/rounds/options.h"
#include "cli/output/output.h"

#define SIZE_MAX_BYTES (UINT64_C(1) << 30)
#define CALLS_MAX      1000000000

struct options {
	struct rounds_options rounds; /* the first: its tables are for both */
	const char *sweep;
	int64_t warmup;
};

static const struct cli_setting settings[] = {
	CLI_SIZE(struct options, rounds.size, "size", .def = "64", .min = 1, .max = SIZE_MAX_BYTES,
		 .help = "bytes each way"),
	CLI_STRING(struct options, sweep, "sweep", .value = "SIZE:CALLS,...",
		   .help = "so many calls of each of these sizes instead, as CSV"),
	CLI_INT(struct options, warmup, "warmup", .def = "20", .min = 0, .max = CALLS_MAX,
		.help = "calls of each size before those"),
	CLI_END,
};

static const struct cli_command command = { .tables = { rounds_settings, rounds_message_settings,
							settings } };

/* ---- a sweep ---- */

/* "1024:500" and what follows it; false when it is none. */
static bool take_size(const char **text, struct peer_options *o)
{
	char *end;

	o->size = strtoull(*text, &end, 10);
	if (end == *text || *end != ':' || !o->size || o->size > SIZE_MAX_BYTES)
		return false;
	*text = end + 1;
	o->rounds.n_ops = strtoull(*text, &end, 10);
	if (end == *text || !o->rounds.n_ops || o->rounds.n_ops > CALLS_MAX ||
	    (*end && *end != ','))
		return false;
	*text = end + (*end == ',');
	return true;
}

/* In a process of its own: a library that was used may not survive the fork of its server. */
static int run_apart(int (*run)(const struct peer_options *o), const struct peer_options *o)
{
	pid_t parent = getpid(), pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		/* It may have died before that: then no event reports it. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
			_exit(ESRCH);
		exit(-run(o));
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECANCELED;
}

static int run_sweep(const char *version, const struct options *opt,
		     int (*run)(const struct peer_options *o))
{
	struct peer_options o = { .rounds = { .n_warm = (uint64_t)opt->warmup } };
	int ret = 0;

	printf("# %s\nsize,avg_us,p50_us,p99_us,bw_gb_s\n", version);
	for (const char *at = opt->sweep; *at && !ret;) {
		if (!take_size(&at, &o))
			return -EINVAL;
		ret = run_apart(run, &o);
	}
	return ret;
}

static int run_size(const struct options *opt, int (*run)(const struct peer_options *o))
{
	struct peer_options o = {
		.size = opt->rounds.size,
		.rounds = rounds_attr_of(&opt->rounds),
	};

	return run(&o);
}

int peer_main(const char *name, const char *version, int (*run)(const struct peer_options *o),
	      int argc, char **argv)
{
	const struct cli_program program = {
		.name = name,
		.summary = "what a peer does between two processes: a reference of bench/targets",
		.main = &command,
	};
	struct options opt = { 0 };
	struct cli_args args;
	int ret = cli_args_init(&args, &program, argc, argv, &opt);

	if (ret)
		return cli_args_exit_status(ret);
	ret = opt.sweep ? run_sweep(version, &opt, run) : run_size(&opt, run);
	if (ret)
		fprintf(stderr, "%s: %s\n", name, strerror(-ret));
	cli_args_fini(&args);
	return cli_output_end(name, ret ? EXIT_FAILURE : EXIT_SUCCESS);
}
