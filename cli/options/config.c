/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/yaml/arena.h"
#include "cli/yaml/assign.h"
#include "cli/options/config.h"
#include "cli/process/pipe.h"
#include "cli/output/quote.h"
#include "cli/yaml/schema.h"
#include "cli/yaml/yaml.h"

struct cli_config {
	struct cli_arena *arena;
	struct cli_tree tree;
	struct cli_problems problems;
};

int cli_config_create(struct cli_config **out)
{
	struct cli_config *config = calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	config->arena = cli_arena_create();
	if (!config->arena) {
		free(config);
		return -ENOMEM;
	}
	config->tree.arena = config->arena;
	config->problems.arena = config->arena;
	*out = config;
	return 0;
}

void cli_config_destroy(struct cli_config *config)
{
	if (!config)
		return;
	cli_arena_destroy(config->arena);
	free(config);
}

static int refuse_file(struct cli_config *config, const char *why)
{
	return cli_problems_add(&config->problems, (struct cli_place){ 0 }, NULL, "%s", why);
}

int cli_config_load_text(struct cli_config *config, const char *name, const char *text, size_t len)
{
	assert(!config->problems.file);
	config->problems.file = cli_arena_strdup(config->arena, name);
	if (!config->problems.file)
		return -ENOMEM;
	if (len > CLI_CONFIG_MAX_BYTES)
		return refuse_file(config, "expected at most 1MiB");
	return cli_yaml_read(&config->tree, &config->problems, text, len, NULL, &config->tree.root);
}

static bool is_fifo(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* Up to one byte more than is allowed, which tells a file that is too long. */
static int read_all(int fd, char *buf, size_t room, size_t *len)
{
	uint64_t deadline_ns = sl_deadline_ns(CLI_PIPE_MS);
	int events;

	for (*len = 0; *len < room;) {
		ssize_t n = read(fd, buf + *len, room - *len);

		if (n > 0) {
			*len += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		/* It also ends if no writer has opened it yet. */
		if (n == 0 && (*len || !is_fifo(fd)))
			return 0;
		events = cli_pipe_await(fd, deadline_ns);
		if (!events)
			return -ETIMEDOUT;
		if (n == 0 && !(events & POLLIN))
			return 0;
	}
	return 0;
}

/* A pipe may be one of `<(command)`; but no program waits long for its writer, a running one at a
 * reload, too. 0 or a negative errno. */
static int read_file(const char *file, char *buf, size_t room, size_t *len)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int ret;

	if (fd < 0)
		return -errno;
	ret = read_all(fd, buf, room, len);
	close(fd);
	return ret;
}

static const char *read_error(int ret)
{
	return ret == -ETIMEDOUT ? "it is a pipe, and its writer sends nothing" : strerror(-ret);
}

int cli_config_load(struct cli_config *config, const char *file)
{
	const size_t room = CLI_CONFIG_MAX_BYTES + 1;
	char *buf = malloc(room);
	size_t len = 0;
	int ret;

	if (!buf)
		return -ENOMEM;
	ret = read_file(file, buf, room, &len);
	if (ret) {
		config->problems.file = cli_arena_strdup(config->arena, file);
		ret = refuse_file(config, read_error(ret));
	} else {
		ret = cli_config_load_text(config, file, buf, len);
	}
	free(buf);
	return ret;
}

int cli_config_set(struct cli_config *config, const char *assignment)
{
	return cli_assign(&config->tree, &config->problems, assignment);
}

static int apply_one(struct cli_config *config, const struct cli_setting *settings,
		     const struct cli_override *o)
{
	const struct cli_setting *s;
	const char **texts = NULL;
	size_t n = 1;

	if (!o->path)
		return cli_config_set(config, o->assignment);
	s = cli_setting_at_path(settings, o->path);
	assert(s && s->type != CLI_TYPE_PAIRS && s->type != CLI_TYPE_MAP &&
	       s->type != CLI_TYPE_LIST);
	if (cli_setting_is_list(s)) {
		texts = cli_setting_split(config->arena, o->assignment, &n);
		if (!texts)
			return -ENOMEM;
	}
	return cli_assign_texts(&config->tree, &config->problems, o->path, texts != NULL,
				texts ? texts : (const char *const *)&o->assignment, n, o->origin);
}

int cli_config_apply(struct cli_config *config, const struct cli_args *args)
{
	int worst = 0;

	config->problems.program = args->program->name;
	for (size_t i = 0; i < args->n_overrides; i++) {
		int ret = apply_one(config, args->program->settings, &args->overrides[i]);

		if (ret == -ENOMEM)
			return ret;
		if (ret)
			worst = ret;
	}
	return worst;
}

int cli_config_read(struct cli_config *config, const struct cli_setting *table, void *out)
{
	/* The missing parts of a broken file are not reported. */
	bool broken = !config->tree.root && config->problems.n;

	if (!config->tree.root) {
		struct cli_place place = { .line = 1, .column = 1 };

		config->tree.root = cli_node_create(&config->tree, CLI_NODE_MAP, place);
		if (!config->tree.root)
			return -ENOMEM;
		config->tree.root->is_default = true;
	}
	return cli_schema_read(&config->tree, broken ? NULL : &config->problems, table, out);
}

/* The node at path, or the deepest one on the way to it. */
static const struct cli_node *find(const struct cli_config *config, const char *path, bool *whole)
{
	const char *parts[CLI_TREE_MAX_DEPTH];
	const struct cli_node *node = config->tree.root;
	size_t n;

	*whole = false;
	if (!node || cli_path_split(config->arena, path, parts, CLI_TREE_MAX_DEPTH, &n))
		return node;
	for (size_t i = 0; i < n; i++) {
		const struct cli_node *child = NULL;
		size_t index;

		if (node->type == CLI_NODE_MAP)
			child = cli_node_find(node, parts[i]);
		else if (node->type == CLI_NODE_LIST && cli_path_index(parts[i], &index))
			child = cli_node_index(node, index);
		if (!child)
			return node;
		node = child;
	}
	*whole = true;
	return node;
}

void cli_config_refuse(struct cli_config *config, const char *path, const char *fmt, ...)
{
	bool whole;
	const struct cli_node *node = find(config, path, &whole);
	struct cli_place place = { 0 };
	va_list args;

	/* A default stands nowhere: the map it would be in does. */
	while (node && node->is_default && node->parent) {
		node = node->parent;
		whole = false;
	}
	if (node)
		place = node->place;
	va_start(args, fmt);
	cli_problems_vadd(&config->problems, place, whole && node->assigned ? NULL : path, fmt,
			  args);
	va_end(args);
}

bool cli_config_given(const struct cli_config *config, const char *path)
{
	bool whole;
	const struct cli_node *node = find(config, path, &whole);

	return whole && !node->is_default;
}

size_t cli_config_n_errors(const struct cli_config *config)
{
	return config->problems.n + config->problems.n_more;
}

const char *cli_config_error(const struct cli_config *config, size_t i)
{
	return i < config->problems.n ? config->problems.list[i].text : NULL;
}

void cli_config_print_errors(const struct cli_config *config, FILE *to)
{
	for (size_t i = 0; i < config->problems.n; i++)
		fprintf(to, "%s\n", config->problems.list[i].text);
	if (config->problems.n_more)
		fprintf(to, "and %zu more\n", config->problems.n_more);
}

int cli_config_dump(const struct cli_config *config, FILE *to)
{
	return cli_yaml_write(config->tree.root, to);
}
