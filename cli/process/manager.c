/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/process/manager.h"

static int manager_address(const char *name, struct sockaddr_un *out, socklen_t *len)
{
	size_t n = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(out->sun_path))
		return -EINVAL;
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(out->sun_path, name, n);
	if (name[0] == '@')
		out->sun_path[0] = '\0';
	/* the name of an abstract socket has no end but its length */
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (name[0] == '/'));
	return 0;
}

int cli_manager_tell(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address;
	socklen_t len;
	int fd, ret;

	if (!name || !name[0])
		return 0;
	ret = manager_address(name, &address, &len);
	if (ret)
		return ret;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, len) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int cli_manager_tell_reloading(void)
{
	char state[CLI_MANAGER_STATE_MAX];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(sl_clock_ns() / 1000));
	return cli_manager_tell(state);
}

/* A variable that is a number and nothing else; 0 when it is not. */
static unsigned long long number_of(const char *variable)
{
	const char *text = getenv(variable);
	unsigned long long value;
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	return errno || *end ? 0 : value;
}

unsigned cli_manager_watchdog_ms(void)
{
	unsigned long long us = number_of("WATCHDOG_USEC");
	unsigned long long ms = us / 2 / 1000;

	/* the variables may have come through a process that was meant */
	if (!us || (getenv("WATCHDOG_PID") && number_of("WATCHDOG_PID") != (unsigned)getpid()))
		return 0;
	if (ms < 1)
		return 1;
	return ms < 3600000 ? (unsigned)ms : 3600000;
}

int cli_manager_directory(const char *variable, char *out, size_t room)
{
	const char *text = getenv(variable);
	size_t len = text ? strcspn(text, ":") : 0;

	if (!len || text[0] != '/')
		return -ENOENT;
	if (len >= room)
		return -ENAMETOOLONG;
	memcpy(out, text, len);
	out[len] = '\0';
	return 0;
}
