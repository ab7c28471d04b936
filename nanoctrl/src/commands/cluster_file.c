/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/cluster_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "cli/yaml/arena.h"
#include "cli/yaml/yaml.h"
#include "model/out.h"
#include "model/topology.h"

#define FILE_MAX  (16 * 1024 * 1024) /* as of all topologies of a scope */
#define NODES_MAX 1000000	     /* so many links as a topology may name have room */
#define FILES_MAX STORE_TOPOLOGIES_MAX

/* ---- YAML to JSON ---- */

/* Elsewhere a plain number is a name or a value of a selector. */
static bool is_number(const struct cli_node *n)
{
	static const char *const keys[] = { "version", "count", "qps", "rails" };
	const char *digits = n->text + (*n->text == '-');
	size_t len = strspn(digits, "0123456789");

	if (n->style != CLI_SCALAR_PLAIN || !n->key || !len || digits[len] || len > 15 ||
	    (*digits == '0' && len > 1))
		return false;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(n->key, keys[i]))
			return true;
	return false;
}

static void write_node(struct out *o, const struct cli_node *n)
{
	const struct store_text text = { n->text, n->text ? strlen(n->text) : 0 };

	if (n->type == CLI_NODE_SCALAR) {
		if (cli_node_is_nothing(n))
			out_words(o, "null");
		else if (is_number(n))
			out_bytes(o, text.at, text.len);
		else
			out_member(o, "", text);
		return;
	}
	out_words(o, n->type == CLI_NODE_MAP ? "{" : "[");
	for (const struct cli_node *c = n->first; c; c = c->next) {
		out_words(o, c == n->first ? "" : ",");
		if (n->type == CLI_NODE_MAP) {
			out_member(o, "", (struct store_text){ c->key, strlen(c->key) });
			out_words(o, ":");
		}
		write_node(o, c);
	}
	out_words(o, n->type == CLI_NODE_MAP ? "}" : "]");
}

/* ---- places ---- */

static const struct cli_node *step(const struct cli_node *at, const char *name, size_t len)
{
	for (const struct cli_node *c = at->first; at->type == CLI_NODE_MAP && c; c = c->next)
		if (!strncmp(c->key, name, len) && !c->key[len])
			return c;
	return NULL;
}

/* The node of a path, or the nearest one around it. */
static const struct cli_node *find(const struct cli_node *at, const char *path)
{
	while (*path) {
		const struct cli_node *next;
		size_t len = strcspn(path, ".[");

		if (*path == '[') {
			next = at->type == CLI_NODE_LIST
				       ? cli_node_index(at, strtoul(path + 1, NULL, 10))
				       : NULL;
			path += strcspn(path, "]");
			path += *path == ']';
		} else {
			next = step(at, path, len);
			path += len;
		}
		path += *path == '.';
		if (!next)
			break;
		at = next;
	}
	return at;
}

void cluster_file_complain(const struct cluster_file *file, const char *field, const char *message)
{
	const struct cli_node *at = file->root ? find(file->root, field) : NULL;
	const struct cli_place *place = NULL;
	char text[512];

	/* It names keys of the file. */
	snprintf(text, sizeof(text), "%s", message);
	sl_utf8_make_printable(text);
	if (at)
		place = at->key_place.line ? &at->key_place : &at->place;
	if (place && place->line)
		fprintf(stderr, "%s:%u:%u: %s\n", file->path, place->line, place->column, text);
	else
		fprintf(stderr, "%s: %s\n", file->path, text);
}

/* ---- a file ---- */

static int read_all(const char *path, char **out, size_t *len)
{
	FILE *f = fopen(path, "re");
	int ret = 0;

	*out = f ? malloc(FILE_MAX + 1) : NULL;
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -EINVAL;
	}
	if (*out) {
		*len = fread(*out, 1, FILE_MAX + 1, f);
		if (ferror(f) || *len > FILE_MAX) {
			fprintf(stderr, "%s: %s\n", path,
				ferror(f) ? strerror(errno) : "the file is longer than 16 MiB");
			ret = -EINVAL;
		}
	} else {
		ret = -ENOMEM;
	}
	fclose(f);
	return ret;
}

/* A key that says nothing is a slip, and would read as one that is not there. */
static int refuse_nothing(const struct cluster_file *file, const struct cli_node *n)
{
	int ret = 0;

	if (n->type == CLI_NODE_SCALAR && n->key && cli_node_is_nothing(n)) {
		const struct cli_place *at = &n->key_place;
		char key[256];

		snprintf(key, sizeof(key), "%s", n->key);
		sl_utf8_make_printable(key);
		fprintf(stderr, "%s:%u:%u: %s says nothing\n", file->path, at->line, at->column,
			key);
		return -EINVAL;
	}
	for (const struct cli_node *c = n->first; c && !ret; c = c->next)
		ret = refuse_nothing(file, c);
	return ret;
}

static int parse(struct cluster_file *file, const char *text, size_t len)
{
	struct cli_tree tree = { .arena = file->arena, .max_nodes = NODES_MAX };
	struct cli_problems problems = { .arena = file->arena, .file = file->path };
	struct out o = { .at = NULL };
	int ret = cli_yaml_read(&tree, &problems, text, len, NULL, &file->root);

	for (size_t i = 0; i < problems.n; i++)
		fprintf(stderr, "%s\n", problems.list[i].text);
	if (!ret && !file->root) {
		fprintf(stderr, "%s: the file says nothing\n", file->path);
		ret = -EINVAL;
	}
	if (!ret)
		ret = refuse_nothing(file, file->root);
	if (ret)
		return ret;
	write_node(&o, file->root);
	file->json = out_finish(&o);
	return file->json ? 0 : -ENOMEM;
}

static int check(struct cluster_file *file)
{
	struct model_topology m;
	struct model_error err;
	int ret = model_parse_topology(file->json, strlen(file->json), &m, &err);

	if (ret) {
		cluster_file_complain(file, err.field, err.message);
		return ret;
	}
	file->name = cli_arena_strdup(file->arena, m.topology.name);
	file->scope = m.scope ? cli_arena_strdup(file->arena, m.scope) : NULL;
	if (!file->name || (m.scope && !file->scope))
		ret = -ENOMEM;
	model_topology_fini(&m);
	return ret;
}

int cluster_file_load(struct cluster_file *file, const char *path, const char *text, size_t len)
{
	int ret;

	*file = (struct cluster_file){ .arena = cli_arena_create() };
	file->path = file->arena ? cli_arena_strdup(file->arena, path) : NULL;
	ret = file->path ? parse(file, text, len) : -ENOMEM;
	return ret ? ret : check(file);
}

static int read_file(struct cluster_file *file, const char *path)
{
	char *text = NULL;
	size_t len;
	int ret = read_all(path, &text, &len);

	if (!ret)
		ret = cluster_file_load(file, path, text, len);
	free(text);
	return ret;
}

/* ---- several ---- */

static int is_yaml(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');

	return d->d_name[0] != '.' && dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

static int read_directory(struct cluster_files *out, const char *path)
{
	struct dirent **entries = NULL;
	int n = scandir(path, &entries, is_yaml, alphasort), ret = 0;

	if (n <= 0 || n > FILES_MAX) {
		fprintf(stderr, "%s: %s\n", path,
			n < 0	 ? strerror(errno)
			: n == 0 ? "no file *.yaml or *.yml is in it"
				 : "more files are in it than a scope has topologies");
		ret = -EINVAL;
	}
	for (int i = 0; i < n; i++) {
		char file[PATH_MAX];
		int one = 0;

		if (i < FILES_MAX && n <= FILES_MAX) {
			snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
			one = read_file(&out->list[out->n++], file);
		}
		ret = ret ? ret : one;
		free(entries[i]);
	}
	free(entries);
	return ret;
}

static int check_names(const struct cluster_files *files)
{
	for (size_t i = 1; i < files->n; i++)
		for (size_t j = 0; j < i; j++) {
			const struct cluster_file *a = &files->list[j], *b = &files->list[i];
			char message[PATH_MAX + 64];

			if (strcmp(a->name, b->name) != 0 || !a->scope != !b->scope ||
			    (a->scope && strcmp(a->scope, b->scope) != 0))
				continue;
			snprintf(message, sizeof(message), "name: is the same as in %s", a->path);
			cluster_file_complain(b, "name", message);
			return -EINVAL;
		}
	return 0;
}

int cluster_files_read(struct cluster_files *out, const char *path)
{
	struct stat st;
	int ret;

	*out = (struct cluster_files){ .n = 0 };
	if (stat(path, &st)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -EINVAL;
	}
	out->list = calloc(FILES_MAX, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	if (S_ISDIR(st.st_mode))
		ret = read_directory(out, path);
	else
		ret = read_file(&out->list[out->n++], path);
	return ret ? ret : check_names(out);
}

void cluster_file_fini(struct cluster_file *file)
{
	free(file->json);
	cli_arena_destroy(file->arena);
}

void cluster_files_free(struct cluster_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		cluster_file_fini(&files->list[i]);
	free(files->list);
	*files = (struct cluster_files){ .n = 0 };
}
