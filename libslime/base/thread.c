/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/thread.h"

/* Signals that a thread's own instructions raise; if they are blocked, they end the process without
 * its handler. */
static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

int sl_thread_create(pthread_t *out, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t of_others, before;
	int ret;

	sigfillset(&of_others);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&of_others, faults[i]);
	pthread_sigmask(SIG_SETMASK, &of_others, &before);
	ret = pthread_create(out, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!ret)
		pthread_setname_np(*out, name);
	return -ret;
}
