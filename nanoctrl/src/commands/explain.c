/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/nearest.h"
#include "cli/output/output.h"
#include "cli/output/quote.h"
#include "commands/links_wanted.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "server/settings.h"

const char *const explain_life_names[] = { "alive", "starting", "overdue", "stale",
					   "left",  "gone",	"unknown" };

struct reading {
	const char *agent, *peer; /* the words of the command line; peer NULL: all of them */
	struct links_list list;
	struct explanation x;
	struct explain_agent *asked_for;
	bool done;
	char error[320];
};

/* ---- agents ---- */

static void finish(struct reading *r, const char *error)
{
	snprintf(r->error, sizeof(r->error), "%s", error);
	obs_source_done(r->list.source, &r->done);
}

static void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	struct reading *r = arg;
	struct explain_agent *a = r->asked_for;

	a->asked = !error || error->err != -EINVAL;
	if (error) {
		bool gone = error->err == -ENOENT || !a->asked;

		finish(r, gone ? "" : error->message[0] ? error->message : strerror(-error->err));
		return;
	}
	a->registered = true;
	a->generation = agent->generation;
	a->registered_at_ms = agent->registered_at_ms;
	a->lease_left_ms = agent->lease_left_ms;
	a->session = agent->session;
	snprintf(a->incarnation, sizeof(a->incarnation), "%s", agent->incarnation);
	snprintf(a->address, sizeof(a->address), "%s", agent->address);
	finish(r, "");
}

static enum explain_life life_of(const struct explain_agent *a)
{
	static const enum explain_life lives[] = {
		[OBS_ALIVE] = EXPLAIN_ALIVE,
		[OBS_STARTING] = EXPLAIN_STARTING,
		[OBS_STALE] = EXPLAIN_STALE,
		[OBS_STOPPED] = EXPLAIN_LEFT,
	};

	if (a->registered)
		return a->lease_left_ms > 0 ? EXPLAIN_ALIVE : EXPLAIN_OVERDUE;
	if (!a->snapshot)
		return a->asked ? EXPLAIN_GONE : EXPLAIN_UNKNOWN;
	/* A native agent that the server does not know has ended, also if its last snapshot says
	 * otherwise. */
	if (a->asked && a->snapshot->native && a->snapshot->state != OBS_STOPPED)
		return EXPLAIN_GONE;
	return lives[a->snapshot->state];
}

/* All that is known about the agent. A name that no native agent can have, since it reads as a
 * selector, is refused (-EINVAL) here or by the server: then there is no such native agent, and
 * nothing is reported about it. */
static void read_agent(struct reading *r, const char *name, struct explain_agent *out)
{
	struct nc_client *client = obs_source_client(r->list.source);
	int ret = -EINVAL;

	*out = (struct explain_agent){ .name = name,
				       .snapshot = links_list_snapshot(&r->list, name) };
	r->asked_for = out;
	r->done = false;
	if (client)
		ret = nc_get_agent(client, name, on_agent, r);
	if (ret && ret != -EINVAL)
		finish(r, strerror(-ret));
	if (!ret)
		obs_source_await(r->list.source, &r->done);
	out->life = life_of(out);
}

/* ---- links ---- */

/* A link that only one end wants is shown as that end reports it; the other end reports nothing
 * about it. */
static const struct links_end *reported(const struct links_end *e)
{
	return e && !e->missing && !e->wanted_only ? e : NULL;
}

bool explain_ends_agree(const struct explain_link *k)
{
	return k->own && k->other && !strcmp(k->own->state, k->other->state) &&
	       !strcmp(k->own->transport, k->other->transport);
}

static void add_link(struct explanation *x, const char *peer, const char *profile,
		     const struct links_end *own, const struct links_end *other)
{
	x->links[x->n++] = (struct explain_link){
		.peer = peer, .profile = profile, .own = own, .other = other
	};
}

/* Whether an end of the agent's own is shown. */
static bool own_end(const struct reading *r, const char *peer, const char *profile)
{
	const struct links_end *e = links_list_find(&r->list, r->x.agent.name, peer, profile);

	return e && (reported(e) || e->wanted_only);
}

/* Of the end in the list: one of ours, or one of a peer that we do not report. */
static void take_end(struct reading *r, const struct links_end *e, const char *peer)
{
	const char *name = r->x.agent.name;
	bool own = !strcmp(e->agent, name);
	const char *other = own ? e->peer : e->agent;
	const struct links_end *back = links_list_find(&r->list, other, name, e->profile);

	if ((!reported(e) && !(own && e->wanted_only)) || (peer && strcmp(peer, other) != 0))
		return;
	if (own)
		add_link(&r->x, other, e->profile, e, reported(back));
	else if (!own_end(r, other, e->profile))
		add_link(&r->x, other, e->profile, NULL, e);
}

static int compare(const void *a, const void *b)
{
	const struct explain_link *x = a, *y = b;
	int d = strcmp(x->peer, y->peer);

	return d ? d : strcmp(x->profile, y->profile);
}

static int take_links(struct reading *r, const char *peer)
{
	struct explanation *x = &r->x;

	x->links = calloc(r->list.n + 1, sizeof(*x->links));
	if (!x->links)
		return -ENOMEM;
	for (size_t i = 0; i < r->list.n; i++)
		take_end(r, &r->list.ends[i], peer);
	if (x->n)
		qsort(x->links, x->n, sizeof(*x->links), compare);
	return 0;
}

/* An agent that reports the same as ours is registered; others are asked for, once for all links to
 * them. */
static void read_peers(struct reading *r)
{
	struct explanation *x = &r->x;
	struct explain_agent peer = { .name = "" };

	for (size_t i = 0; i < x->n && !r->error[0]; i++) {
		struct explain_link *k = &x->links[i];

		if (explain_ends_agree(k) && k->other->reported) {
			k->peer_life = EXPLAIN_ALIVE;
			continue;
		}
		if (strcmp(peer.name, k->peer) != 0)
			read_agent(r, k->peer, &peer);
		k->peer_life = peer.life;
		k->peer_is_silent = peer.registered && !peer.session;
	}
}

/* ---- all of it ---- */

static int refuse(const struct reading *r, const struct options *options)
{
	const struct explain_agent *a = &r->x.agent;
	bool known = a->registered || a->snapshot || r->list.n;
	struct cli_nearest nearest = { .word = known ? r->peer : r->agent };
	char agent[CLI_QUOTE_MAX], word[CLI_QUOTE_MAX];

	for (size_t i = 0; !known && i < r->list.snapshots.n; i++)
		cli_nearest_offer(&nearest, r->list.snapshots.list[i].peer);
	for (size_t i = 0; known && i < r->list.n; i++)
		cli_nearest_offer(&nearest, r->list.ends[i].peer);
	if (known)
		fprintf(stderr, "nanoctrl: %s has no link to %s, and that none to it",
			cli_quote(agent, r->agent), cli_quote(word, r->peer));
	else
		fprintf(stderr, "nanoctrl: no agent %s is known in scope %s%s",
			cli_quote(agent, r->agent), r->x.scope,
			options->scope ? "" : "; --scope names another scope");
	if (nearest.best)
		fprintf(stderr, "; did you mean %s?", cli_quote(word, nearest.best));
	fprintf(stderr, "\n");
	return 1;
}

/* Whether there is anything to report: an agent that is unknown everywhere is usually a typing
 * error. */
static bool is_known(const struct explanation *x, bool with_peer)
{
	return x->n || (!with_peer && (x->agent.registered || x->agent.snapshot));
}

static int print(const struct explanation *x, bool json)
{
	int ret = 0;

	if (json)
		ret = explain_print_json(x);
	else
		explain_print(x, stdout);
	if (!ret && ferror(stdout))
		ret = -EIO;
	return ret ? cli_output_fail("nanoctrl", ret) : 0;
}

static int show(struct reading *r, const struct options *options)
{
	struct explanation *x = &r->x;

	links_wanted_read(&r->list);
	if (!r->list.error[0])
		read_agent(r, r->agent, &x->agent);
	if (!r->list.error[0] && !r->error[0] && take_links(r, r->peer))
		finish(r, strerror(ENOMEM));
	if (!r->list.error[0] && !r->error[0])
		read_peers(r);
	if (r->list.error[0] || r->error[0]) {
		obs_source_complain(r->list.source, r->error[0] ? r->error : r->list.error);
		return 1;
	}
	x->now_ms = r->list.snapshots.now_ms;
	if (!is_known(x, r->peer))
		return refuse(r, options);
	return print(x, options->json);
}

int explain_show(const struct settings *settings, const struct options *options,
		 const struct runtime *rt, const struct cli_args *args)
{
	struct reading r = { .agent = args->operands[0],
			     .peer = args->n_operands > 1 ? args->operands[1] : NULL,
			     .list = { .about = args->operands[0] } };
	int status;

	if (obs_source_open(settings, options, rt, &r.list.source))
		return 1;
	r.x.scope = options->scope && *options->scope ? options->scope : "default";
	status = show(&r, options);
	free(r.x.links);
	links_list_clear(&r.list);
	obs_source_close(r.list.source);
	return status;
}
