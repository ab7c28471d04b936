/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_obs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <base/utf8.h>
#include "redis.h"
#include "redis_url.h"

#define PER_STEP "1000"
#define WORD	 "obs:peer:"

struct reading {
	struct event_base *base;
	struct redis *redis;
	struct redis_obs_report *report;
	const char *const *prefixes;
	size_t n_prefixes;
	int (*found)(void *arg, const char *text, size_t len);
	void *arg;
	char cursor[24];
	bool more, ended;
	int result;
};

static void step(struct reading *r);

static void end(struct reading *r, int result, const char *why)
{
	if (r->ended)
		return;
	r->ended = true;
	r->result = result;
	snprintf(r->report->why, sizeof(r->report->why), "%s", why);
	sl_utf8_make_printable(r->report->why);
	event_base_loopbreak(r->base);
}

static void go_on(struct reading *r)
{
	if (r->more)
		step(r);
	else
		end(r, 0, "");
}

static const char *error_of(const redisReply *reply, const char *otherwise)
{
	return reply->type == REDIS_REPLY_ERROR ? reply->str : otherwise;
}

/* {value, ...}, nil for what is no string */
static void on_values(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;
	int ret = 0;

	if (result || r->ended)
		return; /* on_down() ends it */
	if (reply->type != REDIS_REPLY_ARRAY) {
		end(r, -EPROTO, error_of(reply, "no answer to MGET"));
		return;
	}
	for (size_t i = 0; i < reply->elements && !ret; i++) {
		const redisReply *v = reply->element[i];

		if (v->type == REDIS_REPLY_STRING)
			ret = r->found(r->arg, v->str, (size_t)v->len);
	}
	if (ret)
		end(r, ret, "out of memory");
	else
		go_on(r);
}

static bool is_wanted(const struct reading *r, const redisReply *key)
{
	if (key->type != REDIS_REPLY_STRING)
		return false;
	for (size_t i = 0; i < r->n_prefixes; i++) {
		size_t len = strlen(r->prefixes[i]);

		if ((size_t)key->len > len + strlen(WORD) &&
		    !memcmp(key->str, r->prefixes[i], len) &&
		    !memcmp(key->str + len, WORD, strlen(WORD)))
			return true;
	}
	return false;
}

/* The values of those of a portion's keys that are wanted. */
static int ask_values(struct reading *r, const redisReply *keys)
{
	const char **args = calloc(keys->elements + 1, sizeof(*args));
	size_t *lens = calloc(keys->elements + 1, sizeof(*lens));
	int n = 1, ret = args && lens ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < keys->elements; i++) {
		if (!is_wanted(r, keys->element[i]))
			continue;
		args[n] = keys->element[i]->str;
		lens[n++] = (size_t)keys->element[i]->len;
	}
	if (!ret && n > 1) {
		args[0] = "MGET";
		lens[0] = 4;
		ret = redis_command(r->redis, n, args, lens, on_values, r);
	}
	free(args);
	free(lens);
	return ret ? ret : n - 1;
}

/* {cursor, {key, ...}} */
static void on_scan(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;
	int asked;

	if (result || r->ended)
		return;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY) {
		end(r, -EPROTO, error_of(reply, "no answer to SCAN"));
		return;
	}
	snprintf(r->cursor, sizeof(r->cursor), "%.20s", reply->element[0]->str);
	r->more = strcmp(r->cursor, "0") != 0;
	asked = ask_values(r, reply->element[1]);
	if (asked < 0)
		end(r, asked, "out of memory");
	else if (!asked)
		go_on(r);
}

static void step(struct reading *r)
{
	const char *args[] = { "SCAN", r->cursor, "MATCH", "*" WORD "*", "COUNT", PER_STEP };

	if (redis_command(r->redis, 6, args, NULL, on_scan, r))
		end(r, -ENOMEM, "out of memory");
}

/* {seconds, microseconds} */
static void on_time(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;

	if (result || r->ended)
		return;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING) {
		end(r, -EPROTO, error_of(reply, "no answer to TIME"));
		return;
	}
	r->report->now_ms = strtoull(reply->element[0]->str, NULL, 10) * 1000 +
			    strtoull(reply->element[1]->str, NULL, 10) / 1000;
	step(r);
}

static void on_up(void *arg, const char *run_id)
{
	struct reading *r = arg;
	const char *args[] = { "TIME" };

	(void)run_id;
	if (redis_command(r->redis, 1, args, NULL, on_time, r))
		end(r, -ENOMEM, "out of memory");
}

static void on_down(void *arg)
{
	struct reading *r = arg;

	end(r, -ENOTCONN, redis_trouble(r->redis));
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct reading *r = arg;

	(void)fd;
	(void)what;
	if (redis_trouble(r->redis))
		end(r, -ENOTCONN, redis_trouble(r->redis));
}

int redis_obs(const struct redis_url *url, uint32_t timeout_ms, const char *const *prefixes,
	      size_t n_prefixes, int (*found)(void *arg, const char *text, size_t len), void *arg,
	      struct redis_obs_report *report)
{
	struct reading r = { .report = report,
			     .prefixes = prefixes,
			     .n_prefixes = n_prefixes,
			     .found = found,
			     .arg = arg,
			     .cursor = "0" };
	struct timeval tv = { .tv_sec = timeout_ms / 1000, .tv_usec = (timeout_ms % 1000) * 1000 };
	struct redis_attr attr = { .url = url,
				   .name = "nanoctrl-obs",
				   .timeout_ms = timeout_ms,
				   .max_inflight = 16,
				   .tries = redis_url_tries(url),
				   .up = on_up,
				   .down = on_down,
				   .arg = &r };
	int ret;

	memset(report, 0, sizeof(*report));
	r.base = event_base_new();
	if (!r.base)
		return -ENOMEM;
	ret = redis_create(r.base, &attr, &r.redis);
	if (!ret)
		ret = event_base_once(r.base, -1, EV_TIMEOUT, on_late, &r, &tv) ? -ENOMEM : 0;
	if (!ret) {
		event_base_dispatch(r.base);
		ret = r.result;
	}
	r.ended = true;
	redis_destroy(r.redis);
	event_base_free(r.base);
	return ret;
}
