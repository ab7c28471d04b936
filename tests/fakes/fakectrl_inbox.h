/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent is told: messages that wait for its loop. */
#ifndef TESTS_FAKECTRL_INBOX_H
#define TESTS_FAKECTRL_INBOX_H

#include <event2/event.h>

#include "base/list.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/plan/topology.h"

#define FAKE_NAME     256
#define FAKE_SERVICES 4
#define FAKE_PAIRS    8

enum msg_kind {
	MSG_UP,
	MSG_DOWN,
	MSG_PEER,
	MSG_GONE,
	MSG_LIST_BEGIN,
	MSG_LIST_END,
	MSG_OFFER,
	MSG_OFFER_GONE,
	MSG_REGION_CHANGED,
	MSG_REGION_GONE,
	MSG_DONE,
	MSG_REGION,
	MSG_NAMES,
	MSG_PAGE,
};

#define FAKE_PAGE 2 /* entries of a page */

/* An agent, or a region, of a list. */
struct listed {
	char name[FAKE_NAME];
	uint64_t generation, revision, size;
	unsigned access;
	struct slime_topology *labels;
	struct nc_pair pairs[FAKE_PAIRS], attributes[FAKE_PAIRS];
	size_t n_attributes;
	char texts[2 * FAKE_PAIRS][FAKE_NAME]; /* of attributes */
	struct nc_service services[FAKE_SERVICES];
	char service_names[FAKE_SERVICES][FAKE_NAME];
	size_t n_services;
};

struct msg {
	struct sl_list node;
	enum msg_kind kind;
	char name[FAKE_NAME];
	char profile[FAKE_NAME];
	char incarnation[CTRL_INCARNATION_MAX + 1];
	struct slime_topology *labels;
	uint64_t epoch, generation, number;
	bool flag;
	enum ctrl_trouble trouble;
	int result;
	ctrl_done_fn *done;
	ctrl_region_fn *region_done;
	ctrl_names_fn *names_done;
	ctrl_page_fn *page_done;
	struct listed *agents, *regions; /* FAKE_PAGE of one of them */
	size_t n;
	bool more;
	void *arg;
	size_t len;
	uint8_t bytes[CTRL_DESCRIPTOR_MAX];
};

/* Embedded in its agent. */
struct inbox {
	const struct ctrl_ops *ops;
	void *arg;
	int fd;
	struct event *event;
	struct sl_list msgs; /* under the server's lock */
};

void inbox_init(struct inbox *in, struct event_base *base, const struct ctrl_ops *ops, void *arg);

/* No lock held. */
void inbox_fini(struct inbox *in);

/* A message, which the caller fills in. The server's lock is held. */
struct msg *inbox_tell(struct inbox *in, enum msg_kind kind);

#endif
