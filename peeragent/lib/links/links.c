/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "peeragent/lib/links/entry.h"
#include "peeragent/lib/plan/topology.h"

/* Links that a peer may ask for beside those that we want. */
#define MAX_UNWANTED_PER_PEER 64

static void lost(struct links *set, struct peer *peer);

void links_init(struct links *set)
{
	set->on_lost = lost;
	sl_list_init(&set->wanted);
	sl_list_init(&set->dropped);
	sl_list_init(&set->peers);
	sl_list_init(&set->waiters);
	sl_list_init(&set->watchers);
	sl_list_init(&set->connections.all);
}

void links_fini(struct links *set)
{
	struct sl_list *p, *e, *tmp, *next;

	sl_list_for_each_safe (p, tmp, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(p, struct peer, node);

		sl_list_for_each_safe (e, next, &peer->links)
			entry_destroy(SL_CONTAINER_OF(e, struct entry, node));
		peer_destroy(peer);
	}
	sl_list_for_each_safe (e, tmp, &set->wanted)
		wanted_destroy(SL_CONTAINER_OF(e, struct wanted, node));
	sl_list_for_each_safe (e, tmp, &set->dropped)
		wanted_destroy(SL_CONTAINER_OF(e, struct wanted, node));
}

/* ---- peers ---- */

static struct peer *find_peer(const struct links *set, const char *name)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(node, struct peer, node);

		if (!strcmp(peer->name, name))
			return peer;
	}
	return NULL;
}

static struct peer *get_peer(struct links *set, const char *name)
{
	struct peer *peer = find_peer(set, name);

	if (peer)
		return peer;
	peer = peer_create(name);
	if (peer)
		sl_list_append(&set->peers, &peer->node);
	else
		sl_error("agent", "no memory for peer %s", name);
	return peer;
}

static void tell_links(struct peer *peer, enum link_event event, const char *cause)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &peer->links) {
		struct entry *e = SL_CONTAINER_OF(node, struct entry, node);

		if (!e->forgotten)
			entry_happen(e, event, cause);
	}
}

static void post_again(struct peer *peer)
{
	struct sl_list *node;

	sl_list_for_each (node, &peer->links)
		entry_post_again(SL_CONTAINER_OF(node, struct entry, node));
}

static void begin_anew(struct peer *peer)
{
	struct sl_list *node;

	sl_list_for_each (node, &peer->links)
		SL_CONTAINER_OF(node, struct entry, node)->seen = 0;
	tell_links(peer, LINK_PEER_NEW, "the peer is a new process");
}

/* False when this is older than what we know. */
static bool update_peer(const struct links *set, struct peer *peer, const char *incarnation,
			uint64_t epoch, uint64_t generation)
{
	bool was_up = peer->up;

	switch (peer_update(peer, incarnation, epoch, generation)) {
	case PEER_OLD:
		return false;
	case PEER_SAME:
		break;
	case PEER_AGAIN:
		post_again(peer);
		tell_links(peer, LINK_PEER_UP, NULL);
		break;
	case PEER_INCARNATION:
		if (was_up)
			links_tell_end(set, peer, SLIME_PEER_SUPERSEDED, 0,
				       "another process has its name");
		begin_anew(peer);
		break;
	}
	return true;
}

/* Its reports say who wants the link. */
static void set_wish(struct links *set, struct entry *e, const struct wanted *w)
{
	e->by = w;
	if (e->shown && !e->forgotten)
		publication_change(set->publisher, &e->report);
}

static void want_entry(struct links *set, struct peer *peer, struct wanted *w)
{
	struct entry *e = entry_get(set, peer, topology_profile(w->link));
	char cause[sizeof(e->cause)] = "";

	if (!e) {
		sl_error("agent", "no memory for a link to %s", peer->name);
		return;
	}
	if (e->by) {
		bool refused = e->by->refusal;

		if (e->by != w)
			snprintf(w->shared, sizeof(w->shared), "%s", peer->name);
		if (e->by->source != LINK_OF_CLUSTER || w->source == LINK_OF_CLUSTER)
			return;
		set_wish(set, e, w); /* the agent's own wish goes before */
		if (!refused)
			return;
	} else {
		set_wish(set, e, w);
	}
	if (w->refusal) {
		entry_refuse(e);
		return;
	}
	if (!peer->up)
		snprintf(cause, sizeof(cause), "%s is not registered", peer->name);
	entry_happen(e, LINK_WANTED, cause);
}

static struct wanted *wanted_by_name(const struct links *set, const char *name, const char *profile,
				     const struct wanted *but)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->wanted) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (w != but && !strcmp(w->link->to, name) &&
		    !strcmp(topology_profile(w->link), profile))
			return w;
	}
	return NULL;
}

static bool wants_peer(const struct links *set, const struct ctrl_peer *cp)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->wanted) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (topology_link_matches(w->link, cp->name, cp->labels, cp->n_labels))
			return true;
	}
	return false;
}

/* Whether a wish brought about a link, or would have if another had not. */
static bool has_match(const struct links *set, const struct wanted *w)
{
	struct sl_list *p, *node;

	sl_list_for_each (p, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(p, struct peer, node);

		if (peer->up && !strcmp(peer->name, w->shared))
			return true;
		sl_list_for_each (node, &peer->links)
			if (SL_CONTAINER_OF(node, struct entry, node)->by == w)
				return true;
	}
	return false;
}

static void look_for_matches(struct links *set)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->wanted) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (topology_is_selector(w->link->to))
			wanted_match(w, has_match(set, w));
	}
}

/* Selectors that match now, and those that no longer do. */
static void match_selectors(struct links *set, struct peer *peer, const struct ctrl_peer *cp)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &peer->links) {
		struct entry *e = SL_CONTAINER_OF(node, struct entry, node);

		if (!e->by ||
		    topology_link_matches(e->by->link, cp->name, cp->labels, cp->n_labels))
			continue;
		e->by = NULL;
		entry_happen(e, LINK_UNWANTED, NULL);
	}
	sl_list_for_each (node, &set->wanted) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (!strcmp(w->shared, cp->name))
			w->shared[0] = '\0';
		if (topology_link_matches(w->link, cp->name, cp->labels, cp->n_labels))
			want_entry(set, peer, w);
	}
	look_for_matches(set);
}

void links_peer(struct links *set, const struct ctrl_peer *cp)
{
	struct peer *peer = find_peer(set, cp->name);

	if (set->closing || (!peer && !wants_peer(set, cp)))
		return;
	if (!peer)
		peer = get_peer(set, cp->name);
	if (!peer || !update_peer(set, peer, cp->incarnation, cp->epoch, cp->generation))
		return;
	peer->listed = true;
	match_selectors(set, peer, cp);
}

static void drop_peer_if_unused(struct peer *peer)
{
	if (sl_list_empty(&peer->links))
		peer_destroy(peer);
}

/* A selector's link goes with the peer; it comes back with it. */
static void unmatch(struct peer *peer)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &peer->links) {
		struct entry *e = SL_CONTAINER_OF(node, struct entry, node);

		if (!e->by || !(topology_is_selector(e->by->link->to) || e->by->ending) ||
		    e->link.phase != LINK_ABSENT)
			continue;
		e->by = NULL;
		entry_happen(e, LINK_UNWANTED, NULL);
	}
}

static void end_peer(struct links *set, struct peer *peer, bool left, bool was_up)
{
	char cause[sizeof(((struct entry *)0)->cause)];

	if (was_up && left)
		links_tell_end(set, peer, SLIME_PEER_LEFT, 0, "it left");
	else if (was_up)
		links_tell_end(set, peer, SLIME_PEER_EXPIRED, ctrl_lease_ms(set->ctrl),
			       "its lease ended");

	snprintf(cause, sizeof(cause), "%s %s", peer->name,
		 left ? "has left" : "is not registered any more");
	tell_links(peer, left ? LINK_PEER_LEFT : LINK_PEER_EXPIRED, cause);
	unmatch(peer);
	drop_peer_if_unused(peer);
	look_for_matches(set);
}

static void lost(struct links *set, struct peer *peer)
{
	if (peer->up)
		return;
	unmatch(peer);
	drop_peer_if_unused(peer);
	look_for_matches(set);
}

void links_peer_gone(struct links *set, const char *name, uint64_t epoch, uint64_t generation,
		     bool left)
{
	struct peer *peer = find_peer(set, name);
	bool was_up = peer && peer->up;

	if (peer && peer_end(peer, epoch, generation))
		end_peer(set, peer, left, was_up);
}

void links_list_begin(struct links *set)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->peers)
		SL_CONTAINER_OF(node, struct peer, node)->listed = false;
}

/* One line for a wish without a matching agent, so that a slip in its name is found. */
static void tell_missing(const struct links *set, struct wanted *w)
{
	bool selector = topology_is_selector(w->link->to);
	const struct peer *peer = selector ? NULL : find_peer(set, w->link->to);
	bool missing = selector ? !w->matched : !peer || !peer->up;

	if (missing && !w->told)
		sl_info("agent", "link %s/%s waits: %s", w->link->to, topology_profile(w->link),
			selector ? "no agent of the scope matches"
				 : "no agent of this name is registered in the scope");
	w->told = missing;
}

void links_list_end(struct links *set)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(node, struct peer, node);

		if (peer->up && !peer->listed) {
			peer->up = false;
			end_peer(set, peer, false, true);
			continue;
		}
		if (!peer->up)
			unmatch(peer);
		drop_peer_if_unused(peer);
	}
	look_for_matches(set);
	sl_list_for_each (node, &set->wanted)
		tell_missing(set, SL_CONTAINER_OF(node, struct wanted, node));
}

/* ---- what peers post ---- */

static bool has_room(const struct peer *peer)
{
	struct sl_list *node;
	unsigned n = 0;

	sl_list_for_each (node, &peer->links)
		n += !SL_CONTAINER_OF(node, struct entry, node)->by;
	return n < MAX_UNWANTED_PER_PEER;
}

/* The link that a post is about; one that only the peer wants begins with it. */
static struct entry *entry_for(struct links *set, struct peer *peer, const char *profile,
			       enum post_kind kind)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(3, 60000);
	bool initiator = strcmp(set->name, peer->name) < 0;
	struct entry *e = entry_find(peer, profile);
	uint32_t held_back;

	if (e && !e->forgotten)
		return e;
	if (kind != (initiator ? POST_WANT : POST_OFFER))
		return NULL;
	if (!e && !has_room(peer)) {
		if (sl_log_allow(&limit, &held_back))
			sl_warn("agent", "%s asks for more than %d links: refused", peer->name,
				MAX_UNWANTED_PER_PEER);
		return NULL;
	}
	return entry_get(set, peer, profile);
}

static void take(struct links *set, struct peer *peer, const struct ctrl_offer *offer,
		 const struct post *post)
{
	struct entry *e = entry_find(peer, offer->profile);

	/* Also by one that is forgotten, which would begin anew with it. */
	if (e && offer->number <= e->seen)
		return;
	e = entry_for(set, peer, offer->profile, post->kind);
	if (!e)
		return;
	e->seen = offer->number;
	entry_take(e, post);
}

void links_offer(struct links *set, const struct ctrl_offer *offer)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(4, 10000);
	uint32_t held_back;
	struct peer *peer;
	struct post post;

	if (set->closing)
		return;
	if (post_decode(offer->descriptor, offer->len, &post)) {
		/* Any agent of the scope can post as often as it likes. */
		if (sl_log_allow(&limit, &held_back))
			sl_warn("agent",
				"%s/%s: what the peer posted is malformed, or of another version (%u more "
				"like it)",
				offer->from, offer->profile, held_back);
		return;
	}
	peer = get_peer(set, offer->from);
	if (!peer)
		return;
	if (update_peer(set, peer, offer->incarnation, offer->epoch, offer->generation))
		take(set, peer, offer, &post);
	drop_peer_if_unused(peer);
}

void links_offer_gone(struct links *set, const char *from, const char *profile, uint64_t number)
{
	struct peer *peer = find_peer(set, from);
	struct entry *e = peer ? entry_find(peer, profile) : NULL;

	if (!e || e->forgotten || number < e->seen)
		return;
	/* A peer that registers again posts the same again, under the same number. After a
	 * reconnect old events may arrive again: one step back in `seen` lets the repeated post be
	 * taken once more. */
	e->seen = number ? number - 1 : 0;
	entry_happen(e, LINK_GOT_GONE, "the peer does not want it");
}

/* ---- what the agent wants ---- */

/* The same may be wanted by several. */
static struct wanted *wanted_of(const struct links *set, const struct slime_agent_link *link,
				enum link_source source)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->wanted) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (w->source == source && !strcmp(w->link->to, link->to) &&
		    !strcmp(topology_profile(w->link), topology_profile(link)))
			return w;
	}
	return NULL;
}

bool links_wants(const struct links *set, const struct slime_agent_link *link)
{
	return wanted_of(set, link, LINK_OF_FILE) || wanted_of(set, link, LINK_OF_CALLER);
}

static int open_wanted(struct links *set, struct wanted *w)
{
	struct peer *peer;

	if (topology_is_selector(w->link->to))
		return 0;
	peer = get_peer(set, w->link->to);
	if (!peer) {
		wanted_destroy(w);
		return -ENOMEM;
	}
	want_entry(set, peer, w);
	return 0;
}

int links_open(struct links *set, const struct slime_agent_link *link, enum link_source source)
{
	struct wanted *w;
	int ret = wanted_create(set, link, &w);

	if (ret)
		return ret;
	w->source = source;
	return open_wanted(set, w);
}

/* The links that w brought about: another wish of the same name keeps one. */
static void unwant(struct links *set, struct peer *peer, const struct wanted *w)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &peer->links) {
		struct entry *e = SL_CONTAINER_OF(node, struct entry, node);
		struct wanted *next;

		if (e->by != w)
			continue;
		next = wanted_by_name(set, peer->name, e->profile, w);
		e->by = NULL;
		/* A link beside a refused wish is the peer's. */
		if ((next && !next->refusal) || (w->refusal && e->link.phase == LINK_CONNECTED)) {
			set_wish(set, e, next);
			continue;
		}
		entry_happen(e, LINK_UNWANTED, NULL);
		if (next)
			want_entry(set, peer, next);
	}
}

static void close_wanted(struct links *set, struct wanted *w)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(node, struct peer, node);

		unwant(set, peer, w);
		drop_peer_if_unused(peer);
	}
	wanted_drop(w);
}

bool links_close(struct links *set, const struct slime_agent_link *link, enum link_source source)
{
	struct wanted *w = wanted_of(set, link, source);

	if (w)
		close_wanted(set, w);
	return w;
}

/* ---- what the cluster wants ---- */

static bool is_as_wanted(const struct wanted *w, const struct ctrl_wanted *want)
{
	if (w->refusal || want->refusal)
		return w->refusal && want->refusal && !strcmp(w->refusal, want->refusal);
	return topology_links_alike(w->link, &want->link);
}

/* Its links are reported with the topology that wants them. */
static void note_topology(struct links *set, struct wanted *w, const char *topology)
{
	const struct peer *peer = find_peer(set, w->link->to);
	struct entry *e = peer ? entry_find(peer, topology_profile(w->link)) : NULL;

	if (w->cluster && !strcmp(w->cluster, topology))
		return;
	free(w->cluster);
	w->cluster = strdup(topology);
	if (e && e->by == w && !e->forgotten)
		publication_change(set->publisher, &e->report);
}

static int make_of_cluster(struct links *set, const struct ctrl_wanted *want)
{
	struct wanted *w;
	int ret = wanted_create(set, &want->link, &w);

	if (ret)
		return ret;
	w->source = LINK_OF_CLUSTER;
	w->refusal = want->refusal;
	w->listed = true;
	w->cluster = strdup(want->topology);
	return open_wanted(set, w);
}

/* Whether it is there as it is wanted; else it is made. Without memory the next list has it. */
static bool open_of_cluster(struct links *set, const struct ctrl_wanted *want)
{
	struct wanted *w = wanted_of(set, &want->link, LINK_OF_CLUSTER);

	if (w && !is_as_wanted(w, want)) {
		close_wanted(set, w);
		w = NULL;
	}
	if (!w)
		return make_of_cluster(set, want) != 0;
	w->listed = true;
	w->ending = false;
	note_topology(set, w, want->topology);
	return true;
}

/* The lease of an agent that stands still ends, and its link may be whole. */
static bool is_out_of_reach(const struct links *set, const struct wanted *w)
{
	const struct peer *peer = find_peer(set, w->link->to);
	const struct entry *e = peer ? entry_find(peer, topology_profile(w->link)) : NULL;

	return e && e->by == w && !peer->up && e->link.phase == LINK_CONNECTED;
}

static void close_unlisted(struct links *set)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &set->wanted) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (w->source != LINK_OF_CLUSTER || w->listed)
			continue;
		w->ending = true;
		if (!is_out_of_reach(set, w))
			close_wanted(set, w);
	}
}

#define LOOKS_MAX 8 /* for single agents; for more all are listed */

void links_set_cluster(struct links *set, const struct ctrl_wanted *links, size_t n)
{
	const char *looks[LOOKS_MAX];
	struct sl_list *node;
	size_t n_new = 0;

	if (set->closing)
		return;
	sl_list_for_each (node, &set->wanted)
		SL_CONTAINER_OF(node, struct wanted, node)->listed = false;
	for (size_t i = 0; i < n; i++) {
		if (open_of_cluster(set, &links[i]))
			continue;
		if (n_new < LOOKS_MAX)
			looks[n_new] = links[i].link.to;
		n_new++;
	}
	close_unlisted(set);
	if (n_new > LOOKS_MAX)
		ctrl_list(set->ctrl);
	for (size_t i = 0; n_new <= LOOKS_MAX && i < n_new; i++)
		ctrl_look(set->ctrl, looks[i]);
}

static void end_waits(struct links *set)
{
	struct sl_list *node;

	while ((node = sl_list_pop(&set->waiters))) {
		struct link_waiter *w = SL_CONTAINER_OF(node, struct link_waiter, node);

		w->done(w, NULL);
	}
}

void links_close_all(struct links *set)
{
	struct sl_list *p, *e, *tmp, *next;

	set->closing = true;
	end_waits(set);
	sl_list_for_each_safe (p, tmp, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(p, struct peer, node);

		sl_list_for_each_safe (e, next, &peer->links) {
			struct entry *entry = SL_CONTAINER_OF(e, struct entry, node);

			if (!entry->forgotten)
				entry_happen(entry, LINK_UNWANTED, NULL);
		}
	}
}

/* ---- users of a link ---- */

static struct entry *living_entry(const struct links *set, const char *peer, const char *profile)
{
	struct peer *p = find_peer(set, peer);
	struct entry *e = p ? entry_find(p, profile) : NULL;

	return e && !e->forgotten ? e : NULL;
}

struct slime_endpoint *links_hold(struct links *set, const char *peer, const char *profile,
				  bool *known)
{
	struct entry *e = living_entry(set, peer, profile);

	*known = e != NULL;
	if (!e || e->link.phase != LINK_CONNECTED)
		return NULL;
	connection_hold(e->connection);
	return e->connection->ep;
}

int links_release(struct links *set, struct slime_endpoint *ep)
{
	struct connection *c = connection_of(&set->connections, ep);

	if (!c)
		return -ENOENT;
	connection_release(c);
	return 0;
}

void links_wait(struct links *set, struct link_waiter *w)
{
	sl_list_append(&set->waiters, &w->node);
}

void links_stop_waiting(struct link_waiter *w)
{
	sl_list_remove(&w->node);
}

void links_watch(struct links *set, struct link_watcher *w)
{
	const struct entry *e = living_entry(set, w->peer, w->profile);

	sl_list_append(&set->watchers, &w->node);
	if (e && e->link.phase == LINK_CONNECTED)
		w->changed(w, e->connection);
}

void links_stop_watching(struct link_watcher *w)
{
	sl_list_remove(&w->node);
}

void links_stats(const struct links *set, struct slime_agent_stats *out)
{
	struct slime_endpoint_stats stats;
	struct sl_list *p, *node;

	*out = (struct slime_agent_stats){ .ops = set->past, .n_connects = set->n_connects };
	sl_list_for_each (p, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(p, struct peer, node);

		sl_list_for_each (node, &peer->links) {
			struct entry *e = SL_CONTAINER_OF(node, struct entry, node);

			if (e->forgotten)
				continue;
			out->n_links[entry_state(e)]++;
			if (!e->connection)
				continue;
			slime_endpoint_stats(e->connection->ep, &stats);
			traffic_sum(&out->ops, &stats);
		}
	}
}

int links_info(const struct links *set, struct slime_agent_link_info *out, size_t n)
{
	struct sl_list *p, *node;
	size_t count = 0;

	sl_list_for_each (p, &set->peers) {
		struct peer *peer = SL_CONTAINER_OF(p, struct peer, node);

		sl_list_for_each (node, &peer->links) {
			struct entry *e = SL_CONTAINER_OF(node, struct entry, node);

			if (e->forgotten)
				continue;
			if (count < n)
				entry_info(e, &out[count]);
			count++;
		}
	}
	return (int)count;
}
