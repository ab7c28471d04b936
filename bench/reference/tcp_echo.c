/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes out and back over one socket: the server has all of them before it answers. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench/reference/reference.h"
#include "bench/reference/stream.h"
#include "bench/rounds/memory.h"
#include "bench/rounds/ticks.h"

struct echo {
	uint64_t size;
	enum reference_wait wait;
	int server_fd, client_fd;
	uint8_t *bytes;
	const struct pair *pair;
};

static int send_all(int fd, uint8_t *bytes, uint64_t size)
{
	struct iovec iov = { bytes, size };

	return stream_send(fd, &iov, 1);
}

static int recv_all(int fd, uint8_t *bytes, uint64_t size, enum reference_wait wait)
{
	struct iovec iov = { bytes, size };

	return stream_recv(fd, &iov, 1, wait);
}

/* Until a message that begins with a zero ends the round. */
static int echo_until_stop(void *arg)
{
	const struct echo *e = arg;
	int ret;

	do {
		ret = recv_all(e->server_fd, e->bytes, e->size, e->wait);
		if (!ret)
			ret = send_all(e->server_fd, e->bytes, e->size);
	} while (!ret && e->bytes[0]);
	return ret;
}

static int serve(void *arg, int channel)
{
	struct echo *e = arg;

	close(e->client_fd);
	return stream_serve(channel, echo_until_stop, e);
}

static int trip(struct echo *e)
{
	int ret = send_all(e->client_fd, e->bytes, e->size);

	return ret ? ret : recv_all(e->client_fd, e->bytes, e->size, e->wait);
}

static int echo_round(void *arg, struct rounds *r)
{
	struct echo *e = arg;
	uint64_t begin, end;
	int ret = pair_tell(e->pair->channel, "", 1);

	do {
		e->bytes[0] = 1;
		begin = ticks_ns();
		if (!ret)
			ret = trip(e);
		end = ticks_ns();
		rounds_add(r, end - begin, 2 * e->size);
	} while (!ret && !rounds_over(r, end));
	e->bytes[0] = 0;
	return ret ? ret : trip(e);
}

int reference_tcp_echo(const struct options *o, const struct rounds_attr *attr)
{
	struct echo e = { .size = o->rounds.size, .wait = (enum reference_wait)o->wait };
	struct pair pair;
	struct rounds_side side = { .round = echo_round, .arg = &e, .pair = &pair };
	int ret, end;

	if (!e.size)
		return -EINVAL;
	/* Whole pages: a copy by the kernel takes three times as long where bytes lie askew. */
	e.bytes = memory_map(-1, e.size);
	if (!e.bytes)
		return -ENOMEM;
	memset(e.bytes, 1, e.size);
	ret = stream_pair(&e.server_fd, &e.client_fd);
	if (!ret)
		ret = pair_start(&pair, serve, &e);
	if (ret)
		return ret;
	close(e.server_fd);
	e.pair = &pair;
	ret = rounds_run(attr, &side);
	close(e.client_fd);
	end = pair_end(&pair);
	memory_unmap(e.bytes, e.size);
	return ret ? ret : end;
}
