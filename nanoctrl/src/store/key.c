/* SPDX-License-Identifier: Apache-2.0 */
#include "store/key.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-"

/* The first words of other keys in the same Redis. */
static const char *const reserved[] = {
	"agent", "mr", "stream", "spec", "exchange", "obs", "inbox", "nanoctrl",
};

bool key_reserved(const char *bytes, size_t len)
{
	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		if (len == strlen(reserved[i]) && !memcmp(bytes, reserved[i], len))
			return true;
	return false;
}

static bool made_of(const char *name, const char *bytes)
{
	size_t len = strnlen(name, KEY_NAME_MAX + 1);

	return len >= 1 && len <= KEY_NAME_MAX && strspn(name, bytes) == len;
}

bool key_name_valid(const char *name)
{
	return made_of(name, NAME_BYTES ":");
}

bool key_scope_valid(const char *scope)
{
	if (!made_of(scope, NAME_BYTES))
		return false;
	return !key_reserved(scope, strlen(scope));
}

static void set_name(char out[48], const struct key_names *names, const char *name)
{
	snprintf(out, 48, "%s%s", names->root, name);
}

void key_names_init(struct key_names *names, bool cluster)
{
	snprintf(names->root, sizeof(names->root), "%s", cluster ? KEY_CLUSTER_ROOT : "");
	set_name(names->scopes, names, "nanoctrl:scopes");
	set_name(names->ends, names, "nanoctrl:ends");
	set_name(names->schema, names, "nanoctrl:schema");
	set_name(names->run, names, "nanoctrl:run");
	set_name(names->nothing, names, "nanoctrl:nothing");
	set_name(names->wake, names, "{*}:nanoctrl:wake");
}

void key_prefix(char out[KEY_PREFIX_MAX], const struct key_names *names, const char *scope)
{
	snprintf(out, KEY_PREFIX_MAX, "%s{%s}:nanoctrl:", names->root, scope);
}

bool key_wake_scope(const struct key_names *names, const char *channel, size_t len,
		    char out[KEY_NAME_MAX + 1])
{
	static const char tail[] = "}:nanoctrl:wake";
	size_t tail_len = sizeof(tail) - 1;
	size_t root_len = strlen(names->root);
	size_t scope_len;

	if (len < root_len + 1 + tail_len || memcmp(channel, names->root, root_len) != 0)
		return false;
	channel += root_len;
	len -= root_len;
	if (channel[0] != '{' || memcmp(channel + len - tail_len, tail, tail_len) != 0)
		return false;
	scope_len = len - 1 - tail_len;
	if (scope_len > KEY_NAME_MAX)
		return false;
	memcpy(out, channel + 1, scope_len);
	out[scope_len] = '\0';
	return key_scope_valid(out);
}
