/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a topology: its JSON, checked and read into the plain struct. */
#include "model/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <base/bandwidth.h>
#include <base/port_name.h>
#include <base/selector.h>
#include "model/json_path.h"
#include "store/key.h"

#define WISHES_MAX   1024
#define EXPECTED_MAX 1024
#define QPS_MAX	     8
#define RAILS_MAX    8
#define TEXT_MAX     4096
#define PORTS	     "1 to 8 RDMA ports such as mlx5_0 or mlx5_0:2, each once"
#define AGENT_NAME   "the name of an agent: 1 to 253 of [A-Za-z0-9._:@-]"
#define SELECTOR     "the name of an agent, or a selector: LABEL=VALUE,... without blanks or quotes"

/* A slip in a member's name is found, not passed over. */
static int check_members(const struct json_path *p, const char *const *known)
{
	const char *key;
	json_t *value;

	json_object_foreach(p->in, key, value)
	{
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			return json_path_refuse(p, "unknown_field", key, "is unknown");
	}
	return 0;
}

static bool is_who(const char *text)
{
	return wish_is_selector(text) ? model_selector_valid(text) : key_name_valid(text);
}

static int get_who(const struct json_path *p, const char *name, enum json_path_need need,
		   const char **out)
{
	int ret = json_path_text(p, name, need, TEXT_MAX, out);

	if (!ret && *out && !is_who(*out))
		ret = json_path_bad_value(p, name, SELECTOR);
	return ret;
}

static int get_name(const struct json_path *p, const char *name, enum json_path_need need,
		    const char **out)
{
	int ret = json_path_text(p, name, need, STORE_NAME_MAX, out);

	if (!ret && *out && !key_name_valid(*out))
		ret = json_path_bad_value(p, name, "1 to 253 of [A-Za-z0-9._:@-]");
	return ret;
}

/* ---- agents that are expected ---- */

bool model_size(const char *text, uint64_t *out)
{
	static const struct {
		const char *unit;
		unsigned shift;
	} units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 }, { "TiB", 40 } };
	size_t n = strspn(text, "0123456789");

	if (!n || n > 15)
		return false;
	*out = strtoull(text, NULL, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(text + n, units[i].unit)) {
			if (*out > UINT64_MAX >> units[i].shift)
				return false;
			*out <<= units[i].shift;
			return true;
		}
	return false;
}

static int read_labels(const struct json_path *p, struct expected *out)
{
	struct json_path in;
	const char *key;
	json_t *value;
	bool there;
	int ret = json_path_object(p, "labels", OPTIONAL, &in, &there);

	if (ret || !there)
		return ret;
	out->labels = calloc(json_object_size(in.in) + 1, sizeof(*out->labels));
	if (!out->labels)
		return json_path_no_memory(p);
	json_object_foreach(in.in, key, value)
	{
		if (!json_is_string(value))
			return json_path_bad_type(&in, key, "a string");
		out->labels[out->n_labels++] =
			(struct topology_label){ key, json_string_value(value) };
	}
	return 0;
}

/* They are compared by the commands that describe a topology: an expansion does not know regions.
 */
static int check_regions(const struct json_path *p)
{
	static const char *const known[] = { "name", "min_size", NULL };
	const char *name = NULL, *size = NULL;
	json_t *array, *item;
	struct json_path in;
	uint64_t bytes;
	size_t i;
	int ret = json_path_member(p, "regions", OPTIONAL, JSON_ARRAY, &array);

	if (ret || !array)
		return ret;
	json_array_foreach(array, i, item)
	{
		json_path_element(p, "regions", i, item, &in);
		ret = json_is_object(item) ? check_members(&in, known)
					   : json_path_bad_type(&in, "", "an object");
		if (!ret)
			ret = get_name(&in, "name", REQUIRED, &name);
		if (!ret)
			ret = json_path_text(&in, "min_size", OPTIONAL, 32, &size);
		if (!ret && size && !model_size(size, &bytes))
			ret = json_path_bad_value(&in, "min_size", "a size such as 64GiB");
		if (ret)
			return ret;
	}
	return 0;
}

static int read_expected(const struct json_path *p, struct expected *out)
{
	static const char *const known[] = { "select", "name", "count", "labels", "regions", NULL };
	const char *select = NULL, *name = NULL;
	int ret = check_members(p, known);

	out->count = 1;
	if (!ret)
		ret = get_who(p, "select", OPTIONAL, &select);
	if (!ret)
		ret = get_name(p, "name", OPTIONAL, &name);
	if (!ret && !select == !name)
		return json_path_refuse(p, "bad_value", "", "has not one of select and name");
	if (!ret && name && json_object_get(p->in, "count"))
		return json_path_refuse(p, "bad_value", "count", "is there beside a name");
	if (!ret)
		ret = json_path_number(p, "count", OPTIONAL, 1, &out->count);
	if (!ret)
		ret = read_labels(p, out);
	if (!ret)
		ret = check_regions(p);
	out->who = select ? select : name;
	return ret;
}

static int read_all_expected(const struct json_path *p, struct topology *t)
{
	json_t *array, *item;
	struct json_path in;
	size_t i;
	int ret = json_path_member(p, "agents", OPTIONAL, JSON_ARRAY, &array);

	if (ret || !array)
		return ret;
	if (json_array_size(array) > EXPECTED_MAX)
		return json_path_refuse(p, "bad_value", "agents", "are more than %d", EXPECTED_MAX);
	t->expected = calloc(json_array_size(array) + 1, sizeof(*t->expected));
	if (!t->expected)
		return json_path_no_memory(p);
	json_array_foreach(array, i, item)
	{
		json_path_element(p, "agents", i, item, &in);
		t->n_expected = i + 1;
		ret = json_is_object(item) ? read_expected(&in, &t->expected[i])
					   : json_path_bad_type(&in, "", "an object");
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- parameters ---- */

static int read_transports(const struct json_path *p, struct topology_params *out)
{
	static const char *const words[] = { "rdma", "shm", "tcp" };
	json_t *array, *item;
	size_t i, w;
	int ret = json_path_member(p, "transports", OPTIONAL, JSON_ARRAY, &array);

	if (ret || !array)
		return ret;
	if (json_array_size(array) > TOPOLOGY_N_TRANSPORTS)
		return json_path_refuse(p, "bad_value", "transports", "are more than there are");
	json_array_foreach(array, i, item)
	{
		for (w = 0; w < 3 && (!json_is_string(item) ||
				      strcmp(json_string_value(item), words[w]) != 0);
		     w++)
			;
		if (w == 3)
			return json_path_bad_value(p, "transports", "a list of rdma, shm, tcp");
		for (size_t j = 0; j < i; j++)
			if (!strcmp(out->transports[j], words[w]))
				return json_path_refuse(p, "bad_value", "transports",
							"have %s twice", words[w]);
		out->transports[i] = words[w];
	}
	return 0;
}

static int read_small(const struct json_path *p, const char *name, uint64_t most, uint32_t *out)
{
	uint64_t n = 0;
	int ret = json_path_number(p, name, OPTIONAL, 1, &n);

	if (!ret && n > most)
		return json_path_refuse(p, "bad_value", name, "is more than %u", (unsigned)most);
	*out = (uint32_t)n;
	return ret;
}

static int read_rails(const struct json_path *p, struct topology_params *out)
{
	const json_t *v = json_object_get(p->in, "rails");

	if (!json_is_string(v))
		return read_small(p, "rails", RAILS_MAX, &out->rails);
	if (strcmp(json_string_value(v), "all") != 0)
		return json_path_bad_value(p, "rails", "a number or the word all");
	out->rails = TOPOLOGY_RAILS_ALL;
	return 0;
}

/* A list of ports as one text, which *out owns; NULL without a list. */
static int read_ports(const struct json_path *p, const char *name, char **out)
{
	char text[RAILS_MAX * (SL_DEVICE_NAME_MAX + 4)] = "";
	struct sl_port_name ports[RAILS_MAX];
	json_t *array, *item;
	size_t i, n, len = 0;
	int ret = json_path_member(p, name, OPTIONAL, JSON_ARRAY, &array);

	if (ret || !array)
		return ret;
	json_array_foreach(array, i, item)
	{
		const char *one = json_is_string(item) ? json_string_value(item) : "";

		if (i == RAILS_MAX || sl_port_name_parse(one, strlen(one), &ports[i]))
			return json_path_bad_value(p, name, PORTS);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "", one);
	}
	if (sl_port_names_parse(text, ports, RAILS_MAX, &n))
		return json_path_bad_value(p, name, PORTS);
	*out = strdup(text);
	return *out ? 0 : json_path_no_memory(p);
}

/* Where each agent is at both ends of links, the ports that it names are its own. */
static int read_devices(const struct json_path *p, struct wish *w)
{
	bool both = w->kind == WISH_MESH || w->kind == WISH_RING;
	int ret = read_ports(p, "devices", &w->devices);

	if (!ret && !both)
		ret = read_ports(p, "peer_devices", &w->peer_devices);
	w->params.devices = w->devices;
	w->params.peer_devices = both ? w->devices : w->peer_devices;
	return ret;
}

static int read_params(const struct json_path *p, struct topology_params *out)
{
	const char *bandwidth = NULL;
	int ret;

	out->profile = "default";
	ret = get_name(p, "profile", OPTIONAL, &out->profile);
	if (!ret)
		ret = read_transports(p, out);
	if (!ret)
		ret = read_small(p, "qps", QPS_MAX, &out->qps);
	if (!ret)
		ret = read_rails(p, out);
	if (!ret)
		ret = json_path_text(p, "min_bandwidth", OPTIONAL, 32, &bandwidth);
	if (!ret && bandwidth && sl_bandwidth_parse(bandwidth, &out->min_bandwidth))
		ret = json_path_bad_value(p, "min_bandwidth", "a rate such as 100Gbps");
	return ret;
}

/* ---- wishes ---- */

static int read_mesh(const struct json_path *p, struct wish *w)
{
	return get_who(p, "mesh", REQUIRED, &w->from);
}

static int read_from_to(const struct json_path *p, struct wish *w)
{
	int ret = get_who(p, "from", REQUIRED, &w->from);

	return ret ? ret : get_who(p, "to", REQUIRED, &w->to);
}

/* "2s", "500ms" */
static bool read_settle(const char *text, uint64_t *out)
{
	size_t n = strspn(text, "0123456789");

	if (!n || n > 6)
		return false;
	*out = strtoull(text, NULL, 10);
	if (!strcmp(text + n, "s"))
		*out *= 1000;
	else if (strcmp(text + n, "ms") != 0)
		return false;
	return *out <= TOPOLOGY_SETTLE_MAX_MS;
}

static int read_ring(const struct json_path *p, struct wish *w)
{
	const char *settle = NULL;
	int ret = get_who(p, "ring", REQUIRED, &w->from);

	w->settle_ms = TOPOLOGY_SETTLE_MS;
	if (!ret)
		ret = get_name(p, "by", REQUIRED, &w->by);
	if (!ret)
		ret = json_path_text(p, "settle", OPTIONAL, 16, &settle);
	if (!ret && settle && !read_settle(settle, &w->settle_ms))
		ret = json_path_bad_value(p, "settle", "a time such as 2s or 500ms, 60s at most");
	return ret;
}

static int read_star(const struct json_path *p, struct wish *w)
{
	static const char *const known[] = { "center", "leaves", NULL };
	struct json_path star;
	bool there;
	int ret = json_path_object(p, "star", REQUIRED, &star, &there);

	if (!ret)
		ret = check_members(&star, known);
	if (!ret)
		ret = get_who(&star, "center", REQUIRED, &w->from);
	return ret ? ret : get_who(&star, "leaves", REQUIRED, &w->to);
}

static int read_pair(const struct json_path *p, const json_t *pair, struct wish_pair *out)
{
	out->a = json_string_value(json_array_get(pair, 0));
	out->b = json_string_value(json_array_get(pair, 1));
	if (json_array_size(pair) != 2 || !out->a || !out->b)
		return json_path_bad_type(p, "", "a list of two agents");
	if (!key_name_valid(out->a) || !key_name_valid(out->b))
		return json_path_bad_value(p, "",
					   "a list of two names of 1 to 253 of [A-Za-z0-9._:@-]");
	if (!strcmp(out->a, out->b))
		return json_path_refuse(p, "bad_value", "", "links %s with itself", out->a);
	return 0;
}

static int read_pairs(const struct json_path *p, struct wish *w)
{
	json_t *array, *item;
	struct json_path in;
	size_t i;
	int ret = json_path_member(p, "pairs", REQUIRED, JSON_ARRAY, &array);

	if (ret)
		return ret;
	if (json_array_size(array) > TOPOLOGY_LINKS_MAX)
		return json_path_refuse(p, "too_many_links", "pairs", "are more than %d links",
					TOPOLOGY_LINKS_MAX);
	w->pairs = calloc(json_array_size(array) + 1, sizeof(*w->pairs));
	if (!w->pairs)
		return json_path_no_memory(p);
	json_array_foreach(array, i, item)
	{
		json_path_element(p, "pairs", i, item, &in);
		ret = read_pair(&in, item, &w->pairs[i]);
		if (ret)
			return ret;
	}
	w->n_pairs = i;
	return 0;
}

static const struct {
	const char *member; /* that tells the kind */
	int (*read)(const struct json_path *p, struct wish *w);
	const char *known[10];
} kinds[] = {
#define PARAMS "profile", "transports", "qps", "rails", "min_bandwidth", "devices"
	[WISH_MESH] = { "mesh", read_mesh, { "mesh", PARAMS, NULL } },
	[WISH_FROM_TO] = { "from", read_from_to, { "from", "to", "peer_devices", PARAMS, NULL } },
	[WISH_PAIRS] = { "pairs", read_pairs, { "pairs", "peer_devices", PARAMS, NULL } },
	[WISH_RING] = { "ring", read_ring, { "ring", "by", "settle", PARAMS, NULL } },
	[WISH_STAR] = { "star", read_star, { "star", "peer_devices", PARAMS, NULL } },
#undef PARAMS
};
#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

static int read_wish(const struct json_path *p, struct wish *w)
{
	size_t n = 0;
	int ret;

	for (size_t i = 0; i < N_KINDS; i++)
		if (json_object_get(p->in, kinds[i].member)) {
			w->kind = (enum wish_kind)i;
			n++;
		}
	if (n != 1)
		return json_path_refuse(p, "bad_value", "",
					"has not exactly one of mesh, from, pairs, ring and star");
	ret = check_members(p, kinds[w->kind].known);
	if (!ret)
		ret = kinds[w->kind].read(p, w);
	if (!ret)
		ret = read_params(p, &w->params);
	return ret ? ret : read_devices(p, w);
}

static int read_wishes(const struct json_path *p, struct topology *t)
{
	json_t *array, *item;
	struct json_path in;
	size_t i, n_links = 0;
	int ret = json_path_member(p, "links", OPTIONAL, JSON_ARRAY, &array);

	if (ret || !array)
		return ret;
	if (json_array_size(array) > WISHES_MAX)
		return json_path_refuse(p, "bad_value", "links", "are more than %d", WISHES_MAX);
	t->wishes = calloc(json_array_size(array) + 1, sizeof(*t->wishes));
	if (!t->wishes)
		return json_path_no_memory(p);
	t->n_wishes = json_array_size(array);
	json_array_foreach(array, i, item)
	{
		json_path_element(p, "links", i, item, &in);
		ret = json_is_object(item) ? read_wish(&in, &t->wishes[i])
					   : json_path_bad_type(&in, "", "an object");
		if (ret)
			return ret;
		n_links += t->wishes[i].n_pairs;
		if (n_links > TOPOLOGY_LINKS_MAX)
			return json_path_refuse(p, "too_many_links", "links",
						"name more than %d links", TOPOLOGY_LINKS_MAX);
	}
	return 0;
}

/* ---- all of it ---- */

int model_topology_read(const struct json_path *p, struct model_topology *out)
{
	static const char *const known[] = { "version", "name", "scope", "agents", "links", NULL };
	uint64_t version = 0;
	int ret = check_members(p, known);

	*out = (struct model_topology){ .scope = NULL };
	if (!ret)
		ret = json_path_number(p, "version", REQUIRED, 1, &version);
	if (!ret && version != 1)
		ret = json_path_bad_value(p, "version", "1");
	if (!ret)
		ret = get_name(p, "name", REQUIRED, &out->topology.name);
	if (!ret)
		ret = json_path_text(p, "scope", OPTIONAL, STORE_NAME_MAX, &out->scope);
	if (!ret && out->scope && !key_scope_valid(out->scope))
		ret = json_path_bad_value(p, "scope", "a scope");
	if (!ret)
		ret = read_all_expected(p, &out->topology);
	if (!ret)
		ret = read_wishes(p, &out->topology);
	if (ret)
		model_topology_fini(out);
	return ret;
}

int model_parse_topology(const char *body, size_t len, struct model_topology *out,
			 struct model_error *err)
{
	struct json_path p;
	int ret = json_path_load(&p, body, len, err);

	*out = (struct model_topology){ .scope = NULL };
	if (!ret)
		ret = model_topology_read(&p, out);
	if (ret)
		json_decref(p.in);
	else
		out->root = p.in;
	return ret;
}

void model_topology_fini(struct model_topology *m)
{
	struct topology *t = &m->topology;

	for (size_t i = 0; t->wishes && i < t->n_wishes; i++) {
		free(t->wishes[i].pairs);
		free(t->wishes[i].devices);
		free(t->wishes[i].peer_devices);
	}
	free(t->wishes);
	for (size_t i = 0; t->expected && i < t->n_expected; i++)
		free(t->expected[i].labels);
	free(t->expected);
	json_decref(m->root);
	*m = (struct model_topology){ .scope = NULL };
}
