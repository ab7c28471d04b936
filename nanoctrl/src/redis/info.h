/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redis reports about itself with INFO. */
#ifndef NANOCTRL_REDIS_INFO_H
#define NANOCTRL_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/url.h"

/* The value of a line "name:value", cut to size; "" when there is none. */
void redis_info_value(const char *info, const char *name, char *out, size_t size);

/* Whether its data have more than three quarters of its maxmemory. */
bool redis_info_crowded(const char *info);

/* Whether it cannot serve a client that asked for a server of this kind; why has the reason. A
 * missing value is taken for good. */
bool redis_info_unfit(const char *info, enum redis_kind kind, char *why, size_t size);

#endif
