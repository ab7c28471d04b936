/* SPDX-License-Identifier: Apache-2.0 */
/* The Lua scripts for keys of DLSlime's programs (compat/lua), as store/script.h has the others. */
#ifndef NANOCTRL_COMPAT_SCRIPT_H
#define NANOCTRL_COMPAT_SCRIPT_H

#include "store/script.h"

enum compat_script_id {
	COMPAT_ENTITY_PUT,
	COMPAT_ENTITY_BEAT,
	COMPAT_ENTITY_DELETE,
	COMPAT_ENTITY_GET,
	COMPAT_ENTITY_LIST,
	COMPAT_ENTITY_SWEEP,
	COMPAT_PEER_REGISTER,
	COMPAT_PEER_LIST,
	COMPAT_PEER_CLEANUP,
	COMPAT_PEER_SWEEP,
	COMPAT_PEER_TOPOLOGY,
	COMPAT_PEER_MR_PUT,
	COMPAT_PEER_MR_GET,
	COMPAT_PEER_LEARN,
	N_COMPAT_SCRIPTS
};

extern const struct script compat_scripts[];

#endif
