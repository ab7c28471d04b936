/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/redis_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "base/loopback.h"
#include "compat/store.h"
#include "daemon/node.h"

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
	return sl_is_loopback_host(host) || node_has_address(host);
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
	unsigned port = atomic_load(&hub->compat->port.open);

	if (!hub->compat->port.ours)
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
	return store->hub->compat->port.port && !atomic_load(&store->hub->compat->port.open);
}

/* The address for clients elsewhere, in place of one that only this host reaches. */
static const char *public_address(const struct store_hub *hub, const char *host)
{
	return hub->url.path || sl_is_loopback_host(host) ? hub->config.public_address : NULL;
}

/* The address for all clients, if one is set. */
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
	if (store->hub->compat->port.ours && !store->hub->compat->port.port)
		return unreachable(out, "the private Redis serves nanoctrl alone, and clients of "
					"this route need it: set redis.compat_port");
	if (url->db)
		return unreachable(out, "nanoctrl uses another database of Redis than 0, and "
					"clients of this route use that one");
	if (!told && client.at && !sl_is_loopback_host(from))
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
		return -ENOTCONN; /* the locator has no answer yet */
	if (strchr(host, ':'))
		return unreachable(out, "Redis has an IPv6 address, and clients of this route take "
					"HOST:PORT apart at the colon");
	if (sl_is_loopback_host(host) && !sl_is_loopback_host(from)) {
		if (!address_towards(from, own))
			node_address(own);
		host = own;
	}
	snprintf(out, STORE_REDIS_ADDRESS_MAX, "%s:%u", host, port);
	return 0;
}
