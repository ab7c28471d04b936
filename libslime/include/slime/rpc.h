/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by method name over a link, in both directions at once. A service is a table of methods
 * that an endpoint offers to its peer; a call is the client's future of one request, created once
 * and reused. Payload is bytes: nothing is interpreted.
 *
 * Small payloads travel in slots of the link (eager), larger ones straight between the caller's
 * memory and the handler's (bulk); which it was makes no difference to either side, but for the
 * number of copies.
 */
#ifndef SLIME_RPC_H
#define SLIME_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_call;
struct slime_context;
struct slime_endpoint;
struct slime_mr;
struct slime_rpc_request;
struct slime_rpc_service;

/* ---- offering methods ---- */

/*
 * Handles one request. It answers exactly once, now or later and from any thread, with one of the
 * slime_rpc_reply functions; the request is gone with the answer. A request that was not answered
 * keeps its context from being destroyed, but not its endpoint: answering it later is harmless.
 */
typedef void slime_rpc_fn(void *arg, struct slime_rpc_request *req);

enum slime_rpc_method_flags {
	SLIME_RPC_INLINE = 1,	/* runs on the progress thread and must not block; otherwise on the
				   worker pool */
	SLIME_RPC_IN_PLACE = 2, /* of inline handlers: requests and replies stay in the memory of
				   the link, or, on shm, of the caller, without copies; but the peer
				   can change the request while it is read and see the reply while
				   it is written, and both its data and a reply buffer are only good
				   until the handler returns */
	SLIME_RPC_QUEUED = 4,	/* requests go to slime_context_next(), and the method has no
				   handler; excludes the others. How long one waits there is up to
				   the program */
};

struct slime_rpc_method_attr {
	slime_rpc_fn *fn;     /* NULL with SLIME_RPC_QUEUED */
	void *arg;	      /* of fn, or slime_rpc_request_arg() */
	uint32_t flags;	      /* enum slime_rpc_method_flags */
	uint64_t max_message; /* longest request; longer ones are refused with -EMSGSIZE unread */
};

#define SLIME_RPC_METHOD_ATTR_INIT               \
	{                                        \
		.max_message = UINT64_C(1) << 30 \
	}
SLIME_API void slime_rpc_method_attr_init(struct slime_rpc_method_attr *attr);

#define SLIME_RPC_NAME_MAX 128

/* Create a service without methods, for endpoints of this context. -ENOMEM. */
SLIME_API SLIME_CHECKED int slime_rpc_service_create(struct slime_context *ctx,
						     struct slime_rpc_service **out);

/*
 * Add a method: before the first endpoint uses the service. Names are 1 to SLIME_RPC_NAME_MAX
 * bytes. The first method that is neither inline nor queued starts the context's workers.
 *   -EEXIST   the name, or another one of the same id, is taken
 *   -EBUSY    an endpoint uses the service
 *   -EINVAL   no name, no fn or one of a queued method, unknown flags, in place without inline, or
 *             inline and queued
 *   -ENOMEM, -EAGAIN  no memory, or no threads
 */
SLIME_API SLIME_CHECKED int slime_rpc_method_add(struct slime_rpc_service *service,
						 const char *name,
						 const struct slime_rpc_method_attr *attr);

/* Take a method out again: before the first endpoint uses the service, else -EBUSY. -ENOENT: there
 * is no method of that name. */
SLIME_API int slime_rpc_method_remove(struct slime_rpc_service *service, const char *name);

/* -EBUSY while an endpoint uses it. destroy(NULL) is 0. */
SLIME_API int slime_rpc_service_destroy(struct slime_rpc_service *service);

/* The request's bytes: valid until the answer, or, with SLIME_RPC_IN_PLACE, until the handler
 * returns. */
SLIME_API const void *slime_rpc_request_data(const struct slime_rpc_request *req);
SLIME_API size_t slime_rpc_request_len(const struct slime_rpc_request *req);

/* The arg of its method, when that is queued; also after the service is gone. */
SLIME_API void *slime_rpc_request_arg(const struct slime_rpc_request *req);

/* Microseconds until the caller's deadline, 0 when it passed, INT64_MAX when there is none. */
SLIME_API int64_t slime_rpc_request_remaining_us(const struct slime_rpc_request *req);

/* Whether the caller gave up or the link died: the answer will not be read. */
SLIME_API bool slime_rpc_request_cancelled(const struct slime_rpc_request *req);

/* The longest reply the caller has room for. */
SLIME_API size_t slime_rpc_request_reply_cap(const struct slime_rpc_request *req);

/*
 * Answer with len bytes. They may be in the request: a long reply is then sent from there. They
 * belong to the caller again when this returns. With any result, the request is freed.
 *   -EMSGSIZE    longer than reply_cap: the caller gets this error
 *   -ENOBUFS     no memory for a long reply: the caller gets this error
 *   -ECONNRESET  the link died: the reply is dropped
 *   -ECANCELED   the caller gave up
 *   others: a long reply cannot be written to the caller's memory: the caller gets -EIO
 */
SLIME_API int slime_rpc_reply(struct slime_rpc_request *req, const void *data, size_t len);

/*
 * Answer in place: memory for a reply of at most len bytes, from which it is sent without another
 * copy if it is long or the method is SLIME_RPC_IN_PLACE. Write it, then commit its length. NULL
 * when len exceeds reply_cap, the caller gave up (slime_rpc_request_cancelled()), or memory is
 * short; then answer with an error. Commit returns what slime_rpc_reply() does; without a buffer
 * it is an empty reply.
 */
SLIME_API void *slime_rpc_reply_buffer(struct slime_rpc_request *req, size_t len);
SLIME_API int slime_rpc_reply_commit(struct slime_rpc_request *req, size_t len);

#define SLIME_RPC_MESSAGE_MAX 256

/*
 * Answer with an error of the application: a code of its own and a message, cut at
 * SLIME_RPC_MESSAGE_MAX bytes; NULL is none. Returns what slime_rpc_reply() does.
 */
SLIME_API int slime_rpc_reply_error(struct slime_rpc_request *req, uint32_t code,
				    const char *message);

/* ---- calling ---- */

/*
 * Runs on the thread that makes progress, after the call ended. In here the call is not pending: it
 * may be started again or destroyed. To every other thread it is pending until the callback has
 * returned, or has started or destroyed it.
 */
typedef void slime_call_fn(void *arg, struct slime_call *call);

enum slime_call_flags {
	SLIME_CALL_QUEUED = 1, /* its end goes to slime_context_next(); excludes a callback */
};

struct slime_call_attr {
	slime_call_fn *fn; /* NULL: waited for, tested, or queued */
	void *arg;
	uint32_t flags; /* enum slime_call_flags */
};

/* attr NULL: a call to wait for. -EINVAL, -ENOMEM. */
SLIME_API SLIME_CHECKED int slime_call_create(struct slime_context *ctx,
					      const struct slime_call_attr *attr,
					      struct slime_call **out);

/* -EBUSY while the call is pending, and nothing changed. destroy(NULL) is 0. */
SLIME_API int slime_call_destroy(struct slime_call *call);

/* The id of a method name: compute it once. */
SLIME_API uint64_t slime_rpc_method_id(const char *name);

struct slime_call_args {
	uint64_t method;     /* slime_rpc_method_id() */
	const void *request; /* or, with request_mr, NULL */
	size_t request_len;
	struct slime_mr *request_mr; /* registered memory: a long request needs no copy. The peer
				      * gets the descriptor of all of it, here and in reply_mr */
	uint64_t request_offset;
	void *reply; /* room for the reply; or, with reply_mr, NULL; or neither: the call keeps it
		      */
	size_t reply_cap; /* longest reply wanted */
	struct slime_mr *reply_mr;
	uint64_t reply_offset;
	int64_t timeout_ms; /* negative: none */
};

#define SLIME_CALL_ARGS_INIT     \
	{                        \
		.timeout_ms = -1 \
	}
SLIME_API void slime_call_args_init(struct slime_call_args *args);

/*
 * Start a call. The request and the room for the reply are lent to it until it ends. A call that
 * timed out or was cancelled ends when no late byte can reach them: at once when the handler has
 * not begun or works on its own copies, else with the handler's answer or the end of the link.
 * A link over shm that ends before the reply leaves reply_mr to a peer that has it mapped: what it
 * is copying then, 4 MiB of a long reply at most, may still be written, by a peer that stands
 * still once it goes on. slime_mr_destroy() of it is 0 when nothing can come any more.
 * Returns 0 when the call will end by itself. Otherwise nothing was sent:
 *   -EAGAIN    max_pending_ops of the endpoint reached
 *   -EBUSY     the call is pending
 *   -EINVAL    malformed args, or a region that is being destroyed
 *   -ERANGE    outside of request_mr or reply_mr
 *   -EACCES    request_mr does not grant remote reads, or reply_mr remote writes
 *   -EOPNOTSUPP  a region is memory of a device
 *   -ENOTCONN  not connected
 *   -ENOMEM    no memory for a long message
 *   -ENOSPC    max_regions of the context reached: a long message outside of regions takes one
 */
SLIME_API SLIME_CHECKED int slime_call_start(struct slime_endpoint *ep,
					     const struct slime_call_args *args,
					     struct slime_call *call);

/* A call, and what to start it with. */
struct slime_call_item {
	struct slime_call *call;
	const struct slime_call_args *args;
};

/*
 * Start n calls in their order, each as slime_call_start() would: short ones that come one after
 * the other leave together, which costs less. Returns how many were started, at most INT_MAX; they
 * end each by itself, and the items are the caller's again. When that is less than n, the one
 * behind them could not be started. When it was the first one, its error is returned instead of 0;
 * else the next start of the rest returns it.
 */
SLIME_API SLIME_CHECKED int slime_call_start_many(struct slime_endpoint *ep,
						  const struct slime_call_item *items, size_t n);

/* How long after the deadline of a call slime_call_wait() waits for its end. */
#define SLIME_CALL_GRACE_MS 100

/*
 * Wait until the call ended, making progress meanwhile. A negative timeout waits for as long as the
 * call takes, but not longer than SLIME_CALL_GRACE_MS after its deadline: a peer that is stopped
 * confirms nothing. Returns 0 when the call ended: its result is slime_call_status(). Otherwise
 * nothing but the waiting ended:
 *   -ETIMEDOUT  the call is still pending, and its memory still lent
 *   -EDEADLK    called inside a callback or inline handler
 *   -EPERM      called in a child after fork()
 */
SLIME_API SLIME_CHECKED int slime_call_wait(struct slime_call *call, int64_t timeout_ms);

/* The call will end with -ECANCELED unless its reply is already here. -ENOENT when it has its
 * result, or was not started: a start that runs meanwhile comes before or after this. */
SLIME_API int slime_call_cancel(struct slime_call *call);

/* Whether the call ended, and its callback returned or, of a queued one, slime_context_next()
 * returned it; or it never was started. As slime_op_test() it makes one pass of progress for a call
 * that is pending. */
SLIME_API bool slime_call_test(struct slime_call *call);

/*
 * How the call ended; valid until it is started again:
 *   0            with a reply
 *   -EREMOTEIO   with an error of the handler: slime_call_error()
 *   -ENOSYS      the peer has no such method
 *   -EMSGSIZE    a message longer than its limit
 *   -ETIMEDOUT   the deadline passed
 *   -ECANCELED   cancelled, or the endpoint was closed here
 *   -ENOTCONN    the link died before the request left: it was not executed
 *   -ECONNRESET  the link died afterwards: whether it was executed is unknown
 *   -ENOBUFS     the peer had no memory for it
 *   -EIO         the peer could not reach the memory of a long message
 */
SLIME_API int slime_call_status(const struct slime_call *call);

/* The handler's code, and its message ("" when none); valid until the call is started again. */
SLIME_API uint32_t slime_call_error(const struct slime_call *call, const char **message);

/* The reply's length, and where it is: in the caller's room, or the call's own until
 * slime_call_release(). */
SLIME_API size_t slime_call_reply_len(const struct slime_call *call);
SLIME_API const void *slime_call_reply_data(const struct slime_call *call);

/* Give back a reply that the call keeps. Starting or destroying the call does so, too. */
SLIME_API void slime_call_release(struct slime_call *call);

/* The arg given at creation. */
SLIME_API void *slime_call_arg(const struct slime_call *call);

SLIME_END_DECLS

#endif
