/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/store/fake_connection.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include <base/list.h>
#include "redis/redis.h"
#include "redis/reader.h"

struct question {
	struct sl_list node;
	redis_reply_fn *fn;
	void *arg;
	size_t n;
	struct fake_word words[];
};

struct redis {
	struct redis_attr attr;
	struct event *turn;
	struct sl_list asked;
	size_t n_asked;
	bool serves;
	bool wanted; /* to come up in the next turn */
};

static struct redis *connections[N_FAKE_CONNECTIONS];
static size_t n_connections;
static fake_answer_fn *answer;

redisReply *fake_reply(const char *text)
{
	struct redis_reader reader;
	redisReply *reply = NULL;
	const char *why;
	int ret = redis_reader_init(&reader);

	assert(ret == 0);
	ret = redis_reader_feed(&reader, text, strlen(text), SIZE_MAX);
	assert(ret == 0);
	ret = redis_reader_next(&reader, &reply, &why);
	assert(ret == 0 && reply);
	redis_reader_fini(&reader);
	return reply;
}

void fake_connections_begin(fake_answer_fn *fn)
{
	memset(connections, 0, sizeof(connections));
	n_connections = 0;
	answer = fn;
}

static void fail_all(struct redis *r)
{
	struct sl_list *e;

	r->serves = false;
	while ((e = sl_list_pop(&r->asked))) {
		struct question *q = SL_CONTAINER_OF(e, struct question, node);

		r->n_asked--;
		q->fn(q->arg, -EIO, NULL);
		free(q);
	}
}

static void broke(struct redis *r)
{
	bool served = r->serves;

	fail_all(r);
	if (served)
		r->attr.down(r->attr.arg);
}

/* What is asked from inside is answered in the next turn. */
static void answer_all(struct redis *r)
{
	struct sl_list now;
	struct sl_list *e;

	sl_list_init(&now);
	sl_list_splice(&now, &r->asked);
	while ((e = sl_list_pop(&now))) {
		struct question *q = SL_CONTAINER_OF(e, struct question, node);
		redisReply *reply = answer(q->n, q->words);

		if (!reply) {
			sl_list_append(&now, e);
			sl_list_splice(&r->asked, &now);
			broke(r);
			return;
		}
		r->n_asked--;
		q->fn(q->arg, 0, reply);
		freeReplyObject(reply);
		free(q);
	}
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;

	(void)fd;
	(void)what;
	if (r->serves) {
		answer_all(r);
	} else if (r->wanted) {
		r->wanted = false;
		r->serves = true;
		r->attr.up(r->attr.arg, "life");
	}
}

int redis_create(struct event_base *base, const struct redis_attr *attr, struct redis **out)
{
	struct redis *r = calloc(1, sizeof(*r));

	assert(r);
	r->attr = *attr;
	sl_list_init(&r->asked);
	r->turn = event_new(base, -1, 0, on_turn, r);
	assert(r->turn);
	r->wanted = true;
	event_active(r->turn, EV_TIMEOUT, 0);
	if (n_connections < N_FAKE_CONNECTIONS)
		connections[n_connections++] = r;
	*out = r;
	return 0;
}

void redis_destroy(struct redis *r)
{
	if (!r)
		return;
	fail_all(r);
	for (size_t i = 0; i < n_connections; i++)
		if (connections[i] == r)
			connections[i] = NULL;
	event_free(r->turn);
	free(r);
}

static struct question *new_question(size_t n, const char *const *args, const size_t *lens)
{
	struct question *q;
	size_t room = sizeof(*q) + n * sizeof(*q->words);
	char *at;

	for (size_t i = 0; i < n; i++)
		room += (lens ? lens[i] : strlen(args[i])) + 1;
	q = calloc(1, room);
	assert(q);
	q->n = n;
	at = (char *)(q->words + n);
	for (size_t i = 0; i < n; i++) {
		size_t len = lens ? lens[i] : strlen(args[i]);

		if (len)
			memcpy(at, args[i], len);
		q->words[i] = (struct fake_word){ at, len };
		at += len + 1;
	}
	return q;
}

int redis_command(struct redis *r, int n, const char *const *args, const size_t *lens,
		  redis_reply_fn *fn, void *arg)
{
	struct question *q;

	if (!r->serves)
		return -ENOTCONN;
	if (!fn || r->attr.push)
		return 0;
	if (r->n_asked == r->attr.max_inflight)
		return -EBUSY;
	r->n_asked++;
	q = new_question((size_t)n, args, lens);
	q->fn = fn;
	q->arg = arg;
	sl_list_append(&r->asked, &q->node);
	event_active(r->turn, EV_TIMEOUT, 0);
	return 0;
}

void redis_set_push_ms(struct redis *r, uint32_t push_ms)
{
	r->attr.push_ms = push_ms;
}

void redis_reconnect(struct redis *r)
{
	broke(r);
	r->wanted = true;
	event_active(r->turn, EV_TIMEOUT, 0);
}

const char *redis_host(const struct redis *r, uint16_t *port)
{
	(void)r;
	*port = 6379;
	return "127.0.0.1";
}

bool redis_is_crowded(const struct redis *r)
{
	(void)r;
	return false;
}

const char *redis_trouble(const struct redis *r)
{
	return r->serves ? NULL : "it broke";
}

void fake_connection_break(enum fake_connection which)
{
	if (connections[which])
		broke(connections[which]);
}

void fake_connection_restore(enum fake_connection which)
{
	struct redis *r = connections[which];

	if (!r || r->serves)
		return;
	r->wanted = true;
	event_active(r->turn, EV_TIMEOUT, 0);
}

void fake_connection_push(enum fake_connection which, redisReply *message)
{
	struct redis *r = connections[which];

	if (r && r->serves)
		r->attr.push(r->attr.arg, message);
	freeReplyObject(message);
}

/* Of no time at all, what persists would happen once. */
int __real_event_add(struct event *ev, const struct timeval *tv);
__attribute__((visibility("default"))) int __wrap_event_add(struct event *ev,
							    const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv)
{
	static const struct timeval soon = { .tv_usec = 1 };

	return __real_event_add(ev, tv ? &soon : NULL);
}
