/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the keys that nanoctrl shares with programs of DLSlime. */
#ifndef NANOCTRL_COMPAT_FOREIGN_KEY_H
#define NANOCTRL_COMPAT_FOREIGN_KEY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a key is a native one of nanoctrl's. */
bool foreign_key_is_ours(const char *key, size_t len);

/* Whether a scope or a type of the compatible routes would name keys of another kind. */
bool foreign_key_reserved(const char *word, size_t len);

#endif
