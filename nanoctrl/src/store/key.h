/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the native keys, and which names are names. Everything of a scope begins with
 * "{scope}:nanoctrl:"; what follows is built in nanoctrl/lua/lib.lua, from components that carry
 * their length. In a Redis Cluster KEY_CLUSTER_ROOT stands before every key, so that all are in one
 * slot. docs/redis-keys.md lists them all.
 */
#ifndef NANOCTRL_KEY_H
#define NANOCTRL_KEY_H

#include <stdbool.h>
#include <stddef.h>

#define KEY_NAME_MAX 253
/* No scope's prefix is this one, since "nanoctrl" is a reserved word. */
#define KEY_CLUSTER_ROOT "{nanoctrl}:"
#define KEY_CLUSTER_SLOT 16027 /* CRC16 of "nanoctrl", modulo 16384 */

#define KEY_PREFIX_MAX (KEY_NAME_MAX + sizeof(KEY_CLUSTER_ROOT "{}:nanoctrl:"))

/* The keys that are of no scope. */
struct key_names {
	char root[16];	  /* stands before all keys: "", or KEY_CLUSTER_ROOT */
	char scopes[48];  /* set of the scopes that hold anything */
	char ends[48];	  /* sorted set of scopes by when the first lease ends, or sooner */
	char schema[48];  /* the data's run: nanoctrl/lua/schema.lua */
	char run[48];	  /* which life of Redis it was last in: the same */
	char nothing[48]; /* never there */
	char wake[48];	  /* pattern of channels: something happened in a scope */
};

void key_names_init(struct key_names *names, bool cluster);

/* ROOT"{scope}:nanoctrl:"; the scope is valid. */
void key_prefix(char out[KEY_PREFIX_MAX], const struct key_names *names, const char *scope);

/* The scope of a wake channel's name; false when that is no such name. */
bool key_wake_scope(const struct key_names *names, const char *channel, size_t len,
		    char out[KEY_NAME_MAX + 1]);

/* Of agents, regions, services, profiles: [A-Za-z0-9._:@-], 1 to 253 bytes. */
bool key_name_valid(const char *name);

/* The same without ':', and none of the reserved words. */
bool key_scope_valid(const char *scope);

/* Whether it is one of those words. */
bool key_reserved(const char *bytes, size_t len);

#endif
