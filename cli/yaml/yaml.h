/* SPDX-License-Identifier: Apache-2.0 */
/* YAML to a tree and back. The only user of libyaml. */
#ifndef CLI_YAML_H
#define CLI_YAML_H

#include <stdio.h>

#include "cli/yaml/problems.h"
#include "cli/yaml/tree.h"

/*
 * The one document in text, as a node without a parent; NULL when it says nothing at all. origin is
 * the place of every node, NULL for a file. 0, -ENOMEM, or -EINVAL with the error in problems.
 */
int cli_yaml_read(struct cli_tree *tree, struct cli_problems *problems, const char *text,
		  size_t len, const char *origin, struct cli_node **out);

/* 0, -ENOMEM, -EIO. */
int cli_yaml_write(const struct cli_node *node, FILE *to);

#endif
