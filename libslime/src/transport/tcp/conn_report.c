/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of its parts and of other threads to a connection. They note it, and have the holder of
 * the token run tcp_conn_run(), which decides what follows.
 */
#include <errno.h>
#include <stdio.h>

#include "src/transport/tcp/tcp.h"

void tcp_conn_call(struct tcp_conn *c)
{
	const struct sl_transport_env *env = c->t->transport.env;

	sl_todo_put(&c->t->todo, &c->todo);
	env->kick(env->arg);
}

void tcp_conn_end_because(struct tcp_conn *c, int cause, const char *why, bool local)
{
	pthread_mutex_lock(&c->lock);
	if (atomic_load(&c->state) == TCP_CONN_LEAVING) {
		atomic_store(&c->left, true);
	} else if (!atomic_load(&c->ending)) {
		c->end_cause = cause;
		c->end_local = local;
		snprintf(c->end_why.text, sizeof(c->end_why.text), "%s", why);
		atomic_store(&c->ending, true);
	}
	pthread_mutex_unlock(&c->lock);
	tcp_conn_call(c);
}

void tcp_conn_fail(struct tcp_conn *c, int cause, const char *why)
{
	tcp_conn_end_because(c, cause, why, false);
}

void tcp_conn_fail_queue(struct tcp_conn *c)
{
	if (c->lacks_memory)
		tcp_conn_fail(c, -ENOMEM, "no memory for messages");
	else
		tcp_conn_fail(c, -ENOBUFS, "more messages than the windows allow");
}
