/* SPDX-License-Identifier: Apache-2.0 */
/* One TCP connection over loopback, and whole messages on it. */
#ifndef REFERENCE_STREAM_H
#define REFERENCE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "bench/reference/options.h"
#include "bench/rounds/pair.h"

/* Both ends of a connection: without Nagle, buffers of 4 MiB where the kernel allows it. */
int stream_pair(int *server, int *client);

/*
 * All of the bytes. Spinning, the socket is asked until it has some; else the call sleeps.
 * -ECONNRESET when the peer is gone. iov is spoiled.
 */
int stream_send(int fd, struct iovec *iov, size_t n);
int stream_recv(int fd, struct iovec *iov, size_t n, enum reference_wait wait);

/*
 * The server of a pair: answers a round for each packet of the channel, so that it does not spin
 * between rounds. What answer returned, or what the channel did.
 */
int stream_serve(int channel, int (*answer)(void *arg), void *arg);

#endif
