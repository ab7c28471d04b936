/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that the tables make. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/options/option.h"

/* The text of --help; command is NULL for the page of a program with commands. */
void cli_help_print(const struct cli_program *program, const struct cli_command *command, FILE *to);

/* The text of --help after the first word of commands of two. */
void cli_help_print_group(const struct cli_program *program, const char *group, FILE *to);

/* An option as its page shows it: one with a path inherits from the file's table. */
struct cli_setting cli_help_described(const struct cli_program *program,
				      const struct cli_setting *s);

/* The name of a described option's value; NULL when it takes none. */
const char *cli_help_value(const struct cli_setting *s);

/* "NAME 0.1.0 (4cec2e5a0b1c, Release)" */
void cli_version_print(const char *program, FILE *to);

#endif
