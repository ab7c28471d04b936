/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer reads of us: a stream has places for its requests while there is one. */
#include <errno.h>

#include "src/transport/tcp/tcp.h"

static bool take_places(struct tcp_stream *s)
{
	struct tcp_serves *places = tcp_pool_take(&s->conn->t->serves);

	if (!places)
		return false;
	if (!places->free.next) {
		sl_list_init(&places->free);
		for (unsigned i = 0; i < TCP_REQUESTS; i++)
			sl_list_append(&places->free, &places->at[i].link);
	}
	s->serves = places;
	return true;
}

int tcp_serve_new(struct tcp_stream *s, struct tcp_serve **out)
{
	struct sl_list *e;

	if (!s->serves && !take_places(s))
		return -ENOMEM;
	e = sl_list_pop(&s->serves->free);
	if (!e)
		return -EAGAIN;
	s->serves->n++;
	*out = SL_CONTAINER_OF(e, struct tcp_serve, link);
	return 0;
}

void tcp_serve_done(struct tcp_stream *s, struct tcp_serve *v)
{
	/* The one that was used last is in the caches. */
	sl_list_append(s->serves->free.next, &v->link);
	if (--s->serves->n)
		return;
	tcp_pool_give_back(&s->conn->t->serves, &s->serves);
}
