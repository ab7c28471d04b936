/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration: one YAML file and what the command line sets over it, read through a table
 * (setting.h) into a struct. Strict: an unknown or repeated key, a wrong type, a missing key is an
 * error that names file, line, column and what was expected. The first CLI_PROBLEMS_MAX
 * (problems.h) are kept, in the order of the file, and the others counted.
 *
 *     struct cli_config *c;
 *
 *     cli_config_create(&c);
 *     cli_config_load(c, options.config);      (each step may be left out)
 *     cli_config_apply(c, &args);              (--set, and options with a path)
 *     cli_config_read(c, node_settings, &node);
 *     if (no error until here, but two links to one peer)
 *             cli_config_refuse(c, "links.1.to", "expected another peer than links.0");
 *     if (cli_config_n_errors(c))
 *             return cli_config_print_errors(c, stderr), CLI_EXIT_USAGE;
 *
 * YAML as people write it: one document, no anchors, aliases, tags or complex keys. A plain scalar
 * is what the table asks for (a name may be 12), a quoted one is a string. An empty value is an
 * empty map or list, and no scalar. Strings and lists in the struct belong to the configuration and
 * live until it is destroyed.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stdio.h>

#include "cli/options/option.h"
#include "cli/options/setting.h"

/* Beside this: 65536 values, 1024 keys in a map, 16 levels. */
#define CLI_CONFIG_MAX_BYTES (1024 * 1024)

struct cli_config;

int cli_config_create(struct cli_config **out);
void cli_config_destroy(struct cli_config *config);

/*
 * Errors of every call below are collected in the configuration, so that a program may go on and
 * report them together. Each returns 0, -EINVAL when it added an error, or -ENOMEM.
 */

/* Read the file; one that cannot be read is an error too. Once per configuration. */
int cli_config_load(struct cli_config *config, const char *file);

/* The same from memory; name stands for the file in errors. */
int cli_config_load_text(struct cli_config *config, const char *name, const char *text, size_t len);

/*
 * One "key.path=value", as --set takes it. Numbers are indexes of a list, one past its end appends;
 * maps on the way are made. A dot in a key is written "\.". A value that begins with [, {, " or '
 * is YAML, any other is taken literally.
 */
int cli_config_set(struct cli_config *config, const char *assignment);

/* Everything that the command line and the environment say over the file. */
int cli_config_apply(struct cli_config *config, const struct cli_args *args);

/*
 * Fill the struct at out, defaults first, and remember the effective values for cli_config_dump().
 * After an error out is not to be used. The table has to outlive the configuration.
 */
int cli_config_read(struct cli_config *config, const struct cli_setting *table, void *out);

/*
 * The caller's own error about the value at path ("links.2.to"): placed where the value was given,
 * or where its map begins when it was not. Say what was expected.
 */
void cli_config_refuse(struct cli_config *config, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Whether the file or the command line gave a value for path. */
bool cli_config_given(const struct cli_config *config, const char *path);

size_t cli_config_n_errors(const struct cli_config *config);

/* "node-a.yaml:12:8: regions.0.size: expected a size such as 128KiB, got "big"", and after
 * cli_config_apply() "peeragent: --set regions.0.size: expected ..."; NULL past the last. */
const char *cli_config_error(const struct cli_config *config, size_t i);

void cli_config_print_errors(const struct cli_config *config, FILE *to);

/* After cli_config_read(): the effective values as YAML, which reads back to the same values. 0,
 * -ENOMEM, -EIO. */
int cli_config_dump(const struct cli_config *config, FILE *to);

#endif
