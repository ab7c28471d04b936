/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench/agents/interrupt.h"
#include "cli/process/signals.h"

#define STOP_TIMEOUT_MS 3000

static const int stopping[] = { SIGINT, SIGTERM };

int interrupt_init(struct interrupt *in)
{
	*in = (struct interrupt){ 0 };
	in->quit = eventfd(0, EFD_CLOEXEC);
	if (in->quit < 0)
		return -errno;
	in->signals = cli_signals_open(stopping, sizeof(stopping) / sizeof(stopping[0]));
	if (in->signals < 0) {
		close(in->quit);
		return in->signals;
	}
	return 0;
}

static void *watch(void *arg)
{
	struct interrupt *in = arg;
	struct pollfd fds[] = { { .fd = in->signals, .events = POLLIN },
				{ .fd = in->quit, .events = POLLIN } };
	int sig = 0;

	while (!sig && !fds[1].revents) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents)
			sig = cli_signals_read(in->signals);
	}
	if (sig > 0) {
		atomic_store(&in->caught, sig);
		cli_signals_let_kill();
		slime_agent_stop(in->agent, STOP_TIMEOUT_MS);
	}
	return NULL;
}

int interrupt_watch(struct interrupt *in, struct slime_agent *agent)
{
	int ret;

	in->agent = agent;
	ret = -pthread_create(&in->thread, NULL, watch, in);
	in->watching = !ret;
	return ret;
}

int interrupt_fini(struct interrupt *in)
{
	if (in->watching) {
		eventfd_write(in->quit, 1);
		pthread_join(in->thread, NULL);
	}
	cli_signals_close(in->signals);
	close(in->quit);
	return atomic_load(&in->caught);
}
