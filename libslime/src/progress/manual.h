/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor of a manual context, on which its program sleeps: an epoll set of the context's
 * poller and of its completions. A thread of the program that waits for an op sleeps on the poller
 * alone.
 */
#ifndef SL_MANUAL_H
#define SL_MANUAL_H

#include <stdbool.h>

struct slime_context;

/* 0, or epoll's error. Of a context that is not manual the descriptor is -1. */
int sl_manual_open(struct slime_context *ctx);
void sl_manual_close(struct slime_context *ctx);

/* Whether the descriptor is readable, too, when there is something to poll. Any thread. */
void sl_manual_tell(struct slime_context *ctx, bool tell);

#endif
