/* SPDX-License-Identifier: Apache-2.0 */
/* docs/config.md and the table of settings say the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/src/config.h"

static char page[65536];

static int read_page(void **state)
{
	const char *source = getenv("SLIME_SOURCE");
	char path[4096];
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/docs/config.md", source ? source : ".");
	f = fopen(path, "r");
	if (!f)
		return -1;
	page[fread(page, 1, sizeof(page) - 1, f)] = '\0';
	fclose(f);
	return 0;
}

static void expect_row(const char *path, const struct cli_setting *s)
{
	char row[512];

	if (s->required)
		snprintf(row, sizeof(row), "\n| `%s` | required |", path);
	else if (s->def)
		snprintf(row, sizeof(row), "\n| `%s` | `%s` |", path, s->def);
	else
		snprintf(row, sizeof(row), "\n| `%s` | ", path);
	if (!strstr(page, row))
		fail_msg("docs/config.md lacks the line:%s", row);
}

static unsigned walk(const struct cli_setting *table, const char *prefix)
{
	unsigned n = 0;

	for (const struct cli_setting *s = table; s->name; s++) {
		char path[256];

		snprintf(path, sizeof(path), "%s%s%s", prefix, s->name,
			 s->type == CLI_TYPE_LIST  ? "[]."
			 : s->type == CLI_TYPE_MAP ? "."
						   : "");
		if (s->table) {
			n += walk(s->table, path);
			continue;
		}
		expect_row(path, s);
		n++;
	}
	return n;
}

static void reference__has_every_key_with_its_default_and_no_other(void **state)
{
	unsigned rows = 0;

	(void)state;
	for (const char *at = strstr(page, "\n## Keys"); at < strstr(page, "\n## Changing"); at++)
		rows += !strncmp(at, "\n| `", 4);
	assert_int_equal(walk(node_settings, ""), rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reference__has_every_key_with_its_default_and_no_other),
	};

	return cmocka_run_group_tests(tests, read_page, NULL);
}
