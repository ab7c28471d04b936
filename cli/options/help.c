/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "cli/options/help.h"
#include "cli/options/version.h"

#define WIDTH	   90
#define TEXT_START 28
#define LABEL_MAX  160

static const char *const value_words[] = {
	[CLI_TYPE_FLAG] = NULL,
	[CLI_TYPE_STRING] = "TEXT",
	[CLI_TYPE_INT] = "N",
	[CLI_TYPE_PORT] = "PORT",
	[CLI_TYPE_DURATION_MS] = "DURATION",
	[CLI_TYPE_DURATION_NS] = "DURATION",
	[CLI_TYPE_SIZE] = "SIZE",
	[CLI_TYPE_ENUM] = "WORD",
	[CLI_TYPE_STRINGS] = "TEXT",
	[CLI_TYPE_SIZES] = "SIZE,...",
	[CLI_TYPE_ENUMS] = "WORD,...",
	[CLI_TYPE_PAIRS] = "KEY=VALUE",
	[CLI_TYPE_MAP] = NULL,
	[CLI_TYPE_LIST] = NULL,
	[CLI_TYPE_ASSIGN] = "KEY.PATH=VALUE",
};

struct cli_setting cli_help_described(const struct cli_program *program,
				      const struct cli_setting *s)
{
	struct cli_setting all = *s;
	const struct cli_setting *target;

	if (!s->path)
		return all;
	target = cli_setting_at_path(program->settings, s->path);
	assert(target);
	all.type = target->type;
	all.words = target->words;
	if (!all.def)
		all.def = target->def;
	if (!all.help)
		all.help = target->help;
	return all;
}

const char *cli_help_value(const struct cli_setting *s)
{
	return s->value ? s->value : value_words[s->type];
}

/* Words of text from column at on, each line indented to TEXT_START. */
static void print_wrapped(const char *text, size_t at, FILE *to)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (at > TEXT_START && at + 1 + len > WIDTH) {
			fprintf(to, "\n%*s", TEXT_START, "");
			at = TEXT_START;
		} else if (at > TEXT_START) {
			putc(' ', to);
			at++;
		}
		fprintf(to, "%.*s", (int)len, text);
		at += len;
		text += len + (text[len] == ' ');
	}
	putc('\n', to);
}

static void print_entry(const char *label, const char *text, FILE *to)
{
	size_t len = strlen(label);

	fputs(label, to);
	if (len + 2 > TEXT_START) {
		putc('\n', to);
		len = 0;
	}
	fprintf(to, "%*s", (int)(TEXT_START - len), "");
	print_wrapped(text, TEXT_START, to);
}

static void append(char *out, size_t len, const char *a, const char *b, const char *c)
{
	size_t n = strlen(out);

	snprintf(out + n, len - n, "%s%s%s", a, b, c);
}

static void print_option(const struct cli_program *program, const struct cli_setting *option,
			 FILE *to)
{
	struct cli_setting s = cli_help_described(program, option);
	const char *value = cli_help_value(&s);
	char label[LABEL_MAX], text[1024] = "";

	if (s.hidden)
		return;
	snprintf(label, sizeof(label), "  %c%c%c --%s%s%s", s.letter ? '-' : ' ',
		 s.letter ? s.letter : ' ', s.letter ? ',' : ' ', s.name, value ? " " : "",
		 value ? value : "");
	append(text, sizeof(text), s.help ? s.help : "", "", "");
	if (s.words && (s.type == CLI_TYPE_ENUM || s.type == CLI_TYPE_ENUMS))
		for (size_t i = 0; s.words[i]; i++)
			append(text, sizeof(text), i ? ", " : ": ", s.words[i], "");
	if (s.def && !(s.type == CLI_TYPE_FLAG && !strcmp(s.def, "false")))
		append(text, sizeof(text), " [", *s.def ? s.def : "none", "]");
	if (s.env) {
		append(text, sizeof(text), " (or $", "", "");
		for (const char *c = s.env; *c; c++)
			append(text, sizeof(text), *c == ' ' ? ", $" : (char[]){ *c, '\0' }, "",
			       "");
		append(text, sizeof(text), ")", "", "");
	}
	print_entry(label, text, to);
}

static void print_table(const struct cli_program *program, const struct cli_setting *table,
			FILE *to)
{
	for (; table && table->name; table++)
		print_option(program, table, to);
}

static void print_options(const struct cli_program *program, const struct cli_command *command,
			  FILE *to)
{
	fputs("\nOptions:\n", to);
	for (size_t i = 0; command && command->tables[i]; i++)
		print_table(program, command->tables[i], to);
	print_table(program, program->options, to);
	print_entry("      --help", "print this page", to);
	if (program->settings)
		print_entry("      --help=settings", "print the keys of the configuration file",
			    to);
	print_entry("      --version", "print the version and the commit it was built from", to);
	print_entry("      --completion=SHELL", "print the completion for bash, zsh or fish", to);
}

/* Those of two words that begin with group; all for NULL. */
static void print_commands(const struct cli_program *program, const char *group, FILE *to)
{
	size_t len = group ? strlen(group) : 0;

	fputs("\nCommands:\n", to);
	for (const struct cli_command *c = program->commands; c->name; c++) {
		char label[LABEL_MAX];

		if (group && (strncmp(c->name, group, len) != 0 || c->name[len] != ' '))
			continue;
		snprintf(label, sizeof(label), "  %s", c->name);
		print_entry(label, c->summary, to);
	}
	if (!group) {
		print_entry("  help [COMMAND]", "print this page, or that of a command", to);
		print_entry("  version", "print the version and the commit it was built from", to);
	}
	fprintf(to, "\n'%s %s%sCOMMAND --help' says more about one.\n", program->name,
		group ? group : "", group ? " " : "");
}

void cli_help_print(const struct cli_program *program, const struct cli_command *command, FILE *to)
{
	const char *text = command ? command->text : program->text;
	const char *summary = command ? command->summary : program->summary;
	bool named = command && command != program->main;

	fprintf(to, "Usage: %s%s%s%s [OPTION...]%s%s\n\n%s\n", program->name, named ? " " : "",
		named ? command->name : "", command ? "" : " COMMAND",
		command && command->operands ? " " : "",
		command && command->operands ? command->operands : "",
		summary ? summary : program->summary);
	if (text)
		fprintf(to, "\n%s\n", text);
	if (!command)
		print_commands(program, NULL, to);
	print_options(program, command, to);
}

void cli_help_print_group(const struct cli_program *program, const char *group, FILE *to)
{
	fprintf(to, "Usage: %s %s COMMAND [OPTION...]\n", program->name, group);
	print_commands(program, group, to);
}

void cli_version_print(const char *program, FILE *to)
{
	fprintf(to, "%s %s (%s, %s)\n", program, cli_version(), cli_commit(), cli_build());
}
