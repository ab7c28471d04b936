/* SPDX-License-Identifier: Apache-2.0 */
/* Completion of a program's commands, options and values in shells, made from its tables. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdio.h>

#include "cli/options/option.h"

/*
 * Prints the script that the shell reads: in bash and fish by `source`, in zsh as a file _PROGRAM
 * in a folder of $fpath. -EINVAL for another shell than bash, zsh and fish.
 */
int cli_completion_print(const struct cli_program *program, const char *shell, FILE *to);

#endif
