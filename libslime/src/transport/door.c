/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor's half of a greeting. A visitor is a stream that has not proven itself. */
#include "src/transport/greeting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "src/transport/hello.h"

#define ASK_AGAIN_NS (20 * SL_NS_PER_MS)
/* accept() failed for want of a descriptor or memory: let others have the processor meanwhile. */
#define ACCEPT_AGAIN_NS (100 * SL_NS_PER_MS)
/* How long a visitor has its place also when others wait for one: before its hello, which an honest
 * one sends at once, and in each step after that. So a flood of those who say nothing has us accept
 * some hundreds in a second, and no newcomer wait for longer than the queue before it takes. */
#define SILENT_NS (100 * SL_NS_PER_MS)
#define STEP_NS	  (500 * SL_NS_PER_MS)
/* Accepted at once, so that a flood does not keep others from their turn. */
#define KNOCKS_PER_CALL SL_GREETINGS_MAX
#define ADDRESS_LEN	(INET6_ADDRSTRLEN + 16)

struct sl_door {
	struct sl_transport *t;
	sl_door_fn *fn;
	int fd;
	struct sl_source source;
	struct sl_timer again;
	struct sl_timer room; /* then somebody has to make room */
	struct sl_list visitors;
	unsigned n_visitors;
	struct sl_log_limit limit;
};

enum step {
	WAITS_HELLO,
	HELD, /* its endpoint does not know its peer yet */
	WAITS_PROOF,
};

struct visitor {
	struct sl_door *door;
	struct sl_list link;
	struct sl_source source;
	struct sl_timer timer;
	uint64_t deadline_ns;
	uint64_t since_ns; /* in this step */
	int fd;
	enum step step;
	bool is_known; /* as it says it is whom its endpoint has a link with, or is to have one */
	struct sl_hello hello;
	uint8_t proof[SL_AUTH_MAC_LEN]; /* what the initiator must answer */
	uint8_t in[SL_HELLO_MAX];
	size_t have;
	char address[ADDRESS_LEN];
};

static const char *const refusals[] = {
	[SL_REFUSED_UNKNOWN] = "no endpoint of ours expects it",
	[SL_REFUSED_NOT_YET] = "our endpoint did not learn of its peer in time",
	[SL_REFUSED_VERSION] = "it speaks another version of the protocol",
	[SL_REFUSED_KEY] = "it does not hold the link's key",
	[SL_REFUSED_FEATURE] = "it requires a feature that we do not know",
	[SL_REFUSED_USER] = "it is another user's, whom shm_users does not name",
};

static void describe_peer(int fd, char out[ADDRESS_LEN])
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);
	struct ucred cred = { 0 };
	char host[INET6_ADDRSTRLEN];

	snprintf(out, ADDRESS_LEN, "unknown");
	if (getpeername(fd, (struct sockaddr *)&ss, &len))
		return;
	if (ss.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&ss;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, ADDRESS_LEN, "%s:%u", host, ntohs(in->sin_port));
	} else if (ss.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&ss;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(out, ADDRESS_LEN, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else if (ss.ss_family == AF_UNIX) {
		len = sizeof(cred);
		if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
			snprintf(out, ADDRESS_LEN, "process %d of user %u", (int)cred.pid,
				 cred.uid);
	}
}

static struct sl_poller *poller_of(const struct sl_door *d)
{
	return d->t->env->poller;
}

/* In log lines. */
static const char *part_of(const struct sl_door *d)
{
	enum slime_transport id = d->t->ops->id;

	return id == SLIME_TRANSPORT_NONE ? "listener" : slime_transport_name(id);
}

static void open_door(struct sl_door *d)
{
	if (d->again.when_ns == SL_NEVER)
		sl_poller_change(poller_of(d), &d->source, EPOLLIN);
}

/* The visitor is gone; its fd is somebody else's, or closed. */
static void forget(struct visitor *v)
{
	struct sl_door *d = v->door;

	sl_poller_remove(poller_of(d), &v->source);
	sl_timer_cancel(poller_of(d), &v->timer);
	sl_list_remove(&v->link);
	d->n_visitors--;
	free(v);
	open_door(d);
}

static void part(struct visitor *v)
{
	int fd = v->fd;

	forget(v);
	close(fd);
}

static void turn_away(struct visitor *v, const char *why)
{
	struct sl_door *d = v->door;
	uint32_t held_back;

	if (sl_log_allow(&d->limit, &held_back))
		sl_warn(part_of(d), "turned %s away: %s (%u such lines held back)", v->address, why,
			held_back);
	part(v);
}

/* Both ends of a link may try to reach the other: that one of them need not wait any more is
 * nothing to be told of. */
static bool is_in_vain(const struct visitor *v)
{
	return v->is_known && v->step != WAITS_PROOF;
}

static void turn_away_unneeded(struct visitor *v, const char *why)
{
	sl_debug(part_of(v->door), "turned %s away: %s", v->address, why);
	part(v);
}

static void refuse(struct visitor *v, enum sl_refusal code)
{
	uint8_t out[SL_CHALLENGE_LEN];
	size_t len = v->step == WAITS_PROOF ? SL_VERDICT_LEN : SL_CHALLENGE_LEN;

	sl_hello_write_code(code, out, len);
	/* It is told if it can be told; it is gone either way. */
	(void)sl_hello_send(v->fd, out, len);
	if (code == SL_REFUSED_UNKNOWN && is_in_vain(v))
		turn_away_unneeded(v, refusals[code]);
	else
		turn_away(v, refusals[code]);
}

static bool same_id(struct sl_link_id a, struct sl_link_id b)
{
	return a.context == b.context && a.endpoint == b.endpoint;
}

/* Who is wanted: 0, -EAGAIN, -ENOENT. */
static int find_expected(struct visitor *v, struct sl_expected *e)
{
	static const struct sl_link_id nobody;
	const struct sl_transport *t = v->door->t;
	bool has_peer;
	int ret;

	v->is_known = false;
	if (v->hello.acceptor.context != t->env->context || v->hello.transport != t->ops->id)
		return -ENOENT;
	ret = t->env->expect(t->env->arg, t->ops->id, v->hello.acceptor.endpoint, e);
	has_peer = !same_id(e->peer, nobody);
	v->is_known = has_peer && same_id(e->peer, v->hello.initiator);
	if (v->is_known || !has_peer)
		return ret;
	sl_auth_wipe(e->key, sizeof(e->key));
	return -ENOENT;
}

static void go_on(struct visitor *v, enum step step)
{
	if (v->step != step)
		v->since_ns = sl_clock_ns();
	v->step = step;
}

static void hold(struct visitor *v)
{
	uint64_t next = sl_clock_ns() + ASK_AGAIN_NS;

	go_on(v, HELD);
	sl_timer_set(poller_of(v->door), &v->timer, next < v->deadline_ns ? next : v->deadline_ns);
	if (sl_poller_change(poller_of(v->door), &v->source, EPOLLRDHUP))
		turn_away(v, "no memory to wait for it");
}

static int challenge(struct visitor *v, const uint8_t key[SL_AUTH_KEY_LEN])
{
	uint8_t mac[SL_AUTH_MAC_LEN], out[SL_CHALLENGE_LEN];
	int ret = sl_auth_random(v->hello.acceptor_nonce, sizeof(v->hello.acceptor_nonce));

	v->hello.acceptor_features = SL_FEATURES;
	if (!ret)
		ret = sl_hello_mac(&v->hello, SL_INITIATOR, key, v->proof);
	if (!ret)
		ret = sl_hello_mac(&v->hello, SL_ACCEPTOR, key, mac);
	if (!ret)
		ret = sl_poller_change(poller_of(v->door), &v->source, EPOLLIN);
	if (ret)
		return ret;
	sl_timer_set(poller_of(v->door), &v->timer, v->deadline_ns);
	go_on(v, WAITS_PROOF);
	v->have = 0;
	sl_hello_write_challenge(&v->hello, mac, out);
	return sl_hello_send(v->fd, out, sizeof(out));
}

static void consider(struct visitor *v)
{
	struct sl_expected e;
	int ret = find_expected(v, &e);

	if (ret == -EAGAIN) {
		hold(v);
		return;
	}
	if (ret) {
		refuse(v, SL_REFUSED_UNKNOWN);
		return;
	}
	ret = challenge(v, e.key);
	sl_auth_wipe(e.key, sizeof(e.key));
	if (ret)
		turn_away(v, strerror(-ret));
}

static void read_hello(struct visitor *v)
{
	int ret = sl_hello_recv(v->fd, v->in, SL_HELLO_LEN, &v->have);

	if (ret == -EAGAIN)
		return;
	if (!ret)
		ret = sl_hello_read(&v->hello, v->in);
	if (!ret && !sl_features_known(v->hello.features))
		refuse(v, SL_REFUSED_FEATURE);
	else if (!ret)
		consider(v);
	else if (ret == -EPROTONOSUPPORT)
		refuse(v, SL_REFUSED_VERSION);
	else if (ret == -EPROTO)
		turn_away(v, "its first bytes are no greeting");
	else
		turn_away(v, "it left before it said who it is");
}

/* Welcome: the stream goes to the connection that waits for it now. */
static void hand_over(struct visitor *v)
{
	struct sl_door *d = v->door;
	uint16_t stream = v->hello.stream;
	uint8_t out[SL_VERDICT_LEN];
	struct sl_expected e;
	int fd = v->fd;

	if (find_expected(v, &e)) {
		refuse(v, SL_REFUSED_UNKNOWN);
		return;
	}
	sl_auth_wipe(e.key, sizeof(e.key));
	sl_hello_write_code(SL_WELCOME, out, sizeof(out));
	if (sl_hello_send(fd, out, sizeof(out))) {
		turn_away(v, "it left during the greeting");
		return;
	}
	forget(v);
	d->fn(d->t, e.conn, fd, stream);
}

static void read_proof(struct visitor *v)
{
	uint8_t mac[SL_AUTH_MAC_LEN];
	int ret = sl_hello_recv(v->fd, v->in, SL_PROOF_LEN, &v->have);

	if (ret == -EAGAIN)
		return;
	if (!ret)
		ret = sl_hello_read_proof(mac, v->in);
	if (ret == -EPROTO || ret == -EPROTONOSUPPORT)
		turn_away(v, "it broke the greeting");
	else if (ret)
		turn_away(v, "it left during the greeting: it may hold another key");
	else if (!sl_auth_equal(mac, v->proof))
		refuse(v, SL_REFUSED_KEY);
	else
		hand_over(v);
}

static void on_visitor(struct sl_source *s, uint32_t events)
{
	struct visitor *v = SL_CONTAINER_OF(s, struct visitor, source);

	(void)events;
	if (v->step == WAITS_HELLO)
		read_hello(v);
	else if (v->step == WAITS_PROOF)
		read_proof(v);
	else if (is_in_vain(v))
		turn_away_unneeded(v, "it left before its turn came");
	else
		turn_away(v, "it left while our endpoint did not know its peer");
}

static void on_visitor_time(struct sl_timer *t)
{
	struct visitor *v = SL_CONTAINER_OF(t, struct visitor, timer);

	if (v->step == HELD && sl_clock_ns() < v->deadline_ns)
		consider(v);
	else if (v->step == HELD)
		refuse(v, SL_REFUSED_NOT_YET);
	else
		turn_away(v, "it took too long");
}

/* Who can reach a unix socket may be nobody's peer: then it takes nobody's place, either. */
static bool is_other_user(const struct sl_door *d, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(int);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || domain != AF_UNIX)
		return false;
	len = sizeof(cred);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
	       !sl_auth_user(d->t->env->attr->shm_users, cred.uid);
}

/* It is told why before it has said anything. */
static void turn_user_away(struct sl_door *d, int fd)
{
	uint8_t out[SL_CHALLENGE_LEN];
	char address[ADDRESS_LEN];
	uint32_t held_back;

	describe_peer(fd, address);
	sl_hello_write_code(SL_REFUSED_USER, out, sizeof(out));
	(void)sl_hello_send(fd, out, sizeof(out));
	close(fd);
	if (sl_log_allow(&d->limit, &held_back))
		sl_warn(part_of(d), "turned %s away: %s (%u such lines held back)", address,
			refusals[SL_REFUSED_USER], held_back);
}

static int let_in(struct sl_door *d, int fd)
{
	struct visitor *v = calloc(1, sizeof(*v));
	int ret;

	if (!v)
		return -ENOMEM;
	v->door = d;
	v->fd = fd;
	v->source = (struct sl_source){ .fn = on_visitor, .fd = -1 };
	v->since_ns = sl_clock_ns();
	v->deadline_ns = v->since_ns + SL_GREETING_TIMEOUT_MS * SL_NS_PER_MS;
	sl_timer_init(&v->timer, on_visitor_time);
	ret = sl_poller_add(poller_of(d), &v->source, fd, EPOLLIN);
	if (ret) {
		free(v);
		return ret;
	}
	describe_peer(fd, v->address);
	sl_timer_set(poller_of(d), &v->timer, v->deadline_ns);
	sl_list_append(&d->visitors, &v->link);
	d->n_visitors++;
	return 0;
}

/* ---- more knock than there are places ---- */

static uint64_t has_place_until(const struct visitor *v)
{
	return v->since_ns + (v->step == WAITS_HELLO ? SILENT_NS : STEP_NS);
}

/* The one whose time is over first. */
static struct visitor *next_to_go(const struct sl_door *d)
{
	struct visitor *first = NULL;
	struct sl_list *e;

	sl_list_for_each (e, &d->visitors) {
		struct visitor *v = SL_CONTAINER_OF(e, struct visitor, link);

		if (!first || has_place_until(v) < has_place_until(first))
			first = v;
	}
	return first;
}

/* What it said counts, though we may not have come to hear it. */
static void hear(struct visitor *v)
{
	if (v->step == WAITS_HELLO)
		read_hello(v);
	else if (v->step == WAITS_PROOF)
		read_proof(v);
}

/* The visitor that leaves its place to who comes next, if somebody does; NULL: there is room, or
 * nobody has to yet, and the door is opened again when somebody has. */
static struct visitor *who_makes_room(struct sl_door *d)
{
	uint64_t now = sl_clock_ns();

	while (d->n_visitors == SL_GREETINGS_MAX) {
		struct visitor *v = next_to_go(d);
		uint64_t until = has_place_until(v);

		if (until > now) {
			sl_poller_change(poller_of(d), &d->source, 0);
			sl_timer_set(poller_of(d), &d->room, until);
			return NULL;
		}
		hear(v);
		if (d->n_visitors == SL_GREETINGS_MAX && has_place_until(v) == until)
			return v;
	}
	return NULL;
}

static void make_room(struct visitor *v)
{
	if (v->step == HELD)
		refuse(v, SL_REFUSED_NOT_YET);
	else
		turn_away(v, "it kept others waiting");
}

/* Whoever knocks now waits in the kernel's queue. */
static void rest(struct sl_door *d, int err)
{
	uint32_t held_back;

	if (sl_log_allow(&d->limit, &held_back))
		sl_warn(part_of(d), "cannot accept: %s (%u such lines held back)", strerror(err),
			held_back);
	sl_poller_change(poller_of(d), &d->source, 0);
	sl_timer_set(poller_of(d), &d->again, sl_clock_ns() + ACCEPT_AGAIN_NS);
}

static void on_knock(struct sl_source *s, uint32_t events)
{
	struct sl_door *d = SL_CONTAINER_OF(s, struct sl_door, source);

	(void)events;
	for (int i = 0; i < KNOCKS_PER_CALL; i++) {
		struct visitor *leaves = who_makes_room(d);
		int fd, ret;

		if (!leaves && d->n_visitors == SL_GREETINGS_MAX)
			return;
		fd = accept4(d->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			/* Everything else is an error of that one stream. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				rest(d, errno);
			return;
		}
		if (is_other_user(d, fd)) {
			turn_user_away(d, fd);
			continue;
		}
		if (leaves)
			make_room(leaves);
		ret = let_in(d, fd);
		if (ret) {
			close(fd);
			rest(d, -ret);
			return;
		}
	}
}

static void on_again(struct sl_timer *t)
{
	open_door(SL_CONTAINER_OF(t, struct sl_door, again));
}

static void on_room(struct sl_timer *t)
{
	open_door(SL_CONTAINER_OF(t, struct sl_door, room));
}

int sl_door_create(struct sl_transport *t, int fd, sl_door_fn *fn, struct sl_door **out)
{
	struct sl_door *d = calloc(1, sizeof(*d));
	int ret;

	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	d->t = t;
	d->fn = fn;
	d->fd = fd;
	d->source = (struct sl_source){ .fn = on_knock, .fd = -1 };
	d->limit = (struct sl_log_limit)SL_LOG_LIMIT_INIT(5, 1000);
	sl_list_init(&d->visitors);
	sl_timer_init(&d->again, on_again);
	sl_timer_init(&d->room, on_room);
	ret = sl_poller_add(t->env->poller, &d->source, fd, EPOLLIN);
	if (ret) {
		close(fd);
		free(d);
		return ret;
	}
	*out = d;
	return 0;
}

void sl_door_forget(struct sl_door *d)
{
	struct sl_list *e;

	if (!d)
		return;
	while ((e = sl_list_pop(&d->visitors)))
		free(SL_CONTAINER_OF(e, struct visitor, link));
	free(d);
}

void sl_door_destroy(struct sl_door *d)
{
	struct sl_list *e, *tmp;

	if (!d)
		return;
	sl_list_for_each_safe (e, tmp, &d->visitors) {
		struct visitor *v = SL_CONTAINER_OF(e, struct visitor, link);
		int fd = v->fd;

		forget(v);
		close(fd);
	}
	sl_poller_remove(poller_of(d), &d->source);
	sl_timer_cancel(poller_of(d), &d->again);
	sl_timer_cancel(poller_of(d), &d->room);
	close(d->fd);
	free(d);
}
