/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "cli/process/pipe.h"

int cli_pipe_await(int fd, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;
	int n;

	do {
		now = sl_clock_ns();
		if (now >= deadline_ns)
			return 0;
		n = poll(&p, 1, (int)((deadline_ns - now) / SL_NS_PER_MS) + 1);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? p.revents : 0;
}
