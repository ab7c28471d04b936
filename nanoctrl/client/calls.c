/* SPDX-License-Identifier: Apache-2.0 */
/* The API, call by call: what is sent, and how the answer is handed on. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/call.h"
#include "nanoctrl/client/client.h"
#include "nanoctrl/client/request.h"

#define PAGE_LIMIT   "200"
#define WANTED_LIMIT "1000" /* links: some 100 KiB */

/* How an answer is decoded and given to the user's function. */

static int finish_done(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	(void)json;
	((nc_done_fn *)call->fn)(call->arg, error);
	return 0;
}

static int finish_agent(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	struct nc_agent agent;

	if (!error && nc_json_agent(json, &agent))
		return -EPROTO;
	((nc_agent_fn *)call->fn)(call->arg, error, error ? NULL : &agent);
	return 0;
}

static int finish_region(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	struct nc_region region;

	if (!error && nc_json_region(json, &region))
		return -EPROTO;
	((nc_region_fn *)call->fn)(call->arg, error, error ? NULL : &region);
	return 0;
}

static int finish_offer(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	struct nc_offer offer;

	if (!error && (nc_json_offer(json, &offer) || !offer.descriptor))
		return -EPROTO;
	((nc_offer_fn *)call->fn)(call->arg, error, error ? NULL : &offer);
	return 0;
}

static int finish_page(struct nc_call *call, const struct nc_error *error, struct nc_json *json,
		       int (*decode)(struct nc_json *json, struct nc_page *out))
{
	struct nc_page page;

	if (!error && decode(json, &page))
		return -EPROTO;
	((nc_page_fn *)call->fn)(call->arg, error, error ? NULL : &page);
	return 0;
}

static int finish_agents(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	return finish_page(call, error, json, nc_json_agents);
}

static int finish_regions(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	return finish_page(call, error, json, nc_json_regions);
}

static int finish_offers(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	return finish_page(call, error, json, nc_json_offers);
}

static int finish_links(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	return finish_page(call, error, json, nc_json_links);
}

static int finish_providers(struct nc_call *call, const struct nc_error *error,
			    struct nc_json *json)
{
	return finish_page(call, error, json, nc_json_providers);
}

static int finish_events(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	struct nc_events events;

	if (!error && nc_json_events(json, &events))
		return -EPROTO;
	((nc_events_fn *)call->fn)(call->arg, error, error ? NULL : &events);
	return 0;
}

static int finish_wanted(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	struct nc_wanted wanted;

	if (!error && nc_json_wanted(json, &wanted))
		return -EPROTO;
	((nc_wanted_fn *)call->fn)(call->arg, error, error ? NULL : &wanted);
	return 0;
}

static int finish_text(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	size_t len = 0;
	const char *text = error ? NULL : nc_json_source(json, &len);

	((nc_text_fn *)call->fn)(call->arg, error, text, len);
	return 0;
}

/* A lease goes into a header: it is visible ASCII, or none of ours. */
static bool is_lease(const char *lease)
{
	size_t len = strlen(lease);

	for (const char *c = lease; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			return false;
	return len > 0 && len < NC_LEASE_MAX;
}

static int finish_register(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	struct nc_client *client = call->client;
	struct nc_json_grant answer;

	if (!error) {
		if (nc_json_grant(json, &answer) || !is_lease(answer.lease))
			return -EPROTO;
		nc_client_set_lease(client, answer.lease);
		strcpy(client->agent, call->agent);
		strcpy(client->incarnation, call->incarnation);
		client->epoch = answer.grant.epoch;
		client->generation = answer.grant.generation;
		client->grace_ms = answer.grant.grace_ms;
		client->registered = true;
	}
	((nc_grant_fn *)call->fn)(call->arg, error, error ? NULL : &answer.grant);
	return 0;
}

/* The lease holds, but what was published may be gone: a session would say resync. Nothing of that
 * when the agent has registered again meanwhile. */
static int finish_heartbeat(struct nc_call *call, const struct nc_error *error,
			    struct nc_json *json)
{
	static const struct nc_error lost = {
		.err = -EKEYEXPIRED,
		.status = 200,
		.code = "epoch",
		.message = "the store may have lost what was published: register again",
	};
	uint64_t epoch = call->epoch;

	if (!error && nc_json_epoch(json, &epoch))
		return -EPROTO;
	if (epoch != call->epoch && call->epoch == call->client->epoch)
		error = &lost;
	return finish_done(call, error, json);
}

static int finish_leave(struct nc_call *call, const struct nc_error *error, struct nc_json *json)
{
	if (!error && call->lease_number == call->client->lease_number)
		nc_client_set_lease(call->client, "");
	return finish_done(call, error, json);
}

/* --- making a call --- */

struct request {
	enum nc_method method;
	const char *segments[8]; /* behind /v1; NULL ends them */
	const char *query[9];	 /* key, value (NULL leaves it out), ...; NULL ends them */
	char *body;		 /* taken over */
	bool has_body;
	bool with_lease;
	bool raw;
	uint32_t wait_ms;
	nc_finish_fn *finish;
	nc_any_fn *fn;
	void *arg;
};

/* Everything but the start, so that a caller may note more in the call. */
static int prepare(struct nc_client *client, struct request *rq, struct nc_call **out)
{
	struct nc_call *call;

	if (rq->has_body && !rq->body)
		return -EINVAL;
	call = nc_call_create(client, rq->method, rq->finish, rq->fn, rq->arg);
	if (!call) {
		free(rq->body);
		return -ENOMEM;
	}
	call->with_lease = rq->with_lease;
	call->lease_number = rq->with_lease && client->lease[0] ? client->lease_number : 0;
	call->epoch = client->epoch;
	call->raw = rq->raw;
	call->wait_ms = rq->wait_ms;
	call->body = rq->body;
	call->target = nc_client_target(client, rq->segments, rq->query);
	if (!call->target) {
		nc_call_destroy(call);
		return -ENOMEM;
	}
	*out = call;
	return 0;
}

static int start(struct nc_client *client, struct request rq)
{
	struct nc_call *call;
	int ret = prepare(client, &rq, &call);

	if (ret)
		return ret;
	ret = nc_call_start(call);
	if (ret)
		nc_call_destroy(call);
	return ret;
}

/* "." and ".." would be taken out of the path, "" too. */
static bool is_name(const char *name)
{
	return name && *name && strcmp(name, ".") && strcmp(name, "..") &&
	       strlen(name) <= NC_NAME_MAX;
}

#define check_name(name)                \
	do {                            \
		if (!is_name(name))     \
			return -EINVAL; \
	} while (0)

/* For what only a registered agent may say. */
#define check_lease(client)              \
	do {                             \
		if (!(client)->lease[0]) \
			return -ENOKEY;  \
	} while (0)

/* --- agents --- */

int nc_register(struct nc_client *client, const struct nc_registration *r, nc_grant_fn *fn,
		void *arg)
{
	bool again;
	struct request rq = { .method = NC_PUT,
			      .segments = { "agents", r->name },
			      .has_body = true,
			      .finish = finish_register,
			      .fn = (nc_any_fn *)fn,
			      .arg = arg };
	struct nc_call *call;
	int ret;

	check_name(r->name);
	if (!r->incarnation || !r->owner_key || strlen(r->incarnation) > 64)
		return -EINVAL;
	if (client->session)
		return -EBUSY;
	again = client->registered && !strcmp(client->incarnation, r->incarnation) &&
		!strcmp(client->agent, r->name);
	rq.body = nc_json_registration(r, again, client->epoch, client->generation);
	ret = prepare(client, &rq, &call);
	if (ret)
		return ret;
	strcpy(call->agent, r->name);
	strcpy(call->incarnation, r->incarnation);
	call->ordered = true;
	ret = nc_call_start(call);
	if (ret)
		nc_call_destroy(call);
	return ret;
}

int nc_heartbeat(struct nc_client *client, nc_done_fn *fn, void *arg)
{
	check_lease(client);
	return start(client, (struct request){ .method = NC_POST,
					       .segments = { "agents", client->agent, "heartbeat" },
					       .with_lease = true,
					       .finish = finish_heartbeat,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_leave(struct nc_client *client, nc_done_fn *fn, void *arg)
{
	check_lease(client);
	nc_session_close(client);
	return start(client, (struct request){ .method = NC_DELETE,
					       .segments = { "agents", client->agent },
					       .with_lease = true,
					       .finish = finish_leave,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_update(struct nc_client *client, const struct nc_change *change, nc_done_fn *fn, void *arg)
{
	check_lease(client);
	if (!change->revision)
		return -EINVAL;
	return start(client, (struct request){ .method = NC_PATCH,
					       .segments = { "agents", client->agent },
					       .has_body = true,
					       .body = nc_json_change(change),
					       .with_lease = true,
					       .finish = finish_done,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_get_agent(struct nc_client *client, const char *name, nc_agent_fn *fn, void *arg)
{
	check_name(name);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", name },
					       .finish = finish_agent,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_agents(struct nc_client *client, const char *selector, const char *after,
		   nc_page_fn *fn, void *arg)
{
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents" },
					       .query = { "limit", PAGE_LIMIT, "selector", selector,
							  "after", after },
					       .finish = finish_agents,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_services(struct nc_client *client, const char *service, const char *selector,
		     const char *after, nc_page_fn *fn, void *arg)
{
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "services" },
					       .query = { "limit", PAGE_LIMIT, "name", service,
							  "selector", selector, "after", after },
					       .finish = finish_providers,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

/* --- regions --- */

int nc_publish(struct nc_client *client, const struct nc_region *region, nc_done_fn *fn, void *arg)
{
	check_lease(client);
	check_name(region->name);
	if (!region->descriptor || region->descriptor_len > NC_DESCRIPTOR_MAX)
		return -EINVAL;
	return start(client, (struct request){ .method = NC_PUT,
					       .segments = { "agents", client->agent, "regions",
							     region->name },
					       .has_body = true,
					       .body = nc_json_publication(region),
					       .with_lease = true,
					       .finish = finish_done,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

/* The order of a write that has no body. */
struct order {
	char text[24];
};

static const char *order_text(struct order *out, uint64_t order)
{
	snprintf(out->text, sizeof(out->text), "%" PRIu64, order);
	return out->text;
}

int nc_withdraw(struct nc_client *client, const char *region, uint64_t revision, nc_done_fn *fn,
		void *arg)
{
	struct order order;

	check_lease(client);
	check_name(region);
	return start(client,
		     (struct request){ .method = NC_DELETE,
				       .segments = { "agents", client->agent, "regions", region },
				       .query = { "revision", order_text(&order, revision) },
				       .with_lease = true,
				       .finish = finish_done,
				       .fn = (nc_any_fn *)fn,
				       .arg = arg });
}

int nc_get_region(struct nc_client *client, const char *agent, const char *region, nc_region_fn *fn,
		  void *arg)
{
	check_name(agent);
	check_name(region);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", agent, "regions", region },
					       .with_lease = true,
					       .finish = finish_region,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_regions(struct nc_client *client, const char *agent, nc_page_fn *fn, void *arg)
{
	check_name(agent);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", agent, "regions" },
					       .finish = finish_regions,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_directory(struct nc_client *client, const char *selector, const char *after,
		      nc_page_fn *fn, void *arg)
{
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "regions" },
					       .query = { "limit", PAGE_LIMIT, "selector", selector,
							  "after", after },
					       .finish = finish_regions,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

/* --- connection exchange --- */

int nc_post_offer(struct nc_client *client, const char *peer, const char *profile,
		  uint64_t connection_epoch, const char *peer_incarnation, const void *descriptor,
		  size_t len, nc_done_fn *fn, void *arg)
{
	check_lease(client);
	check_name(peer);
	check_name(profile);
	if (!descriptor || len > NC_DESCRIPTOR_MAX)
		return -EINVAL;
	return start(client,
		     (struct request){
			     .method = NC_PUT,
			     .segments = { "agents", client->agent, "exchange", peer, profile },
			     .has_body = true,
			     .body = nc_json_posting(connection_epoch, peer_incarnation, descriptor,
						     len),
			     .with_lease = true,
			     .finish = finish_done,
			     .fn = (nc_any_fn *)fn,
			     .arg = arg });
}

int nc_withdraw_offer(struct nc_client *client, const char *peer, const char *profile,
		      uint64_t connection_epoch, nc_done_fn *fn, void *arg)
{
	struct order order;

	check_lease(client);
	check_name(peer);
	check_name(profile);
	return start(client,
		     (struct request){
			     .method = NC_DELETE,
			     .segments = { "agents", client->agent, "exchange", peer, profile },
			     .query = { "connection_epoch", order_text(&order, connection_epoch) },
			     .with_lease = true,
			     .finish = finish_done,
			     .fn = (nc_any_fn *)fn,
			     .arg = arg });
}

int nc_get_offer(struct nc_client *client, const char *peer, const char *profile, nc_offer_fn *fn,
		 void *arg)
{
	check_lease(client);
	check_name(peer);
	check_name(profile);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", peer, "exchange",
							     client->agent, profile },
					       .with_lease = true,
					       .finish = finish_offer,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_offers(struct nc_client *client, nc_page_fn *fn, void *arg)
{
	check_lease(client);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", client->agent, "exchange" },
					       .with_lease = true,
					       .finish = finish_offers,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

/* --- links --- */

int nc_report_link(struct nc_client *client, const struct nc_link *link, nc_done_fn *fn, void *arg)
{
	check_lease(client);
	check_name(link->peer);
	check_name(link->profile);
	return start(client, (struct request){ .method = NC_PUT,
					       .segments = { "agents", client->agent, "links",
							     link->peer, link->profile },
					       .has_body = true,
					       .body = nc_json_report(link),
					       .with_lease = true,
					       .finish = finish_done,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_forget_link(struct nc_client *client, const char *peer, const char *profile,
		   uint64_t revision, nc_done_fn *fn, void *arg)
{
	struct order order;

	check_lease(client);
	check_name(peer);
	check_name(profile);
	return start(
		client,
		(struct request){ .method = NC_DELETE,
				  .segments = { "agents", client->agent, "links", peer, profile },
				  .query = { "revision", order_text(&order, revision) },
				  .with_lease = true,
				  .finish = finish_done,
				  .fn = (nc_any_fn *)fn,
				  .arg = arg });
}

int nc_list_links(struct nc_client *client, const char *selector, const char *after, nc_page_fn *fn,
		  void *arg)
{
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "links" },
					       .query = { "limit", PAGE_LIMIT, "selector", selector,
							  "after", after },
					       .finish = finish_links,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_links_of(struct nc_client *client, const char *agent, nc_page_fn *fn, void *arg)
{
	check_name(agent);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", agent, "links" },
					       .finish = finish_links,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

/* --- events --- */

/* Those that wait leave places for other calls. */
static int poll_events(struct nc_client *client, struct request rq, const char *cursor,
		       uint32_t wait_ms)
{
	char wait[16];

	if (wait_ms > NC_POLL_MS_MAX)
		return -EINVAL;
	if (wait_ms && client->n_polls == NC_MAX_POLLS)
		return -EBUSY;
	snprintf(wait, sizeof(wait), "%u", wait_ms);
	rq.method = NC_GET;
	rq.query[0] = "wait_ms";
	rq.query[1] = wait;
	rq.query[2] = "cursor";
	rq.query[3] = cursor;
	rq.wait_ms = wait_ms;
	rq.finish = finish_events;
	return start(client, rq);
}

int nc_poll_events(struct nc_client *client, const char *cursor, uint32_t wait_ms, nc_events_fn *fn,
		   void *arg)
{
	return poll_events(
		client,
		(struct request){ .segments = { "events" }, .fn = (nc_any_fn *)fn, .arg = arg },
		cursor, wait_ms);
}

int nc_poll_own_events(struct nc_client *client, const char *cursor, uint32_t wait_ms,
		       nc_events_fn *fn, void *arg)
{
	check_lease(client);
	return poll_events(client,
			   (struct request){ .segments = { "agents", client->agent, "events" },
					     .with_lease = true,
					     .fn = (nc_any_fn *)fn,
					     .arg = arg },
			   cursor, wait_ms);
}

/* --- topologies --- */

int nc_get_wanted(struct nc_client *client, const char *after, nc_wanted_fn *fn, void *arg)
{
	check_lease(client);
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "agents", client->agent, "wanted" },
					       .query = { "limit", WANTED_LIMIT, "after", after },
					       .finish = finish_wanted,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list(struct nc_client *client, const struct nc_list *list, nc_text_fn *fn, void *arg)
{
	char limit[16], last[16];

	snprintf(limit, sizeof(limit), "%u", list->limit);
	snprintf(last, sizeof(last), "%u", list->last);
	return start(client,
		     (struct request){ .method = NC_GET,
				       .segments = { list->name },
				       .query = { "limit", list->limit ? limit : PAGE_LIMIT, "last",
						  list->last ? last : NULL, "selector",
						  list->selector, "after", list->after },
				       .raw = true,
				       .finish = finish_text,
				       .fn = (nc_any_fn *)fn,
				       .arg = arg });
}

int nc_list_topologies(struct nc_client *client, nc_text_fn *fn, void *arg)
{
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "topologies" },
					       .raw = true,
					       .finish = finish_text,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

static const char *flag(bool on)
{
	return on ? "1" : NULL;
}

int nc_apply_topologies(struct nc_client *client, const struct nc_apply *apply, nc_text_fn *fn,
			void *arg)
{
	struct order order;

	return start(
		client,
		(struct request){ .method = NC_PUT,
				  .segments = { "topologies" },
				  .query = { "revision", order_text(&order, apply->revision),
					     "force", flag(apply->force), "prune",
					     flag(apply->prune), "dry_run", flag(apply->dry_run) },
				  .has_body = true,
				  .body = strdup(apply->body),
				  .raw = true,
				  .finish = finish_text,
				  .fn = (nc_any_fn *)fn,
				  .arg = arg });
}

int nc_delete_topology(struct nc_client *client, const char *name, uint64_t revision,
		       nc_text_fn *fn, void *arg)
{
	struct order order;

	check_name(name);
	return start(client,
		     (struct request){ .method = NC_DELETE,
				       .segments = { "topologies", name },
				       .query = { "revision", order_text(&order, revision) },
				       .raw = true,
				       .finish = finish_text,
				       .fn = (nc_any_fn *)fn,
				       .arg = arg });
}

/* --- snapshots --- */

int nc_put_snapshot(struct nc_client *client, const struct nc_snapshot *snapshot, nc_done_fn *fn,
		    void *arg)
{
	check_lease(client);
	return start(client, (struct request){ .method = NC_PUT,
					       .segments = { "agents", client->agent, "snapshot" },
					       .has_body = true,
					       .body = nc_json_snapshot(snapshot, client->agent),
					       .with_lease = true,
					       .finish = finish_done,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}

int nc_list_snapshots(struct nc_client *client, const char *selector, const char *after,
		      nc_text_fn *fn, void *arg)
{
	return start(client, (struct request){ .method = NC_GET,
					       .segments = { "snapshots" },
					       .query = { "limit", PAGE_LIMIT, "after", after,
							  "selector", selector },
					       .raw = true,
					       .finish = finish_text,
					       .fn = (nc_any_fn *)fn,
					       .arg = arg });
}
