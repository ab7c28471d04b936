/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of a configuration file, made from its table. */
#ifndef CLI_REFERENCE_H
#define CLI_REFERENCE_H

#include <stdio.h>

#include "cli/options/setting.h"

/* A Markdown table of every key, in the order of the file. */
void cli_reference_print(const struct cli_setting *table, FILE *to);

#endif
