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
#include "store_redis.h"

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

	if (!hub->config.port_file)
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

int store_redis_address(const struct store *store, struct store_text client, bool local,
			char out[STORE_REDIS_ADDRESS_MAX])
{
	const struct redis_url *url = &store->hub->url;
	char from[64], own[INET_ADDRSTRLEN] = "127.0.0.1";
	const char *host = url->host;

	if (store->hub->config.advertise) {
		snprintf(out, STORE_REDIS_ADDRESS_MAX, "%s", store->hub->config.advertise);
		return 0;
	}
	if (url->path)
		return private_address(store->hub, local, out);
	if (url->password || url->db)
		return unreachable(out, "Redis has a password or another database than 0, and "
					"clients of this route know neither");
	if (strchr(host, ':'))
		return unreachable(out, "Redis has an IPv6 address, and clients of this route take "
					"HOST:PORT apart at the colon");
	snprintf(from, sizeof(from), "%.*s", (int)(client.len < 63 ? client.len : 63),
		 client.len ? client.at : "");
	if (is_loopback(host) && !is_loopback(from)) {
		if (!address_towards(from, own))
			address_towards("8.8.8.8", own);
		host = own;
	}
	snprintf(out, STORE_REDIS_ADDRESS_MAX, "%s:%u", host, url->port);
	return 0;
}

/* ---- the private Redis' port ---- */

static unsigned read_port(const char *file)
{
	unsigned port = 0;
	FILE *in = fopen(file, "re");

	if (!in)
		return 0;
	if (fscanf(in, "%5u", &port) != 1 || port > 65535)
		port = 0;
	fclose(in);
	return port;
}

static unsigned free_port(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && !bind(fd, (struct sockaddr *)&addr, sizeof(addr)) &&
		     !getsockname(fd, (struct sockaddr *)&addr, &len);

	if (fd >= 0)
		close(fd);
	return found ? ntohs(addr.sin_port) : 0;
}

static int write_port(const char *file, unsigned port)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%u\n", port);
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)n) != n)
		ret = -EIO;
	if (close(fd) && !ret)
		ret = -errno;
	return ret;
}

/* The port that is kept, else one that is free now and is kept from here on; 0: there is none. */
static unsigned choose_port(struct store_hub *hub)
{
	const char *file = hub->config.port_file;
	unsigned port;
	int ret;

	pthread_mutex_lock(&hub->lock);
	port = read_port(file);
	if (!port) {
		port = free_port();
		ret = port ? write_port(file, port) : 0;
		if (ret) {
			sl_error("store", "%s: %s", file, strerror(-ret));
			port = 0;
		}
	}
	pthread_mutex_unlock(&hub->lock);
	return port;
}

struct opening {
	struct store *store;
	unsigned port;
	store_done_fn *fn;
	void *arg;
};

static void on_port_set(void *arg, int result, const redisReply *reply)
{
	struct opening *o = arg;

	if (!result && reply->type == REDIS_REPLY_ERROR) {
		sl_error("store", "the private Redis cannot listen on port %u: %s", o->port,
			 reply->str);
		result = -ENOTSUP;
	}
	if (!result && !atomic_exchange(&o->store->hub->tcp_port, o->port))
		sl_info("store", "the private Redis listens on 127.0.0.1 port %u", o->port);
	o->fn(o->arg, result);
	free(o);
}

void store_open_tcp(struct store *store, store_done_fn *fn, void *arg)
{
	struct opening *o = malloc(sizeof(*o));
	char digits[8];
	const char *args[] = { "CONFIG", "SET", "port", digits };
	int ret = o ? 0 : -ENOMEM;

	if (!ret) {
		*o = (struct opening){ store, choose_port(store->hub), fn, arg };
		snprintf(digits, sizeof(digits), "%u", o->port % 65536);
		ret = o->port ? redis_command(store->redis, 4, args, NULL, on_port_set, o)
			      : -ENOTSUP;
	}
	if (!ret)
		return;
	free(o);
	fn(arg, ret);
}
