/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "cli/options/secret.h"

#define TOKEN_MAX 4096
#define NAME_MAX_ 128

static void name_it(char name[NAME_MAX_])
{
	char host[64];

	if (gethostname(host, sizeof(host)))
		strcpy(host, "host");
	host[sizeof(host) - 1] = '\0';
	snprintf(name, NAME_MAX_, "slime-%s-%d-%04x", host, (int)getpid(),
		 (unsigned)sl_random_up_to(0xffff));
}

static int create(const struct options *o, const char *token, struct slime_agent **out)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	char name[NAME_MAX_];

	name_it(name);
	attr.name = name;
	attr.scope = o->scope;
	attr.urls = o->urls;
	attr.n_urls = o->n_urls;
	attr.token = token;
	attr.snapshot_ms = 0;
	return slime_agent_create(&attr, out);
}

int guest_open(const struct options *o, struct slime_agent **out, char why[GUEST_WHY_MAX])
{
	char token[TOKEN_MAX + 1] = "";
	int ret = o->token_file ? cli_secret_read(o->token_file, token, sizeof(token)) : 0;

	if (ret) {
		snprintf(why, GUEST_WHY_MAX, "%.200s: %s", o->token_file, cli_secret_error(ret));
		return ret;
	}
	ret = create(o, o->token_file ? token : NULL, out);
	explicit_bzero(token, sizeof(token));
	if (ret) {
		snprintf(why, GUEST_WHY_MAX, "no agent of its own: %s", strerror(-ret));
		return ret;
	}
	ret = slime_agent_start(*out);
	if (!ret)
		ret = slime_agent_wait_ready(*out, o->timeout_ms);
	if (!ret)
		return 0;
	snprintf(why, GUEST_WHY_MAX, "not registered with nanoctrl at %.200s: %s", o->urls[0],
		 ret == -ETIMEDOUT ? "no answer in time" : strerror(-ret));
	slime_agent_destroy(*out);
	return ret;
}

/* Why there is no link, as the agent says. */
static void explain(struct slime_agent *agent, const char *peer, const char *profile, int err,
		    char why[GUEST_WHY_MAX])
{
	int n = slime_agent_links(agent, NULL, 0);
	struct slime_agent_link_info *links = n > 0 ? calloc((size_t)n, sizeof(*links)) : NULL;
	int n_filled = links ? slime_agent_links(agent, links, (size_t)n) : 0;

	snprintf(why, GUEST_WHY_MAX, "%s", strerror(-err));
	for (int i = 0; i < n_filled && i < n; i++)
		if (!strcmp(links[i].peer, peer) && !strcmp(links[i].profile, profile) &&
		    links[i].cause[0])
			snprintf(why, GUEST_WHY_MAX, "%.500s", links[i].cause);
	free(links);
}

int guest_link(struct slime_agent *agent, const struct options *o, const char *peer,
	       const char *profile, enum slime_transport transport, struct slime_endpoint **out,
	       char why[GUEST_WHY_MAX])
{
	struct slime_agent_link link = { .to = peer, .profile = profile };
	int ret = slime_agent_peer_find(agent, peer, o->timeout_ms);

	if (ret) {
		snprintf(why, GUEST_WHY_MAX, "%s", strerror(-ret));
		if (ret == -ENOENT)
			snprintf(why, GUEST_WHY_MAX,
				 "it is not registered in scope %.200s; --scope names another one",
				 slime_agent_scope(agent));
		return ret;
	}
	link.transports[0] = transport;
	ret = slime_agent_link_add(agent, &link);
	if (!ret)
		ret = slime_agent_endpoint_get(agent, peer, profile, o->timeout_ms, out);
	if (ret)
		explain(agent, peer, profile, ret, why);
	return ret;
}
