/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/apply.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/options/option.h"
#include "cli/output/output.h"
#include "cli/output/quote.h"
#include "cli/yaml/yaml.h"
#include "commands/cluster_file.h"
#include "commands/topology_call.h"
#include "model/out.h"
#include "server/settings.h"

#define EXIT_CHANGES 3
#define WISH_SHOWN   400 /* bytes: a list of pairs may be long */
#define NOTE_SHOWN   1024
#define EXPANDED_MS  1000 /* it takes some milliseconds */
#define LOOK_MS	     20

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

/* What is wrong with a file, whose place in the body the message names first. */
static void complain_of(const struct cluster_file *file, const char *field, const char *message,
			bool conflict)
{
	char text[512];
	const char *own = !strncmp(message, "topologies[", 11) ? strstr(message, "].") : NULL;

	snprintf(text, sizeof(text), "%s%s", own ? own + 2 : message,
		 conflict ? "; --force takes it over" : "");
	cluster_file_complain(file, field, text);
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
		complain_of(&files->list[i], rest[1] == '.' ? rest + 2 : "", c->error.message,
			    !strcmp(c->error.code, "conflict"));
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

/* ---- what the expansion found ---- */

/* Links between named agents alone need no agent that is registered. */
static bool has_selectors(const struct cluster_file *file)
{
	const struct cli_node *links = cli_node_find(file->root, "links");

	if (cli_node_find(file->root, "agents"))
		return true;
	for (const struct cli_node *wish = links ? links->first : NULL; wish; wish = wish->next)
		if (!cli_node_find(wish, "pairs"))
			return true;
	return false;
}

static void print_notes(const struct cluster_file *file, struct json_slice result)
{
	struct json_slice key, note;
	char text[NOTE_SHOWN];
	struct json_walk w;

	if (!json_walk_init(&w, obs_member(result, "notes")))
		return;
	while (json_walk_next(&w, &key, &note))
		if (note.len < sizeof(text) && json_unquote(note, text) >= 0) {
			sl_utf8_make_printable(text);
			fprintf(stderr, "%s: warning: %s\n", file->path, text);
		}
}

/* The result of the expansion of a file's topology as it is now; at is NULL before that. */
static struct json_slice result_of(const struct cluster_file *file, struct json_slice answer)
{
	struct json_slice key, one, result;
	struct json_walk w;
	char name[256];

	if (!json_walk_init(&w, obs_member(answer, "topologies")))
		return (struct json_slice){ .at = NULL };
	while (json_walk_next(&w, &key, &one)) {
		obs_text(one, "name", name, sizeof(name));
		result = obs_member(one, "result");
		if (!strcmp(name, file->name) &&
		    obs_number(result, "revision") == obs_number(one, "revision"))
			return result;
	}
	return (struct json_slice){ .at = NULL };
}

/* false: one of the scope was not expanded yet. */
static bool print_warnings(const struct cluster_files *files, const char *scope,
			   const struct options *options, struct json_slice answer)
{
	for (int print = 0; print < 2; print++)
		for (size_t i = 0; i < files->n; i++) {
			const struct cluster_file *file = &files->list[i];
			struct json_slice result;

			if (strcmp(scope_of(file, options), scope) != 0 || !has_selectors(file))
				continue;
			result = result_of(file, answer);
			if (!result.at)
				return false;
			if (print)
				print_notes(file, result);
		}
	return true;
}

/* Warns of a selector that matches no agent yet, of an agent that is not there, and of a conflict,
 * as soon as it is known. */
static void warn(struct topology_call *c, const struct cluster_files *files, const char *scope,
		 const struct options *options)
{
	uint64_t deadline = sl_deadline_ns(EXPANDED_MS);
	bool any = false;

	for (size_t i = 0; i < files->n; i++)
		any |= !strcmp(scope_of(&files->list[i], options), scope) &&
		       has_selectors(&files->list[i]);
	while (any && !topology_call_list(c) && !print_warnings(files, scope, options, c->answer) &&
	       sl_clock_ns() < deadline)
		poll(NULL, 0, LOOK_MS);
}

/* ---- a scope ---- */

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
	fflush(stdout);
	if (!ret && !dry_run)
		warn(&c, files, scope, options);
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
		return cli_usage_error(&nanoctrl_program, "-f FILE or -f DIRECTORY is missing");
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
	if (dry_run && n_changes)
		printf("nothing was changed: nanoctrl apply makes these changes\n");
	return diff && n_changes ? EXIT_CHANGES : 0;
}

/* ---- deleting ---- */

int delete_run(const struct settings *settings, const struct options *options,
	       const struct runtime *rt, const struct cli_args *args)
{
	const char *name = args->operands[0];
	char quoted[CLI_QUOTE_MAX];
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
		fprintf(stderr,
			"nanoctrl: there is no topology %s in scope %s; --scope names another "
			"scope\n",
			cli_quote(quoted, name), options->scope ? options->scope : "default");
	if (!ret && !json_is(obs_member(c.answer, "deleted"), "true"))
		ret = -ENOENT;
	topology_call_close(&c);
	return ret ? 1 : 0;
}
