/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that says a topology, up to the first NUL, and behind it paths of members at which a
 * server finds fault. What is wrong is said in lines without control characters that begin with the
 * file; what is right is JSON that the server takes, and its selectors can be asked for any agent.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/cluster_file.h"
#include "model/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(const char *said)
{
	bool begins = true;

	for (const char *c = said; *c; c++) {
		if (begins && strncmp(c, "fuzz:", 5) != 0)
			abort();
		begins = *c == '\n';
		if (!begins && ((unsigned char)*c < 0x20 || *c == 0x7f))
			abort();
	}
	if (!begins)
		abort();
}

static void ask(const struct topology *t)
{
	const struct topology_label labels[] = { { "role", "x" }, { "", "" } };
	const struct topology_agent agent = { .name = "a", .labels = labels, .n_labels = 2 };

	for (size_t i = 0; i < t->n_expected; i++)
		wish_selects(t->expected[i].who, &agent);
	for (size_t i = 0; i < t->n_wishes; i++) {
		if (t->wishes[i].from)
			wish_selects(t->wishes[i].from, &agent);
		if (t->wishes[i].to)
			wish_selects(t->wishes[i].to, &agent);
	}
}

static void check_json(const struct cluster_file *file)
{
	struct model_topology m;
	struct model_error err;

	if (model_parse_topology(file->json, strlen(file->json), &m, &err))
		abort();
	if (strcmp(m.topology.name, file->name) != 0)
		abort();
	ask(&m.topology);
	model_topology_fini(&m);
}

/* What the file and the paths are told on standard error. */
static char *run(const char *text, size_t len, const char *paths, size_t n_paths)
{
	FILE *before = stderr;
	struct cluster_file file;
	char *said = NULL;
	size_t n_said;
	int ret;

	stderr = open_memstream(&said, &n_said);
	if (!stderr)
		abort();
	ret = cluster_file_load(&file, "fuzz", text, len);
	for (const char *at = paths; !ret && at < paths + n_paths; at += strlen(at) + 1)
		cluster_file_complain(&file, at, "it is wrong");
	fclose(stderr);
	stderr = before;
	if (!ret)
		check_json(&file);
	else if (ret != -EINVAL || !*said)
		abort();
	cluster_file_fini(&file);
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *said;
	size_t len;

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	len = strlen(text);
	said = run(text, len, text + len + 1, len < size ? size - len - 1 : 0);
	check_lines(said);
	free(said);
	free(text);
	return 0;
}
