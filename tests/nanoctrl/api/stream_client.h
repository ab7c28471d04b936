/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the server of api_fixture.h. */
#ifndef TESTS_NANOCTRL_STREAM_CLIENT_H
#define TESTS_NANOCTRL_STREAM_CLIENT_H

#include "tests/nanoctrl/api/client.h"

/* A WebSocket, or a stream of lines. */
struct api_stream {
	int fd;
	bool websocket;
	int status; /* of the answer */
	char in[65536];
	size_t len;
	unsigned close_code; /* once it was closed */
};

/* Open one; after a status other than 101 or 200 there is no stream. */
int api_open(struct api_fixture *f, struct api_stream *s, const char *target, const char *lease,
	     bool websocket);
/* The same over a connection that takes next to nothing unless it is read. */
int api_open_narrow(struct api_fixture *f, struct api_stream *s, const char *target,
		    const char *lease, bool websocket);
#define SESSION_A "/v1/agents/node-a/session?scope=demo"

/* The session of an agent. */
int api_open_session(struct api_fixture *f, struct api_stream *s, const char *name,
		     const char *lease);
/* Registers it before, and waits for the hello. */
void api_join(struct api_fixture *f, struct api_stream *s, const char *name,
	      const char *incarnation, char lease[512]);
/* The next message; NULL when it was closed. The caller decrefs it. */
json_t *api_next(struct api_stream *s);
/* The next message of this type, passing over others; fails when the stream ends before. */
json_t *api_next_of(struct api_stream *s, const char *type);
void api_send(struct api_stream *s, const char *text);
/* Break it without a goodbye. */
void api_close(struct api_stream *s);

#endif
