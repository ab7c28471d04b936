/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal to end may come while the main thread prepares services, which takes minutes where they
 * fill memory: another thread tells the service that is being prepared. The signal stays pending,
 * for the thread that reads it later.
 */
#ifndef PEERAGENT_CANCELLER_H
#define PEERAGENT_CANCELLER_H

#include <pthread.h>
#include <stdbool.h>

struct canceller {
	int signals; /* descriptors */
	int quit;
	void (*cancel)(void);
	pthread_t thread;
};

/* When the signals are blocked. 0, a negative errno. */
int canceller_init(struct canceller *c);
void canceller_fini(struct canceller *c);

/* Whether a signal to end has come. */
bool canceller_is_asked(const struct canceller *c);

/* From here to canceller_rest() cancel is called when such a signal comes, or has come: at most
 * once, on another thread. NULL: nothing is. 0, a negative errno. */
int canceller_watch(struct canceller *c, void (*cancel)(void));
void canceller_rest(struct canceller *c);

#endif
