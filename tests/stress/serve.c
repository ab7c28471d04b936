/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers: each compares the request with what its caller says it sent. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stress/report.h"
#include "tests/stress/side.h"

const char *const method_names[N_METHODS] = { "inline", "in-place", "worker",
					      "small",	"tiny",	    "absent" };

struct method {
	struct side *side;
	int index;
};

/* A request that is answered later. */
struct later {
	struct later *next;
	struct slime_rpc_request *req;
	struct method method;
	struct ask ask;
	int64_t due_ms;
};

/* The methods of a side's service, for as long as the process lives. */
static struct method methods[N_LINKS * 2][N_METHODS];

char ask_text(uint64_t seed, size_t i)
{
	return (char)('a' + pattern(seed ^ 1, i) % 26);
}

/* Whether the caller may have its request's memory back while a handler reads it in place. */
static bool may_change(const struct method *method, const struct slime_rpc_request *req)
{
	return (method->index == METHOD_IN_PLACE ||
		!board_does(method->side->node->board, "pulls")) &&
	       (slime_rpc_request_cancelled(req) || side_may_break(method->side) ||
		method->side->closed_here);
}

static bool check(const struct method *method, const struct slime_rpc_request *req, struct ask *ask,
		  const char *when)
{
	const uint8_t *data = slime_rpc_request_data(req);
	size_t len = slime_rpc_request_len(req), head = sizeof(*ask), at = 0;
	bool same = len >= head;

	if (same) {
		memcpy(ask, data, head);
		same = ask->magic == ASK_MAGIC;
	}
	if (same && (ask->how & ~HOW_LATER) == HOW_ERROR) {
		head += ask->text_len + 1u;
		same = len >= head;
		for (size_t i = 0; same && i < ask->text_len; i++)
			same = data[sizeof(*ask) + i] == (uint8_t)ask_text(ask->seed, i);
	}
	if (same)
		same = pattern_check(data + head, len - head, ask->seed, head, &at);
	if (!same && !may_change(method, req))
		fail(method->side->where,
		     "%s handler, %s: a request of %zu bytes, seed %llx how %u, at %zu: "
		     "expected %02x, is %02x",
		     method_names[method->index], when, len, (unsigned long long)ask->seed,
		     ask->how, head + at, pattern(ask->seed, head + at),
		     head + at < len ? data[head + at] : 0);
	return same;
}

static void check_answer(const struct method *method, const struct ask *ask, int ret, bool fits)
{
	if (ret == 0 || ret == -ECANCELED || ret == -ECONNRESET)
		return;
	if (ret == -EMSGSIZE && !fits)
		return;
	if (side_may_break(method->side) || method->side->closed_here)
		return;
	fail(method->side->where, "%s handler, seed %llx how %u: the answer of %u bytes is %s",
	     method_names[method->index], (unsigned long long)ask->seed, ask->how, ask->reply_len,
	     strerror(-ret));
}

static int answer_copy(struct slime_rpc_request *req, const struct ask *ask)
{
	uint8_t *bytes = malloc(ask->reply_len + 1);
	int ret;

	if (!bytes)
		fail("serve", "no memory");
	pattern_fill(bytes, ask->reply_len, ~ask->seed, 0);
	ret = slime_rpc_reply(req, bytes, ask->reply_len);
	free(bytes);
	return ret;
}

static int answer_buffer(struct slime_rpc_request *req, const struct ask *ask)
{
	void *to = slime_rpc_reply_buffer(req, ask->reply_len);

	if (!to)
		return answer_copy(req, ask);
	pattern_fill(to, ask->reply_len, ~ask->seed, 0);
	return slime_rpc_reply_commit(req, ask->reply_len);
}

static void answer(const struct method *method, struct slime_rpc_request *req,
		   const struct ask *ask)
{
	const char *data = slime_rpc_request_data(req);
	bool fits = ask->reply_len <= slime_rpc_request_reply_cap(req);
	int ret;

	switch (ask->how & ~HOW_LATER) {
	case HOW_SLICE:
		ret = slime_rpc_reply(req, data + ask->slice, ask->reply_len);
		break;
	case HOW_BUFFER:
		ret = answer_buffer(req, ask);
		break;
	case HOW_ERROR:
		ret = slime_rpc_reply_error(req, (uint32_t)ask->seed, data + sizeof(*ask));
		break;
	default:
		ret = answer_copy(req, ask);
	}
	check_answer(method, ask, ret, fits);
}

static void put_off(const struct method *method, struct slime_rpc_request *req,
		    const struct ask *ask)
{
	struct node *node = method->side->node;
	struct later *later = malloc(sizeof(*later));

	if (!later)
		fail("serve", "no memory");
	*later = (struct later){ NULL, req, *method, *ask, now_ms() + ask->delay };
	pthread_mutex_lock(&node->lock);
	later->next = node->later;
	node->later = later;
	pthread_mutex_unlock(&node->lock);
}

static void handle(void *arg, struct slime_rpc_request *req)
{
	const struct method *method = arg;
	struct ask ask = { 0 };

	if (!check(method, req, &ask, "at its begin")) {
		(void)slime_rpc_reply_error(req, 0, NULL);
		return;
	}
	if (ask.how & HOW_LATER) {
		put_off(method, req, &ask);
		return;
	}
	if (ask.delay && method->index == METHOD_WORKER) {
		pause_us(ask.delay * 50);
		check(method, req, &ask, "after a while");
	}
	answer(method, req, &ask);
}

static void handle_tiny(void *arg, struct slime_rpc_request *req)
{
	const struct method *method = arg;
	struct ask ask = { .reply_len = (uint32_t)slime_rpc_request_len(req) };
	bool fits = ask.reply_len <= slime_rpc_request_reply_cap(req);

	check_answer(method, &ask, slime_rpc_reply(req, slime_rpc_request_data(req), ask.reply_len),
		     fits);
}

bool serve_later(struct node *node, bool all)
{
	struct later *due = NULL, **at, *later;
	int64_t now = now_ms();
	bool more;

	pthread_mutex_lock(&node->lock);
	for (at = &node->later; *at;) {
		later = *at;
		if (!all && later->due_ms > now) {
			at = &later->next;
			continue;
		}
		*at = later->next;
		later->next = due;
		due = later;
	}
	more = node->later;
	pthread_mutex_unlock(&node->lock);
	while (due) {
		struct ask ask = due->ask;

		later = due;
		due = later->next;
		if (later->method.index != METHOD_IN_PLACE)
			check(&later->method, later->req, &ask, "later");
		answer(&later->method, later->req, &later->ask);
		free(later);
	}
	return more;
}

struct slime_rpc_service *serve_create(struct side *side)
{
	static const uint32_t flags[N_METHODS] = {
		[METHOD_INLINE] = SLIME_RPC_INLINE,
		[METHOD_IN_PLACE] = SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE,
		[METHOD_TINY] = SLIME_RPC_INLINE,
	};
	struct slime_rpc_service *service;
	struct method *own = methods[side->link * 2 + side->index];

	if (slime_rpc_service_create(side->node->ctx, &service) != 0)
		fail(side->where, "no service");
	for (int i = 0; i < METHOD_ABSENT; i++) {
		struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

		own[i] = (struct method){ side, i };
		attr.fn = i == METHOD_TINY ? handle_tiny : handle;
		attr.arg = &own[i];
		attr.flags = flags[i];
		if (i == METHOD_SMALL)
			attr.max_message = 1000;
		if (slime_rpc_method_add(service, method_names[i], &attr) != 0)
			fail(side->where, "no method");
	}
	return service;
}
