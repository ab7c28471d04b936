/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part that outlives a connection: regions of ours that the peer still has. They stay fenced
 * until it releases them or exits.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "src/transport/shm/shm.h"

void shm_retained_destroy(struct shm_retained *g)
{
	struct sl_poller *poller;

	if (!g)
		return;
	poller = g->t->base.env->poller;
	sl_poller_close(poller, &g->sock);
	sl_poller_close(poller, &g->pid);
	sl_list_remove(&g->link);
	shm_given_free(&g->given);
	free(g);
}

void shm_retained_forget(struct shm_retained *g)
{
	if (!g)
		return;
	shm_given_free(&g->given);
	free(g);
}

/* The answer to our goodbye, or one of the peer's that crossed it: either way nothing of ours is
 * mapped there. */
static void on_sock(struct sl_source *s, uint32_t events)
{
	struct shm_retained *g = SL_CONTAINER_OF(s, struct shm_retained, sock);
	bool done = false;
	int left = SHM_PACKETS_PER_CALL;
	int ret;

	(void)events;
	do {
		struct shm_packet p;

		ret = shm_channel_recv(s->fd, &p);
		if (!ret && p.kind != SHM_BELL) {
			shm_given_hear(&g->given);
			done = p.kind == SHM_BYE || p.kind == SHM_BYE_DONE || p.kind == SHM_ENDED;
			shm_packet_close_fds(&p);
		}
	} while (!ret && !done && --left);
	if (done)
		shm_retained_destroy(g);
	else if (ret && ret != -EAGAIN)
		/* It hung up without a word: only its exit counts now. */
		sl_poller_close(g->t->base.env->poller, s);
}

static void on_exit_of_peer(struct sl_source *s, uint32_t events)
{
	(void)events;
	shm_retained_destroy(SL_CONTAINER_OF(s, struct shm_retained, pid));
}

int shm_retained_create(struct shm_transport *t, struct shm_retained **out)
{
	struct shm_retained *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->t = t;
	g->sock = (struct sl_source){ .fn = on_sock, .fd = -1 };
	g->pid = (struct sl_source){ .fn = on_exit_of_peer, .fd = -1 };
	sl_list_init(&g->link);
	*out = g;
	return 0;
}

void shm_retained_begin(struct shm_retained *g, struct sl_source *sock, struct sl_source *pid,
			struct shm_given *given)
{
	struct sl_poller *poller = g->t->base.env->poller;

	g->given = *given;
	*given = (struct shm_given){ 0 };
	if (sock->fd >= 0)
		sl_poller_hand_over(poller, sock, &g->sock);
	sl_poller_hand_over(poller, pid, &g->pid);
	sl_list_append(&g->t->retained, &g->link);
}
