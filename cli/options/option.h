/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's command line: commands and tables of options (setting.h).
 *
 *     --name value   --name=value   -c value   -cvalue   --flag   --no-flag   -- ends the options
 *
 * --help and --version are understood by every program and command; `help [COMMAND]` and `version`
 * are commands of every program that has some; --help=settings is understood by programs with a
 * configuration: it prints the reference of the file as Markdown; --completion=SHELL by every
 * program: it prints the script of completion.h. A flag beats the
 * environment, which beats the file, which beats the default. What cannot be understood is one line
 * on standard error, with the nearest name.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include "cli/options/setting.h"

#define CLI_EXIT_USAGE 2
#define CLI_MAX_TABLES 8

struct cli_command {
	const char *name;     /* "start", or of two words: "obs links"; NULL ends the commands */
	const char *summary;  /* one line, for the list of commands */
	const char *text;     /* what --help says more; may be NULL */
	const char *operands; /* what --help calls them: "[NAME...]"; NULL when there are none */
	int min_operands, max_operands;
	/* Its options beside the program's; NULL ends them. */
	const struct cli_setting *tables[CLI_MAX_TABLES + 1];
};

struct cli_program {
	const char *name;
	const char *summary;
	const char *text;		    /* more words for --help; may be NULL */
	const struct cli_command *commands; /* NULL: the program is one command, and that is main */
	const struct cli_command *main;
	const struct cli_setting *options;  /* of every command; may be NULL */
	const struct cli_setting *settings; /* of the configuration file; for options with a path */
};

/* An option or variable with a path, or --set, waiting for cli_config_apply(). */
struct cli_override {
	const char *assignment; /* "key.path=value" for --set, else the value */
	const char *path;	/* NULL for --set */
	const char *origin; /* "--port", "environment variable NANOCTRL_PORT", "--set links.0.to" */
};

struct cli_args {
	const struct cli_program *program;
	const struct cli_command *command;
	char **operands; /* point into argv */
	int n_operands;
	struct cli_override *overrides; /* the environment's, then as on the command line */
	size_t n_overrides;
	struct cli_arena *arena; /* owns every string and list that was parsed */
};

/* --help or --version was asked for and printed. */
#define CLI_PRINTED 1

/*
 * Reads argv into the struct at out, which it fills with the defaults first; every table of a
 * program describes this one struct, and fields of other commands stay as they are. A repeated
 * option counts the last time, a list grows. args needs cli_args_fini(), which ends the life of the
 * strings in out, except on an error.
 *
 * 0; CLI_PRINTED; -EINVAL, or -EIO for a page that could not be written, after one line on standard
 * error, or the page of the program where there is not a word; -ENOMEM.
 */
int cli_args_init(struct cli_args *args, const struct cli_program *program, int argc, char **argv,
		  void *out);
void cli_args_fini(struct cli_args *args);

/* The status a program ends with when cli_args_init() did not return 0. */
int cli_args_exit_status(int ret);

/* One line on standard error, "PROGRAM: ..."; returns CLI_EXIT_USAGE. */
int cli_usage_error(const struct cli_program *program, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
