/* SPDX-License-Identifier: Apache-2.0 */
#include "http/conns.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "base/log.h"
#include "http/conn.h"
#include "http/stream.h"
#include "http/worker.h"
#include "nanoctrl/net/send.h"

void conns_adopt(struct worker *w, int fd, const char *peer)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(5, 10000);
	uint32_t held_back;

	metrics_count(w->metrics->accepted);
	if (!conn_open(w, fd, peer))
		return;
	metrics_uncount(w->n_conns);
	if (sl_log_allow(&limit, &held_back))
		sl_error("http", "%s: no memory for the connection (%u more lines held back)", peer,
			 held_back);
}

static struct conn *conn_at(struct sl_list *link)
{
	return SL_CONTAINER_OF(link, struct conn, link);
}

void conns_drain(struct worker *w)
{
	struct sl_list *e, *tmp;

	w->phase = WORKER_DRAINING;
	/* Ending a request never closes another connection, so the walk is safe. */
	sl_list_for_each_safe (e, tmp, &w->conns) {
		struct conn *c = conn_at(e);

		if (c->state == CONN_HANDLING)
			request_end(c->rq, REQUEST_DRAIN);
		else if (c->state == CONN_STREAMING)
			stream_leave_within(c->stream, w->config->drain_accept_ms);
	}
}

void conns_close_idle(struct worker *w)
{
	struct sl_list *e, *tmp;

	w->phase = WORKER_CLOSING;
	sl_list_for_each_safe (e, tmp, &w->conns) {
		struct conn *c = conn_at(e);

		if (c->state == CONN_READING && !http_parser_busy(&c->parser) &&
		    !evbuffer_get_length(bufferevent_get_input(c->bev)))
			conn_finish(c);
	}
}

void conns_close_all(struct worker *w)
{
	w->phase = WORKER_CLOSING;
	while (!sl_list_empty(&w->conns)) {
		struct conn *c = conn_at(w->conns.next);

		/* We end the stream: its handler must not report the client as lost. */
		if (c->state == CONN_STREAMING) {
			stream_leave_now(c->stream);
			send_now(c->bev);
		}
		conn_close(c);
	}
}
