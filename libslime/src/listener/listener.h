/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The struct of a slime_listener. Its sockets (transport/link_listener.h) hand over the streams
 * of dialers that hold the key. Each of them is an arrival until its endpoint is connected. All of
 * it lives on the listener's thread, which has a poller of its own: where sockets and timers ask
 * for the holder of the token, this thread is meant.
 */
#ifndef SL_LISTENER_H
#define SL_LISTENER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/log.h"
#include "src/endpoint/endpoint.h"
#include "src/listener/wire.h"
#include "src/transport/link_listener.h"
#include <slime/listener.h>

struct slime_listener {
	struct slime_context *ctx;
	struct slime_listener_attr attr; /* its strings are in `name` and `path`, or not used */
	char name[sizeof(((struct slime_endpoint *)0)->name)];
	char path[108]; /* to be removed; "": none */
	struct sl_listener_desc desc;
	struct sl_poller poller;
	struct sl_transport_ops ops; /* as much of a transport as the sockets need */
	struct sl_transport_env env;
	struct sl_transport transport;
	struct sl_link_listener *sockets[SL_LISTENER_ADDRESSES_MAX];
	pthread_t thread;
	_Atomic bool stop;
	struct sl_list arrivals;
	unsigned n_arrivals;
	struct sl_log_limit limit;
};

/* ---- arrival.c ---- */

/* A stream whose dialer has proven that it holds the key. */
sl_link_listener_fn sl_arrival_begin;
/* Hand over the endpoints that are connected, end those that are not and will not be. */
void sl_arrivals_poll(struct slime_listener *l);
void sl_arrivals_end(struct slime_listener *l);
/* In a child after fork: free their memory. */
void sl_arrivals_forget(struct slime_listener *l);

#endif
