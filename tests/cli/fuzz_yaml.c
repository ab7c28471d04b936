/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration file, up to the first NUL, and --set assignments, one after each NUL that
 * follows. What is read without an error is dumped, and has to read back to a dump that says the
 * same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/config.h"

static const char *const words[] = { "shm", "rdma", "tcp", NULL };

struct link {
	const char *to;
	int64_t qps;
};

struct node {
	const char *name;
	const struct cli_pair *labels;
	size_t n_labels;
	const int *transports;
	size_t n_transports;
	const uint64_t *sizes;
	size_t n_sizes;
	const char *const *allow;
	size_t n_allow;
	int64_t beat_ms;
	uint16_t port;
	bool wipe;
	struct link *links;
	size_t n_links;
};

static const struct cli_setting link_settings[] = {
	CLI_STRING(struct link, to, "to", .required = true),
	CLI_INT(struct link, qps, "qps", .def = "2", .min = 1, .max = 64),
	CLI_END,
};
static const struct cli_setting node_settings[] = {
	CLI_STRING(struct node, name, "name", .def = "x"),
	CLI_PAIRS(struct node, labels, n_labels, "labels", .help = ""),
	CLI_ENUMS(struct node, transports, n_transports, "transports", words, .def = "shm,tcp"),
	CLI_SIZES(struct node, sizes, n_sizes, "sizes", .help = ""),
	CLI_STRINGS(struct node, allow, n_allow, "allow", .help = ""),
	CLI_DURATION_MS(struct node, beat_ms, "beat", .def = "5s"),
	CLI_PORT(struct node, port, "port", .def = "3000"),
	CLI_FLAG(struct node, wipe, "wipe", .def = "false"),
	CLI_LIST(struct node, links, n_links, "links", link_settings, .unique = "to"),
	CLI_END,
};

/* The dump of the effective values; NULL when there were errors. */
static char *dump(struct cli_config *c)
{
	struct node node = { 0 };
	char *text = NULL;
	size_t len;
	FILE *to;

	if (cli_config_read(c, node_settings, &node) || cli_config_n_errors(c))
		return NULL;
	to = open_memstream(&text, &len);
	if (!to || cli_config_dump(c, to))
		abort();
	fclose(to);
	return text;
}

static void check_errors(struct cli_config *c)
{
	for (size_t i = 0; cli_config_error(c, i); i++)
		for (const char *s = cli_config_error(c, i); *s; s++)
			if ((unsigned char)*s < 0x20)
				abort();
}

static char *read_back(const char *text)
{
	struct cli_config *c;
	char *again;

	if (cli_config_create(&c))
		abort();
	cli_config_load_text(c, "dump", text, strlen(text));
	again = dump(c);
	if (!again)
		abort();
	cli_config_destroy(c);
	return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *first, *second, *third;
	struct cli_config *c;
	size_t at;

	if (!text || cli_config_create(&c))
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	cli_config_load_text(c, "fuzz", text, strlen(text));
	for (at = strlen(text) + 1; at < size; at += strlen(text + at) + 1)
		cli_config_set(c, text + at);
	first = dump(c);
	check_errors(c);
	cli_config_destroy(c);
	free(text);
	if (!first)
		return 0;
	/* Quotes may be of another kind in the first dump of what a command line said. */
	second = read_back(first);
	third = read_back(second);
	if (strcmp(second, third))
		abort();
	free(first);
	free(second);
	free(third);
	return 0;
}
