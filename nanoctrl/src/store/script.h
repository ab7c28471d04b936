/* SPDX-License-Identifier: Apache-2.0 */
/* The Lua scripts in the binary: each is one atomic operation of the store (nanoctrl/lua). */
#ifndef NANOCTRL_SCRIPT_H
#define NANOCTRL_SCRIPT_H

#include <stddef.h>

enum script_id {
	SCRIPT_SCHEMA,
	SCRIPT_REGISTER,
	SCRIPT_BEAT,
	SCRIPT_UPDATE,
	SCRIPT_LEAVE,
	SCRIPT_AGENT,
	SCRIPT_AGENTS,
	SCRIPT_PUT,
	SCRIPT_DELETE,
	SCRIPT_OBJECT,
	SCRIPT_OBJECTS,
	SCRIPT_OFFER_PUT,
	SCRIPT_OFFER_DELETE,
	SCRIPT_OFFER_GET,
	SCRIPT_OFFER_LIST,
	SCRIPT_SESSION_OPEN,
	SCRIPT_SESSION_LOSE,
	SCRIPT_EVENTS,
	SCRIPT_EVENTS_LAST,
	SCRIPT_REAP,
	SCRIPT_SNAPSHOT_PUT,
	SCRIPT_SNAPSHOT_LIST,
	SCRIPT_SNAPSHOT_SWEEP,
	SCRIPT_SCOPES,
	SCRIPT_TOPOLOGIES,
	SCRIPT_TOPOLOGY_PUT,
	SCRIPT_TOPOLOGY_COMMIT,
	SCRIPT_TOPOLOGY_SCOPES,
	SCRIPT_WANTED,
	SCRIPT_WANTED_LISTS,
	N_SCRIPTS
};

struct script {
	const char *name;
	const char *sha1; /* as EVALSHA wants it */
	const unsigned char *text;
	size_t len;
};

extern const struct script scripts[];

#endif
