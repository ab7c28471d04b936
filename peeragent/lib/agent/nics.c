/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/agent/nics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* nanoctrl takes 16 KiB of attributes: 64 ports fit with their punctuation. */
#define KEY_LEN	  80
#define VALUE_LEN 160

/* The nearest first, as many as there is room for. */
static void add_gpus(const struct slime_topo_device *d, char *value)
{
	size_t used = strlen(value);

	for (size_t i = 0; i < d->n_gpus; i++) {
		int n = snprintf(value + used, VALUE_LEN - used, "%s%s/%s",
				 i ? "," : " gpus=", d->gpus[i]->pci,
				 slime_distance_name(d->gpus[i]->distance));

		if (n < 0 || (size_t)n >= VALUE_LEN - used) {
			value[used] = '\0';
			return;
		}
		used += (size_t)n;
	}
}

static void describe(struct nics *nics, const struct slime_topo_device *d,
		     const struct slime_topo_port *p)
{
	char *key = nics->texts + nics->n * (KEY_LEN + VALUE_LEN), *value = key + KEY_LEN;

	snprintf(key, KEY_LEN, "nic.%s:%u", d->name, p->num);
	snprintf(value, VALUE_LEN, "link=%s state=%s mbps=%u numa=%d",
		 slime_link_layer_name(p->link_layer), p->state, p->mbps, d->numa_node);
	add_gpus(d, value);
	nics->attributes[nics->n++] = (struct slime_label){ key, value };
}

static int describe_all(struct nics *nics, const struct slime_topo_devices *devices)
{
	if (!devices->n_devices)
		return 0;
	nics->attributes = calloc(NICS_MAX, sizeof(*nics->attributes));
	nics->texts = calloc(NICS_MAX, KEY_LEN + VALUE_LEN);
	if (!nics->attributes || !nics->texts)
		return -ENOMEM;
	for (size_t i = 0; i < devices->n_devices; i++) {
		const struct slime_topo_device *d = devices->devices[i];

		for (size_t k = 0; k < d->n_ports && nics->n < NICS_MAX; k++)
			describe(nics, d, d->ports[k]);
	}
	return 0;
}

int nics_init(struct nics *nics, const char *sysfs_root)
{
	struct slime_topo_devices *devices;
	int ret = slime_topo_devices_create(sysfs_root, &devices);

	*nics = (struct nics){ .n = 0 };
	if (ret == -ENOMEM)
		return ret;
	if (ret) {
		sl_warn("agent", "peers are not told of the RDMA devices, which cannot be read: %s",
			strerror(-ret));
		return 0;
	}
	ret = describe_all(nics, devices);
	slime_topo_devices_destroy(devices);
	if (ret)
		nics_fini(nics);
	return ret;
}

void nics_fini(struct nics *nics)
{
	free(nics->attributes);
	free(nics->texts);
}
