/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/yaml/arena.h"
#include "cli/options/completion.h"
#include "cli/options/help.h"
#include "cli/options/nearest.h"
#include "cli/options/option.h"
#include "cli/output/output.h"
#include "cli/output/quote.h"
#include "cli/yaml/reference.h"
#include "cli/options/version.h"

#define WHY_MAX 512

/* One option as it stands on the command line. */
struct occurrence {
	const struct cli_setting *option;
	const char *text;
};

struct parse {
	const struct cli_program *program;
	struct cli_args *args;
	int argc, at;
	char **argv;
	struct occurrence *given;
	size_t n_given;
	bool help;
	const char *group;  /* the first word of commands of two, which help is asked for */
	bool only_operands; /* after "--" */
};

static int refuse(const struct cli_program *program, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void print_error(const struct cli_program *program, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

static void print_error(const struct cli_program *program, const char *fmt, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), fmt, args);
	sl_utf8_make_printable(line);
	fprintf(stderr, "%s: %s\n", program->name, line);
}

static int refuse(const struct cli_program *program, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_error(program, fmt, args);
	va_end(args);
	return -EINVAL;
}

int cli_usage_error(const struct cli_program *program, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_error(program, fmt, args);
	va_end(args);
	return CLI_EXIT_USAGE;
}

int cli_args_exit_status(int ret)
{
	if (ret == CLI_PRINTED)
		return EXIT_SUCCESS;
	return ret == -EINVAL ? CLI_EXIT_USAGE : EXIT_FAILURE;
}

/* --- tables --- */

/* The program's table and those of the command, one after the other; NULL after the last. */
static const struct cli_setting *table_at(const struct parse *p, size_t i)
{
	if (p->program->options) {
		if (i == 0)
			return p->program->options;
		i--;
	}
	return p->args->command ? p->args->command->tables[i] : NULL;
}

#define for_each_table(p, i, table) for (i = 0; (table = table_at(p, i)); i++)

static const struct cli_setting *find_option(const struct parse *p, const char *name)
{
	const struct cli_setting *table;
	size_t i;

	for_each_table(p, i, table)
	{
		const struct cli_setting *s = cli_setting_find(table, name);

		if (s)
			return s;
	}
	return NULL;
}

static const struct cli_setting *find_letter(const struct parse *p, char letter)
{
	const struct cli_setting *table;
	size_t i;

	for_each_table(p, i, table) for (; table->name;
					 table++) if (table->letter == letter) return table;
	return NULL;
}

/* An option with a path has the type that the file's table gives it. */
static const struct cli_setting *typed(const struct parse *p, const struct cli_setting *s)
{
	const struct cli_setting *target;

	if (!s->path)
		return s;
	target = cli_setting_at_path(p->program->settings, s->path);
	assert(target);
	return target;
}

/* --- reading the words --- */

/* The option that prints the page with the options. */
static const char *help_of(const struct parse *p, char out[CLI_QUOTE_MAX])
{
	if (!p->args->command || p->args->command == p->program->main)
		return "--help";
	snprintf(out, CLI_QUOTE_MAX, "%s %s --help", p->program->name, p->args->command->name);
	return out;
}

/* The first command that has the option; NULL when none has. */
static const struct cli_command *command_with(const struct cli_program *program, const char *option)
{
	for (const struct cli_command *c = program->commands; c && c->name; c++)
		for (size_t i = 0; c->tables[i]; i++)
			if (cli_setting_find(c->tables[i], option))
				return c;
	return NULL;
}

/* Refuse an option that belongs to the command c. Without a command on the line, the user may have
 * meant c; else the option is one of another command. */
static int refuse_of_another(const struct parse *p, const char *word, const struct cli_command *c)
{
	const char *program = p->program->name;
	char page[CLI_QUOTE_MAX];

	if (!p->args->command)
		return refuse(p->program, "expected a command before --%s, as in %s %s --%s", word,
			      program, c->name, word);
	return refuse(p->program, "unknown option --%s of %s %s, though one of %s %s, see %s", word,
		      program, p->args->command->name, program, c->name, help_of(p, page));
}

static int refuse_unknown(const struct parse *p, const char *name, size_t len)
{
	char word[CLI_QUOTE_MAX] = "", page[CLI_QUOTE_MAX];
	struct cli_nearest nearest = { .word = word };
	const struct cli_setting *table;
	const struct cli_command *c;
	size_t i;

	memcpy(word, name, len < sizeof(word) ? len : sizeof(word) - 1);
	for_each_table(p, i, table) for (; table->name; table++) if (!table->hidden)
		cli_nearest_offer(&nearest, table->name);
	cli_nearest_offer(&nearest, "help");
	cli_nearest_offer(&nearest, "version");
	if (nearest.best)
		return refuse(p->program, "unknown option --%s, did you mean --%s?", word,
			      nearest.best);
	c = command_with(p->program, word);
	if (c)
		return refuse_of_another(p, word, c);
	return refuse(p->program, "unknown option --%s, see %s", word, help_of(p, page));
}

static int give(struct parse *p, const struct cli_setting *option, const char *text)
{
	p->given[p->n_given++] = (struct occurrence){ .option = option, .text = text };
	return 0;
}

static int refuse_no_value(const struct parse *p, const struct cli_setting *option)
{
	char expected[WHY_MAX];

	cli_setting_expected(typed(p, option), expected, sizeof(expected));
	return refuse(p->program, "--%s: expected %s, got nothing", option->name, expected);
}

/* The value is behind '=', or the next word: one that begins with "--" is another option. */
static int take_value(struct parse *p, const struct cli_setting *option, const char *value)
{
	bool flag = typed(p, option)->type == CLI_TYPE_FLAG;

	if (!value && flag)
		value = "true";
	if (!value) {
		if (p->at == p->argc || !strncmp(p->argv[p->at], "--", 2))
			return refuse_no_value(p, option);
		value = p->argv[p->at++];
	}
	return give(p, option, value);
}

/* A page was printed, if it got to where it should. */
static int printed(const struct cli_program *program)
{
	return cli_output_end(program->name, EXIT_SUCCESS) ? -EIO : CLI_PRINTED;
}

/* The options of every program, unless one of its options has the name. */
static int take_builtin(struct parse *p, const char *name, const char *word, const char *value)
{
	char shown[CLI_QUOTE_MAX];

	if (!strcmp(name, "help") && !value) {
		p->help = true;
		return 0;
	}
	if (!strcmp(name, "help") && !strcmp(value, "settings") && p->program->settings) {
		cli_reference_print(p->program->settings, stdout);
		return printed(p->program);
	}
	if (!strcmp(name, "completion") && value &&
	    !cli_completion_print(p->program, value, stdout))
		return printed(p->program);
	if (!strcmp(name, "completion"))
		return refuse(p->program, "--completion: expected bash, zsh or fish, got %s",
			      value ? cli_quote(shown, value) : "nothing");
	if (!strcmp(name, "version") && !value) {
		cli_version_print(p->program->name, stdout);
		return printed(p->program);
	}
	if (!strcmp(name, "help") || !strcmp(name, "version"))
		return refuse(p->program, "--%s: expected no value, got %s", name,
			      cli_quote(shown, value));
	return refuse_unknown(p, word, strcspn(word, "="));
}

static int take_long(struct parse *p, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);
	const struct cli_setting *option;
	char name[64];

	if (len >= sizeof(name))
		return refuse_unknown(p, word, len);
	memcpy(name, word, len);
	name[len] = '\0';
	option = find_option(p, name);
	if (option)
		return take_value(p, option, equals ? equals + 1 : NULL);
	if (!strncmp(name, "no-", 3) && !equals) {
		option = find_option(p, name + 3);
		if (option && typed(p, option)->type == CLI_TYPE_FLAG)
			return give(p, option, "false");
	}
	return take_builtin(p, name, word, equals ? equals + 1 : NULL);
}

static int take_short(struct parse *p, const char *word)
{
	const struct cli_setting *option = find_letter(p, word[0]);
	char page[CLI_QUOTE_MAX];

	if (!option && !strcmp(word, "h")) {
		p->help = true;
		return 0;
	}
	if (!option)
		return refuse(p->program, "unknown option -%s, see %s", word, help_of(p, page));
	if (word[1] && typed(p, option)->type == CLI_TYPE_FLAG)
		return refuse(p->program, "-%c: expected no value, got \"%s\"", word[0], word + 1);
	return take_value(p, option, word[1] ? word + 1 : NULL);
}

/* --- commands --- */

/* How many words of argv name the command; 0 when they name another. */
static int match_command(const struct parse *p, const struct cli_command *c)
{
	const char *first = p->argv[p->at - 1];
	size_t len = strlen(first);

	if (!strcmp(c->name, first))
		return 1;
	if (!strncmp(c->name, first, len) && c->name[len] == ' ' && p->at < p->argc &&
	    !strcmp(c->name + len + 1, p->argv[p->at]))
		return 2;
	return 0;
}

static int refuse_command(const struct parse *p, const char *word)
{
	struct cli_nearest nearest = { .word = word };
	const char *second = p->at < p->argc && p->argv[p->at][0] != '-' ? p->argv[p->at] : "";
	size_t len = strlen(word);
	char shown[CLI_QUOTE_MAX], names[WHY_MAX] = "";
	size_t n = 0;

	for (const struct cli_command *c = p->program->commands; c->name; c++) {
		cli_nearest_offer(&nearest, c->name);
		if (!strncmp(c->name, word, len) && c->name[len] == ' ' && n < sizeof(names))
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "",
					      c->name + len + 1);
	}
	cli_nearest_offer(&nearest, "help");
	cli_nearest_offer(&nearest, "version");
	if (n)
		return refuse(p->program, "%s: expected one of %s, got %s", word, names,
			      *second ? cli_quote(shown, second) : "nothing");
	if (nearest.best)
		return refuse(p->program, "unknown command %s, did you mean %s?",
			      cli_quote(shown, word), nearest.best);
	return refuse(p->program, "unknown command %s, see --help", cli_quote(shown, word));
}

/* The first word of commands of two, of which the page is asked for. */
static bool is_group(struct parse *p, const char *word)
{
	size_t len = strlen(word);
	bool asked = p->help || (p->at < p->argc && (!strcmp(p->argv[p->at], "--help") ||
						     !strcmp(p->argv[p->at], "-h")));

	for (const struct cli_command *c = p->program->commands; asked && c->name; c++)
		if (!strncmp(c->name, word, len) && c->name[len] == ' ')
			p->group = word;
	return p->group;
}

static int take_command(struct parse *p, const char *word)
{
	for (const struct cli_command *c = p->program->commands; c->name; c++) {
		int n = match_command(p, c);

		if (!n)
			continue;
		p->args->command = c;
		p->at += n - 1;
		return 0;
	}
	if (!strcmp(word, "help")) { /* "help COMMAND" is "COMMAND --help" */
		p->help = true;
		return 0;
	}
	if (!strcmp(word, "version")) {
		cli_version_print(p->program->name, stdout);
		return printed(p->program);
	}
	return is_group(p, word) ? 0 : refuse_command(p, word);
}

static int take_operand(struct parse *p, char *word)
{
	if (!p->args->command)
		return take_command(p, word);
	p->args->operands[p->args->n_operands++] = word;
	return 0;
}

static int take_word(struct parse *p)
{
	char *word = p->argv[p->at++];

	if (p->only_operands || word[0] != '-' || !word[1])
		return take_operand(p, word);
	if (!strcmp(word, "--")) {
		p->only_operands = true;
		return 0;
	}
	return word[1] == '-' ? take_long(p, word + 2) : take_short(p, word + 1);
}

static int check_operands(const struct parse *p)
{
	const struct cli_command *c = p->args->command;
	int n = p->args->n_operands;
	char shown[CLI_QUOTE_MAX], page[CLI_QUOTE_MAX];

	if (n < c->min_operands)
		return refuse(p->program, "expected %s", c->operands);
	if (n > c->max_operands)
		return refuse(p->program, "unexpected argument %s, see %s",
			      cli_quote(shown, p->args->operands[c->max_operands]),
			      help_of(p, page));
	return 0;
}

static int read_words(struct parse *p)
{
	int ret = 0;

	while (!ret && p->at < p->argc)
		ret = take_word(p);
	if (ret)
		return ret;
	if (p->help) {
		if (p->group)
			cli_help_print_group(p->program, p->group, stdout);
		else
			cli_help_print(p->program, p->args->command, stdout);
		return printed(p->program);
	}
	if (!p->args->command && p->argc > 1)
		return refuse(p->program, "expected a command, see --help");
	if (!p->args->command) {
		cli_help_print(p->program, NULL, stderr);
		return -EINVAL;
	}
	return check_operands(p);
}

/* --- values --- */

static int override(struct cli_args *args, const char *assignment, const char *path,
		    const char *origin)
{
	struct cli_override *o = &args->overrides[args->n_overrides++];

	*o = (struct cli_override){ .assignment = assignment, .path = path, .origin = origin };
	return origin ? 0 : -ENOMEM;
}

static int parse_text(struct parse *p, const struct cli_setting *s, const char *text,
		      const char *origin, void *out)
{
	char why[WHY_MAX];
	int ret = cli_setting_parse(s, text, out, p->args->arena, why, sizeof(why));

	return ret == -EINVAL ? refuse(p->program, "%s: %s", origin, why) : ret;
}

/* The first of these names, with blanks between them, that the environment has a text for; NULL
 * without one. */
static const char *first_variable(const char *names, char name[64])
{
	while (names && *names) {
		int len = (int)strcspn(names, " ");
		const char *text;

		snprintf(name, 64, "%.*s", len, names);
		text = getenv(name);
		if (text && *text)
			return text;
		names += len;
		names += strspn(names, " ");
	}
	return NULL;
}

static int take_default(struct parse *p, const struct cli_setting *s, void *out)
{
	char name[64], *origin;
	const char *text = first_variable(s->env, name);
	int ret = 0;

	if (!s->path && s->def && s->type != CLI_TYPE_ASSIGN)
		ret = parse_text(p, s, s->def, s->name, out);
	if (ret || !text)
		return ret;
	origin = cli_arena_printf(p->args->arena, "environment variable %s", name);
	if (!origin)
		return -ENOMEM;
	return s->path ? override(p->args, text, s->path, origin)
		       : parse_text(p, s, text, origin, out);
}

/* Every text that was given for a list: repeated options add up, words and sizes are split at
 * commas too. */
static int gather(struct parse *p, const struct cli_setting *s, const char **texts, size_t *n)
{
	bool split = s->type == CLI_TYPE_SIZES || s->type == CLI_TYPE_ENUMS;

	*n = 0;
	for (size_t i = 0; i < p->n_given; i++) {
		const char **parts;
		size_t n_parts;

		if (p->given[i].option != s)
			continue;
		if (!split) {
			texts[(*n)++] = p->given[i].text;
			continue;
		}
		parts = cli_setting_split(p->args->arena, p->given[i].text, &n_parts);
		if (!parts)
			return -ENOMEM;
		if (n_parts)
			memcpy(texts + *n, parts, n_parts * sizeof(*parts));
		*n += n_parts;
	}
	return 0;
}

static size_t most_texts(const struct parse *p)
{
	size_t n = p->n_given;

	for (size_t i = 0; i < p->n_given; i++)
		for (const char *c = p->given[i].text; *c; c++)
			n += *c == ',';
	return n;
}

static int take_list(struct parse *p, const struct cli_setting *s, void *out)
{
	const char **texts = cli_arena_alloc(p->args->arena, most_texts(p), sizeof(*texts));
	char why[WHY_MAX];
	size_t n;
	int ret;

	if (!texts)
		return -ENOMEM;
	ret = gather(p, s, texts, &n);
	if (ret || !n)
		return ret;
	ret = cli_setting_parse_list(s, texts, n, out, p->args->arena, why, sizeof(why));
	return ret == -EINVAL ? refuse(p->program, "--%s: %s", s->name, why) : ret;
}

/* A list of the file that is given in several options is what they say together, and stands where
 * the last of them does. */
static int take_key(struct parse *p, const struct occurrence *o, const char *origin)
{
	const char *text = o->text;

	if (!cli_setting_is_list(typed(p, o->option)))
		return override(p->args, text, o->option->path, origin);
	for (const struct occurrence *later = o + 1; later < p->given + p->n_given; later++)
		if (later->option == o->option)
			return 0;
	for (const struct occurrence *other = o; other-- > p->given;) {
		if (other->option != o->option)
			continue;
		text = cli_arena_printf(p->args->arena, "%s,%s", other->text, text);
		if (!text)
			return -ENOMEM;
	}
	return override(p->args, text, o->option->path, origin);
}

static int take_occurrence(struct parse *p, const struct occurrence *o, void *out)
{
	char *origin = cli_arena_printf(p->args->arena, "--%s", o->option->name);

	if (!origin)
		return -ENOMEM;
	if (o->option->type == CLI_TYPE_ASSIGN)
		return override(p->args, o->text, NULL, origin);
	if (o->option->path)
		return take_key(p, o, origin);
	if (cli_setting_is_list(o->option))
		return 0;
	return parse_text(p, o->option, o->text, origin, out);
}

/* Defaults, then the environment, then the command line. */
static int take_values(struct parse *p, void *out)
{
	const struct cli_setting *table;
	size_t i, n = p->n_given;
	int ret = 0;

	for_each_table(p, i, table) for (const struct cli_setting *s = table; s->name; s++) n +=
		s->env != NULL;
	p->args->overrides = cli_arena_alloc(p->args->arena, n, sizeof(*p->args->overrides));
	if (!p->args->overrides)
		return -ENOMEM;
	for_each_table(p, i, table) for (const struct cli_setting *s = table; s->name && !ret; s++)
		ret = take_default(p, s, out);
	for (i = 0; i < p->n_given && !ret; i++)
		ret = take_occurrence(p, &p->given[i], out);
	for_each_table(p, i, table) for (const struct cli_setting *s = table; s->name && !ret;
					 s++) if (cli_setting_is_list(s) && !s->path) ret =
		take_list(p, s, out);
	return ret;
}

static int prepare(struct parse *p)
{
	struct cli_arena *arena = p->args->arena;
	size_t n = p->argc > 0 ? (size_t)p->argc : 1;

	p->at = 1;
	p->args->program = p->program;
	if (!p->program->commands)
		p->args->command = p->program->main;
	p->given = cli_arena_alloc(arena, n, sizeof(*p->given));
	p->args->operands = cli_arena_alloc(arena, n, sizeof(*p->args->operands));
	return p->given && p->args->operands ? 0 : -ENOMEM;
}

int cli_args_init(struct cli_args *args, const struct cli_program *program, int argc, char **argv,
		  void *out)
{
	struct parse p = { .program = program, .args = args, .argc = argc, .argv = argv };
	int ret;

	*args = (struct cli_args){ .arena = cli_arena_create() };
	if (!args->arena)
		return -ENOMEM;
	ret = prepare(&p);
	if (!ret)
		ret = read_words(&p);
	if (!ret)
		ret = take_values(&p, out);
	if (ret)
		cli_args_fini(args);
	return ret;
}

void cli_args_fini(struct cli_args *args)
{
	cli_arena_destroy(args->arena);
	*args = (struct cli_args){ 0 };
}
