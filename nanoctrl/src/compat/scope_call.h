/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of scripts on the keys that DLSlime's programs have in a scope. */
#ifndef NANOCTRL_COMPAT_SCOPE_CALL_H
#define NANOCTRL_COMPAT_SCOPE_CALL_H

#include "store/call.h"

/* Send a script with "scope:" as KEYS[1], or nothing for an empty scope; else as store_send(). */
void store_send_in_scope(struct store *store, struct store_text scope, const struct script *script,
			 size_t n, const struct store_text *args, store_finish_fn *finish,
			 union store_answer fn, void *arg);

#endif
