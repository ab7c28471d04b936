/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of a topology. */
#include "base/port_name.h"
#include "peeragent/lib/plan/topology.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/selector.h"
#include "base/utf8.h"

#define LABEL_KEY_MAX	63
#define LABEL_VALUE_MAX 253
#define SELECTOR_MAX	1024

#define EXPECTED_NAME  "expected a name: 1 to 253 of letters, digits and ._:@-, not . or .."
#define EXPECTED_PORTS "expected 1 to 8 RDMA ports such as mlx5_0 or mlx5_0:2, each once"
#define QPS_MAX	       8
#define EXPECTED_SELECTOR                                                                  \
	"expected labels that all match, as role=decode or role=decode,zone=a (a name is " \
	"name=AGENT)"

static int fault(struct slime_topology_fault *f, const char *expected, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

static int fault(struct slime_topology_fault *f, const char *expected, const char *path, ...)
{
	va_list args;

	va_start(args, path);
	vsnprintf(f->path, sizeof(f->path), path, args);
	va_end(args);
	snprintf(f->expected, sizeof(f->expected), "%s", expected);
	return -EINVAL;
}

static bool is_label_value(const char *text, size_t len)
{
	if (len > LABEL_VALUE_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f || c == ',')
			return false;
	}
	return sl_utf8_valid(text, len);
}

static bool is_selector_term(const char *term, size_t len)
{
	char key[LABEL_KEY_MAX + 1];
	size_t key_len = strcspn(term, "=");

	if (key_len >= len || key_len > LABEL_KEY_MAX)
		return false;
	memcpy(key, term, key_len);
	key[key_len] = '\0';
	return topology_is_name(key, LABEL_KEY_MAX) &&
	       is_label_value(term + key_len + 1, len - key_len - 1);
}

static bool is_selector(const char *text, bool several)
{
	if (strlen(text) > SELECTOR_MAX)
		return false;
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");

		if (!is_selector_term(at, len))
			return false;
		at += len;
		if (!*at)
			return true;
		if (!several)
			return false;
	}
}

static int check_labels(const struct slime_topology *t, struct slime_topology_fault *f)
{
	if (t->n_labels > TOPOLOGY_MAX_LABELS)
		return fault(f, "expected at most 64 labels", "labels");
	for (size_t i = 0; i < t->n_labels; i++) {
		const struct slime_label *l = &t->labels[i];

		if (!topology_is_name(l->key, LABEL_KEY_MAX) || !strcmp(l->key, "name"))
			return fault(f,
				     "expected a label key: 1 to 63 of letters, digits and ._:@-, "
				     "not . or .. or \"name\"",
				     "labels");
		if (!l->value || !is_label_value(l->value, strlen(l->value)))
			return fault(f,
				     "expected at most 253 bytes of UTF-8 without comma or "
				     "control characters",
				     "labels.%.50s", l->key);
		for (size_t k = 0; k < i; k++) {
			if (!strcmp(t->labels[k].key, l->key))
				return fault(f, "expected each label once", "labels.%.50s", l->key);
		}
	}
	return 0;
}

/* As the kernel writes it: domain, bus, device, function. */
static bool is_pci_address(const char *text)
{
	static const char *const hex = "0123456789abcdef";
	size_t domain = strspn(text, hex);
	const char *rest = text + domain;

	return domain >= 4 && domain <= 8 && rest[0] == ':' && strspn(rest + 1, hex) == 2 &&
	       rest[3] == ':' && strspn(rest + 4, hex) == 2 && rest[6] == '.' && rest[7] >= '0' &&
	       rest[7] <= '7' && !rest[8];
}

static int check_memory(const struct slime_agent_region *r, size_t i,
			struct slime_topology_fault *f)
{
	if (!r->size)
		return fault(f, "expected a size above 0", "regions.%zu.size", i);
	if (r->gpu && !is_pci_address(r->gpu))
		return fault(f, "expected the PCI address of a GPU, as 0000:17:00.0",
			     "regions.%zu.gpu", i);
	if (r->gpu && r->on_demand)
		return fault(f, "expected false: the memory of a GPU does not come on demand",
			     "regions.%zu.on_demand", i);
	return 0;
}

static int check_region(const struct slime_topology *t, size_t i, struct slime_topology_fault *f)
{
	const struct slime_agent_region *r = &t->regions[i];

	if (!topology_is_name(r->name, SLIME_AGENT_NAME_MAX))
		return fault(f, EXPECTED_NAME, "regions.%zu.name", i);
	for (size_t k = 0; k < i; k++) {
		if (!strcmp(t->regions[k].name, r->name))
			return fault(f, "expected a name that no region before it has",
				     "regions.%zu.name", i);
	}
	if (check_memory(r, i, f))
		return -EINVAL;
	if (r->access & ~(uint32_t)(SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE))
		return fault(f, "expected read, write or both", "regions.%zu.access", i);
	/* A list that became empty would open the region to all agents. */
	if (!r->allow != !r->n_allow)
		return fault(f, "expected at least one selector, or NULL: every agent of the scope",
			     "regions.%zu.allow", i);
	if (r->n_allow > TOPOLOGY_MAX_ALLOW)
		return fault(f, "expected at most 64 selectors", "regions.%zu.allow", i);
	for (size_t k = 0; k < r->n_allow; k++) {
		const char *slip = r->allow[k] ? sl_selector_slip(r->allow[k]) : NULL;

		if (slip)
			return fault(f, slip, "regions.%zu.allow.%zu", i, k);
		if (!r->allow[k] || !is_selector(r->allow[k], false))
			return fault(f, "expected label=value or name=AGENT",
				     "regions.%zu.allow.%zu", i, k);
	}
	return 0;
}

bool topology_transports_fine(const enum slime_transport *list)
{
	bool seen[SLIME_TRANSPORT_MAX] = { false };

	for (size_t i = 0; i < SLIME_TRANSPORT_MAX && list[i] != SLIME_TRANSPORT_NONE; i++) {
		if ((unsigned)list[i] >= SLIME_TRANSPORT_MAX || seen[list[i]])
			return false;
		seen[list[i]] = true;
	}
	return true;
}

static bool are_ports(const char *list)
{
	struct sl_port_name names[SLIME_RAILS_MAX];
	size_t n;

	return !list || !sl_port_names_parse(list, names, SLIME_RAILS_MAX, &n);
}

static int check_rdma(const struct slime_agent_link *l, size_t i, struct slime_topology_fault *f)
{
	if (l->qps > QPS_MAX)
		return fault(f, "expected 1 to 8, or 0: the agent's", "links.%zu.qps", i);
	if (l->rails > SLIME_RAILS_MAX)
		return fault(f, "expected 1 to 8, or 0: all", "links.%zu.rails", i);
	if (!are_ports(l->devices))
		return fault(f, EXPECTED_PORTS, "links.%zu.devices", i);
	if (!are_ports(l->peer_devices))
		return fault(f, EXPECTED_PORTS, "links.%zu.peer_devices", i);
	return 0;
}

bool topology_rdma_fine(const struct slime_agent_link *link)
{
	struct slime_topology_fault fault;

	return !check_rdma(link, 0, &fault);
}

static int check_link(const struct slime_topology *t, const char *name, size_t i,
		      struct slime_topology_fault *f)
{
	const struct slime_agent_link *l = &t->links[i];
	bool selector = l->to && topology_is_selector(l->to);

	if (selector && sl_selector_slip(l->to))
		return fault(f, sl_selector_slip(l->to), "links.%zu.to", i);
	if (selector && !is_selector(l->to, true))
		return fault(f, EXPECTED_SELECTOR, "links.%zu.to", i);
	if (!selector && !topology_is_name(l->to, SLIME_AGENT_NAME_MAX))
		return fault(f, EXPECTED_NAME, "links.%zu.to", i);
	if (!selector && !strcmp(l->to, name))
		return fault(f, "expected another agent than this one", "links.%zu.to", i);
	if (!topology_is_name(topology_profile(l), SLIME_AGENT_NAME_MAX))
		return fault(f, EXPECTED_NAME, "links.%zu.profile", i);
	if (!topology_transports_fine(l->transports))
		return fault(f, "expected each transport at most once", "links.%zu.transports", i);
	if (check_rdma(l, i, f))
		return -EINVAL;
	for (size_t k = 0; k < i; k++) {
		if (!strcmp(t->links[k].to, l->to) &&
		    !strcmp(topology_profile(&t->links[k]), topology_profile(l)))
			return fault(f, "expected another agent or profile than a link before it",
				     "links.%zu.to", i);
	}
	return 0;
}

int slime_topology_check(const struct slime_topology *t, const char *name,
			 struct slime_topology_fault *f)
{
	int ret = check_labels(t, f);

	if (!ret && t->n_regions > TOPOLOGY_MAX_REGIONS)
		ret = fault(f, "expected at most 1024 regions", "regions");
	for (size_t i = 0; !ret && i < t->n_regions; i++)
		ret = check_region(t, i, f);
	if (!ret && t->n_links > TOPOLOGY_MAX_LINKS)
		ret = fault(f, "expected at most 1024 links", "links");
	for (size_t i = 0; !ret && i < t->n_links; i++)
		ret = check_link(t, name, i, f);
	return ret;
}
