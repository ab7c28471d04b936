/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a command line sets over a tree. */
#ifndef CLI_ASSIGN_H
#define CLI_ASSIGN_H

#include "cli/yaml/problems.h"
#include "cli/yaml/tree.h"

/* "key.path=value". 0, -ENOMEM, or -EINVAL with the error in problems. */
int cli_assign(struct cli_tree *tree, struct cli_problems *problems, const char *assignment);

/* A value, or with list the texts of one, at path; origin is what errors call it. */
int cli_assign_texts(struct cli_tree *tree, struct cli_problems *problems, const char *path,
		     bool list, const char *const *texts, size_t n, const char *origin);

#endif
