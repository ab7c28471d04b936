/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of the API and its answer: sent as soon as a connection is free, and again to the
 * next server until an answer comes or its time is over.
 */
#ifndef NC_CALL_H
#define NC_CALL_H

#include "base/list.h"
#include "nanoctrl/client/json.h"
#include "nanoctrl/client/nanoctrl_client.h"

struct event;
struct nc_call;
struct nc_slot;

enum nc_method { NC_GET, NC_PUT, NC_POST, NC_DELETE, NC_PATCH };

/* Decodes the answer and calls the user back; with an error json is NULL. Returns -EPROTO without
 * having called. */
typedef int nc_finish_fn(struct nc_call *call, const struct nc_error *error, struct nc_json *json);
typedef void nc_any_fn(void);

struct nc_call {
	struct nc_client *client;
	struct sl_list in_all, in_ready;
	struct nc_slot *slot; /* it is on its way */
	struct event *timer;  /* the first of these that is to come; 0: none */
	uint64_t deadline_ns, retry_ns;
	uint64_t silence_ns; /* a server that has not answered by then is left for the next one */
	unsigned attempts;
	size_t n_unreachable; /* addresses in a row that could not be spoken to */

	enum nc_method method;
	bool with_lease;
	uint64_t lease_number; /* the one that it was made with; 0: without */
	bool outlived;	       /* that lease is over: it ends at its timer */
	bool raw;	       /* the answer is handed on as it came */
	bool ordered;	       /* each attempt has a number of its own: a registration */
	uint32_t wait_ms;      /* that the server may take for it */
	char *target;
	char *body; /* or NULL */

	nc_finish_fn *finish;
	nc_any_fn *fn; /* the user's, of the type that finish knows */
	void *arg;
	bool cancelled;
	uint64_t epoch;	      /* of the registration when it was made */
	char incarnation[65]; /* of a registration */
	char agent[NC_NAME_MAX + 1];
	struct nc_error last; /* why it is tried again */
};

/*
 * The target is "/v1" and segments, ended by NULL, each encoded. -EAGAIN, -ENOMEM; call is given to
 * the list only by nc_call_start().
 */
struct nc_call *nc_call_create(struct nc_client *client, enum nc_method method,
			       nc_finish_fn *finish, nc_any_fn *fn, void *arg);
void nc_call_destroy(struct nc_call *call);
int nc_call_start(struct nc_call *call);

/* Closes the connections that carry no call: not from inside of the callback of one. */
void nc_client_drop_idle(struct nc_client *client);

/* Connections end, and calls that they carry are sent again. Not from inside of a callback. */
void nc_client_restart_calls(struct nc_client *client);

#endif
