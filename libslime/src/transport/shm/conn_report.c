/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of its parts and of other threads to a connection, which ends in its next pass. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/transport/shm/shm.h"

void shm_conn_end(struct shm_conn *c, int cause, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!atomic_load(&c->end_wanted)) {
		c->end_cause = cause;
		snprintf(c->end_why, sizeof(c->end_why), "%s", why);
		atomic_store(&c->end_wanted, true);
	}
	pthread_mutex_unlock(&c->lock);
	shm_conn_call(c);
	c->t->base.env->kick(c->t->base.env->arg);
}

void shm_conn_answer(struct shm_conn *c, const struct shm_packet *p)
{
	int ret = shm_channel_send(c->sock.fd, p);

	if (ret == -EAGAIN)
		shm_conn_end(c, -ECONNRESET, "the peer does not read its socket");
	else if (ret && ret != -ECONNRESET)
		/* It would wait for this for ever. */
		shm_conn_end(c, ret, strerror(-ret));
}
