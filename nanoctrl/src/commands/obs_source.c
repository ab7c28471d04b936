/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/obs_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "cli/output/quote.h"
#include "cli/process/pidfile.h"
#include "store/key.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "commands/obs_redis.h"
#include "redis/url.h"
#include "daemon/runtime.h"
#include "server/settings.h"

#define CALL_MS 10000 /* a server tells after 5 s that its Redis does not answer */

struct obs_source {
	const struct options *options;
	uint32_t redis_ms;
	struct redis_url redis;
	bool has_redis;
	struct event_base *base;
	struct nc_client *client;
	char name[320];
	/* of a reading */
	struct obs_list *list;
	unsigned n_pages;
	bool done;
	int result;
	char *why;
	size_t room;
};

static const char default_scope[] = "default";

static const char *scope_of(const struct options *options)
{
	return options->scope ? options->scope : default_scope;
}

/* ---- from a server ---- */

void obs_source_await(struct obs_source *s, const bool *done)
{
	while (!*done && event_base_dispatch(s->base) == 0)
		;
}

void obs_source_done(struct obs_source *s, bool *done)
{
	*done = true;
	event_base_loopbreak(s->base);
}

static void finish(struct obs_source *s, int result, const char *why)
{
	s->result = result;
	snprintf(s->why, s->room, "%s", why);
	obs_source_done(s, &s->done);
}

static void on_page(void *arg, const struct nc_error *error, const char *text, size_t len);

static int take_page(struct obs_source *s, struct json_slice page)
{
	struct json_slice doc, snapshots = obs_member(page, "snapshots");
	struct json_walk w;
	int ret = 0;

	if (!snapshots.at || !json_walk_init(&w, snapshots) || w.object)
		return -EPROTO;
	while (!ret && json_walk_next(&w, &(struct json_slice){ NULL, 0 }, &doc))
		ret = obs_list_add(s->list, doc.at, doc.len, OBS_LEASE_UNKNOWN);
	return ret;
}

static void on_page(void *arg, const struct nc_error *error, const char *text, size_t len)
{
	struct obs_source *s = arg;
	struct json_slice page = { text, len };
	char next[8192];
	int ret;

	if (error) {
		finish(s, error->err, error->message[0] ? error->message : strerror(-error->err));
		return;
	}
	ret = take_page(s, page);
	obs_text(page, "next", next, sizeof(next));
	if (!ret && *next && ++s->n_pages == OBS_PAGES_MAX) {
		finish(s, -EPROTO, "the list of snapshots has no end");
		return;
	}
	if (!ret && *next)
		ret = nc_list_snapshots(s->client, NULL, next, on_page, s);
	else if (!ret)
		obs_list_finish(s->list, obs_number(page, "now_ms"),
				(uint64_t)s->options->stale_ms);
	if (ret || !*next)
		finish(s, ret, ret ? strerror(-ret) : "");
}

static int read_server(struct obs_source *s)
{
	int ret;

	s->done = false;
	s->n_pages = 0;
	ret = nc_list_snapshots(s->client, NULL, NULL, on_page, s);
	if (ret)
		finish(s, ret, strerror(-ret));
	obs_source_await(s, &s->done);
	return s->result;
}

/* ---- from a Redis ---- */

static int on_text(void *arg, const char *text, size_t len, enum obs_lease lease)
{
	return obs_list_add(arg, text, len, lease);
}

static int read_redis(struct obs_source *s)
{
	const char *scope = scope_of(s->options);
	const char *root = s->redis.kind == REDIS_CLUSTER ? KEY_CLUSTER_ROOT : "";
	char prefix[2 * OBS_TEXT];
	struct redis_obs_scope scopes[] = { { root, prefix, scope },
					    { root, root, default_scope } };
	bool unscoped = !strcmp(scope, default_scope) || !*scope;
	struct redis_obs_report report;
	int ret;

	snprintf(prefix, sizeof(prefix), "%s%s:", root, scope);
	/* Native agents of the default scope write where those do that name no scope. */
	if (unscoped)
		scopes[0].native = NULL;
	ret = redis_obs(&s->redis, s->redis_ms, *scope ? scopes : scopes + 1,
			*scope && unscoped ? 2 : 1, on_text, s->list, &report);
	if (ret)
		snprintf(s->why, s->room, "%s", *report.why ? report.why : strerror(-ret));
	else
		obs_list_finish(s->list, report.now_ms, (uint64_t)s->options->stale_ms);
	return ret;
}

int obs_source_read(struct obs_source *s, struct obs_list *out, char *why, size_t room)
{
	obs_list_clear(out);
	s->list = out;
	s->why = why;
	s->room = room;
	return s->client ? read_server(s) : read_redis(s);
}

/* ---- life ---- */

static int open_client(struct obs_source *s, const char *url)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	int ret;

	s->base = event_base_new();
	if (!s->base)
		return -ENOMEM;
	attr.base = s->base;
	attr.urls = &url;
	attr.n_urls = 1;
	if (s->options->scope && *s->options->scope) /* "" stands for clients that name no scope */
		attr.scope = s->options->scope;
	attr.timeout_ms = CALL_MS;
	attr.impatient = true; /* a person waits, and may ask again */
	ret = nc_client_create(&s->client, &attr);
	if (ret)
		fprintf(stderr, "nanoctrl: %s: %s\n", url, strerror(-ret));
	snprintf(s->name, sizeof(s->name), "Server: %s", url);
	return ret;
}

static int open_redis(struct obs_source *s, const struct settings *settings)
{
	const char *why = "no memory";
	int ret = redis_url_parse(settings->redis.url, &s->redis, &why);

	if (ret) {
		fprintf(stderr, "nanoctrl: %s\n", why);
		return ret;
	}
	s->has_redis = true;
	s->redis_ms = (uint32_t)settings->redis.timeout_ms;
	snprintf(s->name, sizeof(s->name), "Redis: %s", s->redis.shown);
	return 0;
}

static int open_one(struct obs_source *s, const struct settings *settings, const struct runtime *rt)
{
	struct cli_pidfile_info info;

	if (s->options->address)
		return open_client(s, s->options->address);
	if (settings->redis.url)
		return open_redis(s, settings);
	if (!cli_pidfile_read(rt->pid_file, &info) && info.note[0])
		return open_client(s, info.note);
	fprintf(stderr, "nanoctrl: no server runs in %s; --address names one\n", rt->dir);
	return -ENOENT;
}

int obs_source_open(const struct settings *settings, const struct options *options,
		    const struct runtime *rt, struct obs_source **out)
{
	struct obs_source *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->options = options;
	ret = open_one(s, settings, rt);
	if (ret)
		obs_source_close(s);
	else
		*out = s;
	return ret;
}

void obs_source_close(struct obs_source *s)
{
	if (!s)
		return;
	nc_client_destroy(s->client);
	if (s->base) {
		/* A deferred callback frees the client's connection. */
		event_base_loop(s->base, EVLOOP_NONBLOCK);
		event_base_free(s->base);
	}
	if (s->has_redis)
		redis_url_fini(&s->redis);
	free(s);
}

const char *obs_source_name(const struct obs_source *s)
{
	return s->name;
}

struct nc_client *obs_source_client(const struct obs_source *s)
{
	return s->client;
}

static void add_option(char out[OBS_HINT_MAX], const char *option, const char *value)
{
	size_t len = strlen(out);
	char word[CLI_QUOTE_MAX];

	if (value)
		snprintf(out + len, OBS_HINT_MAX - len, " %s %s", option,
			 cli_quote_word(word, value));
}

const char *obs_source_options(const struct obs_source *s, char out[OBS_HINT_MAX])
{
	const struct options *o = s->options;

	*out = '\0';
	add_option(out, "--scope", o->scope);
	add_option(out, "--address", o->address);
	add_option(out, "--redis-url", s->has_redis ? s->redis.shown : NULL);
	if (!o->address && !s->has_redis)
		add_option(out, "--runtime-dir", o->runtime_dir);
	return out;
}

/* The client names the server where it could not ask it. */
void obs_source_complain(const struct obs_source *s, const char *why)
{
	const char *where = strchr(s->name, ' ') + 1;

	if (!strncmp(why, where, strlen(where)))
		fprintf(stderr, "nanoctrl: %s\n", why);
	else
		fprintf(stderr, "nanoctrl: %s: %s\n", where, why);
}
