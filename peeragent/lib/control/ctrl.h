/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's session with nanoctrl: registers, keeps the lease, follows events, registers again
 * when the lease or the store was lost. Everything happens on the loop; callbacks never come from
 * inside a call.
 */
#ifndef AGENT_CTRL_H
#define AGENT_CTRL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/agent.h>

struct ctrl;
struct event_base;

#define CTRL_INCARNATION_MAX 64
#define CTRL_OWNER_KEY_LEN   64
#define CTRL_DESCRIPTOR_MAX  4096
#define CTRL_ATTRIBUTES_MAX  64

/* A call with its repeats; one that meets a server that is away ends after this. */
#define CTRL_CALL_TIMEOUT_MS 5000

struct ctrl_attr {
	const char *name;
	const char *scope;
	const char *const *urls;
	size_t n_urls;
	const char *token;
	const char *incarnation;
	const char *owner_key; /* hexadecimal */
	const char *address;
	const struct slime_label *labels;
	size_t n_labels;
	const char *const *services;
	size_t n_services;
	const struct slime_label *attributes;
	size_t n_attributes;
};

/* A registration of another agent. */
struct ctrl_peer {
	const char *name;
	const char *incarnation;
	uint64_t epoch; /* (epoch, generation) orders what is said of a name */
	uint64_t generation;
	const struct slime_label *labels;
	size_t n_labels;
};

/* An offer of another agent for us. */
struct ctrl_offer {
	const char *from;
	const char *profile;
	const char *incarnation; /* of from */
	uint64_t epoch;
	uint64_t generation;
	uint64_t number; /* grows with everything that from posts under this profile */
	const void *descriptor;
	size_t len;
};

/* A link that a topology wants. */
struct ctrl_wanted {
	struct slime_agent_link link;
	const char *topology;
	const char *refusal; /* why this agent cannot have it as it is wanted, a constant text;
				NULL: it can */
};

enum ctrl_trouble {
	CTRL_UNREACHABLE, /* no server answers, or it has no store: tried again and again */
	CTRL_NAME_HELD,	  /* by another owner's lease, which may be of a process that died: tried
			     again until it has ended */
	CTRL_NAME_TAKEN,  /* by another owner, which lives: tried again all the same */
	CTRL_SUPERSEDED,  /* a newer process of our owner has the name: final */
	CTRL_FORBIDDEN,	  /* the server refuses our registration as it is, or it cannot be written:
			     tried again, slowly */
};

struct ctrl_ops {
	/* Registered and in session. fresh: what we published before may not be there. */
	void (*up)(void *arg, bool fresh);
	/* The session is lost, or could not be had. Comes once for each change of what is wrong. */
	void (*down)(void *arg, enum ctrl_trouble trouble, const char *text);
	/* A registration that stands: listed, new, or changed. Ourselves are left out. */
	void (*peer)(void *arg, const struct ctrl_peer *peer);
	/* It ended. left: it said goodbye. */
	void (*peer_gone)(void *arg, const char *name, uint64_t epoch, uint64_t generation,
			  bool left);
	/* A list of all registrations begins to be reported through peer, and has ended: every
	 * other agent has gone. One that begins anew before its end replaces the earlier. */
	void (*list_begin)(void *arg);
	void (*list_end)(void *arg);
	void (*offer)(void *arg, const struct ctrl_offer *offer);
	/* It took back what it had posted under this number, or before. */
	void (*offer_gone)(void *arg, const char *from, const char *profile, uint64_t number);
	/* The links that topologies want of this agent, all of them. */
	void (*wanted)(void *arg, const struct ctrl_wanted *links, size_t n);
	/* Another agent put a region into the directory, or changed it there. */
	void (*region)(void *arg, const char *agent, const char *name);
	/* A region of ours is not in the directory any more, as of this revision: either side may
	 * have withdrawn it. */
	void (*region_gone)(void *arg, const char *name, uint64_t revision);
};

/* Whether the text is a URL of nanoctrl. */
bool ctrl_is_url(const char *text);
/* Whether such a URL may lead to another host: it does not name loopback. */
bool ctrl_url_is_remote(const char *text);

/* Strings are copied. -ENOMEM; -EINVAL for a URL that is none, which is logged. */
int ctrl_create(struct event_base *base, const struct ctrl_attr *attr, const struct ctrl_ops *ops,
		void *arg, struct ctrl **out);
void ctrl_start(struct ctrl *ctrl);

/* No callback comes after it; requests under way are dropped unanswered. */
void ctrl_destroy(struct ctrl *ctrl);

/*
 * Requests return 0 when done will be called, later; else it will not, and nothing was sent:
 * -EAGAIN without a session or memory, or with too much under way, -EINVAL when it cannot be
 * written. How one ended:
 *   0           done
 *   -EAGAIN     no answer; whether it was done is unknown
 *   -ENOENT     no such agent or region       -EACCES  not for us
 *   -ESTALE     a newer revision, or another incarnation of the peer, is there
 *   -EINVAL     refused as malformed, which is logged
 */
typedef void ctrl_done_fn(void *arg, int result);

/* Say goodbye, behind the requests that are under way if they are answered soon, and stay away.
 * -EAGAIN: there is no session to say it in, the lease will end by itself. */
int ctrl_leave(struct ctrl *ctrl, ctrl_done_fn *done, void *arg);

/* Report all registrations anew, in a list; without a session as soon as there is one. */
void ctrl_list(struct ctrl *ctrl);

/* How long a lease lasts that is not renewed, as nanoctrl said last; 0: never. */
uint32_t ctrl_lease_ms(const struct ctrl *ctrl);

/* Report the registration of one agent, if there is any. */
void ctrl_look(struct ctrl *ctrl, const char *agent);

/* Register with these labels from now on; within a session at once, which interrupts it. -ENOMEM.
 */
int ctrl_set_labels(struct ctrl *ctrl, const struct slime_label *labels, size_t n_labels);

/* Speak to these servers from now on. -EINVAL, which is logged; -ENOMEM: the former ones stay. */
int ctrl_set_urls(struct ctrl *ctrl, const char *const *urls, size_t n_urls);

/* revision: greater than that of every write of this object before, of whichever kind; a withdrawal
 * takes back what has its revision or a smaller one. */
struct ctrl_region {
	const char *name;
	uint64_t revision;
	uint64_t size;
	uint32_t access;
	const char *const *allow;
	size_t n_allow;
	const void *descriptor;
	size_t len;
};

int ctrl_put_region(struct ctrl *ctrl, const struct ctrl_region *region, ctrl_done_fn *done,
		    void *arg);
int ctrl_delete_region(struct ctrl *ctrl, const char *name, uint64_t revision, ctrl_done_fn *done,
		       void *arg);

/* Whether an agent of that name is registered. */
int ctrl_find_agent(struct ctrl *ctrl, const char *agent, ctrl_done_fn *done, void *arg);

/* names are valid during the call, for result 0. */
typedef void ctrl_names_fn(void *arg, int result, const char *const *names, size_t n);

struct nc_page;

/* page is valid during the call, for result 0. */
typedef void ctrl_page_fn(void *arg, int result, const struct nc_page *page);

/* A page of the agents of the scope, this one included; selector and after may be NULL. */
int ctrl_list_agents(struct ctrl *ctrl, const char *selector, const char *after, ctrl_page_fn *done,
		     void *arg);

/* The regions of an agent, in one page. */
int ctrl_list_regions(struct ctrl *ctrl, const char *agent, ctrl_page_fn *done, void *arg);

/* The names of the agents that offer a service, this one included; of many the first
 * CTRL_PROVIDERS_MAX at most. */
#define CTRL_PROVIDERS_MAX 256
int ctrl_list_providers(struct ctrl *ctrl, const char *service, ctrl_names_fn *done, void *arg);

/* descriptor is valid during the call, for result 0. */
typedef void ctrl_region_fn(void *arg, int result, const void *descriptor, size_t len);

int ctrl_get_region(struct ctrl *ctrl, const char *agent, const char *region, ctrl_region_fn *done,
		    void *arg);

int ctrl_post(struct ctrl *ctrl, const char *peer, const char *profile,
	      const char *peer_incarnation, uint64_t number, const void *descriptor, size_t len,
	      ctrl_done_fn *done, void *arg);
/* The offers of this number, and of lower ones. */
int ctrl_withdraw(struct ctrl *ctrl, const char *peer, const char *profile, uint64_t number,
		  ctrl_done_fn *done, void *arg);

/* Of a text for people more is not sent. */
#define CTRL_TEXT_MAX 511

struct ctrl_link {
	const char *peer;
	const char *profile;
	uint64_t revision;
	enum slime_link_state state;
	const char *cause;	      /* "": none */
	const char *transport;	      /* NULL while not connected */
	const char *peer_incarnation; /* NULL when unknown */
	uint64_t attempt;
	uint64_t age_ms;
	/* How it came to be so, for people: the transports that are allowed, in order of preference
	 * ("shm,tcp"), NULL when nothing of all this is known. "" and 0: there is nothing to say.
	 */
	const char *source; /* the origin of the wish; NULL when it is not known */
	const char *transports;
	bool own_order; /* of a connected one, as in slime_endpoint_info */
	const char *passed_over;
	const char *no_foreign_memory;
	const char *last_error; /* it broke with, or was lost for, before the present state */
	uint64_t max_bandwidth; /* bits per second */
	uint32_t n_connects;
	uint32_t n_failures; /* in a row */
};

int ctrl_report_link(struct ctrl *ctrl, const struct ctrl_link *link, ctrl_done_fn *done,
		     void *arg);
int ctrl_forget_link(struct ctrl *ctrl, const char *peer, const char *profile, uint64_t revision,
		     ctrl_done_fn *done, void *arg);

struct nc_snapshot;

/* What it points to need not outlive the call. */
int ctrl_put_snapshot(struct ctrl *ctrl, const struct nc_snapshot *snapshot, ctrl_done_fn *done,
		      void *arg);

#endif
