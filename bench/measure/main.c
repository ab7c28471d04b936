/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/measure/measure.h"
#include "cli/output.h"

static int run(const char *name, const struct options *o)
{
	struct rounds_attr attr = {
		.round_ns = (uint64_t)o->round_ms * SL_NS_PER_MS,
		.step = o->step,
		.cold = o->cold,
	};
	int ret;

	if (!strcmp(name, "rpc"))
		ret = measure_rpc(o, &attr);
	else
		ret = measure_blocks(o, &attr, !strcmp(name, "write"));
	if (ret)
		fprintf(stderr, "slime-measure: %s: %s\n", name, strerror(-ret));
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options opt = { 0 };
	struct cli_args args;
	int ret = cli_args_init(&args, &measure_program, argc, argv, &opt);

	if (ret)
		return cli_args_exit_status(ret);
	if (opt.block % 8)
		ret = cli_usage_error(&measure_program, "--block: expected a multiple of 8");
	else
		ret = run(args.command->name, &opt);
	cli_args_fini(&args);
	return cli_output_end(measure_program.name, ret);
}
