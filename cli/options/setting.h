/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table describes what a user can say, on the command line (option.h) and in a file (config.h):
 * it makes the parser, the checks, the defaults, --help, --print-config and the reference pages.
 *
 *     struct region { const char *name; uint64_t bytes; };
 *     struct node   { int64_t qps; struct region *regions; size_t n_regions; };
 *
 *     static const struct cli_setting region_settings[] = {
 *             CLI_STRING(struct region, name, "name", .required = true, .help = "its name"),
 *             CLI_SIZE(struct region, bytes, "size", .required = true, .help = "its length"),
 *             CLI_END,
 *     };
 *     static const struct cli_setting node_settings[] = {
 *             CLI_INT(struct node, qps, "qps", .def = "2", .min = 1, .max = 64,
 *                     .help = "queue pairs a rail"),
 *             CLI_LIST(struct node, regions, n_regions, "regions", region_settings,
 *                      .unique = "name", .help = "memory that peers may reach"),
 *             CLI_END,
 *     };
 *
 * The macros check at compile time that the field has the type that the table writes.
 */
#ifndef CLI_SETTING_H
#define CLI_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_type {
	CLI_TYPE_FLAG, /* bool: true or false; on a command line present means true, --no-NAME false
			*/
	CLI_TYPE_STRING,      /* const char *; min and max are its length in bytes */
	CLI_TYPE_INT,	      /* int64_t; word i of .words stands for -1 - i, whatever min is */
	CLI_TYPE_PORT,	      /* uint16_t; 0 asks the kernel for one */
	CLI_TYPE_DURATION_MS, /* int64_t: "15s", "500ms", "1.5h"; a bare number is seconds; min and
				 max in ms */
	CLI_TYPE_DURATION_NS, /* int64_t: the same in ns, from "ns" up */
	CLI_TYPE_SIZE,	      /* uint64_t: "4GiB", "128KiB", plain bytes; min and max in bytes */
	CLI_TYPE_ENUM,	      /* int or an enum: the index of the word in .words */
	CLI_TYPE_STRINGS,     /* const char *const *, size_t */
	CLI_TYPE_SIZES,	      /* const uint64_t *, size_t */
	CLI_TYPE_ENUMS,	      /* const int *, size_t: in the order given, each word at most once */
	CLI_TYPE_PAIRS,	      /* const struct cli_pair *, size_t: a map; KEY=VALUE as an option */
	CLI_TYPE_MAP,	      /* an embedded struct with a table of its own; files only */
	CLI_TYPE_LIST,	      /* a pointer to structs, size_t: a list of maps; files only */
	CLI_TYPE_ASSIGN,      /* --set KEY.PATH=VALUE: goes to the configuration, no field */
};

struct cli_pair {
	const char *key;
	const char *value;
};

/* NULL when text is fine, else what was expected ("a name of letters, digits and ._:@-"). */
typedef const char *cli_check_fn(const char *text);

struct cli_setting {
	const char *name; /* NULL ends a table */
	enum cli_type type;
	size_t at;	 /* where the value goes */
	size_t n_at;	 /* lists: where their length goes */
	const char *def; /* the default as the user would write it (lists: comma separated) */
	bool required;	 /* files: must be given */
	int64_t min,
		max; /* a max of 0 with min >= 0 is none; strings: of the length; lists: of each */
	const char *const *words;	 /* enums and INT: NULL ends them */
	cli_check_fn *check;		 /* STRING and STRINGS: looks at each text */
	const struct cli_setting *table; /* MAP, LIST: what is inside */
	size_t elem_size;		 /* LIST: of one struct */
	const char *unique; /* LIST: no two elements have the same text under this key */
	const char *help;

	/* Command line only. */
	char letter;	   /* -c */
	const char *value; /* what --help calls the value: FILE, URL; NULL takes the type's word */
	const char *env;   /* the environment variables that stand in for an absent option: the
			      first that is set, with blanks between their names */
	const char *path;  /* the option sets this key of the file, not a field */
	bool hidden;	   /* works, but --help does not show it */
};

#define CLI_END              \
	{                    \
		.name = NULL \
	}

#define CLI_STRING(s, f, n, ...)                                                        \
	{                                                                               \
		.name = (n), .type = CLI_TYPE_STRING, .at = CLI_AT(s, f, const char *), \
		__VA_ARGS__                                                             \
	}
#define CLI_FLAG(s, f, n, ...)                                                            \
	{                                                                                 \
		.name = (n), .type = CLI_TYPE_FLAG, .at = CLI_AT(s, f, bool), __VA_ARGS__ \
	}
#define CLI_INT(s, f, n, ...)                                                               \
	{                                                                                   \
		.name = (n), .type = CLI_TYPE_INT, .at = CLI_AT(s, f, int64_t), __VA_ARGS__ \
	}
#define CLI_PORT(s, f, n, ...)                                                                \
	{                                                                                     \
		.name = (n), .type = CLI_TYPE_PORT, .at = CLI_AT(s, f, uint16_t), __VA_ARGS__ \
	}
#define CLI_DURATION_MS(s, f, n, ...)                                                   \
	{                                                                               \
		.name = (n), .type = CLI_TYPE_DURATION_MS, .at = CLI_AT(s, f, int64_t), \
		__VA_ARGS__                                                             \
	}
#define CLI_DURATION_NS(s, f, n, ...)                                                   \
	{                                                                               \
		.name = (n), .type = CLI_TYPE_DURATION_NS, .at = CLI_AT(s, f, int64_t), \
		__VA_ARGS__                                                             \
	}
#define CLI_SIZE(s, f, n, ...)                                                                \
	{                                                                                     \
		.name = (n), .type = CLI_TYPE_SIZE, .at = CLI_AT(s, f, uint64_t), __VA_ARGS__ \
	}
#define CLI_ENUM(s, f, n, w, ...)                                                          \
	{                                                                                  \
		.name = (n), .type = CLI_TYPE_ENUM, .at = CLI_AT_ENUM(s, f), .words = (w), \
		__VA_ARGS__                                                                \
	}
#define CLI_STRINGS(s, f, nf, n, ...)                                                           \
	{                                                                                       \
		.name = (n), .type = CLI_TYPE_STRINGS, .at = CLI_AT(s, f, const char *const *), \
		.n_at = CLI_AT(s, nf, size_t), __VA_ARGS__                                      \
	}
#define CLI_SIZES(s, f, nf, n, ...)                                                        \
	{                                                                                  \
		.name = (n), .type = CLI_TYPE_SIZES, .at = CLI_AT(s, f, const uint64_t *), \
		.n_at = CLI_AT(s, nf, size_t), __VA_ARGS__                                 \
	}
#define CLI_ENUMS(s, f, nf, n, w, ...)                                                \
	{                                                                             \
		.name = (n), .type = CLI_TYPE_ENUMS, .at = CLI_AT(s, f, const int *), \
		.n_at = CLI_AT(s, nf, size_t), .words = (w), __VA_ARGS__              \
	}
#define CLI_PAIRS(s, f, nf, n, ...)                                                               \
	{                                                                                         \
		.name = (n), .type = CLI_TYPE_PAIRS, .at = CLI_AT(s, f, const struct cli_pair *), \
		.n_at = CLI_AT(s, nf, size_t), __VA_ARGS__                                        \
	}
#define CLI_MAP(s, f, n, t, ...)                                                                   \
	{                                                                                          \
		.name = (n), .type = CLI_TYPE_MAP, .at = offsetof(s, f), .table = (t), __VA_ARGS__ \
	}
#define CLI_LIST(s, f, nf, n, t, ...)                                                           \
	{                                                                                       \
		.name = (n), .type = CLI_TYPE_LIST, .at = offsetof(s, f),                       \
		.n_at = CLI_AT(s, nf, size_t), .table = (t), .elem_size = sizeof(*((s *)0)->f), \
		__VA_ARGS__                                                                     \
	}
/* The option NAME is another way to say the key p of the file; the file's table says its type and
 * default. */
#define CLI_KEY(n, p, ...)                                                     \
	{                                                                      \
		.name = (n), .type = CLI_TYPE_STRING, .path = (p), __VA_ARGS__ \
	}
/* Every program that has a configuration takes this one. */
#define CLI_SET                                                                         \
	{                                                                               \
		.name = "set", .type = CLI_TYPE_ASSIGN, .value = "KEY.PATH=VALUE",      \
		.help = "set a key of the configuration over the file; may be repeated" \
	}

/* offsetof, and an error from the compiler unless the field is a ctype. */
#define CLI_AT(s, f, ctype) \
	(offsetof(s, f) + 0 * sizeof(char[_Generic(((s *)0)->f, ctype : 1, default : -1)]))
#define CLI_AT_ENUM(s, f)                                                                          \
	(offsetof(s, f) + 0 * sizeof(char[_Generic(((s *)0)->f, int : 1, unsigned int : 1, default \
						   : -1)]))

struct cli_arena;

/*
 * Reads one text as the value of s into the struct at base; lists are comma separated. What it
 * allocates belongs to arena. 0, -ENOMEM, or -EINVAL with what was expected in why; the field is
 * written on success only.
 */
int cli_setting_parse(const struct cli_setting *s, const char *text, void *base,
		      struct cli_arena *arena, char *why, size_t why_len);

/* The same for n texts, one per element. PAIRS take KEY=VALUE texts. */
int cli_setting_parse_list(const struct cli_setting *s, const char *const *texts, size_t n,
			   void *base, struct cli_arena *arena, char *why, size_t why_len);

/* The parts between commas, *n of them; none for an empty text. NULL without memory. */
const char **cli_setting_split(struct cli_arena *arena, const char *text, size_t *n);

bool cli_setting_is_list(const struct cli_setting *s);

/* The kind of one element of a list, or of one value of pairs: a setting that is no list. */
struct cli_setting cli_setting_of_element(const struct cli_setting *s);

/* "a size such as 128KiB, at most 4GiB": what a value of s looks like. */
void cli_setting_expected(const struct cli_setting *s, char *out, size_t len);

/* The entry called name; NULL when the table has none. */
const struct cli_setting *cli_setting_find(const struct cli_setting *table, const char *name);

/* The entry at a path as "links.0.to"; NULL when the tables have none. */
const struct cli_setting *cli_setting_at_path(const struct cli_setting *table, const char *path);

#endif
