/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection tells its stream. None of these closes the connection before it returns. */
#ifndef NANOCTRL_STREAM_PRIVATE_H
#define NANOCTRL_STREAM_PRIVATE_H

#include "http/stream.h"

struct evbuffer;

void stream_readable(struct stream *s, struct evbuffer *in);
void stream_writable(struct stream *s);

/* The connection is no more: the stream ends. */
void stream_gone(struct stream *s);

/* Say goodbye now, as far as the socket takes it: the server cuts off what is left. */
void stream_leave_now(struct stream *s);

/* Say goodbye within ms from now. */
void stream_leave_within(struct stream *s, unsigned ms);

#endif
