/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/standard.h"
#include "cli/output/output.h"
#include "tool/call.h"
#include "tool/devices.h"
#include "tool/host.h"
#include "tool/network.h"
#include "tool/pages.h"

static int doctor(const struct options *o)
{
	const struct host_roots roots = { .sys = o->sysfs, .proc = o->procfs };
	struct report report = { .to = stdout, .quiet = o->quiet };
	int ret = host_examine(&roots, &report);

	if (ret) {
		fprintf(stderr, "slime: doctor: %s\n", strerror(-ret));
		return EXIT_FAILURE;
	}
	network_examine(o, &report);
	return report.n_of[FINDING_BAD] ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct cli_args args;
	int status;
	int ret = cli_standard_open();

	if (ret)
		return EXIT_FAILURE;
	ret = cli_args_init(&args, &tool_program, argc, argv, &o);
	if (ret)
		return cli_args_exit_status(ret);
	if (!strcmp(args.command->name, "call"))
		status = call_run(&o, args.operands[0], args.operands[1],
				  args.n_operands > 2 ? args.operands[2] : NULL);
	else if (!strcmp(args.command->name, "pages"))
		status = pages_explain(&o, args.n_operands ? args.operands[0] : NULL, stdout);
	else if (!strcmp(args.command->name, "devices"))
		status = devices_print(o.sysfs, o.json, stdout);
	else
		status = doctor(&o);
	cli_args_fini(&args);
	return cli_output_end(tool_program.name, status);
}
