/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/send.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

void send_begin(struct bufferevent *bev)
{
	bufferevent_disable(bev, EV_WRITE);
}

/* One piece, as nearly every reply is, goes by the system call that takes one. */
static void write_some(struct evbuffer *out, int fd)
{
	struct evbuffer_iovec v[2]; /* libevent counts no further than these */
	ssize_t n;

	if (evbuffer_peek(out, -1, NULL, v, 2) != 1) {
		evbuffer_write(out, fd);
		return;
	}
	n = send(fd, v[0].iov_base, v[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		evbuffer_drain(out, (size_t)n);
}

bool send_now(struct bufferevent *bev)
{
	struct evbuffer *out = bufferevent_get_output(bev);

	if (!evbuffer_get_length(out))
		return true;
	if (bufferevent_get_enabled(bev) & EV_WRITE)
		return false;
	/* A bufferevent keeps others from taking from its output; here it has nothing under way. */
	evbuffer_unfreeze(out, 1);
	write_some(out, bufferevent_getfd(bev));
	evbuffer_freeze(out, 1);
	if (!evbuffer_get_length(out))
		return true;
	bufferevent_enable(bev, EV_WRITE);
	return false;
}
