/* SPDX-License-Identifier: Apache-2.0 */
/* Where clients that speak to Redis themselves find it. The private one is made to listen for them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "compat/store_guest.h"
#include "store/redis_store.h"

static bool is_loopback(const char *host)
{
	return !strncmp(host, "127.", 4) || !strncmp(host, "localhost", 9) || !strcmp(host, "::1");
}

/* The address that this host has towards another; nothing is sent. */
static bool address_towards(const char *host, char out[INET_ADDRSTRLEN])
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	int fd;
	bool found;

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	found = !connect(fd, (struct sockaddr *)&to, sizeof(to)) &&
		!getsockname(fd, (struct sockaddr *)&own, &len) &&
		inet_ntop(AF_INET, &own.sin_addr, out, INET_ADDRSTRLEN);
	close(fd);
	return found;
}

bool store_is_this_host(const char *host)
{
	char own[INET_ADDRSTRLEN];

	return is_loopback(host) || (address_towards(host, own) && !strcmp(own, host));
}

static int unreachable(char out[STORE_REDIS_ADDRESS_MAX], const char *why)
{
	snprintf(out, STORE_REDIS_ADDRESS_MAX, "%s", why);
	return -ENOTSUP;
}

/* Behind a unix socket: the private one, when it listens for clients on this host. */
static int private_address(const struct store_hub *hub, bool local,
			   char out[STORE_REDIS_ADDRESS_MAX])
{
	unsigned port = atomic_load(&hub->tcp_port);

	if (!hub->ours)
		return unreachable(out,
				   "Redis is reached by a unix socket, and clients of this "
				   "route need TCP: set redis.advertise, or give a redis:// URL");
	if (!local)
		return unreachable(out, "the private Redis listens on this host only: set "
					"redis.url for clients elsewhere");
	if (!port)
		return -EAGAIN;
	snprintf(out, STORE_REDIS_ADDRESS_MAX, "127.0.0.1:%u", port);
	return 0;
}

/* The private Redis does not listen yet. */
static bool is_to_open(const struct store *store)
{
	return store->hub->port && !atomic_load(&store->hub->tcp_port);
}

/* What clients elsewhere are told in the place of an address that only this host reaches. */
static const char *public_address(const struct store_hub *hub, const char *host)
{
	return hub->url.path || is_loopback(host) ? hub->config.public_address : NULL;
}

/* What everybody is told, if anything. */
static const char *advertised(const struct store_hub *hub)
{
	const char *advertise = hub->config.advertise;

	if (advertise && !strncmp(advertise, REDIS_SCHEME, strlen(REDIS_SCHEME)))
		advertise += strlen(REDIS_SCHEME);
	return advertise;
}

static const char *host_of(const struct store *store, uint16_t *port)
{
	const struct redis_url *url = &store->hub->url;

	*port = url->port;
	return url->n_seeds ? redis_host(store->redis, port) : url->host;
}

const char *store_configured_address(const struct store *store)
{
	const char *told = advertised(store->hub);
	uint16_t port;

	if (store_is_cluster(store))
		return NULL;
	return told ? told : public_address(store->hub, host_of(store, &port));
}

int store_redis_address(const struct store *store, struct store_text client, bool local,
			char out[STORE_REDIS_ADDRESS_MAX])
{
	const struct redis_url *url = &store->hub->url;
	char from[64], own[INET_ADDRSTRLEN] = "127.0.0.1";
	const char *told = advertised(store->hub);
	uint16_t port;
	const char *host = host_of(store, &port);

	snprintf(from, sizeof(from), "%.*s", (int)(client.len < 63 ? client.len : 63),
		 client.len ? client.at : "");
	if (store->hub->ours && !store->hub->port)
		return unreachable(out, "the private Redis serves nanoctrl alone, and clients of "
					"this route need it: set redis.compat_port");
	if (url->db)
		return unreachable(out, "nanoctrl uses another database of Redis than 0, and "
					"clients of this route use that one");
	if (!told && client.at && !is_loopback(from))
		told = public_address(store->hub, host);
	if (told) {
		snprintf(out, STORE_REDIS_ADDRESS_MAX, "%s", told);
		return is_to_open(store) ? -EAGAIN : 0; /* it leads there, if anywhere */
	}
	if (url->path)
		return private_address(store->hub, local, out);
	if (url->password)
		return unreachable(out, "Redis has a password, and clients of this route do not "
					"know it");
	if (!*host)
		return -ENOTCONN; /* nobody has told yet */
	if (strchr(host, ':'))
		return unreachable(out, "Redis has an IPv6 address, and clients of this route take "
					"HOST:PORT apart at the colon");
	if (is_loopback(host) && !is_loopback(from)) {
		if (!address_towards(from, own))
			address_towards("8.8.8.8", own);
		host = own;
	}
	snprintf(out, STORE_REDIS_ADDRESS_MAX, "%s:%u", host, port);
	return 0;
}

/* ---- the private Redis' port ---- */

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

static int free_port(struct store_hub *hub)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = hold_port(0);

	if (fd < 0)
		return fd;
	hub->held_fd = fd;
	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return -errno;
	hub->port = ntohs(addr.sin_port);
	return 0;
}

void store_hub_own(struct store_hub *hub, unsigned port)
{
	hub->ours = true;
	hub->port = port;
	atomic_store(&hub->port_kept, port != 0);
}

/* One that is in the file is not held: Redis has it already, or gets it as soon as it is reached.
 */
int store_hub_keep_port(struct store_hub *hub, const char *file)
{
	hub->port_fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (hub->port_fd < 0)
		return -errno;
	hub->port = read_port(hub->port_fd);
	atomic_store(&hub->port_kept, hub->port != 0);
	return hub->port ? 0 : free_port(hub);
}

static void let_go(struct store_hub *hub)
{
	int fd = atomic_exchange(&hub->held_fd, -1);

	if (fd >= 0)
		close(fd);
}

void store_hub_give_port(struct store_hub *hub)
{
	let_go(hub);
	if (hub->port_fd >= 0)
		close(hub->port_fd);
	hub->port_fd = -1;
}

/* A few bytes to a file that is open, once in its life: the only write on a loop. */
static void note_port(struct store_hub *hub)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%u\n", hub->port);

	sl_info("store", "the private Redis listens for agents of DLSlime on 127.0.0.1 port %u",
		hub->port);
	if (!atomic_exchange(&hub->port_kept, true) &&
	    pwrite(hub->port_fd, text, (size_t)n, 0) != n)
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
static int judge_opening(const struct store_hub *hub, int result, const redisReply *reply)
{
	if (result || reply->type != REDIS_REPLY_ERROR)
		return result;
	if (store_is_refusal(reply->str))
		return -EAGAIN;
	sl_error("store",
		 "the private Redis cannot listen on 127.0.0.1 port %u, which redis.compat_port or "
		 "the file redis.port in its directory names (%s): without it no agent of DLSlime "
		 "can register",
		 hub->port, reply->str);
	return -ENOTSUP;
}

static void on_port_set(void *arg, int result, const redisReply *reply)
{
	struct opening *o = arg;
	struct store_hub *hub = o->store->hub;
	int ret = judge_opening(hub, result, reply);

	if (ret == -ENOTSUP)
		atomic_store(&hub->tcp_port, 0);
	else if (!ret && !atomic_exchange(&hub->tcp_port, hub->port))
		note_port(hub);
	end_opening(o, ret);
}

static void on_rights_given(void *arg, int result, const redisReply *reply)
{
	struct opening *o = arg;
	char digits[8];
	const char *args[] = { "CONFIG", "SET", "port", digits };
	int ret = judge_opening(o->store->hub, result, reply);

	snprintf(digits, sizeof(digits), "%u", o->store->hub->port % 65536);
	if (!ret) {
		let_go(o->store->hub);
		ret = redis_command(o->store->redis, 4, args, NULL, on_port_set, o);
		if (!ret)
			return;
	}
	end_opening(o, ret);
}

/* Rights first: whoever connects at once has them, and no more. */
void store_open_tcp(struct store *store, store_done_fn *fn, void *arg)
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

static void opened(void *arg, int result)
{
	(void)result;
	reach_up(arg);
}

/* A Redis that was started anew listens on its socket alone. Those who know its port look for it
 * there without asking us, and are told of it as before meanwhile; where it fails, who registers
 * next has it tried again. What is configured for others leads there, and is tried once it listens.
 */
void store_reach_up(struct store *store)
{
	const struct store_hub *hub = store->hub;

	if (hub->port && (atomic_load(&hub->port_kept) || store_configured_address(store)))
		store_open_tcp(store, opened, store);
	else
		reach_up(store);
}
