/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "pages/src/members.h"
#include "pages/src/tenant.h"

#define PROFILE	       "default"
#define SOON_MS	       20 /* until the thread looks again at owners that are not reached yet */
#define DIRECTORY_MS   2000
#define SILENCE_MIN_MS 2000
#define SETTLE_NS      (30 * SL_NS_PER_S)
#define NOTES_MAX      (32 * 1024) /* bytes of keys that are told at one time */
#define NOTES_KEYS     1024
#define LISTS_TO_LEAVE 3 /* lists of owners in a row that lack one, until it is forgotten */

/* Keys of which a member does not know that they were used. One list is collected while the one
 * before is sent. */
struct notes {
	uint8_t *bytes; /* as pages_key_write() has them; NULL: none yet */
	uint32_t len, n;
	uint64_t sent_ns;
	struct slime_call *call; /* the thread's, as all that follows; NULL: none yet */
	uint8_t *request;
	bool sent;   /* and use is to be left */
	bool silent; /* the link was closed, since there is no answer */
	struct member_use use;
};

struct member {
	char name[SLIME_AGENT_NAME_MAX + 1]; /* "": this place is free */
	uint64_t hash;
	bool linked;	 /* we asked for the link */
	unsigned absent; /* from how many lists in a row */
	bool up;	 /* use is valid */
	bool broken;	 /* to be reached anew once it has no users */
	int error;	 /* of the last try */
	unsigned n_users;
	uint64_t busy_ns;  /* since when it has users */
	uint64_t since_ns; /* up */
	enum slime_transport transport;
	struct member_use use;
	struct notes notes;
};

struct members {
	struct slime_agent *agent;
	char tenant[SLIME_PAGES_TENANT_MAX + 1];
	char region[PAGES_REGION_NAME_MAX];
	uint32_t refresh_ms;
	uint64_t notes_ns;
	uint32_t silence_ms; /* a member that answers nothing for so long stands still */
	char (*fixed)[SLIME_AGENT_NAME_MAX + 1]; /* NULL: those that offer the service */
	size_t n_fixed;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool thread_runs, stopping, kicked;
	unsigned n_up;
	uint16_t n; /* places in use or free; grows */
	struct member all[MEMBERS_MAX];
};

/* ---- which one owns a key ---- */

void members_lock(struct members *m)
{
	pthread_mutex_lock(&m->lock);
}

void members_unlock(struct members *m)
{
	pthread_mutex_unlock(&m->lock);
}

/* Rendezvous hashing: the member with the greatest weight. */
static uint64_t weight(const struct member *e, uint64_t hash)
{
	uint64_t x = e->hash ^ hash;

	/* The finaliser of MurmurHash3: every bit of x changes half of the result. */
	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

/* Of those below the given weight; before_ns: up since then. */
static uint16_t heaviest(struct members *m, uint64_t hash, uint64_t below, uint64_t before_ns,
			 uint64_t *found)
{
	uint16_t best = MEMBER_NONE;
	uint64_t best_weight = 0;

	for (uint16_t i = 0; i < m->n; i++) {
		const struct member *e = &m->all[i];
		uint64_t w;

		if (!e->up || e->since_ns > before_ns)
			continue;
		w = weight(e, hash);
		if (w < below && (best == MEMBER_NONE || w > best_weight)) {
			best = i;
			best_weight = w;
		}
	}
	*found = best_weight;
	return best;
}

uint16_t members_owner_locked(struct members *m, uint64_t hash, unsigned rank)
{
	uint64_t below = UINT64_MAX;
	uint16_t owner;

	do
		owner = heaviest(m, hash, below, UINT64_MAX, &below);
	while (owner != MEMBER_NONE && rank--);
	return owner;
}

uint16_t members_nearest_locked(struct members *m, uint64_t hash, unsigned n,
				const struct member_set *left_out)
{
	uint16_t nearest = MEMBER_NONE;

	for (unsigned rank = 0; rank < n; rank++) {
		uint16_t other = members_owner_locked(m, hash, rank);

		if (other == MEMBER_NONE)
			break;
		if (member_set_has(left_out, other))
			continue;
		if (nearest == MEMBER_NONE || (m->all[other].transport == SLIME_TRANSPORT_SHM &&
					       m->all[nearest].transport != SLIME_TRANSPORT_SHM))
			nearest = other;
	}
	return nearest;
}

uint16_t members_former_owner_locked(struct members *m, uint64_t hash)
{
	uint64_t now = sl_clock_ns(), found;

	return heaviest(m, hash, UINT64_MAX, now > SETTLE_NS ? now - SETTLE_NS : 0, &found);
}

/* Whether it stands before the other in a list. */
static bool is_before(const struct member *a, const struct member *b, const uint64_t *hash)
{
	if (a->up != b->up)
		return a->up;
	return hash ? weight(a, *hash) > weight(b, *hash) : strcmp(a->name, b->name) < 0;
}

static void describe(const struct member *e, struct slime_pages_owner_info *out)
{
	*out = (struct slime_pages_owner_info){ .error = e->up ? 0 : e->error };
	memcpy(out->name, e->name, sizeof(out->name));
	if (!e->up && !out->error)
		out->error = -ENOTCONN;
	if (!e->up)
		return;
	out->transport = e->transport;
	out->size = e->use.region.len;
}

size_t members_list(struct members *m, const uint64_t *hash, struct slime_pages_owner_info *out,
		    size_t n)
{
	uint16_t order[MEMBERS_MAX];
	size_t found = 0;

	pthread_mutex_lock(&m->lock);
	for (uint16_t i = 0; i < m->n; i++) {
		size_t at = found;

		if (!m->all[i].name[0])
			continue;
		for (; at && is_before(&m->all[i], &m->all[order[at - 1]], hash); at--)
			order[at] = order[at - 1];
		order[at] = i;
		found++;
	}
	for (size_t i = 0; i < found && i < n; i++)
		describe(&m->all[order[i]], &out[i]);
	pthread_mutex_unlock(&m->lock);
	return found;
}

/* ---- using one ---- */

int members_enter(struct members *m, uint16_t member, struct member_use *out)
{
	struct member *e = &m->all[member];
	int ret = -ENOTCONN;

	pthread_mutex_lock(&m->lock);
	if (e->up) {
		if (!e->n_users++)
			e->busy_ns = sl_clock_coarse_ns();
		*out = e->use;
		ret = 0;
	}
	pthread_mutex_unlock(&m->lock);
	return ret;
}

static void kick_locked(struct members *m)
{
	m->kicked = true;
	pthread_cond_broadcast(&m->changed);
}

static void set_broken_locked(struct members *m, struct member *e)
{
	if (e->up)
		m->n_up--;
	e->up = false;
	e->broken = true;
	kick_locked(m);
}

void members_leave(struct members *m, const struct member_use *use, bool broken)
{
	struct member *e = &m->all[use->member];

	pthread_mutex_lock(&m->lock);
	if (broken && e->use.life == use->life)
		set_broken_locked(m, e);
	if (--e->n_users == 0 && e->broken)
		kick_locked(m);
	pthread_mutex_unlock(&m->lock);
}

void members_note_use(struct members *m, uint16_t member, const void *key, size_t key_len)
{
	struct notes *notes = &m->all[member].notes;
	struct sl_writer w;

	pthread_mutex_lock(&m->lock);
	if (!notes->bytes)
		notes->bytes = malloc(NOTES_MAX);
	if (notes->bytes && notes->n < NOTES_KEYS) {
		w = (struct sl_writer){ .at = notes->bytes + notes->len,
					.room = NOTES_MAX - notes->len };
		pages_key_write(&w, key, key_len);
		if (!w.failed) {
			notes->len = NOTES_MAX - (uint32_t)w.room;
			notes->n++;
		}
	}
	pthread_mutex_unlock(&m->lock);
}

/* ---- the thread ---- */

static struct member *find_locked(struct members *m, const char *name)
{
	for (uint16_t i = 0; i < m->n; i++)
		if (!strcmp(m->all[i].name, name))
			return &m->all[i];
	return NULL;
}

static void add_locked(struct members *m, const char *name)
{
	struct member *e = find_locked(m, "");

	if (!e && m->n == MEMBERS_MAX)
		return;
	if (!e)
		e = &m->all[m->n++];
	e->use.life++;
	snprintf(e->name, sizeof(e->name), "%s", name);
	e->hash = XXH3_64bits(name, strlen(name));
	e->use.member = (uint16_t)(e - m->all);
}

static void take_list(struct members *m, char (*names)[SLIME_AGENT_NAME_MAX + 1], size_t n)
{
	pthread_mutex_lock(&m->lock);
	for (uint16_t i = 0; i < m->n; i++)
		m->all[i].absent++;
	for (size_t i = 0; i < n; i++) {
		struct member *e = find_locked(m, names[i]);

		if (e)
			e->absent = 0;
		else if (strcmp(names[i], slime_agent_name(m->agent)))
			add_locked(m, names[i]);
	}
	pthread_mutex_unlock(&m->lock);
}

/* Without an answer of nanoctrl those that we know stay. */
static void list_owners(struct members *m)
{
	char(*names)[SLIME_AGENT_NAME_MAX + 1];
	int n;

	if (m->fixed) {
		take_list(m, m->fixed, m->n_fixed);
		return;
	}
	names = malloc(MEMBERS_MAX * sizeof(*names));
	if (!names)
		return;
	n = slime_agent_providers(m->agent, SLIME_PAGES_SERVICE, names, MEMBERS_MAX, DIRECTORY_MS);
	if (n >= 0)
		take_list(m, names, (size_t)n);
	free(names);
}

/* The link and what the directory says of the region: of a member that is not up, so that only this
 * thread touches it. */
static int reach(struct members *m, struct member *e, struct slime_endpoint **ep,
		 struct slime_remote_mr *region)
{
	struct slime_agent_link link = { .to = e->name, .profile = PROFILE };
	int ret;

	if (!e->linked) {
		ret = slime_agent_link_add(m->agent, &link);
		if (ret && ret != -EEXIST)
			return ret;
		e->linked = true;
	}
	ret = slime_agent_endpoint_get(m->agent, e->name, PROFILE, 0, ep);
	if (ret)
		return ret;
	ret = slime_agent_region_remote(m->agent, e->name, m->region, DIRECTORY_MS, region);
	if (ret)
		slime_agent_endpoint_put(m->agent, *ep);
	return ret;
}

static void tell_error(struct members *m, struct member *e, int error)
{
	if (e->error != error && (error == -EACCES || error == -ENOENT))
		sl_warn("pages", "%s: %s", e->name,
			error == -EACCES ? "this agent may not use the tenant"
					 : "it has no such tenant");
	pthread_mutex_lock(&m->lock);
	e->error = error;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

static void bring_up(struct members *m, struct member *e)
{
	struct slime_endpoint_info info;
	struct slime_remote_mr region;
	struct slime_endpoint *ep;
	int ret = reach(m, e, &ep, &region);

	if (ret) {
		tell_error(m, e, ret);
		return;
	}
	slime_endpoint_info(ep, &info);
	pthread_mutex_lock(&m->lock);
	if (region.generation != e->use.region.generation || region.owner != e->use.region.owner)
		e->use.life++;
	e->use.ep = ep;
	e->use.region = region;
	pages_right(&region, e->use.right);
	e->transport = info.transport;
	e->since_ns = m->n_up ? sl_clock_ns() : 0; /* the first ones have always been here */
	e->error = 0;
	e->up = true;
	m->n_up++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	sl_debug("pages", "%s is reached over %s", e->name, slime_transport_name(info.transport));
}

/* Requests change up and broken, too: with the lock. */
static bool is_up(struct members *m, const struct member *e)
{
	bool up;

	pthread_mutex_lock(&m->lock);
	up = e->up;
	pthread_mutex_unlock(&m->lock);
	return up;
}

static void break_if_lost(struct members *m, struct member *e)
{
	struct slime_endpoint_info info;

	if (!is_up(m, e))
		return;
	slime_endpoint_info(e->use.ep, &info);
	if (info.state == SLIME_ENDPOINT_CONNECTED)
		return;
	pthread_mutex_lock(&m->lock);
	set_broken_locked(m, e);
	pthread_mutex_unlock(&m->lock);
}

static void forget(struct members *m, struct member *e)
{
	if (e->linked)
		(void)slime_agent_link_remove(m->agent, e->name, PROFILE);
	pthread_mutex_lock(&m->lock);
	e->name[0] = 0;
	e->linked = false;
	e->error = 0;
	e->notes.n = e->notes.len = 0;
	pthread_mutex_unlock(&m->lock);
}

/* Put back a connection that is broken and has no users any more. is_down: it has no users then. */
static void take_down(struct members *m, struct member *e, bool *is_down)
{
	struct slime_endpoint *ep = NULL;

	pthread_mutex_lock(&m->lock);
	if (e->broken && !e->n_users) {
		ep = e->use.ep;
		e->use.ep = NULL;
		e->broken = false;
	}
	*is_down = !e->up && !e->broken;
	pthread_mutex_unlock(&m->lock);
	if (ep)
		slime_agent_endpoint_put(m->agent, ep);
}

#define REQUEST_MAX (PAGES_HEAD_LEN + SLIME_PAGES_TENANT_MAX + NOTES_MAX)

/*
 * Whether there are notes to send, or a question has been under way for long. Then notes are sent
 * even if there are none: a member that does not answer them stands still, and would never end what
 * it was asked.
 */
static bool is_time_to_send(struct members *m, struct member *e)
{
	uint64_t silence_ns = m->silence_ms * SL_NS_PER_MS;
	uint64_t now = sl_clock_ns();
	bool is_time;

	pthread_mutex_lock(&m->lock);
	is_time = (e->notes.n && now - e->notes.sent_ns >= m->notes_ns) ||
		  (e->n_users && now - e->busy_ns >= silence_ns &&
		   now - e->notes.sent_ns >= silence_ns);
	pthread_mutex_unlock(&m->lock);
	return is_time;
}

static bool can_send_notes(struct members *m, struct member *e)
{
	struct notes *notes = &e->notes;

	if (notes->sent && slime_call_test(notes->call)) {
		notes->sent = false;
		notes->silent = false;
		members_leave(m, &notes->use, false);
	}
	if (notes->sent || !is_time_to_send(m, e))
		return false;
	if (!notes->request)
		notes->request = malloc(REQUEST_MAX);
	if (notes->request && !notes->call &&
	    slime_call_create(slime_agent_context(m->agent), NULL, &notes->call))
		return false;
	return notes->request != NULL;
}

/* A call to a peer that stands still is ended by nothing but the end of its link. */
static void close_if_silent(struct members *m, struct member *e)
{
	uint64_t limit_ns = (m->silence_ms + SLIME_CALL_GRACE_MS) * SL_NS_PER_MS;
	struct notes *notes = &e->notes;

	if (!notes->sent || notes->silent || slime_call_test(notes->call) ||
	    sl_clock_ns() - notes->sent_ns < limit_ns)
		return;
	notes->silent = true;
	sl_warn("pages", "%s: no answer for %u ms: its link is closed", e->name, m->silence_ms);
	slime_endpoint_close(notes->use.ep);
}

/* The answer is not waited for. */
static void send_notes(struct members *m, struct member *e)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct notes *notes = &e->notes;
	struct pages_head head;
	struct sl_writer w;

	close_if_silent(m, e);
	if (!can_send_notes(m, e) || members_enter(m, e->use.member, &notes->use))
		return;
	w = (struct sl_writer){ .at = notes->request, .room = REQUEST_MAX };
	pthread_mutex_lock(&m->lock);
	head = (struct pages_head){ .tenant = (const uint8_t *)m->tenant,
				    .tenant_len = (uint16_t)strlen(m->tenant),
				    .right = notes->use.right,
				    .n = notes->n };
	pages_head_write(&w, &head);
	if (notes->len)
		sl_write_bytes(&w, notes->bytes, notes->len);
	notes->n = notes->len = 0;
	pthread_mutex_unlock(&m->lock);
	notes->sent_ns = sl_clock_ns();
	args.method = slime_rpc_method_id(PAGES_TOUCH);
	args.request = notes->request;
	args.request_len = REQUEST_MAX - w.room;
	args.timeout_ms = m->silence_ms;
	notes->sent = slime_call_start(notes->use.ep, &args, notes->call) == 0;
	if (!notes->sent)
		members_leave(m, &notes->use, false);
}

/* A peer that stands still answers no call: closing its link ends it. */
static void end_notes(struct member *e)
{
	struct notes *notes = &e->notes;

	if (notes->sent && slime_call_wait(notes->call, 0))
		slime_endpoint_close(notes->use.ep);
	while (notes->sent && slime_call_wait(notes->call, -1) == -ETIMEDOUT)
		;
	(void)slime_call_destroy(notes->call);
	free(notes->request);
	free(notes->bytes);
}

/* false: it is to be looked at again soon. */
static bool look_after(struct members *m, struct member *e)
{
	bool is_down;

	if (!e->name[0])
		return true;
	break_if_lost(m, e);
	take_down(m, e, &is_down);
	if (is_down && e->absent >= LISTS_TO_LEAVE) {
		forget(m, e);
		return true;
	}
	if (is_down && !e->absent)
		bring_up(m, e);
	send_notes(m, e);
	return is_up(m, e) || e->absent || e->error == -EACCES || e->error == -ENOENT;
}

static void sleep_locked(struct members *m, uint32_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (!m->kicked && !m->stopping &&
	       pthread_cond_timedwait(&m->changed, &m->lock, &until) != ETIMEDOUT)
		;
	m->kicked = false;
}

static void *keep_members(void *arg)
{
	struct members *m = arg;
	uint64_t listed_ns = 0;

	pthread_mutex_lock(&m->lock);
	while (!m->stopping) {
		bool settled = true;

		pthread_mutex_unlock(&m->lock);
		if (!listed_ns || sl_clock_ns() - listed_ns >= m->refresh_ms * SL_NS_PER_MS) {
			list_owners(m);
			listed_ns = sl_clock_ns();
		}
		for (uint16_t i = 0; i < m->n; i++)
			settled &= look_after(m, &m->all[i]);
		pthread_mutex_lock(&m->lock);
		sleep_locked(m, settled ? m->refresh_ms : SOON_MS);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* ---- life ---- */

static int copy_fixed(struct members *m, const struct slime_pages_attr *attr)
{
	if (!attr->owners)
		return 0;
	m->fixed = calloc(attr->n_owners ? attr->n_owners : 1, sizeof(*m->fixed));
	if (!m->fixed)
		return -ENOMEM;
	for (; m->n_fixed < attr->n_owners; m->n_fixed++)
		snprintf(m->fixed[m->n_fixed], sizeof(m->fixed[0]), "%s", attr->owners[m->n_fixed]);
	return 0;
}

int members_create(struct slime_agent *agent, const struct slime_pages_attr *attr,
		   struct members **out)
{
	const char *tenant = attr->tenant ? attr->tenant : PAGES_DEFAULT_TENANT;
	struct members *m = calloc(1, sizeof(*m));
	pthread_condattr_t clock;
	int ret;

	if (!m)
		return -ENOMEM;
	m->agent = agent;
	snprintf(m->tenant, sizeof(m->tenant), "%s", tenant);
	snprintf(m->region, sizeof(m->region), PAGES_REGION_PREFIX "%s", tenant);
	m->refresh_ms = attr->refresh_ms;
	m->notes_ns = attr->dir_cache_ttl_ms * SL_NS_PER_MS;
	m->silence_ms = attr->timeout_ms > SILENCE_MIN_MS ? attr->timeout_ms : SILENCE_MIN_MS;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&m->changed, &clock);
	pthread_condattr_destroy(&clock);
	ret = copy_fixed(m, attr);
	if (!ret)
		ret = sl_thread_create(&m->thread, "slime-pages", keep_members, m);
	m->thread_runs = !ret;
	if (ret) {
		members_destroy(m);
		return ret;
	}
	*out = m;
	return 0;
}

void members_destroy(struct members *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->stopping = true;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	if (m->thread_runs)
		pthread_join(m->thread, NULL);
	for (uint16_t i = 0; i < m->n; i++) {
		struct member *e = &m->all[i];

		end_notes(e);
		if (e->use.ep)
			slime_agent_endpoint_put(m->agent, e->use.ep);
		if (e->linked)
			(void)slime_agent_link_remove(m->agent, e->name, PROFILE);
	}
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m->fixed);
	free(m);
}

unsigned members_reachable(struct members *m)
{
	unsigned n;

	pthread_mutex_lock(&m->lock);
	n = m->n_up;
	pthread_mutex_unlock(&m->lock);
	return n;
}

/* Owners are known, and each that is not reached refuses us. */
static bool is_refused_locked(const struct members *m)
{
	bool refused = false;

	for (uint16_t i = 0; i < m->n; i++) {
		const struct member *e = &m->all[i];

		if (!e->name[0] || e->up)
			continue;
		if (e->error != -EACCES)
			return false;
		refused = true;
	}
	return refused;
}

int members_wait(struct members *m, unsigned n, int64_t timeout_ms)
{
	uint64_t until = sl_deadline_ns(timeout_ms);
	int ret = 0;

	pthread_mutex_lock(&m->lock);
	while (m->n_up < n && !is_refused_locked(m) && sl_clock_ns() < until) {
		struct timespec step;

		clock_gettime(CLOCK_MONOTONIC, &step);
		step.tv_nsec += 10 * 1000000;
		if (step.tv_nsec >= 1000000000) {
			step.tv_sec++;
			step.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&m->changed, &m->lock, &step);
	}
	if (m->n_up < n)
		ret = is_refused_locked(m) ? -EACCES : -ETIMEDOUT;
	pthread_mutex_unlock(&m->lock);
	return ret;
}
