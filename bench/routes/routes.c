/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/routes/routes.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "nanoctrl/client/url.h"

#define ANSWER_MS 10000
#define STOP	  UINT32_MAX /* of an event, where others have a caller's number */

const char *const route_names[] = { "register", "heartbeat", "lookup", "list",	"query",
				    "topology", "put-mr",    "get-mr", "agent", NULL };

static const char start_body[] =
	"{\"alias\":\"bench-%1$zu\",\"address\":\"127.0.0.1\",\"device\":\"mlx5_0\","
	"\"ib_port\":1,\"link_type\":\"RoCE\",\"scope\":\"%2$s\"}";
static const char cleanup_body[] = "{\"agent_name\":\"bench-%1$zu\",\"scope\":\"%2$s\"}";

/* What each is called, and what every right answer has; and what is called in turn with it. %1$zu
 * is the entity, %2$s the scope. */
static const struct {
	const char *path, *body, *has;
	const char *then_path, *then_body;
} routes_of[ROUTE_N] = {
	[ROUTE_REGISTER] = { "/register",
			     "{\"entity_type\":\"service\",\"entity_id\":\"bench-%1$zu\",\"kind\":"
			     "\"bench\",\"endpoint\":{\"host\":\"127.0.0.1\",\"port\":%1$zu},"
			     "\"metadata\":{\"role\":\"prefill\"},\"scope\":\"%2$s\"}",
			     "\"status\":\"ok\"" },
	[ROUTE_HEARTBEAT] = { "/heartbeat",
			      "{\"entity_type\":\"service\",\"entity_id\":\"bench-%1$zu\","
			      "\"scope\":\"%2$s\"}",
			      "\"status\":\"ok\"" },
	[ROUTE_LOOKUP] = { "/get_entity_info",
			   "{\"entity_type\":\"service\",\"entity_id\":\"bench-%1$zu\","
			   "\"scope\":\"%2$s\"}",
			   "\"status\":\"ok\"" },
	[ROUTE_LIST] = { "/list_entities", "{\"scope\":\"%2$s\"}", "\"status\":\"ok\"" },
	[ROUTE_QUERY] = { "/query", "{\"scope\":\"%2$s\"}", "\"bench-0\"" },
	[ROUTE_TOPOLOGY] = { "/v1/desired_topology/bench-%1$zu",
			     "{\"target_peers\":[\"bench-0\",\"bench-1\"],\"scope\":\"%2$s\"}",
			     "\"status\":\"ok\"" },
	[ROUTE_PUT_MR] = { "/register_mr",
			   "{\"agent_name\":\"bench-%1$zu\",\"mr_name\":\"kv\",\"addr\":4096,"
			   "\"length\":4096,\"rkey\":1,\"scope\":\"%2$s\"}",
			   "\"status\":\"ok\"" },
	[ROUTE_GET_MR] = { "/get_mr_info",
			   "{\"src\":\"bench\",\"dst\":\"bench-%1$zu\",\"mr_name\":\"kv\","
			   "\"scope\":\"%2$s\"}",
			   "\"rkey\":1" },
	[ROUTE_AGENT] = { "/start_peer_agent", start_body, "\"ok\"", "/cleanup", cleanup_body },
};

static const char unregister_body[] =
	"{\"entity_type\":\"service\",\"entity_id\":\"bench-%1$zu\",\"scope\":\"%2$s\"}";

static int __attribute__((format(printf, 3, 4)))
failed(struct routes *r, int ret, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, args);
	va_end(args);
	sl_utf8_make_printable(r->why); /* the server may have said it */
	return ret;
}

static int bad_answer(struct routes *r, const char *path, int ret, const struct caller *c)
{
	if (ret == -EPROTO || !ret)
		return failed(r, -EPROTO, "%s%s: it answers %.200s", r->attr.url, path, c->answer);
	return failed(r, ret, "%s%s: %s", r->attr.url, path, strerror(-ret));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* of the table above */
static int format(struct routes *r, const char *path, const char *body, size_t i, char out[512])
{
	char text[400], target[64];
	int len = snprintf(text, sizeof(text), body, i, r->attr.scope);
	int n = -1;

	snprintf(target, sizeof(target), path, i);
	if (len >= 0 && (size_t)len < sizeof(text))
		n = snprintf(
			out, 512,
			"POST %s HTTP/1.1\r\nHost: %.100s\r\nContent-Type: application/json\r\n"
			"Content-Length: %d\r\n\r\n%s",
			target, r->host, len, text);
	return n >= 0 && n < 512 ? 0 : failed(r, -EINVAL, "%s: the scope is too long", r->attr.url);
}
#pragma GCC diagnostic pop

/* ---- one call, waited for ---- */

static int call(struct routes *r, const char *path, const char *body, const char *has, size_t i)
{
	struct caller *c = &r->callers[0];
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	char request[512];
	const char *answer;
	int status = 0;
	int ret = format(r, path, body, i, request);

	if (ret)
		return ret;
	ret = caller_send(c, request, strlen(request));
	while (!ret && (ret = poll(&p, 1, ANSWER_MS)) > 0) {
		ret = caller_take(c, &answer, &status);
		if (!ret)
			return strstr(answer, has) ? 0 : bad_answer(r, path, 0, c);
		ret = ret == -EAGAIN ? 0 : ret;
	}
	return bad_answer(r, path, ret ? ret : -ETIMEDOUT, c);
}

static int call_route(struct routes *r, enum route route, size_t i)
{
	return call(r, routes_of[route].path, routes_of[route].body, routes_of[route].has, i);
}

/* ---- what the calls are about ---- */

static bool is_of_agents(const struct routes *r)
{
	return r->attr.route >= ROUTE_QUERY;
}

static int make_one(struct routes *r, size_t i)
{
	if (!is_of_agents(r))
		return call_route(r, ROUTE_REGISTER, i);
	if (r->attr.route == ROUTE_QUERY)
		return call_route(r, ROUTE_AGENT, i);
	return r->attr.route == ROUTE_GET_MR ? call_route(r, ROUTE_PUT_MR, i) : 0;
}

static int make(struct routes *r)
{
	int ret = 0;

	while (!ret && r->n_made < r->attr.n_entities) {
		ret = make_one(r, r->n_made);
		r->n_made += !ret;
	}
	return ret;
}

static void take_back(struct routes *r)
{
	int ret = 0;

	while (!ret && r->n_made) {
		r->n_made--;
		ret = is_of_agents(r)
			      ? call(r, "/cleanup", cleanup_body, "\"ok\"", r->n_made)
			      : call(r, "/unregister", unregister_body, "\"ok\"", r->n_made);
	}
}

/* A list has all of them, on either server. */
static int check(struct routes *r)
{
	size_t n = 0;
	int ret = call_route(r, r->attr.route, 0);

	if (!ret && routes_of[r->attr.route].then_path)
		ret = call(r, routes_of[r->attr.route].then_path,
			   routes_of[r->attr.route].then_body, routes_of[r->attr.route].has, 0);
	if (ret || (r->attr.route != ROUTE_LIST && r->attr.route != ROUTE_QUERY))
		return ret;
	for (const char *at = r->callers[0].answer;
	     (at = strstr(at, r->attr.route == ROUTE_LIST ? "\"entity_id\":" : "\"name\":")); at++)
		n++;
	if (n == r->attr.n_entities)
		return 0;
	return failed(r, -EPROTO, "%s%s: %zu of %zu are there", r->attr.url,
		      routes_of[r->attr.route].path, n, r->attr.n_entities);
}

/* ---- the loop ---- */

static int start(struct routes *r, size_t i)
{
	const char *request = r->requests[i][r->turn[i]];
	int ret = caller_send(&r->callers[i], request, strlen(request));

	r->turn[i] ^= routes_of[r->attr.route].then_path != NULL;
	return ret ? bad_answer(r, routes_of[r->attr.route].path, ret, &r->callers[i]) : 0;
}

/* 1 when its answer is whole, since now_ns. */
static int take(struct routes *r, size_t i, uint64_t *now_ns, routes_fn *fn, void *arg)
{
	struct caller *c = &r->callers[i];
	const char *answer;
	int status = 0;
	int ret = caller_take(c, &answer, &status);

	if (ret == -EAGAIN)
		return 0;
	if (ret || !strstr(answer, routes_of[r->attr.route].has))
		return bad_answer(r, routes_of[r->attr.route].path, ret, c);
	*now_ns = sl_clock_ns();
	fn(arg, *now_ns - c->begin_ns);
	return 1;
}

int routes_run(struct routes *r, uint64_t until_ns, routes_fn *fn, void *arg)
{
	struct epoll_event ready[64];
	size_t n_out = 0;
	int ret = 0;

	for (; n_out < r->attr.n_callers && !ret; n_out++)
		ret = start(r, n_out);
	while (n_out && ret >= 0) {
		int n = epoll_wait(r->epoll, ready, 64, ANSWER_MS);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return failed(r, n ? -errno : -ETIMEDOUT, "%s: it does not answer",
				      r->attr.url);
		for (int i = 0; i < n && ret >= 0; i++) {
			uint64_t now_ns = 0;

			if (ready[i].data.u32 == STOP) {
				until_ns = 0;
				continue;
			}
			ret = take(r, ready[i].data.u32, &now_ns, fn, arg);
			if (ret <= 0)
				continue;
			if (now_ns < until_ns)
				ret = start(r, ready[i].data.u32);
			else
				n_out--;
		}
	}
	return ret < 0 ? ret : 0;
}

/* ---- life ---- */

static int format_all(struct routes *r, size_t i)
{
	enum route route = r->attr.route;
	int ret = format(r, routes_of[route].path, routes_of[route].body, i, r->requests[i][0]);

	if (!ret && routes_of[route].then_path)
		ret = format(r, routes_of[route].then_path, routes_of[route].then_body, i,
			     r->requests[i][1]);
	return ret;
}

static int connect_all(struct routes *r, const struct addrinfo *to)
{
	/* Told once of each piece: it is read whole, so there is nothing to tell of again. */
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ret = 0;

	for (; r->n_open < r->attr.n_callers && !ret; r->n_open += !ret) {
		e.data.u32 = (uint32_t)r->n_open;
		ret = caller_open(&r->callers[r->n_open], to->ai_addr, to->ai_addrlen);
		if (ret)
			return failed(r, ret, "%s: %s", r->attr.url, strerror(-ret));
		if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->callers[r->n_open].fd, &e))
			ret = failed(r, -errno, "%s: %s", r->attr.url, strerror(errno));
		if (!ret)
			ret = format_all(r, r->n_open);
	}
	return ret;
}

static int reach(struct routes *r)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *to;
	struct nc_url url;
	char port[8];
	int ret = nc_url_parse(r->attr.url, &url);

	if (ret)
		return failed(r, ret, "%s: expected a URL as http://127.0.0.1:3000", r->attr.url);
	snprintf(r->host, sizeof(r->host), "%s", url.authority);
	snprintf(port, sizeof(port), "%u", url.port);
	ret = getaddrinfo(url.host, port, &hints, &to);
	if (ret)
		return failed(r, -ENOENT, "%s: %s", r->attr.url, gai_strerror(ret));
	ret = connect_all(r, to);
	freeaddrinfo(to);
	return ret;
}

/* Told once of it, too. */
static int watch_stop(struct routes *r)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.u32 = STOP };

	if (!r->attr.stop_fd || !epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->attr.stop_fd, &e))
		return 0;
	return failed(r, -errno, "%s: %s", r->attr.url, strerror(errno));
}

int routes_init(struct routes *r, const struct routes_attr *attr)
{
	int ret;

	*r = (struct routes){ .attr = *attr, .epoll = epoll_create1(EPOLL_CLOEXEC) };
	if (r->attr.n_entities < attr->n_callers)
		r->attr.n_entities = attr->n_callers;
	r->callers = calloc(attr->n_callers, sizeof(*r->callers));
	r->requests = calloc(attr->n_callers, sizeof(*r->requests));
	r->turn = calloc(attr->n_callers, 1);
	if (r->epoll < 0 || !r->callers || !r->requests || !r->turn)
		return failed(r, -ENOMEM, "no memory");
	ret = watch_stop(r);
	if (!ret)
		ret = reach(r);
	if (!ret)
		ret = make(r);
	return ret ? ret : check(r);
}

void routes_fini(struct routes *r)
{
	if (r->n_open)
		take_back(r);
	for (size_t i = 0; i < r->n_open; i++)
		caller_close(&r->callers[i]);
	free(r->callers);
	free(r->requests);
	free(r->turn);
	if (r->epoll >= 0)
		close(r->epoll);
}
