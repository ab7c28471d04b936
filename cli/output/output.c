/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/output.h"

static int say(const char *program, const char *why)
{
	fprintf(stderr, "%s: standard output: %s\n", program, why);
	return EXIT_FAILURE;
}

int cli_output_fail(const char *program, int ret)
{
	__fpurge(stdout);
	clearerr(stdout);
	return say(program, strerror(-ret));
}

int cli_output_end(const char *program, int status)
{
	if (fflush(stdout))
		return say(program, strerror(errno));
	/* Earlier, when the buffer was full. */
	return ferror(stdout) ? say(program, "not everything could be written") : status;
}
