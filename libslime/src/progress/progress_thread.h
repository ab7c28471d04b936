/* SPDX-License-Identifier: Apache-2.0 */
/* The context's thread, which serves while no caller does. */
#ifndef SL_PROGRESS_THREAD_H
#define SL_PROGRESS_THREAD_H

#include "src/progress/progress.h"

/* Negative errno of the eventfd, the thread or its binding; nothing is left behind then. */
int sl_thread_start(struct slime_context *ctx);
void sl_thread_stop(struct slime_context *ctx);

/* It sleeps on the poller, or is about to: it comes back. */
void sl_thread_wake(struct sl_progress *p);

#endif
