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

struct key {
	char *text;
	size_t len;
	const struct redis_obs_scope *scope;
};

struct reading {
	struct redis_once once;
	struct redis_obs_report *report;
	const struct redis_obs_scope *scopes;
	size_t n_scopes;
	redis_obs_found_fn *found;
	void *arg;
	struct key *keys;     /* of a batch, n_keys of them: those before next were asked for, */
	enum obs_lease lease; /* of the agent of which the next value is */
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
		free(r->keys[i].text);
	free(r->keys);
	r->keys = NULL;
	r->n_keys = r->next = 0;
}

static void ask_values(struct reading *r);

/* Values that are no strings are passed over. */
static bool is_of_another_type(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "WRONGTYPE ", 10);
}

/* Before the value of the same agent. */
static void on_lease(void *arg, int result, const redisReply *reply)
{
	struct reading *r = arg;

	if (result || r->once.ended)
		return;
	r->lease = reply->type != REDIS_REPLY_INTEGER ? OBS_LEASE_UNKNOWN
		   : reply->integer		      ? OBS_LEASE_HELD
						      : OBS_LEASE_ENDED;
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
		ret = r->found(r->arg, reply->str, (size_t)reply->len, r->lease);
	r->lease = OBS_LEASE_UNKNOWN;
	if (ret)
		end(r, ret, "out of memory");
	else if (reply->type != REDIS_REPLY_STRING && !is_of_another_type(reply))
		redis_once_end_by(&r->once, reply, "no answer to GETRANGE");
	else
		ask_values(r);
}

static int ask_lease(struct reading *r, const struct key *key)
{
	const struct redis_obs_scope *s = key->scope;
	size_t head = strlen(s->snapshots) + strlen(WORD), len = key->len - head;
	size_t room = key->len + strlen(s->root) + (s->native ? strlen(s->native) : 0) + 64;
	char *agent = s->native ? malloc(room) : NULL;
	const char *args[] = { "EXISTS", agent };
	size_t lens[2] = { strlen(args[0]) };
	int ret;

	if (!agent)
		return s->native ? -ENOMEM : 0;
	lens[1] = (size_t)snprintf(agent, room, "%s{%s}:nanoctrl:agent:%zu:", s->root, s->native,
				   len);
	memcpy(agent + lens[1], key->text + head, len);
	lens[1] += len;
	ret = redis_command(r->once.redis, 2, args, lens, on_lease, r);
	free(agent);
	return ret;
}

static int ask_value(struct reading *r, const struct key *key)
{
	char last[16];
	int last_len = snprintf(last, sizeof(last), "%d", VALUE_MAX);
	const char *args[] = { "GETRANGE", key->text, "0", last };
	size_t lens[] = { strlen(args[0]), key->len, 1, (size_t)last_len };

	return redis_command(r->once.redis, 4, args, lens, on_value, r);
}

/* Few keys at a time, and a part of each value: any program may have written them. */
static void ask_values(struct reading *r)
{
	while (r->next < r->n_keys && r->n_asked < AT_ONCE) {
		const struct key *key = &r->keys[r->next];

		if (ask_lease(r, key) || ask_value(r, key)) {
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

/* The scope of a key that is wanted, else NULL. */
static const struct redis_obs_scope *scope_of(const struct reading *r, const redisReply *key)
{
	if (key->type != REDIS_REPLY_STRING)
		return NULL;
	for (size_t i = 0; i < r->n_scopes; i++) {
		const char *prefix = r->scopes[i].snapshots;
		size_t len = strlen(prefix);

		if ((size_t)key->len > len + strlen(WORD) && !memcmp(key->str, prefix, len) &&
		    !memcmp(key->str + len, WORD, strlen(WORD)))
			return &r->scopes[i];
	}
	return NULL;
}

/* Those of a batch's keys that are wanted. */
static int take_keys(struct reading *r, const redisReply *keys)
{
	r->keys = calloc(keys->elements + 1, sizeof(*r->keys));
	if (!r->keys)
		return -ENOMEM;
	for (size_t i = 0; i < keys->elements; i++) {
		const redisReply *key = keys->element[i];
		const struct redis_obs_scope *scope = scope_of(r, key);
		char *text = scope ? malloc((size_t)key->len + 1) : NULL;

		if (!scope)
			continue;
		if (!text)
			return -ENOMEM;
		memcpy(text, key->str, (size_t)key->len + 1);
		r->keys[r->n_keys++] =
			(struct key){ .text = text, .len = (size_t)key->len, .scope = scope };
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

int redis_obs(const struct redis_url *url, uint32_t timeout_ms,
	      const struct redis_obs_scope *scopes, size_t n_scopes, redis_obs_found_fn *found,
	      void *arg, struct redis_obs_report *report)
{
	struct reading r = { .report = report,
			     .scopes = scopes,
			     .n_scopes = n_scopes,
			     .found = found,
			     .arg = arg,
			     .cursor = "0" };
	int ret;

	r.once = (struct redis_once){ .url = url,
				      .name = "nanoctrl-obs",
				      .timeout_ms = timeout_ms,
				      .max_inflight = 2 * AT_ONCE + 1,
				      .serves = on_serving,
				      .arg = &r };
	memset(report, 0, sizeof(*report));
	ret = redis_once(&r.once);
	snprintf(report->why, sizeof(report->why), "%s", r.once.why);
	free_keys(&r);
	return ret;
}
