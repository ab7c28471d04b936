/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of scripts: what is sent, and what their answers come to. */
#include <base/clock.h>
#include <base/log.h>
#include "store/call.h"
#include "store/call_moved.h"
#include "store/hold.h"
#include "store/redis_store.h"
#include "store/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/digits.h"
#include "store/metrics.h"

static struct sl_log_limit odd_answers = SL_LOG_LIMIT_INIT(10, 1000);
static struct sl_log_limit leave_changes = SL_LOG_LIMIT_INIT(10, 1000);

void store_arg_text(struct store_args *a, struct store_text text)
{
	a->v[a->n++] = text.at ? text : (struct store_text){ "", 0 };
}

void store_arg(struct store_args *a, const char *text)
{
	store_arg_text(a, (struct store_text){ text, text ? strlen(text) : 0 });
}

void store_arg_number(struct store_args *a, uint64_t n)
{
	char *digits = a->digits[a->n];
	char *end = digits_put(digits, n);

	*end = '\0';
	store_arg_text(a, (struct store_text){ digits, (size_t)(end - digits) });
}

void store_arg_lease(struct store_args *a, const struct store_lease *lease)
{
	store_arg(a, lease->agent);
	store_arg_number(a, lease->id);
	store_arg(a, lease->secret_hash);
}

void store_arg_field(struct store_args *a, const char *name, struct store_text value)
{
	if (!value.at)
		return;
	store_arg(a, name);
	store_arg_text(a, value);
}

/* We may not call scripts at all, and none has begun. What is missed inside of one has other words.
 * For others than scripts this is an answer for good, and no refusal. */
static bool is_without_leave(const char *error)
{
	return !strncmp(error, "NOPERM ", 7) || !strncmp(error, "NOAUTH ", 7);
}

/* Of these keys alone: by patterns of keys a user may have some scopes, and serves those. */
static bool is_of_keys(const char *error)
{
	return strstr(error, " access a key") || strstr(error, " of the keys");
}

/* Errors inside scripts carry the word further back. */
bool store_is_refusal(const char *error)
{
	static const char *const words[] = { "LOADING",	 "MASTERDOWN", "READONLY", "CLUSTERDOWN",
					     "TRYAGAIN", "NOREPLICAS", "MISCONF",  "OOM",
					     "BUSY",	 "MOVED",      "ASK" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		const char *at = strstr(error, words[i]);

		if (at && (at == error || !(at[-1] >= 'A' && at[-1] <= 'Z')) &&
		    at[strlen(words[i])] == ' ')
			return true;
	}
	return false;
}

static void end_call_later(struct store_call *call, int result)
{
	call->result = result;
	atomic_fetch_add(&call->store->hub->n_refused, 1);
	sl_list_append(&call->store->ended, &call->node);
	event_active(call->store->turn, EV_TIMEOUT, 0);
}

void store_end_calls(struct store *store)
{
	struct sl_list now;
	struct sl_list *e;

	sl_list_init(&now);
	sl_list_splice(&now, &store->ended);
	while ((e = sl_list_pop(&now))) {
		struct store_call *call = SL_CONTAINER_OF(e, struct store_call, node);

		call->finish(call, call->result, NULL);
		free(call);
	}
}

static bool read_outcome(const redisReply *reply, uint64_t *outcome)
{
	if (reply->type != REDIS_REPLY_INTEGER)
		return reply->type != REDIS_REPLY_ERROR && store_u64(reply, 0, outcome);
	*outcome = (uint64_t)reply->integer;
	return true;
}

/* Of all of them, and not of this one alone; the reaper's own try may be one that we may make. */
static void note_forbidden(struct store_hub *hub, bool forbidden, const char *why)
{
	uint32_t held_back;

	if (forbidden)
		hold_refused(hub);
	if (atomic_load(&hub->forbidden) == forbidden ||
	    atomic_exchange(&hub->forbidden, forbidden) == forbidden)
		return;
	/* With a part of them refused it may change with each answer. */
	if (!sl_log_allow(&leave_changes, &held_back))
		return;
	if (forbidden)
		sl_error("store", "Redis refuses our scripts (%u changes before it): %s", held_back,
			 why);
	else
		sl_info("store", "Redis takes our scripts again");
}

/* Any call may get such an answer, at times very often. */
static void complain(const struct store_call *call, const char *what, const char *answer)
{
	uint32_t held_back;

	if (sl_log_allow(&odd_answers, &held_back))
		sl_error("store", "%s: %s (%u before it): %s", call->script->name, what, held_back,
			 answer);
}

static int judge(const struct store_call *call, const redisReply *reply)
{
	const char *error = reply->type == REDIS_REPLY_ERROR ? reply->str : NULL;
	struct store_hub *hub = call->store->hub;
	uint64_t outcome;

	if (error && is_without_leave(error)) {
		if (is_of_keys(error))
			complain(call, "Redis refuses it", error);
		else
			note_forbidden(hub, true, error);
		return -EAGAIN;
	}
	note_forbidden(hub, false, "");
	if (error && store_is_refusal(error)) {
		hold_refused(hub);
		return -EAGAIN;
	}
	if (read_outcome(reply, &outcome) && outcome <= STORE_TOO_LARGE)
		return (int)outcome;
	complain(call, "an answer that makes no sense", error ? error : "not of this script");
	return -EPROTO;
}

static void on_reply(void *arg, int result, const redisReply *reply)
{
	struct store_call *call = arg;

	if (!result && reply->type == REDIS_REPLY_ERROR && !call->whole &&
	    strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		call->whole = true;
		call->args[0] = "EVAL";
		call->lens[0] = 4;
		call->args[1] = (const char *)call->script->text;
		call->lens[1] = call->script->len;
		result = store_send_call(call);
		if (!result)
			return;
	} else if (!result && store_is_redirect(reply) && store_wait_for_cluster(call)) {
		return;
	} else if (!result) {
		result = judge(call, reply);
	}
	store_end_call(call, result, reply);
}

void store_end_call(struct store_call *call, int result, const redisReply *reply)
{
	if (result < 0)
		atomic_fetch_add(&call->store->hub->n_errors, 1);
	else
		store_note_time(call->store->hub, (sl_clock_ns() - call->sent_ns) / SL_NS_PER_US);
	call->finish(call, result, result < 0 ? NULL : reply);
	free(call);
}

int store_send_call(struct store_call *call)
{
	call->sent_ns = sl_clock_ns();
	return redis_command(call->store->redis, call->n, call->args, call->lens, on_reply, call);
}

/* A call with room for n arguments and len bytes of them, which follow at *bytes. */
static struct store_call *new_call(size_t n, size_t len, char **bytes)
{
	struct store_call *call =
		malloc(sizeof(*call) + n * (sizeof(char *) + sizeof(size_t)) + len);

	if (!call)
		return NULL;
	memset(call, 0, sizeof(*call));
	call->n = (int)n;
	call->args = (const char **)(call + 1);
	call->lens = (size_t *)(call->args + n);
	*bytes = (char *)(call->lens + n);
	return call;
}

static void set_arg(struct store_call *call, size_t i, const char *text, size_t len, char **bytes)
{
	if (len)
		memcpy(*bytes, text, len);
	call->args[i] = *bytes;
	call->lens[i] = len;
	*bytes += len;
}

static struct store_text text_of(const char *s)
{
	return (struct store_text){ s, strlen(s) };
}

/* EVALSHA sha 1 prefix keep args... */
static struct store_call *format_call(const struct store *store, struct store_text prefix,
				      const struct script *script, size_t n,
				      const struct store_text *args)
{
	char keep[DIGITS_MAX];
	struct store_text head[5] = {
		text_of("EVALSHA"), text_of(script->sha1), text_of("1"), prefix, { keep, 0 }
	};
	struct store_call *call;
	size_t len = 0;
	char *bytes;

	head[4].len = (size_t)(digits_put(keep, store->hub->config.keep_events) - keep);
	for (size_t i = 0; i < 5; i++)
		len += head[i].len;
	for (size_t i = 0; i < n; i++)
		len += args[i].len;
	call = new_call(n + 5, len, &bytes);
	if (!call)
		return NULL;
	for (size_t i = 0; i < 5; i++)
		set_arg(call, i, head[i].at, head[i].len, &bytes);
	for (size_t i = 0; i < n; i++)
		set_arg(call, i + 5, args[i].at, args[i].len, &bytes);
	return call;
}

/* A new call of like's script, with the same callback. */
static void send_like(const struct store_call *like, struct store_text prefix, size_t n,
		      const struct store_text *args)
{
	struct store *store = like->store;
	struct store_call *call = format_call(store, prefix, like->script, n, args);
	struct store_call dummy = { .store = store, .fn = like->fn, .arg = like->arg };
	int ret;

	if (!call) {
		like->finish(&dummy, -ENOMEM, NULL);
		return;
	}
	call->store = store;
	call->script = like->script;
	call->finish = like->finish;
	call->fn = like->fn;
	call->arg = like->arg;
	call->until_ns = like->until_ns;
	sl_list_init(&call->node);
	atomic_fetch_add(&store->hub->n_calls, 1);
	ret = store->closing ? -ENOTCONN : store_send_call(call);
	if (ret && !(ret == -EAGAIN && store_wait_for_cluster(call)))
		end_call_later(call, ret);
}

void store_send_prefixed(struct store *store, struct store_text prefix, const struct script *script,
			 size_t n, const struct store_text *args, store_finish_fn *finish,
			 union store_answer fn, void *arg)
{
	struct store_call like = {
		.store = store, .script = script, .finish = finish, .fn = fn, .arg = arg
	};

	send_like(&like, prefix, n, args);
}

void store_send_many(struct store *store, const char *scope, const struct script *script, size_t n,
		     const struct store_text *args, store_finish_fn *finish, union store_answer fn,
		     void *arg)
{
	char prefix[KEY_PREFIX_MAX];

	key_prefix(prefix, &store->hub->keys, scope);
	store_send_prefixed(store, text_of(prefix), script, n, args, finish, fn, arg);
}

void store_send(struct store *store, const char *scope, const struct script *script,
		const struct store_args *args, store_finish_fn *finish, union store_answer fn,
		void *arg)
{
	store_send_many(store, scope, script, (size_t)args->n, args->v, finish, fn, arg);
}

#define PREFIX 3 /* of EVALSHA sha 1 prefix keep ..., and where ARGV[2] is */
#define ARGV_2 5

struct store_text *store_call_args(const struct store_call *call, size_t more, size_t *n)
{
	struct store_text *args;

	*n = (size_t)call->n - ARGV_2;
	args = calloc(*n + more + 1, sizeof(*args));
	for (size_t i = 0; args && i < *n; i++)
		args[i] = (struct store_text){ call->args[ARGV_2 + i], call->lens[ARGV_2 + i] };
	return args;
}

static void send_on(const struct store_call *call, uint64_t until_ns, size_t n,
		    struct store_text *args)
{
	struct store_text prefix = { call->args[PREFIX], call->lens[PREFIX] };
	struct store_call like = *call;

	like.until_ns = until_ns;
	send_like(&like, prefix, n, args);
	free(args);
}

void store_send_on(const struct store_call *call, size_t n, struct store_text *args)
{
	send_on(call, 0, n, args);
}

void store_scan_on(const struct store_call *call, size_t n, struct store_text *args)
{
	send_on(call, 1, n, args); /* its time to wait is over */
}

struct store_text store_call_arg(const struct store_call *call, int i)
{
	i += ARGV_2 - 2;
	return i < call->n ? (struct store_text){ call->args[i], call->lens[i] } : text_of("");
}

void store_finish_done(struct store_call *call, int result, const redisReply *reply)
{
	(void)reply;
	if (call->fn.done)
		call->fn.done(call->arg, result);
}
