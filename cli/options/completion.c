/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cli/options/completion.h"
#include "cli/options/help.h"

/*
 * The scripts of all shells work alike. The words before the first option are the command; what
 * is offered depends on the command alone:
 *
 *     none, or the first word of commands of two    the next words
 *     a command, with or without operands           its options; behind an option, its values
 */

/* An option as a shell is told of it. */
struct option {
	struct cli_setting s;
	const char *value;	  /* what its value is called; NULL: it has none */
	const char *const *words; /* the values; NULL: anything */
	bool file;		  /* a path */
};

struct shell {
	const char *name;
	void (*begin)(const struct cli_program *program, FILE *to);
	/* The words that may follow word, which is "" or the first word of commands of two. */
	void (*words)(const struct cli_program *program, const char *word, FILE *to);
	/* Options of a command; words is NULL where the program is one command. */
	void (*command)(const struct cli_program *program, const struct cli_command *c, FILE *to);
	void (*end)(const struct cli_program *program, FILE *to);
};

/* text within single quotes of a shell: characters of escaped get a backslash, a quote becomes
 * quote. */
static void print_escaped(const char *text, const char *escaped, const char *quote, FILE *to)
{
	for (; text && *text; text++) {
		if (*text == '\'') {
			fputs(quote, to);
			continue;
		}
		if (strchr(escaped, *text))
			putc('\\', to);
		putc(*text == '\n' ? ' ' : *text, to);
	}
}

static void print_words(const char *const *words, FILE *to)
{
	for (size_t i = 0; words[i]; i++)
		fprintf(to, "%s%s", i ? " " : "", words[i]);
}

/* The option at index i of all that the command has, program's options included; false behind the
 * last. Hidden ones are not counted. */
static bool option_at(const struct cli_program *program, const struct cli_command *c, size_t i,
		      struct option *out)
{
	for (size_t t = 0; t == 0 || c->tables[t - 1]; t++) {
		const struct cli_setting *s = t ? c->tables[t - 1] : program->options;

		for (; s && s->name; s++) {
			if (s->hidden || i--)
				continue;
			out->s = cli_help_described(program, s);
			out->value = cli_help_value(&out->s);
			out->words = out->s.type == CLI_TYPE_ENUM || out->s.type == CLI_TYPE_ENUMS
					     ? out->s.words
					     : NULL;
			out->file =
				out->value &&
				(!strcmp(out->value, "FILE") || !strcmp(out->value, "DIR") ||
				 !strcmp(out->value, "PATH") || !strcmp(out->value, "FILE|DIR"));
			return true;
		}
	}
	return false;
}

#define for_each_option(o, i, program, c) for (i = 0; option_at(program, c, i, &(o)); i++)

/* Whether c is one behind word: in *next the word that follows, in *len its length. Each is met
 * once, at the first command that has it. */
static bool follows(const struct cli_program *program, const struct cli_command *c,
		    const char *word, const char **next, size_t *len)
{
	size_t skip = strlen(word);

	if (skip && (strncmp(c->name, word, skip) != 0 || c->name[skip] != ' '))
		return false;
	*next = c->name + (skip ? skip + 1 : 0);
	*len = strcspn(*next, " ");
	for (const struct cli_command *before = program->commands; before < c; before++)
		if (!strncmp(before->name, c->name, (size_t)(*next - c->name) + *len) &&
		    strchr(" ", (*next - c->name)[before->name + *len]))
			return false;
	return true;
}

/* The explanation of a word: the summary of a command, and nothing of a group. */
static const char *summary_of(const struct cli_command *c, const char *next, size_t len)
{
	return next[len] ? "" : c->summary;
}

/* --- bash --- */

static void bash_begin(const struct cli_program *program, FILE *to)
{
	fprintf(to,
		"# bash completion, printed by %s --completion=bash\n"
		"_%s()\n{\n"
		"\tlocal command= i current=${COMP_WORDS[COMP_CWORD]}\n"
		"\tlocal previous=${COMP_WORDS[COMP_CWORD-1]} options=\n\n"
		"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		"\t\t[[ ${COMP_WORDS[i]} == -* ]] && break\n"
		"\t\tcommand+=${command:+ }${COMP_WORDS[i]}\n"
		"\tdone\n"
		"\tCOMPREPLY=()\n"
		"\tcase $command in\n",
		program->name, program->name);
}

static void bash_words(const struct cli_program *program, const char *word, FILE *to)
{
	const char *next;
	size_t len;

	fprintf(to, "\t'%s')\n\t\toptions='", word);
	for (const struct cli_command *c = program->commands; c->name; c++)
		if (follows(program, c, word, &next, &len))
			fprintf(to, "%.*s ", (int)len, next);
	fprintf(to, "--help%s' ;;\n", *word ? "" : " --version help version");
}

static void bash_values(const struct option *o, FILE *to)
{
	fprintf(to, "\t\t--%s", o->s.name);
	if (o->s.letter)
		fprintf(to, "|-%c", o->s.letter);
	fputs(") ", to);
	if (o->file)
		fputs("compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\")); ", to);
	if (o->words) {
		fputs("COMPREPLY=($(compgen -W '", to);
		print_words(o->words, to);
		fputs("' -- \"$current\")); ", to);
	}
	fputs("return ;;\n", to);
}

static void bash_command(const struct cli_program *program, const struct cli_command *c, FILE *to)
{
	struct option o;
	size_t i;

	if (program->commands)
		fprintf(to, "\t'%s'|'%s '*)\n", c->name, c->name);
	else
		fputs("\t*)\n", to);
	fputs("\t\tcase $previous in\n", to);
	for_each_option(o, i, program, c) if (o.value) bash_values(&o, to);
	fputs("\t\tesac\n\t\toptions='", to);
	for_each_option(o, i, program, c) fprintf(to, "--%s ", o.s.name);
	fputs("--help' ;;\n", to);
}

static void bash_end(const struct cli_program *program, FILE *to)
{
	fprintf(to,
		"\tesac\n"
		"\tCOMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
		"}\n"
		"complete -o default -F _%s %s\n",
		program->name, program->name);
}

/* --- zsh --- */

#define ZSH_QUOTE "'\\''"

static void zsh_begin(const struct cli_program *program, FILE *to)
{
	fprintf(to,
		"#compdef %s\n"
		"# zsh completion, printed by %s --completion=zsh\n"
		"local command='' i\n"
		"local -a next\n\n"
		"for ((i = 2; i < CURRENT; i++)); do\n"
		"\t[[ $words[i] == -* ]] && break\n"
		"\tcommand+=${command:+ }$words[i]\n"
		"done\n"
		"case $command in\n",
		program->name, program->name);
}

static void zsh_words(const struct cli_program *program, const char *word, FILE *to)
{
	const char *next;
	size_t len;

	fprintf(to, "('%s')\n\tnext=(", word);
	for (const struct cli_command *c = program->commands; c->name; c++) {
		if (!follows(program, c, word, &next, &len))
			continue;
		fprintf(to, "\n\t\t'%.*s:", (int)len, next);
		print_escaped(summary_of(c, next, len), ":\\", ZSH_QUOTE, to);
		putc('\'', to);
	}
	fputs(")\n\t_describe command next ;;\n", to);
}

static void zsh_command(const struct cli_program *program, const struct cli_command *c, FILE *to)
{
	struct option o;
	size_t i;

	if (program->commands)
		fprintf(to, "('%s'|'%s '*)\n", c->name, c->name);
	else
		fputs("(*)\n", to);
	fputs("\t_arguments", to);
	for_each_option(o, i, program, c)
	{
		fprintf(to, " \\\n\t\t'*--%s%s[", o.s.name, o.value ? "=" : "");
		print_escaped(o.s.help, "[]:\\", ZSH_QUOTE, to);
		putc(']', to);
		if (o.value) {
			putc(':', to);
			print_escaped(o.value, ":\\", ZSH_QUOTE, to);
			putc(':', to);
		}
		if (o.words) {
			putc('(', to);
			print_words(o.words, to);
			putc(')', to);
		} else if (o.value) {
			fputs(o.file ? "_files" : " ", to);
		}
		putc('\'', to);
	}
	fputs(" \\\n\t\t'--help[print the page of the command]' '*: :_default' ;;\n", to);
}

static void zsh_end(const struct cli_program *program, FILE *to)
{
	(void)program;
	fputs("esac\n", to);
}

/* --- fish --- */

#define FISH_QUOTE "\\'"

static void fish_begin(const struct cli_program *program, FILE *to)
{
	const char *name = program->name;

	fprintf(to,
		"# fish completion, printed by %s --completion=fish\n"
		"function __%s_command\n"
		"    set -l words\n"
		"    for word in (commandline -opc)[2..-1]\n"
		"        string match -q -- '-*' $word; and break\n"
		"        set -a words $word\n"
		"    end\n"
		"    echo \"$words\"\n"
		"end\n"
		"function __%s_in\n"
		"    set -l command (__%s_command)\n"
		"    test \"$command\" = \"$argv\"; or string match -q -- \"$argv *\" \"$command\"\n"
		"end\n",
		name, name, name, name);
	if (program->commands)
		fprintf(to, "complete -c %s -f\n", name);
}

static void fish_words(const struct cli_program *program, const char *word, FILE *to)
{
	const char *next;
	size_t len;

	for (const struct cli_command *c = program->commands; c->name; c++) {
		if (!follows(program, c, word, &next, &len))
			continue;
		fprintf(to, "complete -c %s -n 'test (__%s_command) = \"%s\"' -a %.*s -d '",
			program->name, program->name, word, (int)len, next);
		print_escaped(summary_of(c, next, len), "\\", FISH_QUOTE, to);
		fputs("'\n", to);
	}
}

static void fish_command(const struct cli_program *program, const struct cli_command *c, FILE *to)
{
	struct option o;
	size_t i;

	for_each_option(o, i, program, c)
	{
		fprintf(to, "complete -c %s", program->name);
		if (program->commands)
			fprintf(to, " -n '__%s_in %s'", program->name, c->name);
		fprintf(to, " -l %s", o.s.name);
		if (o.s.letter)
			fprintf(to, " -s %c", o.s.letter);
		if (o.value)
			fputs(o.file ? " -r -F" : " -x", to);
		if (o.words) {
			fputs(" -a '", to);
			print_words(o.words, to);
			putc('\'', to);
		}
		fputs(" -d '", to);
		print_escaped(o.s.help, "\\", FISH_QUOTE, to);
		fputs("'\n", to);
	}
}

static void fish_end(const struct cli_program *program, FILE *to)
{
	fprintf(to, "complete -c %s -l help -d 'print the page of the command'\n", program->name);
}

/* --- all --- */

static const struct shell shells[] = {
	{ "bash", bash_begin, bash_words, bash_command, bash_end },
	{ "zsh", zsh_begin, zsh_words, zsh_command, zsh_end },
	{ "fish", fish_begin, fish_words, fish_command, fish_end },
};

static void print_commands(const struct shell *shell, const struct cli_program *program, FILE *to)
{
	const char *next;
	size_t len;

	shell->words(program, "", to);
	for (const struct cli_command *c = program->commands; c->name; c++) {
		char group[64];

		if (follows(program, c, "", &next, &len) && next[len]) {
			snprintf(group, sizeof(group), "%.*s", (int)len, next);
			shell->words(program, group, to);
		}
		shell->command(program, c, to);
	}
}

int cli_completion_print(const struct cli_program *program, const char *name, FILE *to)
{
	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++) {
		const struct shell *shell = &shells[i];

		if (strcmp(shell->name, name) != 0)
			continue;
		shell->begin(program, to);
		if (program->commands)
			print_commands(shell, program, to);
		else
			shell->command(program, program->main, to);
		shell->end(program, to);
		return 0;
	}
	return -EINVAL;
}
