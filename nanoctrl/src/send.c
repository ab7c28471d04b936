/* SPDX-License-Identifier: Apache-2.0 */
#include "send.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

void send_begin(struct bufferevent *bev)
{
	bufferevent_disable(bev, EV_WRITE);
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
	evbuffer_write(out, bufferevent_getfd(bev));
	evbuffer_freeze(out, 1);
	if (!evbuffer_get_length(out))
		return true;
	bufferevent_enable(bev, EV_WRITE);
	return false;
}
