/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a client: its servers, its lease, its connections. */
#ifndef NC_CLIENT_H
#define NC_CLIENT_H

#include "base/list.h"
#include "nanoctrl/client/conn.h"
#include "nanoctrl/client/nanoctrl_client.h"

#define NC_MAX_URLS  16
#define NC_N_SLOTS   4
#define NC_LEASE_MAX 512

struct event;
struct nc_call;
struct nc_session;

/* A place for one connection and the call that it carries. */
struct nc_slot {
	struct nc_client *client;
	struct nc_conn *conn;
	struct nc_call *call; /* NULL: idle */
	size_t server;
	bool used; /* it has carried a call before: its end says nothing about the server */
};

struct nc_client {
	struct event_base *base;
	struct nc_resolver *resolver;
	struct nc_url urls[NC_MAX_URLS];
	struct nc_name names[NC_MAX_URLS]; /* of these */
	size_t n_urls;
	size_t server;		  /* which of them is tried now */
	struct nc_url *next_urls; /* those of nc_client_set_urls() until the turn that takes them */
	size_t n_next_urls;
	struct event *move; /* is that turn; NULL before the first */
	char scope[NC_NAME_MAX + 1];
	char *token; /* or NULL */
	int timeout_ms;
	bool impatient;
	nc_retry_fn *on_retry; /* or NULL */
	void *arg;

	char agent[NC_NAME_MAX + 1]; /* "" before the first registration */
	char lease[NC_LEASE_MAX];    /* "" when there is none */
	uint64_t lease_number;	     /* of this lease, or of having none; never 0 */
	bool registered;	     /* once, even if the lease is gone since */
	uint64_t epoch, generation;  /* of the last registration */
	uint32_t grace_ms;	     /* that it granted */
	char incarnation[65];	     /* that held them */
	uint64_t order;		     /* of the last attempt to register */

	struct nc_slot slots[NC_N_SLOTS];
	struct sl_list ready; /* calls to be sent */
	struct sl_list all;   /* every call */
	size_t n_calls, n_polls;

	struct nc_session *session; /* NULL when none is open */
	uint64_t n_sessions;	    /* opened so far */
	uint64_t n_upgrades;	    /* asked for so far */
};

#endif
