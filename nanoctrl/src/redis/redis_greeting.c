/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting: AUTH, SELECT, CLIENT SETNAME, CONFIG GET, INFO, and what the owner asks. */
#include <stdio.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>
#include <base/log.h>
#include "redis/info.h"
#include "redis/connection.h"
#include "redis/url.h"

static void greeted(void *arg, int result, const redisReply *reply)
{
	struct redis *r = arg;

	if (result || reply->type != REDIS_REPLY_ERROR)
		return;
	redis_broke(r, reply->str);
}

/* The name is for people who read CLIENT LIST; a server that refuses it is as good. */
static void named(void *arg, int result, const redisReply *reply)
{
	(void)arg;
	(void)result;
	(void)reply;
}

/* Of {name, value, name, value, ...} */
static bool is_set(const redisReply *settings, const char *name, const char *value)
{
	for (size_t i = 0; i + 1 < settings->elements; i += 2) {
		const redisReply *n = settings->element[i], *v = settings->element[i + 1];

		if (n->type == REDIS_REPLY_STRING && v->type == REDIS_REPLY_STRING &&
		    !strcmp(n->str, name))
			return !strcmp(v->str, value);
	}
	return false;
}

/* A server that does not tell may lose what it acknowledged. */
static void configured(void *arg, int result, const redisReply *reply)
{
	struct redis *r = arg;

	r->synced = !result && reply->type == REDIS_REPLY_ARRAY &&
		    is_set(reply, "appendonly", "yes") && is_set(reply, "appendfsync", "always") &&
		    is_set(reply, "no-appendfsync-on-rewrite", "no");
}

static bool is_unfit(struct redis *r, const char *info)
{
	char why[160], loading[4];

	if (!redis_info_unfit(info, r->attr.url->kind, why, sizeof(why)))
		return false;
	redis_info_value(info, "loading", loading, sizeof(loading));
	r->loading = !strcmp(loading, "1");
	if (r->locator)
		snprintf(r->trouble, sizeof(r->trouble), "%.80s:%u: %s", r->host, r->port, why);
	else
		snprintf(r->trouble, sizeof(r->trouble), "%s", why);
	return true;
}

static void serve(struct redis *r)
{
	r->state = REDIS_SERVING;
	r->checked_ns = sl_clock_ns();
	r->on_way = false;
	r->backoff_ms = REDIS_BACKOFF_FIRST_MS;
	if (r->locator)
		sl_info("redis", "%s: %s: %s:%u serves", r->attr.name, r->attr.url->shown, r->host,
			r->port);
	else if (r->logged)
		sl_info("redis", "%s: %s: serves again", r->attr.name, r->attr.url->shown);
	r->logged = false;
	r->attr.up(r->attr.arg, r->run_id);
}

static void admitted(void *arg, int result, const redisReply *reply)
{
	struct redis *r = arg;

	if (result || r->broken || r->moving)
		return;
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0) {
		serve(r);
		return;
	}
	snprintf(r->trouble, sizeof(r->trouble), "%s",
		 reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_ERROR
			 ? reply->str
			 : "the answer to the greeting is of another kind");
	redis_broke(r, r->trouble);
}

/* A text says why not. An error is of this moment, and commands meet it as well. */
static void admitted_again(void *arg, int result, const redisReply *reply)
{
	struct redis *r = arg;

	if (result || r->broken || r->moving || reply->type != REDIS_REPLY_STRING)
		return;
	snprintf(r->trouble, sizeof(r->trouble), "%s", reply->str);
	redis_broke(r, r->trouble);
}

static int ask_admission(struct redis *r, redis_reply_fn *fn)
{
	const struct redis_words *admit = &r->attr.admit;
	const char *args[REDIS_WORDS_MAX + 2];
	size_t lens[REDIS_WORDS_MAX + 2];

	memcpy(args, admit->args, sizeof(admit->args));
	memcpy(lens, admit->lens, sizeof(admit->lens));
	args[admit->n] = r->run_id;
	lens[admit->n] = strlen(r->run_id);
	args[admit->n + 1] = r->keeps ? "1" : "0";
	lens[admit->n + 1] = 1;
	return redis_send(r, admit->n + 2, args, lens, fn, r);
}

/* A replica that becomes the primary has all writes that reached it, wherever they are stored. */
static void note_keeping(struct redis *r, const char *info)
{
	char offset[24]; /* up to which a primary has what it had as a replica; -1: it was none */

	redis_info_value(info, "second_repl_offset", offset, sizeof(offset));
	r->keeps = r->synced && !strcmp(offset, "-1");
}

/* INFO answers also while the server is loading; writing is for those that are fit. */
static void informed(void *arg, int result, const redisReply *reply)
{
	struct redis *r = arg;

	if (result || r->broken)
		return;
	if (reply->type != REDIS_REPLY_STRING) {
		redis_broke(r, reply->type == REDIS_REPLY_ERROR ? reply->str : "INFO is no text");
		return;
	}
	if (is_unfit(r, reply->str)) {
		redis_broke(r, r->trouble);
		return;
	}
	redis_info_value(reply->str, "run_id", r->run_id, sizeof(r->run_id));
	note_keeping(r, reply->str);
	r->crowded = redis_info_crowded(reply->str);
	if (!r->attr.admit.n)
		serve(r);
	else if (ask_admission(r, admitted))
		redis_broke(r, "no memory for the greeting");
}

static void informed_again(void *arg, int result, const redisReply *reply)
{
	struct redis *r = arg;

	if (result || r->broken || r->moving || reply->type != REDIS_REPLY_STRING)
		return;
	if (is_unfit(r, reply->str)) {
		redis_broke(r, r->trouble);
		return;
	}
	note_keeping(r, reply->str);
	r->crowded = redis_info_crowded(reply->str);
	if (r->attr.admit.n)
		ask_admission(r, admitted_again);
}

static int send_words(struct redis *r, redis_reply_fn *fn, const char *a, const char *b,
		      const char *c)
{
	const char *args[] = { a, b, c };
	int n = c ? 3 : b ? 2 : 1;

	return redis_send(r, n, args, NULL, fn, r);
}

/* All sections of INFO: "server" has the run id, "persistence" whether it loads. */
static int ask_state(struct redis *r, redis_reply_fn *fn)
{
	int ret = 0;

	if (r->attr.url->kind == REDIS_PLAIN && r->attr.admit.n)
		ret = send_words(r, configured, "CONFIG", "GET", "*append*");
	return ret ? ret : send_words(r, fn, "INFO", NULL, NULL);
}

int redis_greet(struct redis *r)
{
	const struct redis_url *url = r->attr.url;
	char db[16];
	int ret = 0;

	if (url->password && url->user)
		ret = send_words(r, greeted, "AUTH", url->user, url->password);
	else if (url->password)
		ret = send_words(r, greeted, "AUTH", url->password, NULL);
	snprintf(db, sizeof(db), "%u", url->db);
	if (!ret && url->db)
		ret = send_words(r, greeted, "SELECT", db, NULL);
	if (!ret)
		ret = send_words(r, named, "CLIENT", "SETNAME", r->attr.name);
	r->synced = false;
	return ret ? ret : ask_state(r, informed);
}

int redis_check_again(struct redis *r)
{
	return ask_state(r, informed_again);
}
