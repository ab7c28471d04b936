/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of DLSlime's agents, which give no password, in the private Redis. */
#ifndef NANOCTRL_STORE_GUEST_H
#define NANOCTRL_STORE_GUEST_H

#include "redis/redis.h"

/* Give the user `default` these rights and no others; what comes of it as of redis_command(). */
int guest_admit(struct redis *redis, redis_reply_fn *fn, void *arg);

#endif
