/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/canceller.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/thread.h"

int canceller_init(struct canceller *c)
{
	sigset_t ends;
	int ret;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	*c = (struct canceller){ .signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK) };
	if (c->signals < 0)
		return -errno;
	c->quit = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->quit >= 0)
		return 0;
	ret = -errno;
	close(c->signals);
	return ret;
}

void canceller_fini(struct canceller *c)
{
	close(c->signals);
	close(c->quit);
}

bool canceller_is_asked(const struct canceller *c)
{
	struct pollfd p = { .fd = c->signals, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void *watch(void *arg)
{
	struct canceller *c = arg;
	struct pollfd fds[] = { { .fd = c->signals, .events = POLLIN },
				{ .fd = c->quit, .events = POLLIN } };

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (fds[0].revents)
		c->cancel();
	return NULL;
}

int canceller_watch(struct canceller *c, void (*cancel)(void))
{
	int ret;

	if (!cancel)
		return 0;
	c->cancel = cancel;
	ret = sl_thread_create(&c->thread, "slime-cancel", watch, c);
	if (ret)
		c->cancel = NULL;
	return ret;
}

void canceller_rest(struct canceller *c)
{
	eventfd_t n;

	if (!c->cancel)
		return;
	eventfd_write(c->quit, 1);
	pthread_join(c->thread, NULL);
	eventfd_read(c->quit, &n);
	c->cancel = NULL;
}
