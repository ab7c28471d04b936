/* SPDX-License-Identifier: Apache-2.0 */
/* A tree read through a table into a struct. */
#ifndef CLI_SCHEMA_H
#define CLI_SCHEMA_H

#include "cli/yaml/problems.h"
#include "cli/options/setting.h"
#include "cli/yaml/tree.h"

/*
 * Fills out, and the tree with the defaults, in the order of the table. problems may be NULL: then
 * nothing is reported. 0, -EINVAL when something was refused, -ENOMEM.
 */
int cli_schema_read(struct cli_tree *tree, struct cli_problems *problems,
		    const struct cli_setting *table, void *out);

#endif
