/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/random.h"
#include "nanoctrl/client/url.h"
#include "nanoctrl/net/loop.h"
#include "peeragent/lib/control/ctrl_offers.h"
#include "peeragent/lib/control/ctrl_request.h"
#include "peeragent/lib/control/ctrl_state.h"
#include "peeragent/lib/control/ctrl_wanted.h"
#include "peeragent/lib/plan/topology.h"

#define RETRY_MS      500
#define RETRY_SLOW_MS 5000
#define SAY_EVERY_NS  (60 * SL_NS_PER_S)
#define MAX_LABELS    TOPOLOGY_MAX_LABELS
#define MAX_SERVICES  64

/* ---- what other agents are and say ---- */

static void report_peer(struct ctrl *ctrl, const struct nc_agent *agent)
{
	struct slime_label labels[MAX_LABELS];
	struct ctrl_peer peer = {
		.name = agent->name,
		.incarnation = agent->incarnation,
		.epoch = agent->epoch,
		.generation = agent->generation,
		.labels = labels,
		.n_labels = agent->labels.n < MAX_LABELS ? agent->labels.n : MAX_LABELS,
	};

	if (!strcmp(agent->name, ctrl->name) ||
	    !topology_is_name(agent->name, SLIME_AGENT_NAME_MAX))
		return;
	for (size_t i = 0; i < peer.n_labels; i++)
		labels[i] = (struct slime_label){ agent->labels.list[i].key,
						  agent->labels.list[i].value };
	ctrl->ops->peer(ctrl->arg, &peer);
}

void ctrl_list_again(struct ctrl *ctrl)
{
	if (!evtimer_pending(ctrl->list_retry, NULL))
		loop_set_timer(ctrl->list_retry, RETRY_MS);
}

static void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent)
{
	struct ctrl *ctrl = arg;

	if (!error)
		report_peer(ctrl, agent);
	else if (error->err != -ENOENT)
		ctrl_list_again(ctrl);
}

static void on_offers(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct ctrl *ctrl = arg;

	if (error) {
		ctrl_list_again(ctrl);
		return;
	}
	ctrl_read_offers(ctrl, page);
}

static void on_agents(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct ctrl *ctrl = arg;

	if (error) {
		ctrl_list_again(ctrl);
		return;
	}
	for (size_t i = 0; i < page->n; i++)
		report_peer(ctrl, &page->agents[i]);
	if (page->next) {
		if (nc_list_agents(ctrl->client, NULL, page->next, on_agents, ctrl))
			ctrl_list_again(ctrl);
		return;
	}
	ctrl->ops->list_end(ctrl->arg);
	if (nc_list_offers(ctrl->client, on_offers, ctrl))
		ctrl_list_again(ctrl);
}

static void cancel_reads(struct ctrl *ctrl)
{
	nc_cancel(ctrl->client, ctrl);
	ctrl_drop_offers(ctrl);
	ctrl_drop_wanted(ctrl);
}

void ctrl_list(struct ctrl *ctrl)
{
	ctrl->list_due = ctrl->state != CTRL_IN_SESSION;
	if (ctrl->list_due)
		return;
	cancel_reads(ctrl); /* of an earlier list, and of what this one will tell anyway */
	ctrl_read_wanted(ctrl);
	ctrl->ops->list_begin(ctrl->arg);
	if (nc_list_agents(ctrl->client, NULL, NULL, on_agents, ctrl))
		ctrl_list_again(ctrl);
}

/* A list that is still being read comes to its end before the next one. */
static void on_list_retry(evutil_socket_t fd, short what, void *arg)
{
	struct ctrl *ctrl = arg;

	(void)fd;
	(void)what;
	if (ctrl->n_reading)
		ctrl_list_again(ctrl);
	else
		ctrl_list(ctrl);
}

uint32_t ctrl_lease_ms(const struct ctrl *ctrl)
{
	return ctrl->lease_ms;
}

void ctrl_look(struct ctrl *ctrl, const char *agent)
{
	if (ctrl->state != CTRL_IN_SESSION)
		ctrl->list_due = true;
	else if (nc_get_agent(ctrl->client, agent, on_agent, ctrl))
		ctrl_list_again(ctrl);
}

static void get_offer(struct ctrl *ctrl, const char *from, const char *profile)
{
	if (nc_get_offer(ctrl->client, from, profile, ctrl_on_offer, ctrl))
		ctrl_list_again(ctrl);
}

static void on_event(void *arg, const struct nc_event *event)
{
	struct ctrl *ctrl = arg;
	bool ourselves = !strcmp(event->agent, ctrl->name);

	switch (event->type) {
	case NC_EVENT_REGISTERED:
	case NC_EVENT_CHANGED:
		if (!ourselves && nc_get_agent(ctrl->client, event->agent, on_agent, ctrl))
			ctrl_list_again(ctrl);
		break;
	case NC_EVENT_LEFT:
	case NC_EVENT_EXPIRED:
		if (!ourselves)
			ctrl->ops->peer_gone(ctrl->arg, event->agent, event->epoch,
					     event->generation, event->type == NC_EVENT_LEFT);
		break;
	case NC_EVENT_OFFER:
		get_offer(ctrl, event->agent, event->profile);
		break;
	case NC_EVENT_OFFER_GONE:
		ctrl->ops->offer_gone(ctrl->arg, event->agent, event->profile,
				      event->connection_epoch);
		break;
	case NC_EVENT_WANTED:
		ctrl_read_wanted(ctrl);
		break;
	case NC_EVENT_REGION:
		if (!ourselves)
			ctrl->ops->region(ctrl->arg, event->agent, event->region);
		break;
	case NC_EVENT_REGION_GONE:
		if (ourselves && event->epoch == ctrl->epoch &&
		    event->generation == ctrl->generation)
			ctrl->ops->region_gone(ctrl->arg, event->region, event->revision);
		break;
	}
}

/* ---- registration and session ---- */

static int register_now(struct ctrl *ctrl);

static void retry_after(struct ctrl *ctrl, long ms)
{
	long wait_ms = ms / 2 + (long)sl_random_up_to((uint64_t)ms / 2);
	struct timeval tv = { wait_ms / 1000, wait_ms % 1000 * 1000 };

	ctrl->state = CTRL_RETRYING;
	if (evtimer_add(ctrl->retry, &tv))
		sl_error("ctrl", "no memory for a timer: the agent does not try to register again");
}

/* The first attempt that fails has a line of the log, and what is wrong for long one now and then.
 */
static void on_attempt_failed(void *arg, const char *url, const char *cause, uint64_t wait_ms)
{
	struct ctrl *ctrl = arg;
	uint64_t now_ns = sl_clock_ns();

	if (ctrl->said_ns && now_ns - ctrl->said_ns < SAY_EVERY_NS)
		return;
	ctrl->said_ns = now_ns;
	sl_warn("ctrl", "%s: %s: %s: trying again in %llu ms, and on", ctrl->name, url, cause,
		(unsigned long long)wait_ms);
}

/* Once for each change of what is wrong. */
static void report_trouble(struct ctrl *ctrl, enum ctrl_trouble trouble, const char *text)
{
	if (ctrl->troubled && ctrl->trouble == trouble)
		return;
	ctrl->troubled = true;
	ctrl->trouble = trouble;
	ctrl->ops->down(ctrl->arg, trouble, text);
}

static void ended_for_good(struct ctrl *ctrl, const char *text)
{
	ctrl->state = CTRL_ENDED;
	report_trouble(ctrl, CTRL_SUPERSEDED, text);
}

static void on_session_up(void *arg)
{
	struct ctrl *ctrl = arg;
	bool fresh = ctrl->fresh;

	ctrl->state = CTRL_IN_SESSION;
	ctrl->said_ns = 0;
	ctrl->fresh = false;
	ctrl->troubled = false;
	ctrl->list_due |= fresh;
	ctrl->ops->up(ctrl->arg, fresh);
	if (ctrl->list_due)
		ctrl_list(ctrl);
}

static void on_session_down(void *arg, const char *cause)
{
	struct ctrl *ctrl = arg;

	if (ctrl->state == CTRL_ENDED)
		return;
	ctrl->state = CTRL_OPENING;
	report_trouble(ctrl, CTRL_UNREACHABLE, cause);
}

static void on_session_reset(void *arg)
{
	ctrl_list(arg);
}

static void on_session_ended(void *arg, enum nc_session_end why, const struct nc_error *error)
{
	struct ctrl *ctrl = arg;

	if (ctrl->state == CTRL_ENDED)
		return;
	switch (why) {
	case NC_SESSION_RESYNC:
		report_trouble(ctrl, CTRL_UNREACHABLE, "the lease is gone: registering again");
		register_now(ctrl);
		break;
	case NC_SESSION_SUPERSEDED:
		ended_for_good(ctrl, "a newer process of the same owner has the name");
		break;
	case NC_SESSION_REPLACED:
		report_trouble(ctrl, CTRL_UNREACHABLE, "another session of this agent was opened");
		retry_after(ctrl, RETRY_SLOW_MS);
		break;
	case NC_SESSION_REFUSED:
		report_trouble(ctrl, CTRL_FORBIDDEN, error ? error->message : "session refused");
		retry_after(ctrl, RETRY_MS);
		break;
	}
}

static const struct nc_session_ops session_ops = {
	.up = on_session_up,
	.down = on_session_down,
	.event = on_event,
	.reset = on_session_reset,
	.ended = on_session_ended,
};

static void open_session(struct ctrl *ctrl)
{
	ctrl->state = CTRL_OPENING;
	if (nc_session_open(ctrl->client, &session_ops, ctrl))
		retry_after(ctrl, RETRY_MS);
}

static void report_held(struct ctrl *ctrl, const char *who, uint64_t now_ns)
{
	time_t at = time(NULL) + (time_t)((ctrl->holder.until_ns - now_ns) / SL_NS_PER_S);
	char until[16] = "", text[256];
	struct tm tm;

	if (gmtime_r(&at, &tm))
		strftime(until, sizeof(until), "%H:%M:%S UTC", &tm);
	snprintf(text, sizeof(text), "%s; waiting until %s for its lease to end", who, until);
	report_trouble(ctrl, CTRL_NAME_HELD, text);
}

static void on_name_taken(struct ctrl *ctrl, const struct nc_holder *holder)
{
	uint64_t now_ns = sl_clock_ns();
	char who[192];

	holder_describe(holder, who, sizeof(who));
	switch (holder_look(&ctrl->holder, holder, now_ns)) {
	case HOLDER_SEEN:
		report_held(ctrl, who, now_ns);
		break;
	case HOLDER_WAIT:
		break;
	case HOLDER_LIVES:
	case HOLDER_STAYS:
		report_trouble(ctrl, CTRL_NAME_TAKEN, who);
		break;
	}
	retry_after(ctrl, RETRY_MS * 2);
}

static void on_refused(struct ctrl *ctrl, const struct nc_error *error)
{
	if (error->err != -EEXIST)
		holder_forget(&ctrl->holder);
	switch (error->err) {
	case -EKEYREVOKED:
		ended_for_good(ctrl, error->message);
		break;
	case -EEXIST:
		on_name_taken(ctrl, &error->holder);
		break;
	case -ETIMEDOUT:
	case -EIO:
		report_trouble(ctrl, CTRL_UNREACHABLE, error->message);
		retry_after(ctrl, RETRY_MS);
		break;
	default:
		report_trouble(ctrl, CTRL_FORBIDDEN, error->message);
		retry_after(ctrl, RETRY_SLOW_MS);
	}
}

static void on_registered(void *arg, const struct nc_error *error, const struct nc_grant *grant)
{
	struct ctrl *ctrl = arg;

	if (ctrl->state == CTRL_ENDED)
		return;
	if (error) {
		on_refused(ctrl, error);
		return;
	}
	holder_forget(&ctrl->holder);
	/* In another epoch some of what we published may be lost. */
	ctrl->fresh |= !grant->resumed || grant->epoch != ctrl->epoch;
	ctrl->epoch = grant->epoch;
	ctrl->lease_ms = grant->ttl_ms;
	ctrl->generation = grant->generation;
	if (ctrl->relabelled)
		register_now(ctrl);
	else
		open_session(ctrl);
}

/* Else why it could not be sent: it is tried again. */
static int register_now(struct ctrl *ctrl)
{
	struct nc_pair labels[MAX_LABELS];
	struct nc_pair attributes[CTRL_ATTRIBUTES_MAX];
	struct nc_service services[MAX_SERVICES];
	struct nc_registration r = {
		.name = ctrl->name,
		.incarnation = ctrl->incarnation,
		.owner_key = ctrl->owner_key,
		.address = ctrl->address,
		.labels = { labels, ctrl->labels->n_labels },
		.attributes = { attributes, ctrl->attributes->n_labels },
		.services = services,
		.n_services = ctrl->n_services,
	};
	int ret;

	for (size_t i = 0; i < ctrl->labels->n_labels; i++)
		labels[i] = (struct nc_pair){ ctrl->labels->labels[i].key,
					      ctrl->labels->labels[i].value };
	for (size_t i = 0; i < ctrl->attributes->n_labels; i++)
		attributes[i] = (struct nc_pair){ ctrl->attributes->labels[i].key,
						  ctrl->attributes->labels[i].value };
	for (size_t i = 0; i < ctrl->n_services; i++)
		services[i] = (struct nc_service){ .name = ctrl->services[i] };
	ctrl->state = CTRL_REGISTERING;
	ctrl->relabelled = false;
	/* The session's end is not ours to see a second time. */
	nc_session_close(ctrl->client);
	ret = nc_register(ctrl->client, &r, on_registered, ctrl);
	if (ret)
		retry_after(ctrl, ret == -EINVAL ? RETRY_SLOW_MS : RETRY_MS);
	return ret;
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct ctrl *ctrl = arg;

	(void)fd;
	(void)what;
	/* Here we are inside of no call, and may tell. */
	if (register_now(ctrl) == -EINVAL)
		report_trouble(ctrl, CTRL_FORBIDDEN, "the registration cannot be written");
}

void ctrl_start(struct ctrl *ctrl)
{
	register_now(ctrl);
}

int ctrl_set_labels(struct ctrl *ctrl, const struct slime_label *labels, size_t n_labels)
{
	struct slime_topology only = { .labels = labels, .n_labels = n_labels };
	struct slime_topology *copy;
	int ret = topology_copy(&only, &copy);

	if (ret)
		return ret;
	free(ctrl->labels);
	ctrl->labels = copy;
	if (ctrl->state == CTRL_IN_SESSION || ctrl->state == CTRL_OPENING) {
		/* With it goes what was being read of the others. */
		cancel_reads(ctrl);
		ctrl->list_due = true;
		register_now(ctrl);
	} else if (ctrl->state == CTRL_REGISTERING) {
		ctrl->relabelled = true;
	}
	return 0;
}

int ctrl_set_urls(struct ctrl *ctrl, const char *const *urls, size_t n_urls)
{
	int ret = nc_client_set_urls(ctrl->client, urls, n_urls);

	if (ret && ret != -ENOMEM)
		sl_error("agent", "nanoctrl is at none of the URLs that were given");
	return ret && ret != -ENOMEM ? -EINVAL : ret;
}

/* ---- life ---- */

bool ctrl_is_url(const char *text)
{
	struct nc_url url;

	return !nc_url_parse(text, &url);
}

bool ctrl_url_is_remote(const char *text)
{
	struct nc_url url;

	return !nc_url_parse(text, &url) && !sl_is_loopback_host(url.host);
}

static int copy_strings(struct ctrl *ctrl, const struct ctrl_attr *attr)
{
	struct slime_topology attributes = {
		.labels = attr->attributes,
		.n_labels = attr->n_attributes < CTRL_ATTRIBUTES_MAX ? attr->n_attributes
								     : CTRL_ATTRIBUTES_MAX,
	};

	ctrl->name = strdup(attr->name);
	ctrl->incarnation = strdup(attr->incarnation);
	ctrl->owner_key = strdup(attr->owner_key);
	ctrl->address = strdup(attr->address);
	ctrl->services = calloc(attr->n_services + 1, sizeof(*ctrl->services));
	if (!ctrl->name || !ctrl->incarnation || !ctrl->owner_key || !ctrl->address ||
	    !ctrl->services)
		return -ENOMEM;
	for (size_t i = 0; i < attr->n_services && i < MAX_SERVICES; i++) {
		ctrl->services[i] = strdup(attr->services[i]);
		if (!ctrl->services[i])
			return -ENOMEM;
		ctrl->n_services++;
	}
	if (topology_copy(&attributes, &ctrl->attributes))
		return -ENOMEM;
	return ctrl_set_labels(ctrl, attr->labels, attr->n_labels);
}

static int init(struct ctrl *ctrl, struct event_base *base, const struct ctrl_attr *attr)
{
	struct nc_client_attr client = NC_CLIENT_ATTR_INIT;
	int ret = copy_strings(ctrl, attr);

	if (ret)
		return ret;
	ctrl->retry = evtimer_new(base, on_retry, ctrl);
	ctrl->list_retry = evtimer_new(base, on_list_retry, ctrl);
	ctrl->patience = evtimer_new(base, ctrl_on_patience, ctrl);
	if (!ctrl->retry || !ctrl->list_retry || !ctrl->patience)
		return -ENOMEM;
	client.base = base;
	client.urls = attr->urls;
	client.n_urls = attr->n_urls;
	client.scope = attr->scope;
	client.token = attr->token;
	client.timeout_ms = CTRL_CALL_TIMEOUT_MS;
	client.on_retry = on_attempt_failed;
	client.arg = ctrl;
	return nc_client_create(&ctrl->client, &client);
}

int ctrl_create(struct event_base *base, const struct ctrl_attr *attr, const struct ctrl_ops *ops,
		void *arg, struct ctrl **out)
{
	struct ctrl *ctrl = calloc(1, sizeof(*ctrl));
	int ret;

	if (!ctrl)
		return -ENOMEM;
	ctrl->ops = ops;
	ctrl->arg = arg;
	ctrl->fresh = true;
	sl_list_init(&ctrl->requests);
	sl_list_init(&ctrl->unread);
	ret = init(ctrl, base, attr);
	if (ret) {
		ctrl_destroy(ctrl);
		return ret;
	}
	*out = ctrl;
	return 0;
}

void ctrl_destroy(struct ctrl *ctrl)
{
	if (!ctrl)
		return;
	nc_client_destroy(ctrl->client);
	ctrl_drop_requests(ctrl);
	ctrl_drop_offers(ctrl);
	ctrl_forget_wanted(ctrl);
	if (ctrl->retry)
		event_free(ctrl->retry);
	if (ctrl->list_retry)
		event_free(ctrl->list_retry);
	if (ctrl->patience)
		event_free(ctrl->patience);
	for (size_t i = 0; i < ctrl->n_services; i++)
		free(ctrl->services[i]);
	free(ctrl->services);
	free(ctrl->labels);
	free(ctrl->attributes);
	free(ctrl->name);
	free(ctrl->incarnation);
	free(ctrl->owner_key);
	free(ctrl->address);
	free(ctrl);
}
