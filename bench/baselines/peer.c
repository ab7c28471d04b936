/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/baselines/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/option.h"

struct options {
	uint64_t size;
	int64_t round_ms;
	bool step;
};

static const struct cli_setting settings[] = {
	CLI_SIZE(struct options, size, "size", .def = "64", .min = 1, .max = INT64_C(1) << 28,
		 .help = "bytes each way"),
	CLI_DURATION_MS(struct options, round_ms, "round", .def = "200ms", .min = 1, .max = 60000,
			.help = "how long a round is"),
	CLI_FLAG(struct options, step, "step",
		 .help = "a round for each line on standard input, until its end"),
	CLI_END,
};

static const struct cli_command command = { .tables = { settings } };

int peer_main(const char *name, int (*run)(const struct peer_options *o), int argc, char **argv)
{
	const struct cli_program program = {
		.name = name,
		.summary = "what a peer does between two processes: a reference of bench/targets",
		.main = &command,
	};
	struct options opt = { 0 };
	struct peer_options o;
	struct cli_args args;
	int ret = cli_args_init(&args, &program, argc, argv, &opt);

	if (ret)
		return cli_args_exit_status(ret);
	o = (struct peer_options){
		.size = opt.size,
		.rounds = { .round_ns = (uint64_t)opt.round_ms * SL_NS_PER_MS, .step = opt.step },
	};
	ret = run(&o);
	if (ret)
		fprintf(stderr, "%s: %s\n", name, strerror(-ret));
	cli_args_fini(&args);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
