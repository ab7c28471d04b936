/* SPDX-License-Identifier: Apache-2.0 */
/* The results that slime-bench printed with --json, in the files of a directory: DIR/page*.json. */
#ifndef BENCH_SHEET_H
#define BENCH_SHEET_H

#include <jansson.h>
#include <stddef.h>

#define SHEETS_MAX	32
#define SHEET_TITLE_MAX 300

/* One result. */
struct sheet {
	json_t *root, *run, *rows;
};

struct sheets {
	struct sheet all[SHEETS_MAX];
	size_t n;
};

/*
 * Read the results of a command, "page" or "transfer", of which wanted() says whether they are
 * drawn (NULL: all). sheets_free() follows in any case. 0; -ENOENT: there is none; -EINVAL after it
 * said which file is no such result; -E2BIG, -EIO, -ENAMETOOLONG.
 */
int sheets_read(struct sheets *s, const char *dir, const char *command,
		int (*wanted)(const struct sheet *sheet));
void sheets_free(struct sheets *s);

/* A member of an object; 0 or "" where there is none. */
double sheet_number(const json_t *object, const char *key);
const char *sheet_text(const json_t *object, const char *key);

/* "HOST, CPU, DATE" of where the first was measured, for between quotes. */
void sheets_host(const struct sheets *s, char out[SHEET_TITLE_MAX]);

#endif
