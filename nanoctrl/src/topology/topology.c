/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/topology.h"

#include <string.h>

bool wish_is_selector(const char *who)
{
	return strchr(who, '=') != NULL;
}

static const char *label_of(const struct topology_agent *agent, const char *key, size_t len)
{
	if (len == 4 && !memcmp(key, "name", 4))
		return agent->name;
	for (size_t i = 0; i < agent->n_labels; i++)
		if (!strncmp(agent->labels[i].key, key, len) && !agent->labels[i].key[len])
			return agent->labels[i].value;
	return NULL;
}

bool wish_selects(const char *who, const struct topology_agent *agent)
{
	if (!wish_is_selector(who))
		return !strcmp(who, agent->name);
	while (*who) {
		size_t len = strcspn(who, ","), key = strcspn(who, "=");
		const char *value = key < len ? label_of(agent, who, key) : NULL;

		if (!value || strlen(value) != len - key - 1 ||
		    memcmp(value, who + key + 1, len - key - 1) != 0)
			return false;
		who += len + (who[len] == ',');
	}
	return true;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

bool wish_params_equal(const struct topology_params *a, const struct topology_params *b,
		       bool turned)
{
	const char *devices = turned ? b->peer_devices : b->devices;
	const char *peer_devices = turned ? b->devices : b->peer_devices;

	for (int i = 0; i < TOPOLOGY_N_TRANSPORTS; i++) {
		if (!same_text(a->transports[i], b->transports[i]))
			return false;
		if (!a->transports[i])
			break;
	}
	return !strcmp(a->profile, b->profile) && a->qps == b->qps && a->rails == b->rails &&
	       a->min_bandwidth == b->min_bandwidth && same_text(a->devices, devices) &&
	       same_text(a->peer_devices, peer_devices);
}
