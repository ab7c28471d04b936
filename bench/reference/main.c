/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/reference/reference.h"
#include "cli/output/output.h"
#include "cli/options/standard.h"

static const struct {
	const char *name;
	int (*run)(const struct options *o, const struct rounds_attr *attr);
} references[] = {
	{ "memcpy", reference_memcpy },	    { "pull", reference_pull },
	{ "mailbox", reference_mailbox },   { "futex", reference_futex },
	{ "tcp-read", reference_tcp_read }, { "tcp-echo", reference_tcp_echo },
	{ "tcp-rate", reference_tcp_rate }, { "tcp-links", reference_tcp_links },
};

static int run(const char *name, const struct options *o)
{
	const struct rounds_attr attr = rounds_attr_of(&o->rounds);
	int ret = 0;

	for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
		if (!strcmp(references[i].name, name))
			ret = references[i].run(o, &attr);
	}
	if (ret)
		fprintf(stderr, "slime-reference: %s: %s\n", name, strerror(-ret));
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options opt = { 0 };
	struct cli_args args;
	int ret = cli_standard_open();

	if (ret)
		return EXIT_FAILURE;
	ret = cli_args_init(&args, &reference_program, argc, argv, &opt);
	if (ret)
		return cli_args_exit_status(ret);
	ret = rounds_options_check(&reference_program, &opt.rounds);
	if (!ret)
		ret = run(args.command->name, &opt);
	cli_args_fini(&args);
	return cli_output_end(reference_program.name, ret);
}
