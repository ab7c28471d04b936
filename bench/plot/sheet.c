/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/plot/sheet.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bench/plot/gnuplot.h"

double sheet_number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

const char *sheet_text(const json_t *object, const char *key)
{
	const char *t = json_string_value(json_object_get(object, key));

	return t ? t : "";
}

static int find(const char *dir, const char *command, glob_t *out)
{
	char pattern[PATH_MAX];

	if (snprintf(pattern, sizeof(pattern), "%s/%s*.json", dir, command) >= (int)sizeof(pattern))
		return -ENAMETOOLONG;
	switch (glob(pattern, 0, NULL, out)) {
	case 0:
		return 0;
	case GLOB_NOMATCH:
		return -ENOENT;
	default:
		return -EIO;
	}
}

static int read_sheet(struct sheet *s, const char *path, const char *command)
{
	json_error_t why;

	s->root = json_load_file(path, 0, &why);
	s->run = json_object_get(s->root, "run");
	s->rows = json_object_get(s->root, "rows");
	if (s->root && !strcmp(sheet_text(s->root, "bench"), command) && json_is_object(s->run) &&
	    json_is_object(json_array_get(s->rows, 0)))
		return 0;
	fprintf(stderr, "slime-bench: %s: expected what %s --json prints%s%s\n", path, command,
		s->root ? "" : ": ", s->root ? "" : why.text);
	json_decref(s->root);
	return -EINVAL;
}

static int take(struct sheets *s, const char *path, const char *command,
		int (*wanted)(const struct sheet *sheet))
{
	struct sheet one;
	int ret = read_sheet(&one, path, command);

	if (ret)
		return ret;
	if (wanted && !wanted(&one)) {
		json_decref(one.root);
		return 0;
	}
	if (s->n == SHEETS_MAX) {
		json_decref(one.root);
		return -E2BIG;
	}
	s->all[s->n++] = one;
	return 0;
}

int sheets_read(struct sheets *s, const char *dir, const char *command,
		int (*wanted)(const struct sheet *sheet))
{
	glob_t found;
	int ret = find(dir, command, &found);

	s->n = 0;
	if (ret)
		return ret;
	for (size_t i = 0; i < found.gl_pathc && !ret; i++)
		ret = take(s, found.gl_pathv[i], command, wanted);
	globfree(&found);
	return ret ? ret : s->n ? 0 : -ENOENT;
}

void sheets_free(struct sheets *s)
{
	for (size_t i = 0; i < s->n; i++)
		json_decref(s->all[i].root);
	s->n = 0;
}

void sheets_host(const struct sheets *s, char out[SHEET_TITLE_MAX])
{
	const json_t *run = s->all[0].run;
	char raw[SHEET_TITLE_MAX];

	snprintf(raw, sizeof(raw), "%s, %s, %s", sheet_text(run, "host"), sheet_text(run, "cpu"),
		 sheet_text(run, "date"));
	gnuplot_quote(out, SHEET_TITLE_MAX, raw);
}
