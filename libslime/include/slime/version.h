/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLIME_VERSION_H
#define SLIME_VERSION_H

#include <slime/export.h>

SLIME_BEGIN_DECLS

#define SLIME_VERSION_MAJOR 0
#define SLIME_VERSION_MINOR 1
#define SLIME_VERSION_PATCH 0

/* The version of the library in use, "0.1.0"; static, never NULL. */
SLIME_API const char *slime_version(void);

SLIME_END_DECLS

#endif
