/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that the tables make. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/options/option.h"

/* What --help prints; command is NULL for the page of a program with commands. */
void cli_help_print(const struct cli_program *program, const struct cli_command *command, FILE *to);

/* What --help prints behind the first word of commands of two. */
void cli_help_print_group(const struct cli_program *program, const char *group, FILE *to);

/* "NAME 0.1.0 (4cec2e5a0b1c, Release)" */
void cli_version_print(const char *program, FILE *to);

#endif
