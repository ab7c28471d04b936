/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/foreign_key.h"

#include <string.h>
#include "store/key.h"

/* Beside those that are no scope of /v1 either. */
static const char *const reserved[] = { "nano_meta", "nano_events", "agent_name_counter" };

/* A native key begins with its scope in braces. */
bool foreign_key_is_ours(const char *key, size_t len)
{
	static const char name[] = "nanoctrl:";
	size_t n = sizeof(name) - 1;

	return (len && *key == '{') || (len >= n && memcmp(key, name, n) == 0);
}

bool foreign_key_reserved(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		if (len == strlen(reserved[i]) && !memcmp(word, reserved[i], len))
			return true;
	return key_reserved(word, len) || foreign_key_is_ours(word, len);
}
