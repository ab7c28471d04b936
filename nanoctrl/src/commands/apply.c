/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/apply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/option.h"
#include "cli/output/output.h"
#include "commands/cluster_file.h"
#include "commands/topology_call.h"
#include "model/out.h"
#include "server/settings.h"

#define EXIT_CHANGES 3
#define WISH_SHOWN   400 /* bytes: a list of pairs may be long */

/* ---- applying ---- */

static const char *scope_of(const struct cluster_file *file, const struct options *options)
{
	if (file->scope)
		return file->scope;
	return options->scope ? options->scope : "default";
}

/* {"topologies":[...]} of the files of a scope; NULL without memory. */
static char *body_of(const struct cluster_files *files, const char *scope,
		     const struct options *options)
{
	struct out o = { .at = NULL };
	const char *comma = "";

	out_words(&o, "{\"topologies\":[");
	for (size_t i = 0; i < files->n; i++) {
		if (strcmp(scope_of(&files->list[i], options), scope) != 0)
			continue;
		out_words(&o, comma);
		out_words(&o, files->list[i].json);
		comma = ",";
	}
	out_words(&o, "]}");
	return out_finish(&o);
}

/* The server names the place as "topologies[1].links[0]". */
static void complain(const struct topology_call *c, const struct cluster_files *files,
		     const char *scope, const struct options *options)
{
	const char *field = c->error.field;
	unsigned long which = 0;
	char *rest = NULL;

	if (!strncmp(field, "topologies[", 11))
		which = strtoul(field + 11, &rest, 10);
	for (size_t i = 0; rest && *rest == ']' && i < files->n; i++) {
		if (strcmp(scope_of(&files->list[i], options), scope) != 0 || which--)
			continue;
		cluster_file_complain(&files->list[i], rest[1] == '.' ? rest + 2 : "",
				      c->error.message);
		return;
	}
	topology_call_complain(c);
}

static void print_wishes(const char *sign, struct json_slice wishes)
{
	struct json_slice key, wish;
	struct json_walk w;

	if (!wishes.at || !json_walk_init(&w, wishes))
		return;
	while (json_walk_next(&w, &key, &wish)) {
		bool all = wish.len <= WISH_SHOWN;

		printf("  %s %.*s%s\n", sign, (int)(all ? wish.len : WISH_SHOWN), wish.at,
		       all ? "" : "...");
	}
}

/* How many topologies are not as they were. */
static size_t print_changes(struct json_slice answer, const char *scope, bool prune)
{
	struct json_slice key, one;
	struct json_walk w;
	size_t n = 0;

	if (!json_walk_init(&w, obs_member(answer, "changes")))
		return 0;
	while (json_walk_next(&w, &key, &one)) {
		char name[256], action[16];

		obs_text(one, "name", name, sizeof(name));
		obs_text(one, "action", action, sizeof(action));
		n += strcmp(action, "unchanged") != 0;
		printf("topology %s (scope %s): %s\n", name, scope, action);
		print_wishes("+", obs_member(one, "added"));
		print_wishes("-", obs_member(one, "removed"));
		if (!prune)
			print_wishes("kept without --prune:", obs_member(one, "dropped"));
	}
	return n;
}

static int apply_scope(const struct settings *settings, const struct options *options,
		       const struct runtime *rt, const struct cluster_files *files,
		       const char *scope, bool dry_run, size_t *n_changes)
{
	struct options ours = *options;
	struct nc_apply apply = { .force = options->force,
				  .prune = options->prune,
				  .dry_run = dry_run };
	char *body = body_of(files, scope, options);
	struct topology_call c;
	int ret = body ? 0 : -ENOMEM;

	ours.scope = scope;
	if (ret || topology_call_open(&c, settings, &ours, rt)) {
		free(body);
		return ret ? ret : -EINVAL;
	}
	ret = topology_call_list(&c);
	if (!ret) {
		apply.revision = obs_number(c.answer, "revision");
		apply.body = body;
		ret = topology_call_apply(&c, &apply);
	}
	if (ret)
		complain(&c, files, scope, options);
	else
		*n_changes += print_changes(c.answer, scope, options->prune);
	topology_call_close(&c);
	free(body);
	return ret;
}

/* Whether a file before this one is of the same scope. */
static bool was_applied(const struct cluster_files *files, size_t n, const struct options *options)
{
	const char *scope = scope_of(&files->list[n], options);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(scope_of(&files->list[i], options), scope))
			return true;
	return false;
}

int apply_run(const struct settings *settings, const struct options *options,
	      const struct runtime *rt, bool diff)
{
	bool dry_run = diff || options->dry_run;
	struct cluster_files files;
	size_t n_changes = 0;
	int ret;

	if (!options->file)
		return cli_usage_error(&nanoctrl_program, "-f names the file or the directory");
	ret = cluster_files_read(&files, options->file);
	for (size_t i = 0; i < files.n && !ret; i++)
		if (!was_applied(&files, i, options))
			ret = apply_scope(settings, options, rt, &files,
					  scope_of(&files.list[i], options), dry_run, &n_changes);
	cluster_files_free(&files);
	if (ret == -ENOMEM)
		fprintf(stderr, "nanoctrl: %s\n", strerror(ENOMEM));
	if (ret)
		return 1;
	if (dry_run)
		printf("nothing was changed: this only says what would be\n");
	return diff && n_changes ? EXIT_CHANGES : 0;
}

/* ---- deleting ---- */

int delete_run(const struct settings *settings, const struct options *options,
	       const struct runtime *rt, const struct cli_args *args)
{
	const char *name = args->operands[0];
	struct topology_call c;
	int ret;

	if (topology_call_open(&c, settings, options, rt))
		return 1;
	ret = topology_call_list(&c);
	if (!ret)
		ret = topology_call_delete(&c, name, obs_number(c.answer, "revision"));
	if (ret)
		topology_call_complain(&c);
	else if (json_is(obs_member(c.answer, "deleted"), "true"))
		printf("topology %s deleted\n", name);
	else
		fprintf(stderr, "nanoctrl: there is no topology %s\n", name);
	if (!ret && !json_is(obs_member(c.answer, "deleted"), "true"))
		ret = -ENOENT;
	topology_call_close(&c);
	return ret ? 1 : 0;
}
