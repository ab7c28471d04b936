/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/scope_call.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* "scope:", or nothing without a scope; the caller frees at. */
static struct store_text prefix_of(struct store_text scope)
{
	struct store_text p = { NULL, scope.len ? scope.len + 1 : 0 };
	char *at = malloc(p.len + 1);

	if (!at)
		return p;
	if (scope.len) {
		memcpy(at, scope.at, scope.len);
		at[scope.len] = ':';
	}
	p.at = at;
	return p;
}

void store_send_in_scope(struct store *store, struct store_text scope, const struct script *script,
			 size_t n, const struct store_text *args, store_finish_fn *finish,
			 union store_answer fn, void *arg)
{
	struct store_text prefix = prefix_of(scope);
	struct store_call failed = { .store = store, .fn = fn, .arg = arg };

	if (prefix.at)
		store_send_prefixed(store, prefix, script, n, args, finish, fn, arg);
	else
		finish(&failed, -ENOMEM, NULL);
	free((char *)(uintptr_t)prefix.at);
}
