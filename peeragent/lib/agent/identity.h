/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of an agent: its process, and its owner across processes. */
#ifndef AGENT_IDENTITY_H
#define AGENT_IDENTITY_H

#include "peeragent/lib/control/ctrl.h"

/* Of scope and name together, with an owner key: it is in a file of these names. */
#define IDENTITY_NAMES_MAX 243

struct identity {
	char incarnation[CTRL_INCARNATION_MAX + 1]; /* of this process */
	char owner_key[CTRL_OWNER_KEY_LEN + 1];	    /* hexadecimal, a secret */
};

/*
 * A new incarnation, and the owner key of scope and name in state_dir: made there (0600) when it is
 * not, invented for this process when state_dir is NULL. Errors are logged:
 *   -EACCES  the key file can be read by others, or nothing can be made there
 *   -EPROTO  it does not hold a key        other  of getrandom, mkdir, open, read, write
 */
int identity_load(struct identity *id, const char *state_dir, const char *scope, const char *name);

#endif
