/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP API of nanoctrl (docs/http-api.md) from an event loop. A client speaks for at most one
 * agent: once registered, it sends the lease with every call that needs it.
 *
 * Everything happens on the thread that runs the base; there are no threads and nothing blocks. A
 * call that was accepted (0) calls back exactly once, later, never from inside the call; after
 * nc_client_destroy() or nc_cancel() not at all. Results and their strings live until the callback
 * returns; arguments are copied. A callback may call anything but nc_client_destroy().
 *
 * Every call may be repeated as it was, so one that met a broken connection, a busy or a stopping
 * server (503, whose Retry-After is kept), a server that did not get it in time (408), or a proxy
 * that did not reach one (502, 504) is sent again, with jitter and from one server to the next,
 * until its deadline: then it ends with -ETIMEDOUT and the last cause as message.
 *
 * A name stands for all its addresses (the first 16 of them): what one of them does not accept goes
 * to the next one at once, and an attempt after a failure begins with another one.
 */
#ifndef NANOCTRL_CLIENT_H
#define NANOCTRL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NC_NAME_MAX	  253
#define NC_DESCRIPTOR_MAX (64 * 1024)
/* A call beyond so many unfinished ones is -EAGAIN. */
#define NC_MAX_CALLS 1024

struct event_base;
struct nc_client;

/* A server did not serve: what was asked of it, a call or the session, is tried again after
 * wait_ms, of the next server when there is one; 0: not again, the call ends. Called at every
 * attempt that fails; calls nothing here. */
typedef void nc_retry_fn(void *arg, const char *url, const char *cause, uint64_t wait_ms);

struct nc_client_attr {
	struct event_base *base;
	const char *const *urls; /* "http://127.0.0.1:3000"; tried in turn */
	size_t n_urls;
	const char *scope;     /* NULL is "default" */
	const char *token;     /* sent as a bearer token; NULL for none */
	int timeout_ms;	       /* of a call with all its repeats; of several servers, or addresses
				* of one, each has an equal part of it to answer in before the next
				* is asked, at least 1 s or half of it */
	bool impatient;	       /* a call ends when none of the servers, one after the other, could
				* be spoken to, not at its deadline; one that is busy is asked
				* again */
	nc_retry_fn *on_retry; /* NULL: none */
	void *arg;
};

#define NC_CLIENT_ATTR_INIT         \
	{                           \
		.timeout_ms = 10000 \
	}

/*
 *   -EINVAL           no base, no or malformed URL, scope or token
 *   -EPROTONOSUPPORT  a URL that is not http
 *   -ENOMEM
 */
int nc_client_create(struct nc_client **out, const struct nc_client_attr *attr);

/* Ends the session and all calls without a word to the server and without callbacks. What libevent
 * has of connections and lookups ends in the next turn of the base: turn it once, EVLOOP_NONBLOCK,
 * before it is freed. */
void nc_client_destroy(struct nc_client *client);

/* No callback comes any more for calls with this arg; what was sent may still take effect. Polls
 * end there, and others may take their places. */
void nc_cancel(struct nc_client *client, const void *arg);

/* From its next turn on the client speaks to these servers, as if it had been created with them:
 * calls under way are sent again, and the session comes back at one of them, after a down. The same
 * list changes nothing. -EINVAL, -EPROTONOSUPPORT, -ENOMEM: nothing changed. */
int nc_client_set_urls(struct nc_client *client, const char *const *urls, size_t n_urls);

/* Where the client talks to now: one of its URLs. */
const char *nc_client_url(const struct nc_client *client);

/* The owner of a name that another owner asks for. */
struct nc_holder {
	char incarnation[65]; /* "" when the server does not tell */
	char address[NC_NAME_MAX + 1];
	uint64_t registered_at_ms;
	uint64_t at_ms;	       /* the server's clock when it looked */
	int64_t lease_left_ms; /* of its lease as it was then; below zero: overdue */
	uint32_t ttl_ms;       /* of a lease when it is renewed */
	uint32_t wait_ms;      /* until it may lose the name if it never renews it again */
};

/*
 * Why a call failed. err:
 *   -EINVAL        the request is malformed (400, 405, 415, 422)
 *   -EMSGSIZE      too large (413, 414, 431)
 *   -EACCES        no lease or token, or another's (401, 403)
 *   -ENOENT        no such thing (404)
 *   -EEXIST        name_taken: another owner has the name
 *   -EDQUOT        the agent owns too many objects, or the peer has too many offers (429)
 *   -EKEYREVOKED   superseded: a newer process of this owner is there; stop
 *   -EKEYEXPIRED   the lease has ended, or its epoch: register again, then publish again
 *   -ESTALE        stale: a newer write was executed before; or peer_changed: read again; of a
 *                  session: a later one was opened
 *   -EPROTO        an answer that is none
 *   -ETIMEDOUT     no answer in time; the change may have happened
 *   -EIO           a defect of the server (500), or of memory here
 */
struct nc_error {
	int err;
	int status;		 /* of HTTP; 0 when there was no answer */
	char code[32];		 /* "name_taken"; "" when there is none */
	char field[64];		 /* the member or parameter at fault, or "" */
	char message[256];	 /* for people: it drives no terminal */
	struct nc_holder holder; /* of -EEXIST: the owner of the name */
	uint64_t order;		 /* of -ESTALE of a registration: of the later one; 0: not said */
};

/* error is NULL when the call succeeded, here and below; results are NULL when it did not. */
typedef void nc_done_fn(void *arg, const struct nc_error *error);

/* ---- agents ---- */

struct nc_pair {
	const char *key;
	const char *value;
};

struct nc_pairs {
	const struct nc_pair *list;
	size_t n;
};

struct nc_service {
	const char *name;
	struct nc_pairs attributes;
};

struct nc_registration {
	const char *name;
	const char *incarnation; /* [A-Za-z0-9._-]{1,64}, new for every process */
	const char *owner_key;	 /* 64 hexadecimal digits */
	const char *address;	 /* or NULL */
	struct nc_pairs labels;
	struct nc_pairs attributes; /* JSON strings to others; theirs that are none are not seen */
	const struct nc_service *services;
	size_t n_services;
};

struct nc_grant {
	uint64_t epoch;
	uint64_t generation;
	bool resumed; /* what the agent owned is still there */
	uint32_t ttl_ms, beat_ms, grace_ms;
};

/*
 * Register, or register again: from the second time of an incarnation on, the client says which
 * generation it held before. Each attempt has a number greater than all before, also those of
 * former processes while the host's clock does not go back: a server that executes an attempt after
 * a later one was answered refuses it. A client that is behind a number that the server knows goes
 * on above it. The lease of the answer is used from then on. Not while a session is
 * open: end it first.
 */
typedef void nc_grant_fn(void *arg, const struct nc_error *error, const struct nc_grant *grant);
int nc_register(struct nc_client *client, const struct nc_registration *r, nc_grant_fn *fn,
		void *arg);

/* For an agent without a session. -EKEYEXPIRED also when the lease holds in another epoch than the
 * registration: the store may have lost what was published. */
int nc_heartbeat(struct nc_client *client, nc_done_fn *fn, void *arg);

/* Ends the session too. */
int nc_leave(struct nc_client *client, nc_done_fn *fn, void *arg);

/* Of what the agent registered with; what is NULL or 0 stays as it is. */
struct nc_change {
	uint64_t revision;   /* from 1, greater with each change since the registration */
	const char *address; /* "" for none */
	const struct nc_pairs *labels, *attributes;
	const struct nc_service *services;
	size_t n_services;
	bool no_services;
};

/*
 * Change what the registered agent says of itself; peers see NC_EVENT_CHANGED. The revision that is
 * stored already is no error and changes nothing. -ENOKEY without a lease, -EINVAL for revision 0;
 * in the callback -ESTALE when a greater revision is stored, and nothing was changed.
 */
int nc_update(struct nc_client *client, const struct nc_change *change, nc_done_fn *fn, void *arg);

struct nc_agent {
	const char *name;
	uint64_t epoch, generation, revision;
	const char *incarnation;
	const char *address; /* "" when it has none */
	struct nc_pairs labels, attributes;
	const struct nc_service *services;
	size_t n_services;
	int64_t lease_left_ms;
	bool session;
	uint64_t registered_at_ms; /* by the server's clock; 0: it does not say */
};

typedef void nc_agent_fn(void *arg, const struct nc_error *error, const struct nc_agent *agent);
int nc_get_agent(struct nc_client *client, const char *name, nc_agent_fn *fn, void *arg);

/* One page of a list; a page may be empty and have a next. */
struct nc_page {
	const char *next; /* what to give as after for the next page; NULL at the end */
	/* A place in the scope's events, before this page: nc_poll_events() from the first page's
	 * cursor misses nothing. NULL of links. */
	const char *cursor;
	size_t n;
	const struct nc_agent *agents; /* the one that was asked for */
	const struct nc_region *regions;
	const struct nc_link *links;
	const struct nc_offer *offers;
	const struct nc_provider *providers;
};

typedef void nc_page_fn(void *arg, const struct nc_error *error, const struct nc_page *page);

/* selector is "role=decode,zone=a" or NULL; after is NULL for the first page. */
int nc_list_agents(struct nc_client *client, const char *selector, const char *after,
		   nc_page_fn *fn, void *arg);

/* The agents that offer a service. */
struct nc_provider {
	const char *service;
	struct nc_pairs attributes; /* of the service */
	const char *agent;
	uint64_t generation;
	const char *incarnation;
	const char *address; /* "" when the agent has none */
};

/* Of all agents that match the selector, page by page; service is NULL for those of any name. */
int nc_list_services(struct nc_client *client, const char *service, const char *selector,
		     const char *after, nc_page_fn *fn, void *arg);

/* ---- regions ---- */

enum nc_access { NC_READ = 1, NC_WRITE = 2 };

struct nc_region {
	const char *agent; /* not needed to publish */
	const char *name;
	uint64_t generation; /* not needed to publish */
	const char *incarnation;
	uint64_t revision; /* from 1, grows with every change */
	uint64_t size;
	unsigned access;
	const char *const *allow; /* selectors; NULL: every agent of the scope */
	size_t n_allow;
	struct nc_pairs attributes;
	const void *descriptor; /* NULL where the caller may not have it, and in lists */
	size_t descriptor_len;
};

int nc_publish(struct nc_client *client, const struct nc_region *region, nc_done_fn *fn, void *arg);

/* Withdraw the publication of this revision and of earlier ones; both are refused from then on.
 * -ESTALE in the callback when a greater revision was published or withdrawn before. */
int nc_withdraw(struct nc_client *client, const char *region, uint64_t revision, nc_done_fn *fn,
		void *arg);

typedef void nc_region_fn(void *arg, const struct nc_error *error, const struct nc_region *region);
int nc_get_region(struct nc_client *client, const char *agent, const char *region, nc_region_fn *fn,
		  void *arg);

/* Of one agent, without descriptors, in one page. */
int nc_list_regions(struct nc_client *client, const char *agent, nc_page_fn *fn, void *arg);

/* Of all agents of the scope that match the selector, or of all, without descriptors, page by page:
 * no agent's are cut. */
int nc_list_directory(struct nc_client *client, const char *selector, const char *after,
		      nc_page_fn *fn, void *arg);

/* ---- connection exchange ---- */

struct nc_offer {
	const char *from, *to, *profile;
	uint64_t generation; /* of from */
	const char *incarnation;
	uint64_t peer_generation; /* of to, the one it is meant for */
	uint64_t connection_epoch;
	const void *descriptor; /* NULL in lists */
	size_t descriptor_len;
};

/* Post for peer; peer_incarnation may be NULL: any incarnation. connection_epoch grows for each
 * peer and profile, from 1; a withdrawal takes back the offers of its number and of lower ones. */
int nc_post_offer(struct nc_client *client, const char *peer, const char *profile,
		  uint64_t connection_epoch, const char *peer_incarnation, const void *descriptor,
		  size_t len, nc_done_fn *fn, void *arg);
int nc_withdraw_offer(struct nc_client *client, const char *peer, const char *profile,
		      uint64_t connection_epoch, nc_done_fn *fn, void *arg);

/* Read the offer of peer for us. */
typedef void nc_offer_fn(void *arg, const struct nc_error *error, const struct nc_offer *offer);
int nc_get_offer(struct nc_client *client, const char *peer, const char *profile, nc_offer_fn *fn,
		 void *arg);

/* All that is posted for us, without descriptors, in one page. */
int nc_list_offers(struct nc_client *client, nc_page_fn *fn, void *arg);

/* ---- links ---- */

enum nc_link_state { NC_CONNECTING, NC_CONNECTED, NC_BROKEN, NC_REFUSED };

struct nc_link {
	const char *agent; /* not needed to report */
	const char *peer, *profile;
	uint64_t generation; /* not needed to report */
	uint64_t revision;   /* grows with every change */
	enum nc_link_state state;
	const char *cause;     /* or NULL */
	uint64_t age_ms;       /* how long ago the state began */
	const char *transport; /* or NULL */
	uint64_t connection_epoch;
	const char *peer_incarnation; /* or NULL */
	struct nc_pairs attributes;   /* 4 KiB of JSON at most */
};

int nc_report_link(struct nc_client *client, const struct nc_link *link, nc_done_fn *fn, void *arg);
/* Withdraw the reports of this revision and of earlier ones, as nc_withdraw(). */
int nc_forget_link(struct nc_client *client, const char *peer, const char *profile,
		   uint64_t revision, nc_done_fn *fn, void *arg);

/* The reports of all agents of the scope, or of those that match the selector, page by page. */
int nc_list_links(struct nc_client *client, const char *selector, const char *after, nc_page_fn *fn,
		  void *arg);

/* That one agent reports, in one page. -ENOENT in the callback when it is not there. */
int nc_list_links_of(struct nc_client *client, const char *agent, nc_page_fn *fn, void *arg);

/* ---- snapshots ---- */

/* In this order in every array of them. */
enum nc_op_kind {
	NC_OP_READ,
	NC_OP_WRITE,
	NC_OP_WRITE_IMM,
	NC_OP_IMM_RECV,
	NC_OP_SEND,
	NC_OP_RECV,
	NC_OP_CALL,
	NC_OP_SERVE,
	NC_OP_KINDS
};

/* Counted since the process began. */
struct nc_op_count {
	uint64_t submitted, completed, failed;
	uint64_t bytes;	       /* of the completed ones */
	uint64_t failed_bytes; /* of the failed ones that read or write */
};

struct nc_traffic {
	struct nc_op_count ops[NC_OP_KINDS];
	uint64_t pending; /* operations under way */
	double bw_gb_s;	  /* of late: an average that forgets, 10^9 bytes a second */
};

struct nc_nic {
	const char *name;
	struct nc_traffic traffic;
};

/* A port of ours and one of the peer's. */
struct nc_rail {
	const char *state;
	const char *local_nic, *remote_nic; /* with their ports, "mlx5_0:1" */
	uint64_t share;			    /* of a large batch, in thousandths */
	uint64_t bytes, failures;	    /* since the link came up */
	uint64_t n_qps;
	uint64_t bandwidth; /* link speed of the slower port, bits per second; 0: unknown */
	const char *error;  /* the last one, or "" */
	const char *why;    /* these ports, and this address */
};

struct nc_connection {
	const char *peer, *profile;
	const char *local_nic, *remote_nic; /* "" while not connected */
	enum nc_link_state state;
	const char *transport; /* or NULL */
	uint64_t age_ms;       /* of the state */
	struct nc_traffic traffic;
	const struct nc_rail *rails;
	size_t n_rails;
};

/* The work of an agent, for tools that watch it. */
struct nc_snapshot {
	const char *session_id;
	const char *host;
	uint64_t pid;
	uint64_t interval_ms; /* until the next one */
	uint64_t uptime_ms;
	uint64_t rss_bytes;
	uint64_t n_regions, region_bytes;	  /* of the user */
	uint64_t n_sys_regions, sys_region_bytes; /* of a service: their names begin with "sys." */
	const struct nc_nic *nics;
	size_t n_nics;
	const struct nc_connection *connections;
	size_t n_connections;
};

int nc_put_snapshot(struct nc_client *client, const struct nc_snapshot *snapshot, nc_done_fn *fn,
		    void *arg);

/*
 * Snapshots of all agents of the scope and of agents of DLSlime's NanoCtrl, page by page: the
 * answer as it came, a JSON object with now_ms, snapshots and next. Of agents whose labels match
 * selector alone, or of all for NULL. after is NULL for the first page.
 */
typedef void nc_text_fn(void *arg, const struct nc_error *error, const char *text, size_t len);
int nc_list_snapshots(struct nc_client *client, const char *selector, const char *after,
		      nc_text_fn *fn, void *arg);

/* ---- session ---- */

enum nc_event_type {
	NC_EVENT_REGISTERED,
	NC_EVENT_CHANGED,
	NC_EVENT_LEFT,
	NC_EVENT_EXPIRED,
	NC_EVENT_REGION,
	NC_EVENT_REGION_GONE,
	NC_EVENT_OFFER,
	NC_EVENT_OFFER_GONE,
	NC_EVENT_WANTED, /* of our own: read the list of wanted links */
};

struct nc_event {
	enum nc_event_type type;
	uint64_t epoch;
	uint64_t generation;	   /* of agent */
	const char *agent;	   /* the agent of the event; of offers the sender */
	const char *incarnation;   /* REGISTERED, LEFT, EXPIRED, else "" */
	const char *region;	   /* REGION, REGION_GONE, else "" */
	const char *profile;	   /* OFFER, OFFER_GONE, else "" */
	uint64_t revision;	   /* CHANGED, REGION, REGION_GONE, else 0 */
	uint64_t connection_epoch; /* OFFER, OFFER_GONE, else 0 */
};

/* ---- links that topologies want ---- */

#define NC_RAILS_ALL UINT32_MAX

struct nc_wanted_link {
	const char *peer;
	const char *profile;
	const char *const *transports; /* in order of preference; none: as the agents have it */
	size_t n_transports;
	uint32_t qps;		/* 0: as the agents have it, as for the next */
	uint32_t rails;		/* or NC_RAILS_ALL */
	uint64_t min_bandwidth; /* bits per second */
	/* RDMA ports of the agent, and of the peer: "mlx5_0,mlx5_1:2"; "": any */
	const char *devices, *peer_devices;
	const char *topology; /* that wants it */
};

struct nc_wanted {
	uint64_t revision; /* grows when the list changes */
	bool known;	   /* false: it comes soon, and what is there stays until then */
	const struct nc_wanted_link *list;
	size_t n;
	const char *next; /* what to give as after for the next page; NULL: this is the last */
};

/* A page of those of the registered agent; after is NULL for the first one. -ENOKEY without a
 * registration; -ESTALE in the callback: the list is another one since the page before, so begin
 * again. */
typedef void nc_wanted_fn(void *arg, const struct nc_error *error, const struct nc_wanted *wanted);
int nc_get_wanted(struct nc_client *client, const char *after, nc_wanted_fn *fn, void *arg);

/* ---- lists, as the JSON of the API ---- */

struct nc_list {
	const char *name;     /* "agents", "topologies", "wanted": a list of docs/http-api.md */
	const char *selector; /* NULL: all */
	const char *after;    /* what the page before said as next; NULL for the first one */
	unsigned limit;	      /* of a page; 0: 200 */
	unsigned last;	      /* of events: how many; 0 of other lists */
};

/* One page. */
int nc_list(struct nc_client *client, const struct nc_list *list, nc_text_fn *fn, void *arg);

/* ---- topologies, as the JSON of the API ---- */

/* All of the scope. */
int nc_list_topologies(struct nc_client *client, nc_text_fn *fn, void *arg);

struct nc_apply {
	const char *body;  /* {"topologies":[...]} */
	uint64_t revision; /* that of the scope's topologies, as the list said it */
	bool force, prune, dry_run;
};
int nc_apply_topologies(struct nc_client *client, const struct nc_apply *apply, nc_text_fn *fn,
			void *arg);
int nc_delete_topology(struct nc_client *client, const char *name, uint64_t revision,
		       nc_text_fn *fn, void *arg);

/* ---- events without a session ---- */

#define NC_POLL_MS_MAX 30000
/* So many polls of a client at once; one more is -EBUSY. */
#define NC_MAX_POLLS 2

struct nc_events {
	const char *cursor; /* behind these: where the next poll goes on */
	bool lost;	    /* events between were missed: read the lists again, then go on */
	const struct nc_event *list;
	size_t n; /* 0: nothing happened for so long */
};

/*
 * Wait for events in the scope after cursor: the callback gets the first events as soon as there
 * are any, at the latest after wait_ms; offers are not among them. NULL means from now on: only
 * events during the wait of this poll are reported, and a repeated poll begins at its repetition,
 * so take the cursor of a list, or of a poll of 0 ms. The call has wait_ms more until its deadline
 * than others. A caller that continues from the cursor of each answer, of any server and at any
 * time, gets every event at least once and in order, or a report that events were lost. -EINVAL for
 * a wait that is too long. A poll is no heartbeat.
 */
typedef void nc_events_fn(void *arg, const struct nc_error *error, const struct nc_events *events);
int nc_poll_events(struct nc_client *client, const char *cursor, uint32_t wait_ms, nc_events_fn *fn,
		   void *arg);

/* The same for the registered agent, with what is posted for it. -ENOKEY without a lease. */
int nc_poll_own_events(struct nc_client *client, const char *cursor, uint32_t wait_ms,
		       nc_events_fn *fn, void *arg);

enum nc_session_end {
	NC_SESSION_RESYNC,     /* the lease is gone: register, publish, open a new session, now */
	NC_SESSION_SUPERSEDED, /* a newer process of this owner is there: stop for good */
	NC_SESSION_REPLACED,   /* another session of this agent was opened */
	NC_SESSION_REFUSED,    /* the server will not have it: see error */
};

/*
 * All but ended may be NULL. up and down say how the connection goes; it comes back by itself, with
 * back-off and jitter, also after the server asked us to go away. Events are delivered at least
 * once and acknowledged after the callback returned. reset: events were lost; read agents, regions
 * and offers again. ended is the last call: the session is no more. error is NULL except with
 * NC_SESSION_REFUSED. Time to spread a storm of resyncs has passed when it comes.
 */
struct nc_session_ops {
	void (*up)(void *arg);
	void (*down)(void *arg, const char *cause);
	void (*event)(void *arg, const struct nc_event *event);
	void (*reset)(void *arg);
	void (*ended)(void *arg, enum nc_session_end why, const struct nc_error *error);
};

/* Beats, events and acknowledgements of the registered agent. -ENOKEY without a lease, -EBUSY when
 * one is open. */
int nc_session_open(struct nc_client *client, const struct nc_session_ops *ops, void *arg);

/* Without further callbacks; the server sees the session break. Harmless when none is open. */
void nc_session_close(struct nc_client *client);

bool nc_session_is_up(const struct nc_client *client);

#endif
