/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/once.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <base/utf8.h>
#include "redis/redis.h"
#include "redis/url.h"

void redis_once_end(struct redis_once *o, int result, const char *why)
{
	if (o->ended)
		return;
	o->ended = true;
	o->result = result;
	snprintf(o->why, sizeof(o->why), "%s", why);
	sl_utf8_make_printable(o->why);
	event_base_loopbreak(o->base);
}

void redis_once_end_by(struct redis_once *o, const redisReply *reply, const char *otherwise)
{
	redis_once_end(o, -EPROTO, reply->type == REDIS_REPLY_ERROR ? reply->str : otherwise);
}

static void on_up(void *arg, const char *run_id)
{
	struct redis_once *o = arg;

	(void)run_id;
	o->serves(o->arg);
}

static void on_down(void *arg)
{
	struct redis_once *o = arg;

	redis_once_end(o, -ENOTCONN, redis_trouble(o->redis));
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct redis_once *o = arg;

	(void)fd;
	(void)what;
	if (!o->ended && redis_trouble(o->redis))
		on_down(o);
}

/* Nothing was asked. */
static int fail(struct redis_once *o, int err)
{
	snprintf(o->why, sizeof(o->why), "%s", strerror(-err));
	return err;
}

static int run(struct redis_once *o)
{
	struct timeval tv = { .tv_sec = o->timeout_ms / 1000,
			      .tv_usec = (o->timeout_ms % 1000) * 1000 };
	struct redis_attr attr = { .url = o->url,
				   .name = o->name,
				   .timeout_ms = o->timeout_ms,
				   .max_inflight = o->max_inflight,
				   .tries = redis_url_tries(o->url),
				   .up = on_up,
				   .down = on_down,
				   .arg = o };
	int ret = redis_create(o->base, &attr, &o->redis);

	if (!ret)
		ret = event_base_once(o->base, -1, EV_TIMEOUT, on_late, o, &tv) ? -ENOMEM : 0;
	if (ret)
		return fail(o, ret);
	event_base_dispatch(o->base);
	return o->result;
}

int redis_once(struct redis_once *o)
{
	int ret;

	o->base = event_base_new();
	if (!o->base)
		return fail(o, -ENOMEM);
	ret = run(o);
	o->ended = true; /* what is still in flight asks for nothing more */
	redis_destroy(o->redis);
	/* The rest of a connection or a lookup ends in a turn. */
	event_base_loop(o->base, EVLOOP_NONBLOCK);
	event_base_free(o->base);
	return ret;
}
