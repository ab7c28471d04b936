/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener makes endpoints for peers that are not known before. Its descriptor holds its
 * addresses and a key, and may be given to any number of dialers, for as long as the listener
 * lives. A dialer and the listener prove to each other that they hold the key, exchange ordinary
 * endpoint descriptors, and connect their two endpoints as slime_endpoint_connect() does, over any
 * transport.
 *
 * All holders of a listener's descriptor are equal. The listener cannot tell them apart, and cannot
 * take the descriptor back from one of them: it is destroyed, and another one is made. A holder
 * that can watch or change packets between the listener and another holder can read the endpoint
 * descriptors that these two exchange. Give the descriptor only to peers that may have the same
 * rights, over a channel that keeps a secret.
 */
#ifndef SLIME_LISTENER_H
#define SLIME_LISTENER_H

#include <stddef.h>
#include <stdint.h>
#include <slime/context.h>
#include <slime/endpoint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_listener;

/* Dialers that may be between their proof and the end of their connect; as many again may be at
 * their proof on each address. A dialer has SLIME_LISTENER_TIMEOUT_MS for each of the two. */
#define SLIME_LISTENER_PENDING_MAX 64
#define SLIME_LISTENER_TIMEOUT_MS  5000

/*
 * ep is connected, or was a moment ago. The callee owns it now, and destroys it. This runs on the
 * listener's thread, which makes no progress for the context: any call may be made but
 * slime_listener_destroy() of this listener. Others wait for their turn meanwhile.
 */
typedef void slime_listener_fn(void *arg, struct slime_listener *listener,
			       struct slime_endpoint *ep);

struct slime_listener_attr {
	/* "": a name of its own in the abstract namespace, which dialers in the same network
	 * namespace reach; else the path of a socket, at most 107 bytes, which is removed with the
	 * listener; NULL: no unix socket. Only processes of the same user, and of those that
	 * shm_users of the context names, are accepted. */
	const char *unix_path;
	const char *tcp_bind;	   /* numeric address; NULL: no tcp socket */
	uint16_t tcp_port;	   /* 0: a free one */
	const char *tcp_advertise; /* numeric address that dialers use; needed when tcp_bind is a
				      wildcard; NULL: tcp_bind */
	uint32_t max_endpoints; /* endpoints of this listener at one time, pending ones included */
	/* Of each endpoint that the listener makes. Its on_state may be called before on_endpoint:
	 * also for an endpoint that never connects, and that the listener destroys itself. */
	struct slime_endpoint_attr endpoint;
	slime_listener_fn *on_endpoint; /* required */
	void *arg;
};

#define SLIME_LISTENER_ATTR_INIT                                                              \
	{                                                                                     \
		.unix_path = "", .max_endpoints = 1024, .endpoint = SLIME_ENDPOINT_ATTR_INIT, \
	}
SLIME_API void slime_listener_attr_init(struct slime_listener_attr *attr);

/*
 * Listen, with a new key. Strings in attr are copied. Takes as long as slime_endpoint_export() of
 * the context's first endpoint does. A thread serves the dialers; a manual context needs to be
 * polled all the same. -EINVAL  on_endpoint is NULL, there is neither a unix nor a tcp socket, or a
 * value is malformed; also what slime_endpoint_create() says of attr->endpoint -ENAMETOOLONG
 * unix_path              -EADDRINUSE, -EADDRNOTAVAIL, -EACCES  an address -ENOTSUP  a transport
 * that this build lacks -EMFILE, -ENOMEM, -ENOSPC (max_endpoints of the context)
 */
SLIME_API SLIME_CHECKED int slime_listener_create(struct slime_context *ctx,
						  const struct slime_listener_attr *attr,
						  struct slime_listener **out);

#define SLIME_LISTENER_DESC_MAX 512

/*
 * Write the listener's descriptor, a secret: always the same bytes. Returns its length, at most
 * SLIME_LISTENER_DESC_MAX, or -ENOSPC.
 */
SLIME_API SLIME_CHECKED int slime_listener_export(const struct slime_listener *listener, void *buf,
						  size_t cap);

/*
 * Stop listening, end what is pending, free. Endpoints that on_endpoint got are not touched.
 * -EDEADLK inside a callback of the context, or inside on_endpoint. destroy(NULL) is 0. The context
 * cannot be destroyed before.
 */
SLIME_API int slime_listener_destroy(struct slime_listener *listener);

/*
 * Connect ep, which is idle, to a new endpoint of the listener that desc describes: exchange
 * descriptors, then connect as slime_endpoint_connect() does. All of it has timeout_ms, and at most
 * SLIME_LISTENER_TIMEOUT_MS, also when timeout_ms is negative. The exchange takes place inside of
 * this call, which blocks for a few round trips to the listener, and for the whole time when it
 * does not answer; the rest follows, and op completes as of slime_endpoint_connect(). On an error
 * op is untouched and ep is still idle:
 *   -ECONNREFUSED  no process listens there, or the listener is gone or failed
 *   -EACCES        the other side does not hold the key of this descriptor
 *   -EPERM         on a unix socket: its process is another user's, and does not let ours in; the
 *                  log says how it would
 *   -ETIMEDOUT     it did not answer in time
 *   -ECONNRESET    it hung up: too many others are pending
 *   -ENOSPC        it has max_endpoints endpoints
 *   -EPROTO        it speaks another version of the protocol, or broke it
 *   -EINVAL        malformed descriptor
 *   -EDEADLK       inside a callback
 *   -EMFILE, -ENOMEM, -ENETUNREACH and other errors of connect(2)
 *   -EBUSY, -EALREADY, -ENOTCONN  as of slime_endpoint_connect()
 */
SLIME_API SLIME_CHECKED int slime_endpoint_dial(struct slime_endpoint *ep, const void *desc,
						size_t len, int64_t timeout_ms,
						struct slime_op *op);

SLIME_END_DECLS

#endif
