/* SPDX-License-Identifier: Apache-2.0 */
/* The Lua scripts in the binary: each is one atomic operation of the store (nanoctrl/lua). */
#ifndef NANOCTRL_SCRIPT_H
#define NANOCTRL_SCRIPT_H

#include <stddef.h>

enum script_id {
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
	SCRIPT_REAP,
	SCRIPT_ENTITY_PUT,
	SCRIPT_ENTITY_BEAT,
	SCRIPT_ENTITY_DELETE,
	SCRIPT_ENTITY_GET,
	SCRIPT_ENTITY_LIST,
	SCRIPT_ENTITY_SWEEP,
	SCRIPT_PEER_REGISTER,
	SCRIPT_PEER_LIST,
	SCRIPT_PEER_CLEANUP,
	SCRIPT_PEER_TOPOLOGY,
	SCRIPT_PEER_MR_PUT,
	SCRIPT_PEER_MR_GET,
	N_SCRIPTS
};

struct script {
	const char *name;
	const char *sha1; /* as EVALSHA wants it */
	const unsigned char *text;
	size_t len;
};

extern const struct script scripts[N_SCRIPTS];

#endif
