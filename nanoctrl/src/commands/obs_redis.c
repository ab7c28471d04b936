/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/obs_redis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include "redis/redis.h"
#include "redis/once.h"

#define PER_STEP  "1000"
#define WORD	  "obs:peer:"
#define VALUE_MAX (512 * 1024) /* a longer one is none, as in lists of a server */
#define AT_ONCE	  16	       /* values that are asked for */

struct reading {
	struct redis_once once;
	struct redis_obs_report *report;
	const char *const *prefixes;
	size_t n_prefixes;
	int (*found)(void *arg, const char *text, size_t len);
	void *arg;
	char **keys; /* of a portion, n_keys of them: those before next were asked for, */
	size_t *lens;
	size_t n_keys, next, n_asked; /* and of these so many have no answer yet */
	char cursor[24];
	bool more;
};

static void step(struct reading *r);

static void end(struct reading *r, int result, const char *why)
{
	redis_once_end(&r->once, result, why);
}

static void free_keys(struct reading *r)
{
	for (size_t i = 0; i < r->n_keys; i++)
		free(r->keys[i]);
	free(r->keys);
	free(r->lens);
	r->keys = NULL;
	r->lens = NULL;
	r->n_keys = r->next = 0;
}

static void ask_values(struct reading *r);

/* What is no string is passed over. */
static bool is_of_another_type(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "WRONGTYPE ", 10);
}

/* As much of a string as one may have, and a byte; an error for what is none. */
static void on_value(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;
	int ret = 0;

	if (result || r->once.ended)
		return; /* it is ended by the connection */
	r->n_asked--;
	if (reply->type == REDIS_REPLY_STRING && reply->len && reply->len <= VALUE_MAX)
		ret = r->found(r->arg, reply->str, (size_t)reply->len);
	if (ret)
		end(r, ret, "out of memory");
	else if (reply->type != REDIS_REPLY_STRING && !is_of_another_type(reply))
		redis_once_end_by(&r->once, reply, "no answer to GETRANGE");
	else
		ask_values(r);
}

/* Few at a time, and of each a part: anybody may have written them. */
static void ask_values(struct reading *r)
{
	static const char command[] = "GETRANGE";
	char last[16];
	int last_len = snprintf(last, sizeof(last), "%d", VALUE_MAX);

	while (r->next < r->n_keys && r->n_asked < AT_ONCE) {
		const char *args[] = { command, r->keys[r->next], "0", last };
		size_t lens[] = { strlen(command), r->lens[r->next], 1, (size_t)last_len };

		if (redis_command(r->once.redis, 4, args, lens, on_value, r)) {
			end(r, -ENOMEM, "out of memory");
			return;
		}
		r->next++;
		r->n_asked++;
	}
	if (r->n_asked)
		return;
	free_keys(r);
	if (r->more)
		step(r);
	else
		end(r, 0, "");
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

/* Those of a portion's keys that are wanted. */
static int take_keys(struct reading *r, const redisReply *keys)
{
	r->keys = calloc(keys->elements + 1, sizeof(*r->keys));
	r->lens = calloc(keys->elements + 1, sizeof(*r->lens));
	if (!r->keys || !r->lens)
		return -ENOMEM;
	for (size_t i = 0; i < keys->elements; i++) {
		const redisReply *key = keys->element[i];

		if (!is_wanted(r, key))
			continue;
		r->keys[r->n_keys] = malloc((size_t)key->len + 1);
		if (!r->keys[r->n_keys])
			return -ENOMEM;
		memcpy(r->keys[r->n_keys], key->str, (size_t)key->len + 1);
		r->lens[r->n_keys++] = (size_t)key->len;
	}
	return 0;
}

/* {cursor, {key, ...}} */
static void on_scan(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;

	if (result || r->once.ended)
		return;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY) {
		redis_once_end_by(&r->once, reply, "no answer to SCAN");
		return;
	}
	snprintf(r->cursor, sizeof(r->cursor), "%.20s", reply->element[0]->str);
	r->more = strcmp(r->cursor, "0") != 0;
	if (take_keys(r, reply->element[1]))
		end(r, -ENOMEM, "out of memory");
	else
		ask_values(r);
}

static void step(struct reading *r)
{
	const char *args[] = { "SCAN", r->cursor, "MATCH", "*" WORD "*", "COUNT", PER_STEP };

	if (redis_command(r->once.redis, 6, args, NULL, on_scan, r))
		end(r, -ENOMEM, "out of memory");
}

/* {seconds, microseconds} */
static void on_time(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;

	if (result || r->once.ended)
		return;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING) {
		redis_once_end_by(&r->once, reply, "no answer to TIME");
		return;
	}
	r->report->now_ms = strtoull(reply->element[0]->str, NULL, 10) * 1000 +
			    strtoull(reply->element[1]->str, NULL, 10) / 1000;
	step(r);
}

static void on_serving(void *arg)
{
	struct reading *r = arg;
	const char *args[] = { "TIME" };

	if (redis_command(r->once.redis, 1, args, NULL, on_time, r))
		end(r, -ENOMEM, "out of memory");
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
	int ret;

	r.once = (struct redis_once){ .url = url,
				      .name = "nanoctrl-obs",
				      .timeout_ms = timeout_ms,
				      .max_inflight = AT_ONCE + 1,
				      .serves = on_serving,
				      .arg = &r };
	memset(report, 0, sizeof(*report));
	ret = redis_once(&r.once);
	snprintf(report->why, sizeof(report->why), "%s", r.once.why);
	free_keys(&r);
	return ret;
}
