/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/redis_gc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include "compat/foreign_key.h"
#include "redis/redis.h"
#include "redis/once.h"

#define PER_STEP     "500"
#define MEANINGS_MAX 64 /* agents that a key may be of */

struct scan {
	struct redis_once once;
	struct redis_gc_report *report;
	void (*found)(void *arg, const char *key, size_t len);
	void *arg;
	char cursor[24];
	size_t n_asked; /* keys whose agents are being searched */
	bool more;
};

/* A key on its way: it is an orphan when none of its agents is there. */
struct question {
	struct scan *scan;
	size_t len;
	char key[];
};

static void step(struct scan *s);

/* ---- possible owners of a key ---- */

/*
 * Names and scopes may have colons, so a key can be read in several ways. Each reading adds the
 * agent's key, "[scope:]agent:name", to args.
 */
struct meanings {
	size_t n;
	const char *args[MEANINGS_MAX + 1];
	size_t lens[MEANINGS_MAX + 1];
	char *heap;
	bool ok; /* false: there are more */
};

static void add_agent(struct meanings *m, const char *scope, size_t scope_len, const char *name,
		      size_t name_len)
{
	static const char word[] = "agent:";
	size_t word_len = sizeof(word) - 1;

	if (m->n > MEANINGS_MAX) {
		m->ok = false;
		return;
	}
	memcpy(m->heap, scope, scope_len);
	memcpy(m->heap + scope_len, word, word_len);
	memcpy(m->heap + scope_len + word_len, name, name_len);
	m->args[m->n] = m->heap;
	m->lens[m->n++] = scope_len + word_len + name_len;
	m->heap += scope_len + word_len + name_len;
}

/* The text after the word: all of it is the name, or a part that ends (or, for the second agent of
 * an exchange, begins) at a colon. */
static void add_names(struct meanings *m, const char *key, size_t scope_len, const char *rest,
		      size_t len, bool parts)
{
	add_agent(m, key, scope_len, rest, len);
	for (size_t i = 0; parts && m->ok && i < len; i++) {
		if (rest[i] != ':')
			continue;
		add_agent(m, key, scope_len, rest, i);
		add_agent(m, key, scope_len, rest + i + 1, len - i - 1);
		for (size_t k = i + 1; m->ok && k < len; k++)
			if (rest[k] == ':')
				add_agent(m, key, scope_len, rest + i + 1, k - i - 1);
	}
}

static void read_key(struct meanings *m, const char *key, size_t len)
{
	static const struct {
		const char *word;
		bool parts;
		bool colon; /* without a scope a colon may stand before the word */
	} kinds[] = { { "mr:", true, false },
		      { "exchange:", true, false },
		      { "spec:topology:", false, false },
		      { "stream:", false, false },
		      { "inbox:", false, true } };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		size_t word = strlen(kinds[k].word);

		for (size_t at = 0; m->ok && at + word < len; at++) {
			if ((at && key[at - 1] != ':') || memcmp(key + at, kinds[k].word, word))
				continue;
			add_names(m, key, at == 1 && kinds[k].colon ? 0 : at, key + at + word,
				  len - at - word, kinds[k].parts);
		}
	}
}

/* ---- looking ---- */

static void answered(struct scan *s)
{
	if (!--s->n_asked && s->more)
		step(s);
	else if (!s->n_asked)
		redis_once_end(&s->once, 0, "");
}

static void on_exists(void *arg, int result, const redisReply *reply)
{
	struct question *q = arg;
	struct scan *s = q->scan;

	if (!result && !s->once.ended && reply->type != REDIS_REPLY_INTEGER)
		redis_once_end_by(&s->once, reply, "no answer to EXISTS");
	if (!result && !s->once.ended) {
		if (!reply->integer) {
			s->report->n_orphans++;
			s->found(s->arg, q->key, q->len);
		}
		answered(s);
	}
	free(q);
}

static int ask(struct scan *s, const char *key, size_t len)
{
	struct meanings m = { .n = 1, .args = { "EXISTS" }, .lens = { 6 }, .ok = true };
	char *heap = m.heap = malloc((MEANINGS_MAX + 1) * (len + 8));
	struct question *q = malloc(sizeof(*q) + len + 1);
	int ret = 0;

	if (!heap || !q) {
		free(heap);
		free(q);
		return -ENOMEM;
	}
	read_key(&m, key, len);
	/* A key with more meanings than are checked may belong to any agent. */
	if (m.n == 1 || !m.ok) {
		free(q);
	} else {
		q->scan = s;
		q->len = len;
		memcpy(q->key, key, len);
		q->key[len] = '\0';
		ret = redis_command(s->once.redis, (int)m.n, m.args, m.lens, on_exists, q);
		if (ret)
			free(q);
		else
			s->n_asked++;
	}
	free(heap);
	return ret;
}

/* {cursor, {key, ...}} */
static void on_scan(void *arg, int result, const redisReply *reply)
{
	struct scan *s = arg;
	const redisReply *keys;

	if (result || s->once.ended)
		return; /* it is ended by the connection */
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY) {
		redis_once_end_by(&s->once, reply, "no answer to SCAN");
		return;
	}
	snprintf(s->cursor, sizeof(s->cursor), "%.20s", reply->element[0]->str);
	s->more = strcmp(s->cursor, "0") != 0;
	keys = reply->element[1];
	s->report->n_keys += keys->elements;
	s->n_asked = 1; /* this answer itself */
	for (size_t i = 0; i < keys->elements; i++) {
		const redisReply *key = keys->element[i];

		if (key->type == REDIS_REPLY_STRING &&
		    !foreign_key_is_ours(key->str, (size_t)key->len) &&
		    ask(s, key->str, (size_t)key->len)) {
			redis_once_end(&s->once, -ENOMEM, "out of memory");
			return;
		}
	}
	answered(s);
}

static void step(struct scan *s)
{
	const char *args[] = { "SCAN", s->cursor, "COUNT", PER_STEP };

	if (redis_command(s->once.redis, 4, args, NULL, on_scan, s))
		redis_once_end(&s->once, -ENOMEM, "out of memory");
}

static void on_serving(void *arg)
{
	step(arg);
}

int redis_gc(const struct redis_url *url, uint32_t timeout_ms,
	     void (*found)(void *arg, const char *key, size_t len), void *arg,
	     struct redis_gc_report *report)
{
	struct scan s = { .report = report, .found = found, .arg = arg, .cursor = "0" };
	int ret;

	s.once = (struct redis_once){ .url = url,
				      .name = "nanoctrl-gc",
				      .timeout_ms = timeout_ms,
				      .max_inflight = 65536,
				      .serves = on_serving,
				      .arg = &s };
	memset(report, 0, sizeof(*report));
	ret = redis_once(&s.once);
	snprintf(report->why, sizeof(report->why), "%s", s.once.why);
	return ret;
}
