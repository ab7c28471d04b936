/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the native keys, and which names are names. Everything of a scope begins with
 * "{scope}:nanoctrl:"; what follows is built in nanoctrl/lua/lib.lua, from components that carry
 * their length. docs/redis-keys.md lists them all.
 */
#ifndef NANOCTRL_KEY_H
#define NANOCTRL_KEY_H

#include <stdbool.h>
#include <stddef.h>

#define KEY_NAME_MAX   253
#define KEY_PREFIX_MAX (KEY_NAME_MAX + sizeof("{}:nanoctrl:"))

#define KEY_SCOPES	 "nanoctrl:scopes"   /* set of the scopes that hold anything */
#define KEY_SCHEMA	 "nanoctrl:schema"   /* whose data this is: nanoctrl/lua/schema.lua */
#define KEY_WAKE_PATTERN "{*}:nanoctrl:wake" /* pub/sub: something happened in a scope */

/* "{scope}:nanoctrl:"; the scope is valid. */
void key_prefix(char out[KEY_PREFIX_MAX], const char *scope);

/* The scope of a wake channel's name; false when that is no such name. */
bool key_wake_scope(const char *channel, size_t len, char out[KEY_NAME_MAX + 1]);

/* Of agents, regions, services, profiles: [A-Za-z0-9._:@-], 1 to 253 bytes. */
bool key_name_valid(const char *name);

/* The same without ':', and none of the reserved words. */
bool key_scope_valid(const char *scope);

/* Whether a scope or a type of the compatible routes would reach into keys of another kind. */
bool key_reserved(const char *bytes, size_t len);

#endif
