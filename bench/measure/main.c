/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure/measure.h"
#include "cli/output/output.h"
#include "cli/options/standard.h"

static int run(const char *name, const struct options *o)
{
	const struct rounds_attr attr = rounds_attr_of(&o->rounds);
	int ret;

	if (!strcmp(name, "rpc"))
		ret = measure_rpc(o, &attr);
	else if (!strcmp(name, "mixed"))
		ret = measure_mixed(o, &attr);
	else if (!strcmp(name, "bounce"))
		ret = measure_bounce(o, &attr);
	else if (!strcmp(name, "links"))
		ret = measure_links(o, &attr);
	else if (!strcmp(name, "rest"))
		ret = measure_rest(o, &attr);
	else if (!strcmp(name, "target"))
		ret = measure_target(o, &attr);
	else if (!strcmp(name, "control"))
		ret = measure_control(o, &attr);
	else
		ret = measure_blocks(o, &attr, !strcmp(name, "write"));
	if (ret < 0)
		fprintf(stderr, "slime-measure: %s: %s\n", name, strerror(-ret));
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options opt = { 0 };
	struct cli_args args;
	int ret = cli_standard_open();

	if (ret)
		return EXIT_FAILURE;
	ret = cli_args_init(&args, &measure_program, argc, argv, &opt);
	if (ret)
		return cli_args_exit_status(ret);
	ret = rounds_options_check(&measure_program, &opt.rounds);
	if (!ret)
		ret = run(args.command->name, &opt);
	cli_args_fini(&args);
	return cli_output_end(measure_program.name, ret);
}
