/* SPDX-License-Identifier: Apache-2.0 */
#include "store_redis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include "digits.h"
#include "loop.h"

static struct sl_log_limit odd_answers = SL_LOG_LIMIT_INIT(10, 1000);

/* ---- the hub ---- */

int store_hub_create(const struct store_config *config, struct store_hub **out)
{
	struct store_hub *hub = calloc(1, sizeof(*hub));
	const char *why = "";
	int ret;

	if (!hub)
		return -ENOMEM;
	hub->config = *config;
	hub->port_fd = -1;
	hub->held_fd = -1;
	evutil_secure_rng_get_bytes(&hub->seed, sizeof(hub->seed));
	ret = redis_url_parse(config->url, &hub->url, &why);
	if (ret) {
		if (ret == -EINVAL)
			sl_error("store", "the Redis URL is malformed: %s", why);
		free(hub);
		return ret;
	}
	hub->config.url = hub->url.shown;
	key_names_init(&hub->keys, hub->url.kind == REDIS_CLUSTER);
	pthread_mutex_init(&hub->lock, NULL);
	*out = hub;
	return 0;
}

void store_hub_destroy(struct store_hub *hub)
{
	if (!hub)
		return;
	store_hub_give_port(hub);
	pthread_mutex_destroy(&hub->lock);
	redis_url_fini(&hub->url);
	free(hub);
}

bool store_is_cluster(const struct store *store)
{
	return store->hub->url.kind == REDIS_CLUSTER;
}

const struct store_config *store_config(const struct store *store)
{
	return &store->hub->config;
}

struct sl_list *store_lists(struct store *store)
{
	return &store->lists;
}

/* ---- waking the loops ---- */

unsigned store_bucket(const struct store_hub *hub, const char *scope)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ hub->seed;

	while (*scope) /* FNV-1a */
		h = (h ^ (unsigned char)*scope++) * UINT64_C(0x100000001b3);
	return (unsigned)((h ^ h >> 32) % SCOPE_BUCKETS);
}

static void note_wake(const struct store_hub *hub, struct wakes *w, const char *scope)
{
	unsigned bucket;

	w->all |= !scope;
	if (w->all)
		return;
	for (unsigned i = 0; i < w->n; i++)
		if (strcmp(w->scopes[i], scope) == 0)
			return;
	if (w->n < WAKES_MAX) {
		snprintf(w->scopes[w->n++], sizeof(w->scopes[0]), "%s", scope);
		return;
	}
	bucket = store_bucket(hub, scope);
	w->buckets[bucket / 64] |= UINT64_C(1) << bucket % 64;
}

static void wake(struct store *store, const struct wakes *w)
{
	if (w->all) {
		store_wake_all(store);
		return;
	}
	for (unsigned i = 0; i < w->n; i++)
		store_wake(store, w->scopes[i]);
	for (unsigned i = 0; w->n == WAKES_MAX && i < SCOPE_BUCKETS; i++)
		if (w->buckets[i / 64] >> i % 64 & 1)
			store_wake_bucket(store, i);
}

struct wake_post {
	struct store_hub *hub;
	unsigned slot;
};

static void take_wakes(void *arg)
{
	struct wake_post *post = arg;
	struct store_hub *hub = post->hub;
	struct wakes w = { .n = 0 };
	struct store *store;

	pthread_mutex_lock(&hub->lock);
	store = hub->stores[post->slot];
	if (store) {
		w = store->wakes;
		memset(&store->wakes, 0, sizeof(store->wakes));
	}
	pthread_mutex_unlock(&hub->lock);
	free(post);
	if (store)
		wake(store, &w);
}

static void post_wake(struct store_hub *hub, unsigned slot)
{
	struct wake_post *post = malloc(sizeof(*post));

	if (!post)
		return; /* the next event tries again */
	post->hub = hub;
	post->slot = slot;
	if (loop_post(hub->stores[slot]->loop, take_wakes, post)) {
		free(post);
		return;
	}
	hub->stores[slot]->wakes.posted = true;
}

void store_hub_wake(struct store_hub *hub, const char *scope)
{
	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < STORE_LOOPS_MAX; i++) {
		if (!hub->stores[i])
			continue;
		note_wake(hub, &hub->stores[i]->wakes, scope);
		if (!hub->stores[i]->wakes.posted)
			post_wake(hub, i);
	}
	pthread_mutex_unlock(&hub->lock);
}

/* ---- the store of a loop ---- */

const char *store_trouble(const struct store *store)
{
	const char *trouble = redis_trouble(store->redis);

	if (!trouble && atomic_load(&store->hub->n_up) < atomic_load(&store->hub->n_loops))
		trouble = "a connection of another loop is not there yet";
	if (!trouble && atomic_load(&store->hub->deaf))
		trouble = "it refuses PSUBSCRIBE, by which events are heard of; the log has why";
	return trouble;
}

const char *store_place(const struct store *store)
{
	return store->hub->url.shown;
}

void store_warnings(const struct store *store, struct evbuffer *out)
{
	if (atomic_load(&store->hub->refusing))
		evbuffer_add_printf(out, "Redis refuses writes: agents neither register nor beat, "
					 "and none is given up; the log has why\n");
	if (atomic_load(&store->hub->untold))
		evbuffer_add_printf(
			out, "Redis does not tell of keys that others write, since it refuses "
			     "CONFIG: lists have them some seconds later; the log has why\n");
	reach_warn(store->hub, out);
}

static void load_scripts(struct store *store)
{
	for (int i = 0; i < N_SCRIPTS; i++) {
		const char *args[] = { "SCRIPT", "LOAD", (const char *)scripts[i].text };
		size_t lens[] = { 6, 4, scripts[i].len };

		/* A failure shows as NOSCRIPT later and is handled there. */
		redis_command(store->redis, 3, args, lens, NULL, NULL);
	}
}

static void on_up(void *arg, const char *run_id)
{
	struct store *store = arg;

	atomic_fetch_add(&store->hub->n_reconnects, 1);
	atomic_fetch_add(&store->hub->n_up, 1);
	load_scripts(store);
	if (store->reaper) { /* of the first loop: once is enough */
		reaper_up(store->reaper, run_id);
		store_reach_up(store);
		reach_up(store);
	}
	if (store->learner)
		learner_up(store->learner);
	store_moved_up(store);
	store_wake_all(store);
}

static void on_down(void *arg)
{
	struct store *store = arg;

	atomic_fetch_sub(&store->hub->n_up, 1);
	if (store->reaper) {
		reaper_down(store->reaper);
		reach_down(store);
	}
	if (store->learner)
		learner_down(store->learner);
}

static void end_calls(struct store *store)
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

void store_do_later(struct store *store, struct store_later *later)
{
	sl_list_append(&store->later, &later->node);
	event_active(store->turn, EV_TIMEOUT, 0);
}

static void do_later(struct store *store)
{
	struct sl_list now;
	struct sl_list *e;

	sl_list_init(&now);
	sl_list_splice(&now, &store->later);
	while ((e = sl_list_pop(&now))) {
		struct store_later *later = SL_CONTAINER_OF(e, struct store_later, node);

		later->fn(later);
	}
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct store *store = arg;

	(void)fd;
	(void)what;
	do_later(store);
	store_flush_settled(store);
	store_flush_beats(store);
	store_flush_groups(store);
	end_calls(store);
}

static int take_slot(struct store_hub *hub, struct store *store, bool *first)
{
	int ret = -ENOSPC;

	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < STORE_LOOPS_MAX && ret; i++) {
		if (hub->stores[i])
			continue;
		hub->stores[i] = store;
		store->slot = i;
		atomic_fetch_add(&hub->n_loops, 1);
		*first = i == 0;
		ret = 0;
	}
	pthread_mutex_unlock(&hub->lock);
	return ret;
}

static void give_slot(struct store_hub *hub, const struct store *store)
{
	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < STORE_LOOPS_MAX; i++)
		if (hub->stores[i] == store) {
			hub->stores[i] = NULL;
			atomic_fetch_sub(&hub->n_loops, 1);
		}
	pthread_mutex_unlock(&hub->lock);
}

/* docs/redis-keys.md: of everything that this release writes. */
#define FORM "1"

static struct redis_words ask_schema(const struct key_names *keys)
{
	const struct script *s = &scripts[SCRIPT_SCHEMA];
	const char *text = (const char *)s->text;

	return (struct redis_words){
		.n = 7,
		.args = { "EVAL", text, "2", keys->schema, keys->run, "0", FORM },
		.lens = { strlen("EVAL"), s->len, 1, strlen(keys->schema), strlen(keys->run), 1,
			  strlen(FORM) },
	};
}

int store_create(struct store_hub *hub, struct loop *loop, struct store **out)
{
	struct store *store = calloc(1, sizeof(*store));
	struct redis_attr attr = { .url = &hub->url,
				   .name = "nanoctrl",
				   .timeout_ms = hub->config.timeout_ms,
				   .max_inflight = hub->config.max_inflight,
				   .look_ms = hub->config.look_ms,
				   .admit = ask_schema(&hub->keys),
				   .up = on_up,
				   .down = on_down };
	bool first = false;
	int ret;

	if (!store)
		return -ENOMEM;
	store->hub = hub;
	store->loop = loop;
	store->base = loop_base(loop);
	sl_list_init(&store->ended);
	sl_list_init(&store->beats);
	for (unsigned i = 0; i < STORE_GROUPS; i++) {
		sl_list_init(&store->groups[i].waiting);
		sl_list_init(&store->groups[i].sent);
	}
	for (unsigned i = 0; i < SCOPE_BUCKETS; i++) {
		sl_list_init(&store->feeds[i]);
		sl_list_init(&store->shares[i]);
	}
	sl_list_init(&store->lists);
	sl_list_init(&store->probes);
	sl_list_init(&store->later);
	sl_list_init(&store->settling);
	sl_list_init(&store->to_settle);
	sl_list_init(&store->waiting);
	attr.arg = store;
	store->turn = event_new(store->base, -1, 0, on_turn, store);
	ret = store->turn ? store_moved_init(store) : -ENOMEM;
	if (!ret)
		ret = redis_create(store->base, &attr, &store->redis);
	if (!ret)
		ret = take_slot(hub, store, &first);
	if (!ret && first)
		ret = reaper_create(store, &store->reaper);
	if (!ret && first)
		ret = reach_create(store);
	if (!ret && first && !store_is_cluster(store))
		ret = learner_create(store, &store->learner);
	if (ret) {
		store_destroy(store);
		return ret;
	}
	*out = store;
	return 0;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	store->closing = true;
	give_slot(store->hub, store);
	if (store->redis && !redis_trouble(store->redis))
		atomic_fetch_sub(&store->hub->n_up, 1); /* down is not called */
	redis_destroy(store->redis);
	reach_end(store);
	store_moved_fini(store);
	/* What callbacks called again has ended by now, and is called back here. */
	while (!sl_list_empty(&store->ended) || !sl_list_empty(&store->beats) ||
	       !sl_list_empty(&store->later) || !sl_list_empty(&store->settling) ||
	       !store_groups_empty(store)) {
		do_later(store);
		store_end_settling(store);
		store_fail_beats(store);
		store_flush_groups(store);
		end_calls(store);
	}
	reaper_destroy(store->reaper);
	learner_destroy(store->learner);
	if (store->turn)
		event_free(store->turn);
	free(store);
}

/* ---- calls ---- */

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

static bool read_outcome(const redisReply *reply, uint64_t *outcome)
{
	if (reply->type != REDIS_REPLY_INTEGER)
		return reply->type != REDIS_REPLY_ERROR && store_u64(reply, 0, outcome);
	*outcome = (uint64_t)reply->integer;
	return true;
}

static int judge(const struct store_call *call, const redisReply *reply)
{
	uint32_t held_back;
	uint64_t outcome;

	if (reply->type == REDIS_REPLY_ERROR && store_is_refusal(reply->str)) {
		reaper_refused(call->store->hub);
		return -EAGAIN;
	}
	if (read_outcome(reply, &outcome) && outcome <= STORE_TOO_LARGE)
		return (int)outcome;
	if (sl_log_allow(&odd_answers, &held_back))
		sl_error("store", "%s: an answer that makes no sense (%u before it): %s",
			 scripts[call->script].name, held_back,
			 reply->type == REDIS_REPLY_ERROR ? reply->str : "not of this script");
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
		call->args[1] = (const char *)scripts[call->script].text;
		call->lens[1] = scripts[call->script].len;
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
				      enum script_id script, size_t n,
				      const struct store_text *args)
{
	char keep[DIGITS_MAX];
	struct store_text head[5] = {
		text_of("EVALSHA"), text_of(scripts[script].sha1), text_of("1"), prefix, { keep, 0 }
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

void store_send_prefixed(struct store *store, struct store_text prefix, enum script_id script,
			 size_t n, const struct store_text *args, store_finish_fn *finish,
			 union store_answer fn, void *arg)
{
	struct store_call *call = format_call(store, prefix, script, n, args);
	struct store_call dummy = { .store = store, .fn = fn, .arg = arg };
	int ret;

	if (!call) {
		finish(&dummy, -ENOMEM, NULL);
		return;
	}
	call->store = store;
	call->script = script;
	call->finish = finish;
	call->fn = fn;
	call->arg = arg;
	sl_list_init(&call->node);
	atomic_fetch_add(&store->hub->n_calls, 1);
	ret = store->closing ? -ENOTCONN : store_send_call(call);
	if (ret && !(ret == -EAGAIN && store_wait_for_cluster(call)))
		end_call_later(call, ret);
}

void store_send_many(struct store *store, const char *scope, enum script_id script, size_t n,
		     const struct store_text *args, store_finish_fn *finish, union store_answer fn,
		     void *arg)
{
	char prefix[KEY_PREFIX_MAX];

	key_prefix(prefix, &store->hub->keys, scope);
	store_send_prefixed(store, text_of(prefix), script, n, args, finish, fn, arg);
}

void store_send(struct store *store, const char *scope, enum script_id script,
		const struct store_args *args, store_finish_fn *finish, union store_answer fn,
		void *arg)
{
	store_send_many(store, scope, script, (size_t)args->n, args->v, finish, fn, arg);
}

struct store_text store_call_arg(const struct store_call *call, int i)
{
	i += 3;
	return i < call->n ? (struct store_text){ call->args[i], call->lens[i] } : text_of("");
}

void store_finish_done(struct store_call *call, int result, const redisReply *reply)
{
	(void)reply;
	if (call->fn.done)
		call->fn.done(call->arg, result);
}

void store_finish_noted(struct store_call *call, int result, const redisReply *reply)
{
	store_note_skipped(call, reply);
	store_finish_done(call, result, reply);
}
