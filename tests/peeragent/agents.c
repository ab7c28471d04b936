/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/peeragent/agents.h"

static const char *const urls[] = { "http://fake" };
const struct slime_agent_link to_a = { .to = "a" };
const struct slime_agent_link to_b = { .to = "b" };
const struct slime_agent_region kv = { .name = "kv", .size = 8192, .numa_node = -1, .access = 3 };

struct slime_agent_attr attr_of(const char *name)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;

	attr.name = name;
	attr.urls = urls;
	attr.n_urls = 1;
	attr.retry_min_ms = 10;
	attr.retry_max_ms = 100;
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	attr.data.tcp_bind = "";
	return attr;
}

struct slime_agent *start_with(const struct slime_agent_attr *attr)
{
	struct slime_agent *agent;

	assert_ok(slime_agent_create(attr, &agent));
	assert_ok(slime_agent_start(agent));
	return agent;
}

struct slime_agent *start(const char *name, const struct slime_agent_link *links, size_t n)
{
	struct slime_agent_attr attr = attr_of(name);
	struct slime_agent *agent;

	attr.topology.links = links;
	attr.topology.n_links = n;
	agent = start_with(&attr);
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	return agent;
}

void end(struct slime_agent *agent)
{
	assert_ok(slime_agent_destroy(agent));
}

struct slime_endpoint *get(struct slime_agent *agent, const char *peer, const char *profile)
{
	struct slime_endpoint *ep = NULL;

	assert_ok(slime_agent_endpoint_get(agent, peer, profile, LONG_MS, &ep));
	return ep;
}

void assert_connected(struct slime_agent *a, struct slime_agent *b, const char *profile)
{
	const char *shown = profile ? profile : "default";

	slime_agent_endpoint_put(a, get(a, slime_agent_name(b), profile));
	slime_agent_endpoint_put(b, get(b, slime_agent_name(a), profile));
	assert_true(fakectrl_wait_link(slime_agent_name(a), slime_agent_name(b), shown,
				       SLIME_LINK_CONNECTED, LONG_MS));
	assert_true(fakectrl_wait_link(slime_agent_name(b), slime_agent_name(a), shown,
				       SLIME_LINK_CONNECTED, LONG_MS));
}

uint32_t n_connects(struct slime_agent *agent)
{
	struct slime_agent_link_info info[4];

	assert_int_equal(slime_agent_links(agent, info, 4), 1);
	return info[0].n_connects;
}

int reset(void **state)
{
	(void)state;
	fakectrl_reset();
	return 0;
}
