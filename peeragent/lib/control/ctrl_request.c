/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of the agent to nanoctrl: each is one call of the client. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/log.h"
#include "base/utf8.h"
#include "peeragent/lib/plan/cause.h"
#include "peeragent/lib/control/ctrl_request.h"
#include "peeragent/lib/control/ctrl_state.h"
#include "peeragent/lib/plan/topology.h"

#define CAUSE_MAX   1023 /* bytes of it that nanoctrl takes */
#define PATIENCE_MS 500	 /* of a goodbye with what is under way */

struct request {
	struct sl_list node;
	struct ctrl *ctrl;
	ctrl_done_fn *done;
	ctrl_region_fn *region_done;
	ctrl_names_fn *names_done;
	ctrl_page_fn *page_done;
	void *arg;
	struct providers *providers; /* of a list of them that goes on */
};

/* The rows of a list's pages so far. */
struct providers {
	char service[SLIME_AGENT_NAME_MAX + 1];
	char names[CTRL_PROVIDERS_MAX][SLIME_AGENT_NAME_MAX + 1];
	size_t n;
};

/* NULL without a session, or without memory. */
static struct request *begin(struct ctrl *ctrl, ctrl_done_fn *done, void *arg)
{
	struct request *rq = ctrl->state == CTRL_IN_SESSION ? calloc(1, sizeof(*rq)) : NULL;

	if (!rq)
		return NULL;
	*rq = (struct request){ .ctrl = ctrl, .done = done, .arg = arg };
	sl_list_append(&ctrl->requests, &rq->node);
	return rq;
}

static void say_goodbye(struct ctrl *ctrl);

static void forget(struct request *rq)
{
	sl_list_remove(&rq->node);
	free(rq->providers);
	free(rq);
}

/* A goodbye that waits is the only one left in the end. */
static void end(struct request *rq)
{
	struct ctrl *ctrl = rq->ctrl;

	forget(rq);
	if (ctrl->goodbye && ctrl->requests.next->next == &ctrl->requests)
		say_goodbye(ctrl);
}

/* The errors that the caller of a request can act on. */
static int result_of(const struct nc_error *error)
{
	if (!error)
		return 0;
	switch (error->err) {
	case -ETIMEDOUT:
	case -EKEYEXPIRED: /* the session tells, too */
	case -EKEYREVOKED:
	case -EIO:
	case -EPROTO:
		return -EAGAIN;
	case -ENOENT:
	case -EACCES:
	case -ESTALE:
		return error->err;
	default:
		sl_error("ctrl", "refused: %s%s%s", error->message, error->field[0] ? ": " : "",
			 error->field);
		return -EINVAL;
	}
}

static void on_done(void *arg, const struct nc_error *error)
{
	struct request *rq = arg;
	struct request ended = *rq;

	end(rq);
	ended.done(ended.arg, result_of(error));
}

/* The result of the nc_*() that was given rq. */
static int given(struct request *rq, int ret)
{
	if (!ret)
		return 0;
	end(rq);
	return ret == -EINVAL ? ret : -EAGAIN;
}

/* ---- the end ---- */

static void say_goodbye(struct ctrl *ctrl)
{
	struct request *rq = ctrl->goodbye;
	struct request ended = *rq;

	ctrl->goodbye = NULL;
	evtimer_del(ctrl->patience);
	if (!nc_leave(ctrl->client, on_done, rq))
		return;
	end(rq);
	ended.done(ended.arg, -EAGAIN);
}

void ctrl_on_patience(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	say_goodbye(arg);
}

int ctrl_leave(struct ctrl *ctrl, ctrl_done_fn *done, void *arg)
{
	const struct timeval tv = { .tv_usec = PATIENCE_MS * 1000 };
	bool alone = sl_list_empty(&ctrl->requests);
	struct request *rq = begin(ctrl, done, arg);

	/* One that is being had again would be told of everything, and renew the lease. */
	nc_session_close(ctrl->client);
	ctrl->state = CTRL_ENDED;
	evtimer_del(ctrl->retry);
	evtimer_del(ctrl->list_retry);
	if (!rq)
		return -EAGAIN;
	if (alone || evtimer_add(ctrl->patience, &tv))
		return given(rq, nc_leave(ctrl->client, on_done, rq));
	ctrl->goodbye = rq;
	return 0;
}

/* ---- of regions, offers and links ---- */

int ctrl_put_region(struct ctrl *ctrl, const struct ctrl_region *r, ctrl_done_fn *done, void *arg)
{
	struct nc_region region = {
		.name = r->name,
		.revision = r->revision,
		.size = r->size,
		.access = (r->access & SLIME_ACCESS_REMOTE_READ ? NC_READ : 0u) |
			  (r->access & SLIME_ACCESS_REMOTE_WRITE ? NC_WRITE : 0u),
		.allow = r->n_allow ? r->allow : NULL,
		.n_allow = r->n_allow,
		.descriptor = r->descriptor,
		.descriptor_len = r->len,
	};
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_publish(ctrl->client, &region, on_done, rq)) : -EAGAIN;
}

int ctrl_delete_region(struct ctrl *ctrl, const char *name, uint64_t revision, ctrl_done_fn *done,
		       void *arg)
{
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_withdraw(ctrl->client, name, revision, on_done, rq)) : -EAGAIN;
}

int ctrl_post(struct ctrl *ctrl, const char *peer, const char *profile,
	      const char *peer_incarnation, uint64_t number, const void *descriptor, size_t len,
	      ctrl_done_fn *done, void *arg)
{
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_post_offer(ctrl->client, peer, profile, number, peer_incarnation,
					    descriptor, len, on_done, rq))
		  : -EAGAIN;
}

int ctrl_withdraw(struct ctrl *ctrl, const char *peer, const char *profile, uint64_t number,
		  ctrl_done_fn *done, void *arg)
{
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_withdraw_offer(ctrl->client, peer, profile, number, on_done, rq))
		  : -EAGAIN;
}

#define NUMBER_MAX 24 /* its digits, and a zero */

/* The report of a link that nanoctrl keeps for people (docs/http-api.md, 6). */
struct story {
	char source[CTRL_TEXT_MAX + 1], passed_over[CTRL_TEXT_MAX + 1],
		last_error[CTRL_TEXT_MAX + 1];
	char no_foreign_memory[CTRL_TEXT_MAX + 1];
	char max_bandwidth[NUMBER_MAX], n_connects[NUMBER_MAX], n_failures[NUMBER_MAX];
	struct nc_pair pairs[9];
	size_t n;
};

static void add(struct story *s, const char *key, const char *value)
{
	if (*value)
		s->pairs[s->n++] = (struct nc_pair){ key, value };
}

static void add_text(struct story *s, const char *key, const char *text,
		     char out[CTRL_TEXT_MAX + 1])
{
	cause_fit(text, out, CTRL_TEXT_MAX + 1);
	sl_utf8_make_printable(out);
	add(s, key, out);
}

static void add_number(struct story *s, const char *key, uint64_t n, char out[NUMBER_MAX])
{
	snprintf(out, NUMBER_MAX, "%" PRIu64, n);
	if (n)
		add(s, key, out);
}

static void story_of(struct story *s, const struct ctrl_link *l)
{
	s->n = 0;
	add(s, "transports", l->transports);
	if (l->source)
		add_text(s, "source", l->source, s->source);
	if (l->transport)
		add(s, "order", l->own_order ? "own" : "peer");
	add_text(s, "passed_over", l->passed_over, s->passed_over);
	add_text(s, "no_foreign_memory", l->no_foreign_memory, s->no_foreign_memory);
	add_text(s, "last_error", l->last_error, s->last_error);
	add_number(s, "max_bandwidth", l->max_bandwidth, s->max_bandwidth);
	add_number(s, "connects", l->n_connects, s->n_connects);
	add_number(s, "failures", l->n_failures, s->n_failures);
}

int ctrl_report_link(struct ctrl *ctrl, const struct ctrl_link *l, ctrl_done_fn *done, void *arg)
{
	static const enum nc_link_state states[] = {
		[SLIME_LINK_CONNECTING] = NC_CONNECTING,
		[SLIME_LINK_CONNECTED] = NC_CONNECTED,
		[SLIME_LINK_BROKEN] = NC_BROKEN,
		[SLIME_LINK_REFUSED] = NC_REFUSED,
	};
	char cause[CAUSE_MAX + 1];
	struct nc_link link = {
		.peer = l->peer,
		.profile = l->profile,
		.revision = l->revision,
		.state = states[l->state],
		.cause = cause_fit(l->cause, cause, sizeof(cause)) ? cause : NULL,
		.age_ms = l->age_ms,
		.transport = l->transport,
		.connection_epoch = l->attempt,
		.peer_incarnation = l->peer_incarnation,
	};
	struct request *rq = begin(ctrl, done, arg);
	struct story story;

	if (!rq)
		return -EAGAIN;
	story.n = 0;
	if (l->transports)
		story_of(&story, l);
	link.attributes = (struct nc_pairs){ story.pairs, story.n };
	return given(rq, nc_report_link(ctrl->client, &link, on_done, rq));
}

int ctrl_forget_link(struct ctrl *ctrl, const char *peer, const char *profile, uint64_t revision,
		     ctrl_done_fn *done, void *arg)
{
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_forget_link(ctrl->client, peer, profile, revision, on_done, rq))
		  : -EAGAIN;
}

int ctrl_put_snapshot(struct ctrl *ctrl, const struct nc_snapshot *snapshot, ctrl_done_fn *done,
		      void *arg)
{
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_put_snapshot(ctrl->client, snapshot, on_done, rq)) : -EAGAIN;
}

static void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	(void)agent;
	on_done(arg, error);
}

int ctrl_find_agent(struct ctrl *ctrl, const char *agent, ctrl_done_fn *done, void *arg)
{
	struct request *rq = begin(ctrl, done, arg);

	return rq ? given(rq, nc_get_agent(ctrl->client, agent, on_agent, rq)) : -EAGAIN;
}

static void on_page(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct request *rq = arg;
	struct request ended = *rq;

	end(rq);
	ended.page_done(ended.arg, result_of(error), page);
}

static struct request *begin_page(struct ctrl *ctrl, ctrl_page_fn *done, void *arg)
{
	struct request *rq = begin(ctrl, NULL, arg);

	if (rq)
		rq->page_done = done;
	return rq;
}

int ctrl_list_agents(struct ctrl *ctrl, const char *selector, const char *after, ctrl_page_fn *done,
		     void *arg)
{
	struct request *rq = begin_page(ctrl, done, arg);

	return rq ? given(rq, nc_list_agents(ctrl->client, selector, after, on_page, rq)) : -EAGAIN;
}

int ctrl_list_regions(struct ctrl *ctrl, const char *agent, ctrl_page_fn *done, void *arg)
{
	struct request *rq = begin_page(ctrl, done, arg);

	return rq ? given(rq, nc_list_regions(ctrl->client, agent, on_page, rq)) : -EAGAIN;
}

static void end_providers(struct request *rq, int result)
{
	struct request ended = *rq;
	const char *names[CTRL_PROVIDERS_MAX];

	rq->providers = NULL;
	end(rq);
	for (size_t i = 0; i < ended.providers->n; i++)
		names[i] = ended.providers->names[i];
	ended.names_done(ended.arg, result, names, ended.providers->n);
	free(ended.providers);
}

static void on_providers(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct request *rq = arg;
	struct providers *p = rq->providers;
	int result = result_of(error);

	for (size_t i = 0; !result && i < page->n && p->n < CTRL_PROVIDERS_MAX; i++)
		if (topology_is_name(page->providers[i].agent, SLIME_AGENT_NAME_MAX))
			snprintf(p->names[p->n++], sizeof(p->names[0]), "%s",
				 page->providers[i].agent);
	if (!result && page->next && p->n < CTRL_PROVIDERS_MAX &&
	    !nc_list_services(rq->ctrl->client, p->service, NULL, page->next, on_providers, rq))
		return;
	end_providers(rq, result);
}

int ctrl_list_providers(struct ctrl *ctrl, const char *service, ctrl_names_fn *done, void *arg)
{
	struct request *rq = begin(ctrl, NULL, arg);

	if (!rq)
		return -EAGAIN;
	rq->names_done = done;
	rq->providers = calloc(1, sizeof(*rq->providers));
	if (!rq->providers) {
		end(rq);
		return -EAGAIN;
	}
	snprintf(rq->providers->service, sizeof(rq->providers->service), "%s", service);
	return given(rq, nc_list_services(ctrl->client, service, NULL, NULL, on_providers, rq));
}

static void on_region(void *arg, const struct nc_error *error, const struct nc_region *region)
{
	struct request *rq = arg;
	struct request ended = *rq;
	int result = result_of(error);

	end(rq);
	if (!result && !region->descriptor)
		result = -EACCES;
	if (!result && region->descriptor_len > CTRL_DESCRIPTOR_MAX)
		result = -EPROTO;
	ended.region_done(ended.arg, result, result ? NULL : region->descriptor,
			  result ? 0 : region->descriptor_len);
}

int ctrl_get_region(struct ctrl *ctrl, const char *agent, const char *name, ctrl_region_fn *done,
		    void *arg)
{
	struct request *rq = begin(ctrl, NULL, arg);

	if (!rq)
		return -EAGAIN;
	rq->region_done = done;
	return given(rq, nc_get_region(ctrl->client, agent, name, on_region, rq));
}

void ctrl_drop_requests(struct ctrl *ctrl)
{
	struct sl_list *node, *tmp;

	ctrl->goodbye = NULL;
	sl_list_for_each_safe (node, tmp, &ctrl->requests)
		forget(SL_CONTAINER_OF(node, struct request, node));
}
