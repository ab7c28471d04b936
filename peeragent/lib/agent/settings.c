/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/agent/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"
#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/plan/topology.h"

#define ADDRESS_MAX 253

static int refuse(const char *what)
{
	sl_error("agent", "attr: %s", what);
	return -EINVAL;
}

static int check_urls(const struct slime_agent_attr *attr)
{
	if (!attr->n_urls || attr->n_urls > SETTINGS_MAX_URLS)
		return refuse("urls: expected 1 to 16");
	for (size_t i = 0; i < attr->n_urls; i++) {
		if (!attr->urls[i] || !ctrl_is_url(attr->urls[i]))
			return refuse("urls: expected each as http://127.0.0.1:3000");
	}
	return 0;
}

/* It goes into a header of HTTP. */
static bool is_token(const char *text)
{
	for (; *text; text++) {
		if (*text <= 0x20 || *text >= 0x7f)
			return false;
	}
	return true;
}

static int check(const struct slime_agent_attr *attr)
{
	struct slime_topology_fault fault;

	if (!topology_is_name(attr->name, SLIME_AGENT_NAME_MAX))
		return refuse("name: expected 1 to 253 of letters, digits and ._:@-, not . or ..");
	if (attr->scope && !topology_is_scope(attr->scope))
		return refuse("scope: expected a name without ':' that is not reserved");
	if (check_urls(attr))
		return -EINVAL;
	if (attr->token && !is_token(attr->token))
		return refuse("token: expected visible ASCII characters");
	if (!topology_transports_fine(attr->transports))
		return refuse("transports: expected each at most once");
	if (!attr->connect_timeout_ms || !attr->retry_min_ms ||
	    attr->retry_max_ms < attr->retry_min_ms)
		return refuse(
			"connect_timeout_ms, retry_min_ms, retry_max_ms: expected above 0, in "
			"order");
	if (slime_topology_check(&attr->topology, attr->name, &fault)) {
		sl_error("agent", "attr: topology.%s: %s", fault.path, fault.expected);
		return -EINVAL;
	}
	return 0;
}

/* Of the host's name, too, which is any bytes. */
static int check_address(const char *address)
{
	size_t len = strlen(address);

	return len <= ADDRESS_MAX && sl_utf8_valid(address, len)
		       ? 0
		       : refuse("address, or the host's name: expected at most 253 bytes of UTF-8");
}

/* A copy that lives as long as the settings; NULL without memory, or of NULL. */
static const char *keep(struct settings *s, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (copy)
		s->texts[s->n_texts++] = copy;
	return copy;
}

static int copy_texts(struct settings *s, const struct slime_agent_attr *from)
{
	char host[256] = "";
	int ret;

	gethostname(host, sizeof(host) - 1);
	ret = check_address(from->address ? from->address : host);
	if (ret)
		return ret;
	s->attr.name = keep(s, from->name);
	s->attr.scope = keep(s, from->scope ? from->scope : "default");
	s->attr.address = keep(s, from->address ? from->address : host);
	s->attr.token = keep(s, from->token);
	s->attr.state_dir = keep(s, from->state_dir);
	for (size_t i = 0; i < from->n_urls; i++)
		s->urls[i] = keep(s, from->urls[i]);
	s->attr.urls = s->urls;
	return s->n_texts == 3 + !!from->token + !!from->state_dir + from->n_urls ? 0 : -ENOMEM;
}

static void default_transports(struct slime_agent_attr *attr)
{
	if (attr->transports[0] != SLIME_TRANSPORT_NONE)
		return;
	attr->transports[0] = SLIME_TRANSPORT_SHM;
	attr->transports[1] = SLIME_TRANSPORT_RDMA;
	attr->transports[2] = SLIME_TRANSPORT_TCP;
}

int settings_init(struct settings *s, const struct slime_agent_attr *from)
{
	int ret = check(from);

	if (ret)
		return ret;
	*s = (struct settings){ .attr = *from };
	default_transports(&s->attr);
	ret = topology_copy(&from->topology, &s->topology);
	if (!ret)
		ret = copy_texts(s, from);
	if (ret) {
		settings_fini(s);
		return ret;
	}
	s->attr.topology = *s->topology;
	return 0;
}

void settings_fini(struct settings *s)
{
	for (size_t i = 0; i < s->n_texts; i++)
		free(s->texts[i]);
	free(s->topology);
}
