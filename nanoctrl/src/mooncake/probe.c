/* SPDX-License-Identifier: Apache-2.0 */
#include "mooncake/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/event.h>

struct probe {
	int fd;
	int error; /* of connect(), where that ended at once */
	struct event *event;
	probe_fn *fn;
	void *arg;
};

/* The length of the address; 0: text is none. */
static socklen_t read_address(const char *text, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		return 0;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	return sizeof(*v6);
}

void probe_cancel(struct probe *p)
{
	if (!p)
		return;
	if (p->event)
		event_free(p->event);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

static int error_of(const struct probe *p, short what)
{
	int error = p->error;
	socklen_t len = sizeof(error);

	if (error)
		return error;
	if (!(what & EV_WRITE))
		return ETIMEDOUT;
	return getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &len) ? errno : error;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct probe *p = arg;
	int error = error_of(p, what);
	probe_fn *fn = p->fn;
	void *fn_arg = p->arg;

	(void)fd;
	probe_cancel(p);
	fn(fn_arg, !error ? PROBE_ALIVE : error == ECONNREFUSED ? PROBE_REFUSED : PROBE_SILENT);
}

struct probe *probe_begin(struct event_base *base, const char *address, uint16_t port, probe_fn *fn,
			  void *arg)
{
	const struct timeval limit = { .tv_sec = PROBE_MS / 1000 };
	struct sockaddr_storage to;
	socklen_t len = read_address(address, port, &to);
	struct probe *p = len ? calloc(1, sizeof(*p)) : NULL;

	if (!p)
		return NULL;
	p->fn = fn;
	p->arg = arg;
	p->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	p->event = p->fd < 0 ? NULL : event_new(base, p->fd, EV_WRITE, on_event, p);
	if (!p->event || event_add(p->event, &limit)) {
		probe_cancel(p);
		return NULL;
	}
	if (connect(p->fd, (struct sockaddr *)&to, len) && errno != EINPROGRESS) {
		p->error = errno;
		event_active(p->event, EV_WRITE, 0);
	}
	return p;
}
