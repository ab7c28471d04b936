/* SPDX-License-Identifier: Apache-2.0 */
#include "src/listener/listener.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "src/transport/tcp/tcp.h"
#include "src/transport/link_listener.h"

#define BACKLOG 512

static int refuse(const char *what)
{
	sl_error("listener", "%s", what);
	return -EINVAL;
}

/* ---- addresses ---- */

/* A path that a listener left behind when it was killed: nothing listens there. */
static bool is_left_behind(const struct sockaddr_un *a, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool is = fd >= 0 && connect(fd, (const struct sockaddr *)a, len) && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return is;
}

static int bind_unix(int fd, const struct sockaddr_un *a, socklen_t len)
{
	if (bind(fd, (const struct sockaddr *)a, len) == 0)
		return 0;
	if (errno != EADDRINUSE || !a->sun_path[0] || !is_left_behind(a, len))
		return -errno;
	unlink(a->sun_path);
	return bind(fd, (const struct sockaddr *)a, len) ? -errno : 0;
}

static int name_unix(struct slime_listener *l, const char *path, struct sockaddr_un *un,
		     socklen_t *len)
{
	int n;

	un->sun_family = AF_UNIX;
	if (*path)
		n = snprintf(un->sun_path, sizeof(un->sun_path), "%s", path);
	else
		n = 1 + snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
				 "slime-listener-%016" PRIx64, l->desc.id);
	if ((size_t)n >= sizeof(un->sun_path)) {
		sl_error("listener", "unix_path is longer than %zu bytes: %s",
			 sizeof(un->sun_path) - 1, path);
		return -ENAMETOOLONG;
	}
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n);
	return 0;
}

static int open_listener(struct slime_listener *l, int fd)
{
	return sl_link_listener_create(&l->transport, fd, sl_arrival_begin, &l->sockets[l->desc.n]);
}

static int listen_unix(struct slime_listener *l, const char *path)
{
	struct sockaddr_un un = { 0 };
	socklen_t len;
	int fd, ret = name_unix(l, path, &un, &len);

	if (ret)
		return ret;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	ret = bind_unix(fd, &un, len);
	if (!ret) {
		snprintf(l->path, sizeof(l->path), "%s", path);
		ret = listen(fd, BACKLOG) ? -errno : 0;
	}
	if (ret) {
		sl_error("listener", "cannot listen at %s: %s", *path ? path : "an abstract name",
			 strerror(-ret));
		close(fd);
		return ret;
	}
	ret = open_listener(l, fd);
	if (ret)
		return ret;
	memcpy(&l->desc.addresses[l->desc.n], &un, sizeof(un));
	l->desc.lens[l->desc.n++] = len;
	return 0;
}

static void set_port(struct sockaddr_storage *to, const struct sockaddr_storage *from)
{
	in_port_t port = from->ss_family == AF_INET
				 ? ((const struct sockaddr_in *)from)->sin_port
				 : ((const struct sockaddr_in6 *)from)->sin6_port;

	if (to->ss_family == AF_INET)
		((struct sockaddr_in *)to)->sin_port = port;
	else
		((struct sockaddr_in6 *)to)->sin6_port = port;
}

static int listen_tcp(struct slime_listener *l, const struct slime_listener_attr *attr)
{
	struct sockaddr_storage bound, advertised;
	const char *text = attr->tcp_advertise ? attr->tcp_advertise : attr->tcp_bind;
	int fd, ret;

	if (tcp_parse_address(attr->tcp_bind, attr->tcp_port, &bound))
		return refuse("tcp_bind is no numeric address");
	if (tcp_parse_address(text, 0, &advertised) || tcp_is_wildcard(&advertised))
		return refuse(attr->tcp_advertise
				      ? "tcp_advertise is no numeric address of a host"
				      : "tcp_bind is a wildcard and needs tcp_advertise");
	ret = tcp_listen(&bound, &fd);
	if (ret) {
		sl_error("listener", "cannot listen at %s, port %u: %s", attr->tcp_bind,
			 attr->tcp_port, strerror(-ret));
		return ret;
	}
	ret = open_listener(l, fd);
	if (ret)
		return ret;
	set_port(&advertised, &bound);
	l->desc.addresses[l->desc.n] = advertised;
	l->desc.lens[l->desc.n++] = tcp_address_len(&advertised);
	return 0;
}

static int open_sockets(struct slime_listener *l, const struct slime_listener_attr *attr)
{
	int ret = attr->unix_path ? listen_unix(l, attr->unix_path) : 0;

	if (!ret && attr->tcp_bind)
		ret = listen_tcp(l, attr);
	return ret;
}

static void close_sockets(struct slime_listener *l)
{
	for (unsigned i = 0; i < SL_LISTENER_ADDRESSES_MAX; i++)
		sl_link_listener_destroy(l->sockets[i]);
	if (*l->path)
		unlink(l->path);
}

/* ---- the thread ---- */

/* The peers that the sockets expect: every dialer that holds the key of this listener. */
static int expect(void *arg, enum slime_transport transport, uint64_t endpoint,
		  struct sl_expected *out)
{
	const struct slime_listener *l = arg;

	(void)transport;
	*out = (struct sl_expected){ 0 };
	if (endpoint)
		return -ENOENT;
	memcpy(out->key, l->desc.key, sizeof(out->key));
	return 0;
}

static void *serve(void *arg)
{
	struct slime_listener *l = arg;

	while (!atomic_load(&l->stop)) {
		sl_poller_run(&l->poller, SL_NEVER);
		sl_arrivals_poll(l);
	}
	return NULL;
}

/* ---- life ---- */

void slime_listener_attr_init(struct slime_listener_attr *attr)
{
	*attr = (struct slime_listener_attr)SLIME_LISTENER_ATTR_INIT;
}

/* Opens the devices, which may take long, before a dialer waits for it; and shows whether endpoints
 * can be made at all. */
static int try_endpoint(struct slime_context *ctx, const struct slime_endpoint_attr *attr)
{
	struct slime_endpoint_attr plain = *attr;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint *ep;
	int ret, end;

	plain.on_state = NULL;
	ret = slime_endpoint_create(ctx, &plain, &ep);
	if (ret)
		return ret;
	ret = slime_endpoint_export(ep, desc, sizeof(desc));
	sl_auth_wipe(desc, sizeof(desc));
	end = slime_endpoint_destroy(ep);
	if (ret > 0)
		ret = 0;
	return end ? end : ret;
}

static void init_fields(struct slime_listener *l, struct slime_context *ctx,
			const struct slime_listener_attr *attr)
{
	l->ctx = ctx;
	l->attr = *attr;
	l->attr.unix_path = l->attr.tcp_bind = l->attr.tcp_advertise = NULL;
	if (attr->endpoint.name) {
		snprintf(l->name, sizeof(l->name), "%s", attr->endpoint.name);
		l->attr.endpoint.name = l->name;
	}
	sl_list_init(&l->arrivals);
	l->limit = (struct sl_log_limit)SL_LOG_LIMIT_INIT(5, 1000);
	l->ops = (struct sl_transport_ops){ .id = SLIME_TRANSPORT_NONE };
	l->env = (struct sl_transport_env){ .attr = &l->ctx->attr,
					    .context = l->desc.id,
					    .poller = &l->poller,
					    .expect = expect,
					    .arg = l };
	l->transport = (struct sl_transport){ .ops = &l->ops, .env = &l->env };
}

static int start(struct slime_listener *l, const struct slime_listener_attr *attr)
{
	int ret = sl_poller_init(&l->poller, false);

	if (ret)
		return ret;
	ret = open_sockets(l, attr);
	if (!ret)
		ret = sl_thread_create(&l->thread, "slime-listener", serve, l);
	if (ret) {
		close_sockets(l);
		sl_poller_fini(&l->poller);
	}
	return ret;
}

static void free_listener(struct slime_listener *l)
{
	sl_auth_wipe(l, sizeof(*l));
	free(l);
}

int slime_listener_create(struct slime_context *ctx, const struct slime_listener_attr *attr,
			  struct slime_listener **out)
{
	struct slime_listener *l;
	int ret = sl_context_check(ctx);

	if (ret)
		return ret;
	if (!attr->on_endpoint || !attr->max_endpoints)
		return refuse("on_endpoint is NULL, or max_endpoints is 0");
	if (!attr->unix_path && !attr->tcp_bind)
		return refuse("neither unix_path nor tcp_bind is given");
	ret = try_endpoint(ctx, &attr->endpoint);
	if (ret)
		return ret;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	ret = sl_auth_random(&l->desc.id, sizeof(l->desc.id));
	if (!ret)
		ret = sl_auth_random(l->desc.key, sizeof(l->desc.key));
	if (ret)
		goto free_listener;
	l->desc.id |= 1; /* endpoints of none have 0 */
	init_fields(l, ctx, attr);
	ret = start(l, attr);
	if (ret)
		goto free_listener;
	atomic_fetch_add(&ctx->n_listeners, 1);
	*out = l;
	return 0;

free_listener:
	free_listener(l);
	return ret;
}

int slime_listener_export(const struct slime_listener *l, void *buf, size_t cap)
{
	int ret = sl_context_check(l->ctx);

	return ret ? ret : sl_listener_desc_write(&l->desc, buf, cap);
}

/* In a child after fork: the thread and the sockets are the parent's. */
static void forget_listener(struct slime_listener *l)
{
	for (unsigned i = 0; i < SL_LISTENER_ADDRESSES_MAX; i++)
		sl_link_listener_forget(l->sockets[i]);
	sl_arrivals_forget(l);
	free_listener(l);
}

int slime_listener_destroy(struct slime_listener *l)
{
	struct slime_context *ctx;
	int ret;

	if (!l)
		return 0;
	ctx = l->ctx;
	if (sl_context_check(ctx)) {
		forget_listener(l);
		return 0;
	}
	if (sl_progress_in_callback() || pthread_equal(pthread_self(), l->thread))
		return -EDEADLK;
	atomic_store(&l->stop, true);
	sl_poller_wake(&l->poller);
	ret = pthread_join(l->thread, NULL);
	assert(!ret);
	(void)ret;
	close_sockets(l);
	sl_arrivals_end(l);
	sl_poller_fini(&l->poller);
	free_listener(l);
	atomic_fetch_sub(&ctx->n_listeners, 1);
	return 0;
}
