/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that measure something between them: the server on the first CPU that we may use,
 * the client, which is the caller, on the second. They share a channel of packets.
 */
#ifndef ROUNDS_PAIR_H
#define ROUNDS_PAIR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pair {
	pid_t server;
	int channel;
};

/* The server's life: returns when the channel ends, 0 or a negative errno. */
typedef int pair_serve_fn(void *arg, int channel);

/* Fork the server. It dies with the caller. */
int pair_start(struct pair *p, pair_serve_fn *serve, void *arg);

/* Close the channel and wait for the server: what it returned. */
int pair_end(struct pair *p);

/* CPU time of both processes so far. */
uint64_t pair_cpu_ns(const struct pair *p);

/* One packet. -ECONNRESET when the other process is gone, -EMSGSIZE when it was of another length.
 */
int pair_tell(int channel, const void *bytes, size_t len);
int pair_hear(int channel, void *bytes, size_t len);

/* A packet of any length up to cap: its length, 0 when the channel ended, or a negative errno. */
ssize_t pair_hear_some(int channel, void *bytes, size_t cap);

#endif
