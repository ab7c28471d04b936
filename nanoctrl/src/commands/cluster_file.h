/* SPDX-License-Identifier: Apache-2.0 */
/* Files that say topologies, in YAML: read, checked, and as JSON for the server. */
#ifndef NANOCTRL_CLUSTER_FILE_H
#define NANOCTRL_CLUSTER_FILE_H

#include <stddef.h>

struct cluster_file {
	const char *path, *name, *scope; /* scope: NULL when the file names none */
	char *json;
	struct cli_arena *arena;
	struct cli_node *root;
};

struct cluster_files {
	struct cluster_file *list;
	size_t n;
};

/* One file, or the files *.yaml and *.yml of a directory in the order of their names. Everything
 * that is wrong with them is said on standard error, with its place: -EINVAL; or -ENOMEM. */
int cluster_files_read(struct cluster_files *out, const char *path);
void cluster_files_free(struct cluster_files *files);

/* The same of the text of one file. Also after an error the caller calls cluster_file_fini(). */
int cluster_file_load(struct cluster_file *file, const char *path, const char *text, size_t len);
void cluster_file_fini(struct cluster_file *file);

/* Says on standard error what is wrong with a member, "links[2].profile", at its place in the file.
 */
void cluster_file_complain(const struct cluster_file *file, const char *field, const char *message);

#endif
