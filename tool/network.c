/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/network.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "nanoctrl/client/url.h"
#include "tool/guest.h"

#define ANSWER_MAX 1024

/* ---- one question to a server ---- */

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = sl_clock_ns();
	int left_ms = now < deadline_ns ? (int)((deadline_ns - now) / SL_NS_PER_MS) : 0;
	int ret = poll(&p, 1, left_ms);

	return ret < 0 ? -errno : ret ? 0 : -ETIMEDOUT;
}

static int connect_to(const struct addrinfo *to, uint64_t deadline_ns)
{
	int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = 0, ret;
	socklen_t len = sizeof(err);

	if (fd < 0)
		return -errno;
	ret = connect(fd, to->ai_addr, to->ai_addrlen) ? -errno : 0;
	if (ret == -EINPROGRESS)
		ret = wait_for(fd, POLLOUT, deadline_ns);
	if (!ret && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		ret = -errno;
	if (!ret && err)
		ret = -err;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

/* Send the question; the beginning of the answer as a string. */
static int converse(int fd, const char *question, uint64_t deadline_ns, char answer[ANSWER_MAX])
{
	ssize_t n = send(fd, question, strlen(question), MSG_NOSIGNAL);
	int ret;

	if (n != (ssize_t)strlen(question))
		return n < 0 ? -errno : -EIO;
	ret = wait_for(fd, POLLIN, deadline_ns);
	if (ret)
		return ret;
	n = recv(fd, answer, ANSWER_MAX - 1, 0);
	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	answer[n] = '\0';
	return 0;
}

static const char *in_words(int ret)
{
	switch (ret) {
	case -ECONNREFUSED:
		return "nothing listens there, or a firewall refuses";
	case -ETIMEDOUT:
		return "nothing answers there: its host is down, or a firewall drops the packets";
	default:
		return strerror(-ret);
	}
}

/* 0, or an errno with the reason in *why. */
static int ask(const char *host, const char *port, const char *question, int64_t timeout_ms,
	       char answer[ANSWER_MAX], const char **why)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	uint64_t deadline_ns = sl_deadline_ns(timeout_ms);
	struct addrinfo *all;
	int ret = getaddrinfo(host, port, &hints, &all);
	int fd = -1;

	if (ret) {
		*why = gai_strerror(ret);
		return -ENOENT;
	}
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
		fd = connect_to(a, deadline_ns);
	freeaddrinfo(all);
	ret = fd < 0 ? fd : converse(fd, question, deadline_ns, answer);
	if (fd >= 0)
		close(fd);
	*why = in_words(ret);
	return ret;
}

/* ---- Redis, nanoctrl ---- */

static void examine_redis(const struct options *o, struct report *report)
{
	char host[256], answer[ANSWER_MAX];
	const char *colon = strrchr(o->redis, ':'), *why;

	snprintf(host, sizeof(host), "%.*s",
		 (int)(colon ? (size_t)(colon - o->redis) : strlen(o->redis)), o->redis);
	if (ask(host, colon ? colon + 1 : "6379", "PING\r\n", o->timeout_ms, answer, &why))
		report_add(report, FINDING_BAD, "Redis",
			   "%s: %s. Start it, or mend server.redis_url of nanoctrl", o->redis, why);
	else if (!strncmp(answer, "+PONG", 5) || !strncmp(answer, "-NOAUTH", 7))
		report_add(report, FINDING_OK, "Redis", "%s answers", o->redis);
	else
		report_add(report, FINDING_BAD, "Redis", "%s: it is no Redis, or refuses: %.*s",
			   o->redis, (int)strcspn(answer, "\r\n"), answer);
}

static bool examine_nanoctrl(const struct options *o, const char *text, struct report *report)
{
	char question[512], port[8], answer[ANSWER_MAX];
	struct nc_url url;
	const char *why;

	if (nc_url_parse(text, &url))
		return false;
	snprintf(port, sizeof(port), "%u", url.port);
	snprintf(question, sizeof(question),
		 "GET /readyz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", url.authority);
	if (ask(url.host, port, question, o->timeout_ms, answer, &why)) {
		report_add(report, FINDING_BAD, "nanoctrl",
			   "%s: %s. Start nanoctrl, or mend control.urls", text, why);
		return false;
	}
	if (!strncmp(answer, "HTTP/1.1 200", 12)) {
		report_add(report, FINDING_OK, "nanoctrl", "%s is ready", text);
		return true;
	}
	report_add(report, FINDING_BAD, "nanoctrl",
		   "%s is not ready: %.*s. nanoctrl status says what it waits for, mostly Redis",
		   text, (int)strcspn(answer, "\r\n"), answer);
	return false;
}

/* ---- a peer ---- */

static void examine_transport(struct slime_agent *agent, const struct options *o,
			      enum slime_transport transport, struct report *report)
{
	const char *name = slime_transport_name(transport);
	struct slime_endpoint *ep = NULL;
	struct slime_endpoint_info info;
	char what[64], profile[32], why[GUEST_WHY_MAX];

	snprintf(what, sizeof(what), "peer, %s", name);
	snprintf(profile, sizeof(profile), "slime-doctor-%s", name);
	if (guest_link(agent, o, o->peer, profile, transport, &ep, why)) {
		report_add(report, FINDING_NOTE, what, "%s: %s", o->peer, why);
		return;
	}
	slime_endpoint_info(ep, &info);
	report_add(report, FINDING_OK, what, "%s: connected to %s", o->peer, info.address);
	slime_agent_endpoint_put(agent, ep);
}

static void examine_peer(const struct options *o, struct report *report)
{
	static const enum slime_transport all[] = { SLIME_TRANSPORT_SHM, SLIME_TRANSPORT_RDMA,
						    SLIME_TRANSPORT_TCP };
	unsigned n_before = report->n_of[FINDING_OK];
	struct slime_agent *agent;
	char why[GUEST_WHY_MAX];

	if (guest_open(o, &agent, why)) {
		report_add(report, FINDING_BAD, "peer", "%s: %s", o->peer, why);
		return;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		examine_transport(agent, o, all[i], report);
	if (report->n_of[FINDING_OK] == n_before)
		report_add(report, FINDING_BAD, "peer",
			   "%s cannot be reached by any transport: see above", o->peer);
	slime_agent_destroy(agent);
}

void network_examine(const struct options *o, struct report *report)
{
	bool any = false;

	if (o->redis)
		examine_redis(o, report);
	for (size_t i = 0; i < o->n_urls; i++)
		any |= examine_nanoctrl(o, o->urls[i], report);
	if (o->peer && !o->n_urls)
		report_add(report, FINDING_BAD, "peer",
			   "%s: --ctrl URL says where it is registered", o->peer);
	else if (o->peer && any)
		examine_peer(o, report);
}
