/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of scripts: arguments, sending, and the callback for the answer. */
#ifndef NANOCTRL_STORE_CALL_H
#define NANOCTRL_STORE_CALL_H

#include <hiredis/hiredis.h>
#include "base/list.h"
#include "store/script.h"
#include "store/store.h"

/* Arguments of a script, after KEYS[1] and ARGV[1]. Texts must outlive the call of store_send(). */
#define STORE_ARGS_MAX 20
struct store_args {
	int n;
	struct store_text v[STORE_ARGS_MAX];
	char digits[STORE_ARGS_MAX][24];
};

void store_arg_text(struct store_args *a, struct store_text text);
void store_arg(struct store_args *a, const char *text);
void store_arg_number(struct store_args *a, uint64_t n);
void store_arg_lease(struct store_args *a, const struct store_lease *lease);
/* A field of a hash and its value; nothing when value is NULL. */
void store_arg_field(struct store_args *a, const char *name, struct store_text value);

struct store_call;

/* reply is an integer, the outcome, or an array that begins with it, when result >= 0; result is
 * that outcome, or a negative errno and reply is NULL. */
typedef void store_finish_fn(struct store_call *call, int result, const redisReply *reply);

/* The callback of a call. */
union store_answer {
	store_done_fn *done;
	store_grant_fn *grant;
	store_page_fn *page;
	store_put_fn *put;
	store_offers_fn *offers;
	store_events_fn *events;
	store_snapshots_fn *snapshots;
	store_topologies_fn *topologies;
	store_revision_fn *revision;
	store_wanted_fn *wanted;
	store_scopes_fn *scopes;
	void (*other)(void); /* of a call of another folder, which knows its type */
};

struct store_call {
	struct sl_list node;
	struct store *store;
	store_finish_fn *finish;
	union store_answer fn;
	void *arg;
	const struct script *script;
	uint64_t sent_ns;
	uint64_t until_ns; /* how long it may wait for the cluster; 0: it has not yet */
	bool whole;	   /* sent as EVAL: the server did not know the script */
	int result;	   /* of a call that has ended before it was sent */
	int n;
	const char **args; /* all of the command, in the same allocation */
	size_t *lens;
};

/* Send a script; finish comes later on the loop (only for -ENOMEM at once). */
void store_send(struct store *store, const char *scope, const struct script *script,
		const struct store_args *args, store_finish_fn *finish, union store_answer fn,
		void *arg);

/* The same with any number of arguments. */
void store_send_many(struct store *store, const char *scope, const struct script *script, size_t n,
		     const struct store_text *args, store_finish_fn *finish, union store_answer fn,
		     void *arg);

/* The same with KEYS[1] as it is. */
void store_send_prefixed(struct store *store, struct store_text prefix, const struct script *script,
			 size_t n, const struct store_text *args, store_finish_fn *finish,
			 union store_answer fn, void *arg);

/* ARGV[i] of a call, from 2 on; empty when it has none. */
struct store_text store_call_arg(const struct store_call *call, int i);

/* For scripts that do a part with each call: all arguments of a call from ARGV[2] on, and room for
 * as many more, for store_send_on(); NULL without memory. */
struct store_text *store_call_args(const struct store_call *call, size_t more, size_t *n);

/* The same call with these arguments, which are freed. */
void store_send_on(const struct store_call *call, size_t n, struct store_text *args);

/* The same with the place of a scan, which means nothing to another node: it does not wait for the
 * cluster, and ends with -EAGAIN. */
void store_scan_on(const struct store_call *call, size_t n, struct store_text *args);

/* finish for calls that answer store_done_fn. */
void store_finish_done(struct store_call *call, int result, const redisReply *reply);

/* Call back the calls that ended before they were sent. */
void store_end_calls(struct store *store);
/* Finish a call, and free it. */
void store_end_call(struct store_call *call, int result, const redisReply *reply);
/* Send it; what comes of it as of redis_command(). */
int store_send_call(struct store_call *call);

#endif
