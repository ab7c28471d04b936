/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a client: its servers, its lease, its calls. */
#ifndef NC_CLIENT_H
#define NC_CLIENT_H

#include "base/list.h"
#include "nanoctrl/client/conn.h"
#include "nanoctrl/client/json.h"
#include "nanoctrl/client/nanoctrl_client.h"

#define NC_MAX_URLS  16
#define NC_N_SLOTS   4
#define NC_LEASE_MAX 512

struct event;
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
	bool registered;	     /* once, whatever became of the lease */
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

/* Starts of a method, kept for the call's whole life. */
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

/* From now on the client speaks by this lease, or "": for none. */
void nc_client_set_lease(struct nc_client *client, const char *lease);

/* Closes the connections that carry no call: not from inside of the callback of one. */
void nc_client_drop_idle(struct nc_client *client);

/* "/v1/agents/NAME/...?scope=SCOPE"; segments end with NULL. NULL without memory. */
char *nc_client_target(const struct nc_client *client, const char *const *segments,
		       const char *const *query);

/* The headers that every request has; lease when it is to be proven. -ENOMEM. */
int nc_client_headers(const struct nc_client *client, struct evbuffer *out, size_t server,
		      bool with_lease);

/* Addresses of servers, as far as they were looked up. */
size_t nc_client_n_addresses(const struct nc_client *client);

/* The server does not answer: another one is tried next, when there is one. */
void nc_client_avoid(struct nc_client *client, size_t server);

/* The same, and the user hears of it. */
void nc_client_failed(struct nc_client *client, size_t server, const char *cause, uint64_t wait_ms);

/* What status and body say, in words of errno. */
void nc_client_read_error(const struct http_message *response, struct nc_error *error);

/* How long the server asks to wait before the next try: its Retry-After in seconds, at most a day;
 * 0 when it says nothing. A date is not read: ours sends seconds. */
uint64_t nc_client_retry_after_ms(const struct http_message *response);

/* Half to all of base, doubled for each attempt, up to most. */
uint64_t nc_backoff_ms(unsigned attempts, uint64_t base_ms, uint64_t most_ms);

/* Connections end, and calls that they carry are sent again. Not from inside of a callback. */
void nc_client_restart_calls(struct nc_client *client);

void nc_session_destroy(struct nc_session *session);

/* Connects again, at once. The last thing that its caller does. */
void nc_session_restart(struct nc_session *session, const char *cause);

#endif
