/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/thread.h"

int sl_thread_create(pthread_t *out, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(out, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!ret)
		pthread_setname_np(*out, name);
	return -ret;
}
