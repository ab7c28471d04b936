/* SPDX-License-Identifier: Apache-2.0 */
#include "mooncake/key.h"

#include <stdio.h>
#include <string.h>

#define ROOT "mooncake/"

static const char *const names[] = { [MOONCAKE_RPC_META] = "rpc_meta", [MOONCAKE_RAM] = "ram" };

#define N_FIELDS (sizeof(names) / sizeof(names[0]))

const char *mooncake_field_name(enum mooncake_field field)
{
	return names[field];
}

static bool is_printable(const char *text)
{
	while (*text > ' ' && *text <= '~')
		text++;
	return !*text;
}

/* "FIELD/NAME", NAME not empty: where NAME begins, or NULL. */
static const char *after_field(const char *text, enum mooncake_field *field)
{
	for (size_t i = 0; i < N_FIELDS; i++) {
		size_t len = strlen(names[i]);

		if (strncmp(text, names[i], len) != 0 || text[len] != '/' || !text[len + 1])
			continue;
		*field = (enum mooncake_field)i;
		return text + len + 1;
	}
	return NULL;
}

bool mooncake_key_parse(const char *text, struct mooncake_key *out)
{
	const char *id = text + strlen(ROOT), *name, *slash;

	if (strnlen(text, MOONCAKE_KEY_MAX + 1) > MOONCAKE_KEY_MAX || !is_printable(text) ||
	    strncmp(text, ROOT, strlen(ROOT)) != 0)
		return false;
	name = after_field(id, &out->field);
	if (name) {
		strcpy(out->engine, name);
		return true;
	}
	slash = strchr(id, '/');
	name = slash && slash > id ? after_field(slash + 1, &out->field) : NULL;
	if (!name)
		return false;
	snprintf(out->engine, sizeof(out->engine), "%.*s/%s", (int)(slash - id), id, name);
	return true;
}
