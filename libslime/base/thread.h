/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library in the program of a user. */
#ifndef SL_BASE_THREAD_H
#define SL_BASE_THREAD_H

#include <pthread.h>

/* Begin one. Signals that others send are the program's, never its. name is what ps(1) shows, at
 * most 15 bytes. A negative errno of pthread_create(3). */
int sl_thread_create(pthread_t *out, const char *name, void *(*run)(void *), void *arg);

#endif
