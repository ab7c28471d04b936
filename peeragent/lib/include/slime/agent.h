/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libslime-agent: a named agent inside this process. It registers with nanoctrl, keeps its lease,
 * offers memory regions by name, brings links to other agents up and brings them up again when they
 * break, for as long as it lives. nanoctrl going away stops none of that which runs.
 *
 *	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
 *
 *	attr.name = "worker-1";
 *	attr.urls = (const char *const[]){ "http://127.0.0.1:3000" };
 *	attr.n_urls = 1;
 *	slime_agent_create(&attr, &agent);
 *	slime_agent_start(agent);
 *	slime_agent_link_add(agent, &(struct slime_agent_link){ .to = "node-b" });
 *	slime_agent_endpoint_get(agent, "node-b", NULL, 10000, &ep);
 *	slime_agent_region_remote(agent, "node-b", "kv", 1000, &kv);
 *	... slime_read(ep, ...), slime_call_start(ep, ...) ...
 *	slime_agent_endpoint_put(agent, ep);
 *	slime_agent_destroy(agent);
 *
 * Threads. The agent's control side is one event loop on which nothing blocks, on a thread of its
 * own or on the caller's (attr.loop). One helper thread beside it does what blocks: allocating and
 * withdrawing memory, destroying endpoints. Every function here may be called from any thread but a
 * progress thread. Those that say "waits" answer -EDEADLK inside the callbacks of the loop, such as
 * on_state; outside of them, on the thread of a caller's loop, they run that loop. The others act
 * at once on the loop's thread.
 *
 * A caller's loop is run by one thread, which is the loop's from its first turn on; before that it
 * is the one that created the agent. So an agent is created and started on the thread that runs the
 * loop, or before any thread does; other threads call while it runs; and slime_agent_destroy() is
 * called on the loop's thread, or when no thread runs it any more.
 */
#ifndef SLIME_AGENT_H
#define SLIME_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/slime.h>

SLIME_BEGIN_DECLS

struct event_base;
struct slime_agent;

/* Names of agents, regions, services and profiles: 1 to 253 of [A-Za-z0-9._:@-], not "." or "..".
 */
#define SLIME_AGENT_NAME_MAX 253

struct slime_label {
	const char *key;   /* a name of at most 63 bytes */
	const char *value; /* at most 253 bytes of UTF-8, without comma or control
			      characters */
};

/* Memory that the agent allocates, zeroed, and offers. */
struct slime_agent_region {
	const char *name;
	uint64_t size; /* bytes, at least 1 */
	enum slime_huge_pages huge;
	int numa_node;		  /* SLIME_NUMA_ANY: the kernel's choice */
	uint32_t access;	  /* enum slime_access; 0 offers nothing: local use */
	const char *const *allow; /* allowed peers: "label=value" or "name=AGENT", one match is
				     enough. NULL: every agent of the scope */
	size_t n_allow;		  /* 0 with NULL only: a list without a selector is malformed */
	bool on_demand;		  /* as of struct slime_mr_attr */
	const char *gpu; /* memory of the GPU at this PCI address, as "0000:17:00.0", by CUDA: for
			    reads and writes over rdma, and not on_demand; huge and numa_node mean
			    nothing then. NULL: memory of this host */
};

/* A wanted link: to one agent, or to each one that a selector matches. */
struct slime_agent_link {
	const char *to;	     /* "node-b", or "role=decode,zone=a": labels that all match */
	const char *profile; /* tells links between the same two agents apart; NULL: "default" */
	enum slime_transport transports[SLIME_TRANSPORT_MAX]; /* in order of preference; none: the
								 agent's */
	/* Over rdma, each as of struct slime_endpoint_attr: what both agents ask for counts. */
	uint32_t qps;		  /* queue pairs of each rail, 1 to 8; 0: the agent's */
	uint32_t rails;		  /* at most so many; 0: all */
	const char *devices;	  /* ports of this agent, "mlx5_0,mlx5_1:2"; NULL: any */
	const char *peer_devices; /* of the peer, by its own names; NULL: any */
	uint64_t min_bandwidth;	  /* bits per second of all rails; 0: any */
	/* Bits per second that this agent moves over the link at most, over every transport, as of
	 * struct slime_endpoint_attr; 0: no cap but that of the context. */
	uint64_t max_bandwidth;
};

/* What can change while an agent runs. */
struct slime_topology {
	const struct slime_label *labels;
	size_t n_labels;
	const struct slime_agent_region *regions;
	size_t n_regions;
	const struct slime_agent_link *links;
	size_t n_links;
};

/* What is wrong with a topology: the place as "regions.2.name", and what was expected there. */
struct slime_topology_fault {
	char path[64];
	char expected[192];
};

/*
 * Whether an agent called name could have this topology: 0, or -EINVAL with the first fault in
 * *fault.
 */
SLIME_API SLIME_CHECKED int slime_topology_check(const struct slime_topology *topology,
						 const char *name,
						 struct slime_topology_fault *fault);

/*
 * An agent that was killed keeps its name until its lease ends (lease.ttl of nanoctrl, 15 s by
 * default; counted from nanoctrl's start when that is later). One that asks for the name with the
 * owner key of attr.state_dir takes it over at once. One without waits as SLIME_AGENT_STARTING with
 * the cause -EADDRINUSE until that lease has ended; should its holder renew it meanwhile, which
 * shows within a beat (5 s), or keep the name for longer than a dead one could, it is
 * SLIME_AGENT_REFUSED. The text of the state names the holder, and until when we wait.
 */
enum slime_agent_state {
	SLIME_AGENT_STARTING, /* not registered yet */
	SLIME_AGENT_READY, /* registered, and its regions are offered; one of a later topology that
			      cannot be had does not change that */
	SLIME_AGENT_DETACHED, /* was registered; nanoctrl does not answer; links stay up */
	SLIME_AGENT_REFUSED,  /* another living agent has the name: tried again until it ends */
	SLIME_AGENT_ENDED,    /* superseded by a newer process of the same owner, or stopped */
};

SLIME_API const char *slime_agent_state_name(enum slime_agent_state state);

/* Runs on the loop's thread at each change; cause is 0 or a negative errno, text is for people. */
typedef void slime_agent_fn(void *arg, struct slime_agent *agent, enum slime_agent_state state,
			    int cause, const char *text);

struct slime_agent_attr {
	const char *name;
	const char *scope;	 /* NULL: "default" */
	const char *const *urls; /* of nanoctrl's replicas, tried in turn */
	size_t n_urls;
	const char *token;     /* bearer token; NULL: none */
	const char *state_dir; /* keeps the owner key, which takes over the name of an earlier
				  process of ours that still holds it; NULL: none is kept */
	const char *address;   /* shown to peers and people, at most 253 bytes of UTF-8; NULL: the
				  host's name */
	struct slime_topology topology;			      /* at the start */
	struct slime_context_attr data;			      /* of the agent's context */
	enum slime_transport transports[SLIME_TRANSPORT_MAX]; /* for links that name none; none:
								 shm, rdma, tcp */
	uint32_t connect_timeout_ms; /* for one attempt to bring a link up */
	uint32_t retry_min_ms;	     /* the first wait before another attempt, doubled each time, */
	uint32_t retry_max_ms;	     /* up to this; jittered */
	uint32_t snapshot_ms;	     /* how often nanoctrl is told what the agent does; 0: never */
	struct event_base *loop;  /* the caller's, run by one thread until the agent is destroyed,
				     see "Threads"; NULL: a thread of our own */
	slime_agent_fn *on_state; /* NULL: none */
	bool (*interrupted)(void *arg); /* asked every 50 ms on a thread that waits for nanoctrl's
					   answer to a lookup: true ends that wait with -EINTR.
					   NULL: no question */
	void *arg;			/* of both */
};

#define SLIME_AGENT_ATTR_INIT                                                                     \
	{                                                                                         \
		.data = SLIME_CONTEXT_ATTR_INIT, .connect_timeout_ms = 5000, .retry_min_ms = 100, \
		.retry_max_ms = 5000, .snapshot_ms = 10000,                                       \
	}
SLIME_API void slime_agent_attr_init(struct slime_agent_attr *attr);

/*
 * Create an agent; nothing is sent yet. Everything in attr is copied.
 *   -EINVAL  a value is out of its range; the log line names it
 *   what slime_context_create() says, and what open(2) and write(2) say of the owner key
 */
SLIME_API SLIME_CHECKED int slime_agent_create(const struct slime_agent_attr *attr,
					       struct slime_agent **out);

/* The agent's context: for the caller's own regions, ops and calls. */
SLIME_API struct slime_context *slime_agent_context(const struct slime_agent *agent);

SLIME_API const char *slime_agent_name(const struct slime_agent *agent);
SLIME_API const char *slime_agent_scope(const struct slime_agent *agent);

/*
 * Offer an RPC method to every peer: before slime_agent_start().
 *   -EEXIST, -EINVAL, -ENOMEM as slime_rpc_method_add()     -EBUSY  the agent was started
 */
SLIME_API SLIME_CHECKED int slime_agent_method_add(struct slime_agent *agent, const char *name,
						   const struct slime_rpc_method_attr *attr);

/* Take a method back: before slime_agent_start(), else -EBUSY. -ENOENT: there is none of that name.
 */
SLIME_API int slime_agent_method_remove(struct slime_agent *agent, const char *name);

/* Announce a service by name in the registration: before slime_agent_start(). -EEXIST, -EINVAL,
 * -ENOSPC (more than 64), -EBUSY, -ENOMEM. */
SLIME_API SLIME_CHECKED int slime_agent_service_add(struct slime_agent *agent, const char *name);

/* Begin: allocate the regions, register, bring the links up. -EALREADY, -ESHUTDOWN (stopped
 * before), -ENOMEM. */
SLIME_API SLIME_CHECKED int slime_agent_start(struct slime_agent *agent);

/*
 * Waits until the agent is SLIME_AGENT_READY.
 *   -ETIMEDOUT  not within timeout_ms (negative: no limit)
 *   -EADDRINUSE  another living agent has the name: SLIME_AGENT_REFUSED
 *   -ESHUTDOWN  superseded or stopped
 *   -ENOMEM, ... a region cannot be had: as the log line says
 */
SLIME_API SLIME_CHECKED int slime_agent_wait_ready(struct slime_agent *agent, int64_t timeout_ms);

SLIME_API enum slime_agent_state slime_agent_state(struct slime_agent *agent);

/*
 * Make this the wanted topology in place of the one from attr or an earlier call; links of
 * slime_agent_link_add() and regions of slime_agent_region_offer() stay. Returns when it is
 * accepted; carrying it out goes on.
 *   -EINVAL  malformed, see slime_topology_check(); the earlier one stays     -ENOMEM
 *   -EEXIST  a region of it has the name of one that was offered; the earlier one stays
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it leaves, or has ended
 */
SLIME_API SLIME_CHECKED int slime_agent_apply(struct slime_agent *agent,
					      const struct slime_topology *topology);

/*
 * Ask these servers of nanoctrl in place of those of the attributes or an earlier call. The session
 * moves there, and links stay. The same list changes nothing.
 *   -EINVAL  no URL, more than 16, or one that is malformed; the earlier ones stay     -ENOMEM
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it leaves, or has ended
 */
SLIME_API SLIME_CHECKED int slime_agent_urls_set(struct slime_agent *agent, const char *const *urls,
						 size_t n_urls);

/*
 * Want one more link, as if it stood in the topology.
 *   -EEXIST  a link to that agent with that profile is wanted already     -EINVAL, -ENOMEM
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it leaves, or has ended
 */
SLIME_API SLIME_CHECKED int slime_agent_link_add(struct slime_agent *agent,
						 const struct slime_agent_link *link);

/* Take back what slime_agent_link_add() added: the link is closed unless the topology names it,
 * too; a selector that matches the peer, and a peer that wants it, bring it up again as their own.
 * profile NULL is "default". -ENOENT  no such link was added. */
SLIME_API int slime_agent_link_remove(struct slime_agent *agent, const char *to,
				      const char *profile);

/*
 * The endpoint of the connected link to a peer; waits for it to be connected. The endpoint is not
 * destroyed before it is put back, also when its connection breaks meanwhile: then operations on it
 * fail, it is put back, and the next get waits for the next connection. profile NULL is "default".
 *   -ENOENT     no such link is wanted by anyone, and timeout_ms ended
 *   -ETIMEDOUT  not connected within timeout_ms; slime_agent_links() says why
 *   -ESHUTDOWN  the agent leaves, or has ended
 *   -EDEADLK    inside a callback of the loop, with a timeout other than 0
 */
SLIME_API SLIME_CHECKED int slime_agent_endpoint_get(struct slime_agent *agent, const char *peer,
						     const char *profile, int64_t timeout_ms,
						     struct slime_endpoint **out);
SLIME_API void slime_agent_endpoint_put(struct slime_agent *agent, struct slime_endpoint *ep);

/*
 * Offer a region of the caller's, made in the agent's context, under a name. It is withdrawn from
 * the directory before the caller destroys it. With allow it should be restricted (slime/mr.h):
 * links that are made from then on are isolated, and reach it over rdma. allow NULL with n_allow 0
 * is every agent of the scope.
 *   -EEXIST  the name is taken     -ENOMEM
 *   -EINVAL  malformed, also an allow that is not NULL, without a selector
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it was stopped before
 */
SLIME_API SLIME_CHECKED int slime_agent_region_offer(struct slime_agent *agent, const char *name,
						     struct slime_mr *mr, uint32_t access,
						     const char *const *allow, size_t n_allow);

/* Take a region of slime_agent_region_offer() out of the directory. -ENOENT. */
SLIME_API int slime_agent_region_withdraw(struct slime_agent *agent, const char *name);

/*
 * A region of the topology, or one that was offered, valid while it is there.
 *   -ENOENT  there is none of that name     -EAGAIN  it is being allocated
 *   -ENOTSUP, -ENOMEM, ... it cannot be had: the log line says why. -ENOTSUP is a GPU's on a host
 *            without the driver, or what no device can
 *   -ESHUTDOWN  the agent left before it was allocated
 */
SLIME_API SLIME_CHECKED int slime_agent_region_local(struct slime_agent *agent, const char *name,
						     struct slime_mr **out);

/*
 * Look up a peer's region in the directory. Waits for nanoctrl's answer, and without a session
 * until there is one.
 *   -ENOENT  no such agent or region      -EACCES  the region does not allow this agent
 *   -EAGAIN  nanoctrl does not answer     -ETIMEDOUT     -EPROTO  the entry is malformed
 *   -EINTR   interrupted() of the attributes said so
 *   -EINVAL  no such names can be     -ENOMEM
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it has ended
 */
SLIME_API SLIME_CHECKED int slime_agent_region_remote(struct slime_agent *agent, const char *peer,
						      const char *region, int64_t timeout_ms,
						      struct slime_remote_mr *out);

/*
 * Whether an agent of that name is registered in the scope. Waits for nanoctrl, as
 * slime_agent_region_remote(). 0, or
 *   -ENOENT  it is not
 *   -EAGAIN  nanoctrl does not answer     -ETIMEDOUT     -EINTR
 *   -EINVAL  no such name can be     -ENOMEM
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it has ended
 */
SLIME_API SLIME_CHECKED int slime_agent_peer_find(struct slime_agent *agent, const char *peer,
						  int64_t timeout_ms);

/* An agent of the scope, as it said of itself when it registered. */
struct slime_agent_peer {
	const char *name;
	const char *address; /* "": none */
	uint64_t generation; /* of its registration */
	const struct slime_label *labels;
	size_t n_labels;
	const char *const *services;
	size_t n_services;
	/* Texts by keys. Agents of this library describe each RDMA port under the key
	 * "nic.DEVICE:PORT": "link=Ethernet state=ACTIVE mbps=100000 numa=0
	 * gpus=0000:17:00.0/PIX,..." (slime/topo.h) */
	const struct slime_label *attributes;
	size_t n_attributes;
};

/* A page of them, in the order of their names. */
struct slime_agent_peers {
	const struct slime_agent_peer *peers;
	size_t n;	  /* may be 0 before the last page */
	const char *next; /* what to give as after for the next page; NULL: this is the last */
};

/*
 * A page of the other agents that are registered in the scope: of all, or of those that a selector
 * ("role=decode,zone=a") matches. selector NULL is all; after is NULL for the first page. Waits for
 * nanoctrl, as slime_agent_region_remote(). The page is freed by slime_agent_peers_free(). Errors
 * as of slime_agent_peer_find(), but for -ENOENT.
 */
SLIME_API SLIME_CHECKED int slime_agent_peers(struct slime_agent *agent, const char *selector,
					      const char *after, int64_t timeout_ms,
					      struct slime_agent_peers **out);
SLIME_API void slime_agent_peers_free(struct slime_agent_peers *peers);

/* A region that an agent has in the directory. */
struct slime_agent_region_info {
	const char *name;
	uint64_t size;	     /* bytes */
	uint32_t access;     /* enum slime_access */
	uint64_t generation; /* of the agent's registration that offers it */
	uint64_t revision;   /* grows with each change, and when it is offered anew */
};

struct slime_agent_regions {
	const struct slime_agent_region_info *regions; /* in the order of their names */
	size_t n;
};

/*
 * The regions of an agent, also those that do not allow this one. Waits, and fails, as
 * slime_agent_peer_find(); freed by slime_agent_regions_free().
 */
SLIME_API SLIME_CHECKED int slime_agent_regions(struct slime_agent *agent, const char *peer,
						int64_t timeout_ms,
						struct slime_agent_regions **out);
SLIME_API void slime_agent_regions_free(struct slime_agent_regions *regions);

/*
 * The agents of the scope that offer a service (slime_agent_service_add()), this one included:
 * fills the names of at most n, and of at most 256 where there are many. Waits for nanoctrl, as
 * slime_agent_region_remote(). Returns how many it filled, or an error of slime_agent_peer_find()
 * or -ENOMEM.
 */
SLIME_API SLIME_CHECKED int slime_agent_providers(struct slime_agent *agent, const char *service,
						  char (*names)[SLIME_AGENT_NAME_MAX + 1], size_t n,
						  int64_t timeout_ms);

/* ---- the end of peers ---- */

enum slime_peer_end_reason {
	SLIME_PEER_LEFT,    /* it said goodbye to nanoctrl */
	SLIME_PEER_EXPIRED, /* its lease ended. It may stand still: a link that is connected stays
			     */
	SLIME_PEER_RESET, /* the last of its connections to us broke: its process or its host died,
			     or the network between */
	SLIME_PEER_SUPERSEDED, /* another process has its name */
};

/* "left", "expired", "reset", "superseded". */
SLIME_API const char *slime_peer_end_name(enum slime_peer_end_reason reason);

struct slime_peer_end {
	char peer[SLIME_AGENT_NAME_MAX + 1];
	enum slime_peer_end_reason reason;
	uint32_t silent_ms; /* how long it had not been heard of before that, at most: 0 when it, or
			       the kernel, said so; else the bound of whoever watched it */
	char text[256];	    /* for people */
	uint32_t n_lost; /* events before this one that were dropped: they were not taken in time */
};

typedef void slime_agent_end_fn(void *arg, struct slime_agent *agent,
				const struct slime_peer_end *end);

struct slime_agent_watch;

/*
 * Hear of the end of each agent to which there is, or was, a link; any number of users of an agent
 * may watch. A process that is killed is told of as SLIME_PEER_RESET where a link is connected,
 * also an idle one, within 2.5 s with the defaults of struct slime_context_attr; and as
 * SLIME_PEER_EXPIRED when its lease ends. One that stands still is told of by that alone.
 *
 * fn runs on the loop's thread, and may destroy the watch. fn NULL: the descriptor of
 * slime_agent_watch_fd() is readable while slime_agent_watch_next() has something. A watch keeps
 * 256 events; of more the oldest are lost, which n_lost says. Destroy it before the agent. -ENOMEM
 * -EMFILE, -ENFILE
 */
SLIME_API SLIME_CHECKED int slime_agent_watch_create(struct slime_agent *agent,
						     slime_agent_end_fn *fn, void *arg,
						     struct slime_agent_watch **out);

/* -ENOTSUP: it has a function. The descriptor belongs to the watch. */
SLIME_API int slime_agent_watch_fd(const struct slime_agent_watch *watch);

/* 0; -EAGAIN: there is none now; -ENOTSUP: it has a function. Any thread, without waiting. */
SLIME_API SLIME_CHECKED int slime_agent_watch_next(struct slime_agent_watch *watch,
						   struct slime_peer_end *out);

/* No call of its function begins any more. destroy(NULL) does nothing. */
SLIME_API void slime_agent_watch_destroy(struct slime_agent_watch *watch);

enum slime_link_state {
	SLIME_LINK_CONNECTING,
	SLIME_LINK_CONNECTED,
	SLIME_LINK_BROKEN,
	SLIME_LINK_REFUSED, /* this agent cannot do what is wanted: it has none of the transports, a
			       device or a place for a link is missing, or the wish names what it
			       does not know. Where that may change it is tried again */
	SLIME_LINK_STATES
};

SLIME_API const char *slime_link_state_name(enum slime_link_state state);

struct slime_agent_link_info {
	char peer[SLIME_AGENT_NAME_MAX + 1];
	char profile[SLIME_AGENT_NAME_MAX + 1];
	enum slime_link_state state;
	enum slime_transport transport;	  /* of the connection */
	char cause[SLIME_CAUSE_TEXT_MAX]; /* why it is not connected, "" when it is */
	uint64_t age_ms; /* since it is connected; or since it is not, whether it is tried or waits
			  */
	uint32_t n_connects;		   /* how often it came up */
	uint64_t max_bandwidth;		   /* of the connection, as in slime_endpoint_info */
	struct slime_endpoint_stats stats; /* of all its connections */
	uint32_t n_rails;		   /* of the connection, if it is over rdma */
	struct slime_rail_info rails[SLIME_RAILS_MAX];
};

/* The links as they are: fills at most n, returns how many there are, or -ENOMEM. */
SLIME_API SLIME_CHECKED int slime_agent_links(struct slime_agent *agent,
					      struct slime_agent_link_info *out, size_t n);

struct slime_agent_stats {
	struct slime_endpoint_stats ops;     /* of all links, also those that are gone */
	uint64_t n_connects;		     /* how often any of them came up */
	uint32_t n_links[SLIME_LINK_STATES]; /* that there are now, by enum slime_link_state */
};

/* The counts of the agent as a whole, which never go back. */
SLIME_API void slime_agent_stats(struct slime_agent *agent, struct slime_agent_stats *out);

/*
 * Leave in order: links are closed, the lease is given back. Waits at most timeout_ms for nanoctrl;
 * what is not done by then is left to the lease's end. One that was not started never will be. A
 * caller's loop is run meanwhile: not from inside its callbacks. Idempotent. 0, -ETIMEDOUT,
 * -EDEADLK.
 */
SLIME_API int slime_agent_stop(struct slime_agent *agent, int64_t timeout_ms);

/*
 * Stop, waiting for nanoctrl at most 6 s; free. A caller's loop must be destroyed after it, and
 * turned once before that (EVLOOP_NONBLOCK): libevent frees then what is left of connections. A
 * region that a stopped peer on this host still reaches keeps its memory, and the context, until
 * the process ends; the log says so. destroy(NULL) is 0.
 *   -EBUSY    an endpoint or a target was not put back, and nothing but the stop happened
 *   -EDEADLK  inside a callback of the loop, or another thread runs it: nothing happened
 */
SLIME_API int slime_agent_destroy(struct slime_agent *agent);

SLIME_END_DECLS

#endif
