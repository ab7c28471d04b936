/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output as the place of a result: one that did not get there is a failure. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

/* The output could not be written, for this negative errno: prints one line, and cli_output_end()
 * adds none. Returns EXIT_FAILURE. */
int cli_output_fail(const char *program, int ret);

/*
 * The last thing that a program does with standard output, in place of its status: returns that, or
 * EXIT_FAILURE after one line on standard error when something that was printed could not be
 * written.
 */
int cli_output_end(const char *program, int status);

#endif
