/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor's half of a greeting. */
#include "src/transport/link_listener.h"

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
/* The pause after accept() failed for want of a descriptor or of memory. */
#define ACCEPT_AGAIN_NS (100 * SL_NS_PER_MS)
/* While other streams wait, a pending handshake may keep its place for this time: before its hello,
 * which an honest peer sends at once, and in each later step. So a flood of silent streams makes us
 * accept some hundreds in a second, and a new stream waits only for those before it in the queue.
 */
#define SILENT_NS (100 * SL_NS_PER_MS)
#define STEP_NS	  (500 * SL_NS_PER_MS)
/* Streams accepted in one call, so that a flood leaves time for other sources. */
#define ACCEPTS_PER_CALL SL_HANDSHAKES_MAX
#define ADDRESS_LEN	 (INET6_ADDRSTRLEN + 16)

struct sl_link_listener {
	struct sl_transport *t;
	sl_link_listener_fn *fn;
	int fd;
	struct sl_source source;
	struct sl_timer again;
	struct sl_timer room; /* when a handshake has to make room */
	struct sl_list pending;
	unsigned n_pending;
	struct sl_log_limit limit;
};

enum step {
	WAITS_HELLO,
	HELD, /* the endpoint that it wants does not know its peer yet */
	WAITS_PROOF,
};

struct handshake {
	struct sl_link_listener *listener;
	struct sl_list link;
	struct sl_source source;
	struct sl_timer timer;
	uint64_t deadline_ns;
	uint64_t since_ns; /* in this step */
	int fd;
	enum step step;
	bool is_known; /* it claims to be the peer that the endpoint has, or expects */
	struct sl_hello hello;
	uint8_t proof[SL_AUTH_MAC_LEN]; /* what the initiator must answer */
	uint8_t in[SL_HELLO_MAX];
	size_t have;
	char address[ADDRESS_LEN];
};

static const char *const refusals[] = {
	[SL_REFUSED_UNKNOWN] = "none of our endpoints expects it",
	[SL_REFUSED_NOT_YET] = "our endpoint did not get its peer's descriptor in time",
	[SL_REFUSED_VERSION] = "it speaks another version of the protocol",
	[SL_REFUSED_KEY] = "it does not hold the link's key",
	[SL_REFUSED_FEATURE] = "it requires a feature that we do not know",
	[SL_REFUSED_USER] = "shm_users does not name its user",
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

static struct sl_poller *poller_of(const struct sl_link_listener *l)
{
	return l->t->env->poller;
}

/* The part of the program, for log lines. */
static const char *part_of(const struct sl_link_listener *l)
{
	enum slime_transport id = l->t->ops->id;

	return id == SLIME_TRANSPORT_NONE ? "listener" : slime_transport_name(id);
}

static void resume(struct sl_link_listener *l)
{
	if (l->again.when_ns == SL_NEVER)
		sl_poller_change(poller_of(l), &l->source, EPOLLIN);
}

/* Free the handshake. Its fd has another owner, or is closed by the caller. */
static void forget(struct handshake *h)
{
	struct sl_link_listener *l = h->listener;

	sl_poller_remove(poller_of(l), &h->source);
	sl_timer_cancel(poller_of(l), &h->timer);
	sl_list_remove(&h->link);
	l->n_pending--;
	free(h);
	resume(l);
}

static void close_stream(struct handshake *h)
{
	int fd = h->fd;

	forget(h);
	close(fd);
}

static void reject(struct handshake *h, const char *why)
{
	struct sl_link_listener *l = h->listener;
	uint32_t held_back;

	if (sl_log_allow(&l->limit, &held_back))
		sl_warn(part_of(l), "rejected %s: %s (%u such lines held back)", h->address, why,
			held_back);
	close_stream(h);
}

/* Both ends of a link may try to connect. When one attempt succeeds, the end of the other one is
 * not worth a warning. */
static bool is_unneeded(const struct handshake *h)
{
	return h->is_known && h->step != WAITS_PROOF;
}

static void reject_unneeded(struct handshake *h, const char *why)
{
	sl_debug(part_of(h->listener), "rejected %s: %s", h->address, why);
	close_stream(h);
}

static void refuse(struct handshake *h, enum sl_refusal code)
{
	uint8_t out[SL_CHALLENGE_LEN];
	size_t len = h->step == WAITS_PROOF ? SL_VERDICT_LEN : SL_CHALLENGE_LEN;

	sl_hello_write_code(code, out, len);
	/* The stream is closed whether the peer can be told or not. */
	(void)sl_hello_send(h->fd, out, len);
	if (code == SL_REFUSED_UNKNOWN && is_unneeded(h))
		reject_unneeded(h, refusals[code]);
	else
		reject(h, refusals[code]);
}

static bool same_id(struct sl_link_id a, struct sl_link_id b)
{
	return a.context == b.context && a.endpoint == b.endpoint;
}

/* Find the endpoint that the hello names: 0, -EAGAIN, -ENOENT. */
static int find_endpoint(struct handshake *h, struct sl_expected *e)
{
	static const struct sl_link_id nobody;
	const struct sl_transport *t = h->listener->t;
	bool has_peer;
	int ret;

	h->is_known = false;
	if (h->hello.acceptor.context != t->env->context || h->hello.transport != t->ops->id)
		return -ENOENT;
	ret = t->env->expect(t->env->arg, t->ops->id, h->hello.acceptor.endpoint, e);
	has_peer = !same_id(e->peer, nobody);
	h->is_known = has_peer && same_id(e->peer, h->hello.initiator);
	if (h->is_known || !has_peer)
		return ret;
	sl_auth_wipe(e->key, sizeof(e->key));
	return -ENOENT;
}

static void enter(struct handshake *h, enum step step)
{
	if (h->step != step)
		h->since_ns = sl_clock_ns();
	h->step = step;
}

static void hold(struct handshake *h)
{
	uint64_t next = sl_clock_ns() + ASK_AGAIN_NS;

	enter(h, HELD);
	sl_timer_set(poller_of(h->listener), &h->timer,
		     next < h->deadline_ns ? next : h->deadline_ns);
	if (sl_poller_change(poller_of(h->listener), &h->source, EPOLLRDHUP))
		reject(h, "no memory to wait for it");
}

static int challenge(struct handshake *h, const uint8_t key[SL_AUTH_KEY_LEN])
{
	uint8_t mac[SL_AUTH_MAC_LEN], out[SL_CHALLENGE_LEN];
	int ret = sl_auth_random(h->hello.acceptor_nonce, sizeof(h->hello.acceptor_nonce));

	h->hello.acceptor_features = SL_FEATURES;
	if (!ret)
		ret = sl_hello_mac(&h->hello, SL_INITIATOR, key, h->proof);
	if (!ret)
		ret = sl_hello_mac(&h->hello, SL_ACCEPTOR, key, mac);
	if (!ret)
		ret = sl_poller_change(poller_of(h->listener), &h->source, EPOLLIN);
	if (ret)
		return ret;
	sl_timer_set(poller_of(h->listener), &h->timer, h->deadline_ns);
	enter(h, WAITS_PROOF);
	h->have = 0;
	sl_hello_write_challenge(&h->hello, mac, out);
	return sl_hello_send(h->fd, out, sizeof(out));
}

static void answer_hello(struct handshake *h)
{
	struct sl_expected e;
	int ret = find_endpoint(h, &e);

	if (ret == -EAGAIN) {
		hold(h);
		return;
	}
	if (ret) {
		refuse(h, SL_REFUSED_UNKNOWN);
		return;
	}
	ret = challenge(h, e.key);
	sl_auth_wipe(e.key, sizeof(e.key));
	if (ret)
		reject(h, strerror(-ret));
}

static void read_hello(struct handshake *h)
{
	int ret = sl_hello_recv(h->fd, h->in, SL_HELLO_LEN, &h->have);

	if (ret == -EAGAIN)
		return;
	if (!ret)
		ret = sl_hello_read(&h->hello, h->in);
	if (!ret && !sl_features_known(h->hello.features))
		refuse(h, SL_REFUSED_FEATURE);
	else if (!ret)
		answer_hello(h);
	else if (ret == -EPROTONOSUPPORT)
		refuse(h, SL_REFUSED_VERSION);
	else if (ret == -EPROTO)
		reject(h, "its first bytes are no greeting");
	else
		reject(h, "it hung up before its hello was complete");
}

/* Accept: the stream goes to the connection that waits for it now. */
static void hand_over(struct handshake *h)
{
	struct sl_link_listener *l = h->listener;
	uint16_t stream = h->hello.stream;
	uint8_t out[SL_VERDICT_LEN];
	struct sl_expected e;
	int fd = h->fd;

	if (find_endpoint(h, &e)) {
		refuse(h, SL_REFUSED_UNKNOWN);
		return;
	}
	sl_auth_wipe(e.key, sizeof(e.key));
	sl_hello_write_code(SL_WELCOME, out, sizeof(out));
	if (sl_hello_send(fd, out, sizeof(out))) {
		reject(h, "it hung up during the greeting");
		return;
	}
	forget(h);
	l->fn(l->t, e.conn, fd, stream);
}

static void read_proof(struct handshake *h)
{
	uint8_t mac[SL_AUTH_MAC_LEN];
	int ret = sl_hello_recv(h->fd, h->in, SL_PROOF_LEN, &h->have);

	if (ret == -EAGAIN)
		return;
	if (!ret)
		ret = sl_hello_read_proof(mac, h->in);
	if (ret == -EPROTO || ret == -EPROTONOSUPPORT)
		reject(h, "it broke the greeting");
	else if (ret)
		reject(h, "it hung up during the greeting: it may hold another key");
	else if (!sl_auth_equal(mac, h->proof))
		refuse(h, SL_REFUSED_KEY);
	else
		hand_over(h);
}

static void on_stream(struct sl_source *s, uint32_t events)
{
	struct handshake *h = SL_CONTAINER_OF(s, struct handshake, source);

	(void)events;
	if (h->step == WAITS_HELLO)
		read_hello(h);
	else if (h->step == WAITS_PROOF)
		read_proof(h);
	else if (is_unneeded(h))
		reject_unneeded(h, "it hung up before it was needed");
	else
		reject(h, "it hung up while our endpoint did not know its peer");
}

static void on_time(struct sl_timer *t)
{
	struct handshake *h = SL_CONTAINER_OF(t, struct handshake, timer);

	if (h->step == HELD && sl_clock_ns() < h->deadline_ns)
		answer_hello(h);
	else if (h->step == HELD)
		refuse(h, SL_REFUSED_NOT_YET);
	else
		reject(h, "it took too long");
}

/* Processes of users that cannot be peers reach a unix socket, too. They get no place. */
static bool is_other_user(const struct sl_link_listener *l, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(int);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || domain != AF_UNIX)
		return false;
	len = sizeof(cred);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
	       !sl_auth_user(l->t->env->attr->shm_users, cred.uid);
}

/* Tell it why, before it has sent anything. */
static void reject_user(struct sl_link_listener *l, int fd)
{
	uint8_t out[SL_CHALLENGE_LEN];
	char address[ADDRESS_LEN];
	uint32_t held_back;

	describe_peer(fd, address);
	sl_hello_write_code(SL_REFUSED_USER, out, sizeof(out));
	(void)sl_hello_send(fd, out, sizeof(out));
	close(fd);
	if (sl_log_allow(&l->limit, &held_back))
		sl_warn(part_of(l), "rejected %s: %s (%u such lines held back)", address,
			refusals[SL_REFUSED_USER], held_back);
}

static int begin(struct sl_link_listener *l, int fd)
{
	struct handshake *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return -ENOMEM;
	h->listener = l;
	h->fd = fd;
	h->source = (struct sl_source){ .fn = on_stream, .fd = -1 };
	h->since_ns = sl_clock_ns();
	h->deadline_ns = h->since_ns + SL_GREETING_TIMEOUT_MS * SL_NS_PER_MS;
	sl_timer_init(&h->timer, on_time);
	ret = sl_poller_add(poller_of(l), &h->source, fd, EPOLLIN);
	if (ret) {
		free(h);
		return ret;
	}
	describe_peer(fd, h->address);
	sl_timer_set(poller_of(l), &h->timer, h->deadline_ns);
	sl_list_append(&l->pending, &h->link);
	l->n_pending++;
	return 0;
}

/* ---- the limit of pending handshakes ---- */

static uint64_t may_stay_until(const struct handshake *h)
{
	return h->since_ns + (h->step == WAITS_HELLO ? SILENT_NS : STEP_NS);
}

/* The handshake whose time ends first. */
static struct handshake *first_to_end(const struct sl_link_listener *l)
{
	struct handshake *first = NULL;
	struct sl_list *e;

	sl_list_for_each (e, &l->pending) {
		struct handshake *h = SL_CONTAINER_OF(e, struct handshake, link);

		if (!first || may_stay_until(h) < may_stay_until(first))
			first = h;
	}
	return first;
}

/* Take what has arrived: the handshake may have made a step that we did not see yet. */
static void take_arrived(struct handshake *h)
{
	if (h->step == WAITS_HELLO)
		read_hello(h);
	else if (h->step == WAITS_PROOF)
		read_proof(h);
}

/* The handshake to drop if another stream is accepted. NULL: there is room, or no handshake has to
 * go yet; then accepting resumes when one has to. */
static struct handshake *choose_to_drop(struct sl_link_listener *l)
{
	uint64_t now = sl_clock_ns();

	while (l->n_pending == SL_HANDSHAKES_MAX) {
		struct handshake *h = first_to_end(l);
		uint64_t until = may_stay_until(h);

		if (until > now) {
			sl_poller_change(poller_of(l), &l->source, 0);
			sl_timer_set(poller_of(l), &l->room, until);
			return NULL;
		}
		take_arrived(h);
		if (l->n_pending == SL_HANDSHAKES_MAX && may_stay_until(h) == until)
			return h;
	}
	return NULL;
}

static void drop_for_room(struct handshake *h)
{
	if (h->step == HELD)
		refuse(h, SL_REFUSED_NOT_YET);
	else
		reject(h, "its time was over, and other streams waited");
}

/* Pause accepting: new streams wait in the queue of the kernel. */
static void pause_accepting(struct sl_link_listener *l, int err)
{
	uint32_t held_back;

	if (sl_log_allow(&l->limit, &held_back))
		sl_warn(part_of(l), "cannot accept: %s (%u such lines held back)", strerror(err),
			held_back);
	sl_poller_change(poller_of(l), &l->source, 0);
	sl_timer_set(poller_of(l), &l->again, sl_clock_ns() + ACCEPT_AGAIN_NS);
}

static void on_connections(struct sl_source *s, uint32_t events)
{
	struct sl_link_listener *l = SL_CONTAINER_OF(s, struct sl_link_listener, source);

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_CALL; i++) {
		struct handshake *to_drop = choose_to_drop(l);
		int fd, ret;

		if (!to_drop && l->n_pending == SL_HANDSHAKES_MAX)
			return;
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			/* Other errors concern that one stream. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				pause_accepting(l, errno);
			return;
		}
		if (is_other_user(l, fd)) {
			reject_user(l, fd);
			continue;
		}
		if (to_drop)
			drop_for_room(to_drop);
		ret = begin(l, fd);
		if (ret) {
			close(fd);
			pause_accepting(l, -ret);
			return;
		}
	}
}

static void on_again(struct sl_timer *t)
{
	resume(SL_CONTAINER_OF(t, struct sl_link_listener, again));
}

static void on_room(struct sl_timer *t)
{
	resume(SL_CONTAINER_OF(t, struct sl_link_listener, room));
}

int sl_link_listener_create(struct sl_transport *t, int fd, sl_link_listener_fn *fn,
			    struct sl_link_listener **out)
{
	struct sl_link_listener *l = calloc(1, sizeof(*l));
	int ret;

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->t = t;
	l->fn = fn;
	l->fd = fd;
	l->source = (struct sl_source){ .fn = on_connections, .fd = -1 };
	l->limit = (struct sl_log_limit)SL_LOG_LIMIT_INIT(5, 1000);
	sl_list_init(&l->pending);
	sl_timer_init(&l->again, on_again);
	sl_timer_init(&l->room, on_room);
	ret = sl_poller_add(t->env->poller, &l->source, fd, EPOLLIN);
	if (ret) {
		close(fd);
		free(l);
		return ret;
	}
	*out = l;
	return 0;
}

void sl_link_listener_forget(struct sl_link_listener *l)
{
	struct sl_list *e;

	if (!l)
		return;
	while ((e = sl_list_pop(&l->pending)))
		free(SL_CONTAINER_OF(e, struct handshake, link));
	free(l);
}

void sl_link_listener_destroy(struct sl_link_listener *l)
{
	struct sl_list *e, *tmp;

	if (!l)
		return;
	sl_list_for_each_safe (e, tmp, &l->pending) {
		struct handshake *h = SL_CONTAINER_OF(e, struct handshake, link);
		int fd = h->fd;

		forget(h);
		close(fd);
	}
	sl_poller_remove(poller_of(l), &l->source);
	sl_timer_cancel(poller_of(l), &l->again);
	sl_timer_cancel(poller_of(l), &l->room);
	close(l->fd);
	free(l);
}
