/* SPDX-License-Identifier: Apache-2.0 */
/* watch URL SCOPE PEER TRANSPORT: an agent with an idle link to a peer, which prints a line for the
 * peer's end, with the time in milliseconds, and for the link as it is, each half second. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <slime/agent.h>

#define TIMEOUT_MS 20000

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void on_end(void *arg, struct slime_agent *agent, const struct slime_peer_end *end)
{
	(void)arg;
	(void)agent;
	printf("%lld %s %s after at most %u ms: %s\n", now_ms(), end->peer,
	       slime_peer_end_name(end->reason), end->silent_ms, end->text);
	fflush(stdout);
}

static void print_link(struct slime_agent *agent)
{
	struct slime_agent_link_info info;

	if (slime_agent_links(agent, &info, 1) == 1)
		printf("%lld %s link %s %u\n", now_ms(), info.peer,
		       slime_link_state_name(info.state), info.n_connects);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	struct slime_agent_link link = { 0 };
	struct slime_agent_watch *watch;
	struct slime_endpoint *ep;
	struct slime_agent *agent;
	int ret;

	if (argc != 5)
		return 2;
	attr.name = "watcher";
	attr.urls = (const char *const *)&argv[1];
	attr.n_urls = 1;
	attr.scope = argv[2];
	link.to = argv[3];
	link.transports[0] = strcmp(argv[4], "tcp") ? SLIME_TRANSPORT_SHM : SLIME_TRANSPORT_TCP;
	ret = slime_agent_create(&attr, &agent);
	if (!ret)
		ret = slime_agent_start(agent);
	if (!ret)
		ret = slime_agent_link_add(agent, &link);
	if (!ret)
		ret = slime_agent_watch_create(agent, on_end, NULL, &watch);
	if (!ret)
		ret = slime_agent_endpoint_get(agent, link.to, NULL, TIMEOUT_MS, &ep);
	if (ret) {
		fprintf(stderr, "%s\n", strerror(-ret));
		return 1;
	}
	slime_agent_endpoint_put(agent, ep);
	for (;;) {
		print_link(agent);
		poll(NULL, 0, 500);
	}
}
