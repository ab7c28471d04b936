/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/private_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "compat/guest.h"
#include "compat/store.h"
#include <base/log.h>
#include "store/reply.h"

/* 0: none is in it. */
static unsigned read_port(int fd)
{
	char text[8];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	unsigned port = 0;

	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%5u", &port) == 1 && port <= 65535 ? port : 0;
}

/* A socket that has the port, or any free one for 0. */
static int hold_port(unsigned port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret;

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

static int free_port(struct private_port *p)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = hold_port(0);

	if (fd < 0)
		return fd;
	p->held_fd = fd;
	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return -errno;
	p->port = ntohs(addr.sin_port);
	return 0;
}

void private_port_init(struct private_port *p)
{
	p->file_fd = -1;
	p->held_fd = -1;
}

static void let_go(struct private_port *p)
{
	int fd = atomic_exchange(&p->held_fd, -1);

	if (fd >= 0)
		close(fd);
}

void private_port_fini(struct private_port *p)
{
	let_go(p);
	if (p->file_fd >= 0)
		close(p->file_fd);
}

void private_port_set(struct store_hub *hub, unsigned port)
{
	struct private_port *p = &hub->compat->port;

	p->ours = true;
	p->port = port;
	atomic_store(&p->kept, port != 0);
}

/* A port that is in the file is not held: Redis has it already, or gets it as soon as it is
 * reached. */
int private_port_keep(struct store_hub *hub, const char *file)
{
	struct private_port *p = &hub->compat->port;

	p->file_fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (p->file_fd < 0)
		return -errno;
	p->port = read_port(p->file_fd);
	atomic_store(&p->kept, p->port != 0);
	return p->port ? 0 : free_port(p);
}

/* A few bytes to a file that is open, once in its life: the only write on a loop. */
static void note_port(struct private_port *p)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%u\n", p->port);

	sl_info("store", "the private Redis listens for agents of DLSlime on 127.0.0.1 port %u",
		p->port);
	if (!atomic_exchange(&p->kept, true) && pwrite(p->file_fd, text, (size_t)n, 0) != n)
		sl_error("store", "the port of the private Redis is not kept: %s", strerror(errno));
}

struct opening {
	struct store *store;
	store_done_fn *fn;
	void *arg;
};

static void end_opening(struct opening *o, int result)
{
	if (o->fn)
		o->fn(o->arg, result);
	free(o);
}

/* 0, -EAGAIN where Redis refuses it for the moment, or -ENOTSUP, which the log has then. */
static int judge_opening(const struct private_port *p, int result, const redisReply *reply)
{
	if (result || reply->type != REDIS_REPLY_ERROR)
		return result;
	if (store_is_refusal(reply->str))
		return -EAGAIN;
	sl_error("store",
		 "the private Redis cannot listen on 127.0.0.1 port %u, which redis.compat_port or "
		 "the file redis.port in its directory names (%s): without it no agent of DLSlime "
		 "can register",
		 p->port, reply->str);
	return -ENOTSUP;
}

static void on_port_set(void *arg, int result, const redisReply *reply)
{
	struct opening *o = arg;
	struct private_port *p = &o->store->hub->compat->port;
	int ret = judge_opening(p, result, reply);

	if (ret == -ENOTSUP)
		atomic_store(&p->open, 0);
	else if (!ret && !atomic_exchange(&p->open, p->port))
		note_port(p);
	end_opening(o, ret);
}

static void on_rights_given(void *arg, int result, const redisReply *reply)
{
	struct opening *o = arg;
	struct private_port *p = &o->store->hub->compat->port;
	char digits[8];
	const char *args[] = { "CONFIG", "SET", "port", digits };
	int ret = judge_opening(p, result, reply);

	snprintf(digits, sizeof(digits), "%u", p->port % 65536);
	if (!ret) {
		let_go(p);
		ret = redis_command(o->store->redis, 4, args, NULL, on_port_set, o);
		if (!ret)
			return;
	}
	end_opening(o, ret);
}

/* Set the rights first: a client that connects at once has them, and no more. */
void private_port_open(struct store *store, store_done_fn *fn, void *arg)
{
	struct opening *o = malloc(sizeof(*o));
	int ret = o ? 0 : -ENOMEM;

	if (!ret) {
		*o = (struct opening){ store, fn, arg };
		ret = guest_admit(store->redis, on_rights_given, o);
	}
	if (!ret)
		return;
	free(o);
	if (fn)
		fn(arg, ret);
}
