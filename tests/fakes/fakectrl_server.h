/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the control plane in memory: agents, and what they keep there. */
#ifndef TESTS_FAKECTRL_SERVER_H
#define TESTS_FAKECTRL_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <slime/agent.h>

#include "base/list.h"
#include "peeragent/lib/control/ctrl.h"
#include "tests/fakes/fakectrl.h"
#include "tests/fakes/fakectrl_inbox.h"

/* Also where assert() is nothing. */
void must(bool holds);

struct ctrl {
	struct sl_list node;
	struct inbox inbox;
	char name[FAKE_NAME], scope[FAKE_NAME], incarnation[CTRL_INCARNATION_MAX + 1];
	char owner[CTRL_OWNER_KEY_LEN + 1];
	struct slime_topology *labels;
	char services[FAKE_SERVICES][FAKE_NAME];
	size_t n_services;
	char attributes[2 * FAKE_PAIRS][FAKE_NAME]; /* key, value, key, ... */
	size_t n_attributes;
	bool started, registered, ended;
	bool list_due; /* asked for without a session */
	uint64_t generation;
};

enum object_kind { OBJECT_OFFER, OBJECT_REGION, OBJECT_LINK };

/* What one agent keeps at the server. */
struct object {
	struct sl_list node;
	enum object_kind kind;
	char owner[FAKE_NAME], name[FAKE_NAME], profile[FAKE_NAME];
	uint64_t number; /* of an offer; revision of a region */
	uint64_t size;	 /* of a region */
	uint32_t access;
	enum slime_link_state state;
	struct fakectrl_report report;
	size_t len;
	uint8_t bytes[CTRL_DESCRIPTOR_MAX];
};

/* Of a region, not carried out yet. */
struct withdrawal {
	struct sl_list node;
	struct ctrl *from;
	char name[FAKE_NAME];
	uint64_t revision;
	ctrl_done_fn *done;
	void *arg;
};

struct server {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* after every unlock */
	struct sl_list agents, objects;
	struct sl_list withdrawals; /* held back */
	bool ready, away, holds_withdrawals;
	uint64_t epoch, generation;
	unsigned n_posts;
	unsigned n_full; /* lookups that find no call free */
};

extern struct server server;

void server_lock(void);
void server_unlock(void);

/* All below: the lock is held. */

#define each_agent(c, tmp)                                              \
	for (struct sl_list * tmp##_n, *tmp = server.agents.next;       \
	     tmp##_n = tmp->next, tmp != &server.agents; tmp = tmp##_n) \
		for (struct ctrl *c = SL_CONTAINER_OF(tmp, struct ctrl, node); c; c = NULL)
#define each_object(o, tmp)                                              \
	for (struct sl_list * tmp##_n, *tmp = server.objects.next;       \
	     tmp##_n = tmp->next, tmp != &server.objects; tmp = tmp##_n) \
		for (struct object *o = SL_CONTAINER_OF(tmp, struct object, node); o; o = NULL)

struct ctrl *server_agent(const char *scope, const char *name);
struct object *server_object(enum object_kind kind, const char *owner, const char *name,
			     const char *profile);
/* In the place of what was there. */
struct object *server_put(struct ctrl *c, enum object_kind kind, const char *name,
			  const char *profile, const void *bytes, size_t len);
void server_drop(struct object *o);

/* A region goes, unless a newer one is there, and its agent is told which. */
void server_withdraw(struct ctrl *c, const char *region, uint64_t revision, ctrl_done_fn *done,
		     void *arg);

/* Whether c is told of other. */
bool server_sees(const struct ctrl *c, const struct ctrl *other);

void server_tell_peer(struct ctrl *c, const struct ctrl *peer);
void server_tell_offer(struct ctrl *to, const struct object *o);
/* From is registered. */
void server_post(struct ctrl *from, struct ctrl *to, const char *profile, uint64_t number,
		 const void *bytes, size_t len);
void server_tell_down(struct ctrl *c, enum ctrl_trouble trouble);
void server_tell_all(struct ctrl *c);
/* Of a session that goes on: with the list that was asked for meanwhile. */
void server_tell_up(struct ctrl *c);

/* A registration begins, if it may; and ends, by its own will or not. */
void server_register(struct ctrl *c);
void server_end_registration(struct ctrl *c, bool left);

#endif
