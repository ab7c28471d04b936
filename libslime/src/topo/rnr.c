/* SPDX-License-Identifier: Apache-2.0 */
#include <slime/rnr.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/topo/rnr_names.h"
#include "src/core/sysfs.h"

#define DEVICES_MAX 1024
#define PORTS_MAX   255

struct counter {
	struct slime_rnr_counter pub; /* first: what the caller gets points here */
	char device[64];
	const struct sl_rnr_name *known;
};

struct sample {
	size_t n;
	size_t room;
	struct counter **counters; /* by device, port and name, in that order */
};

struct slime_rnr_monitor {
	char *root;
	struct sample last;
};

const char *slime_rnr_kind_name(enum slime_rnr_kind kind)
{
	static const char *const names[] = {
		[SLIME_RNR_NOT_READY] = "not ready",
		[SLIME_RNR_RETRANSMIT] = "retransmit",
		[SLIME_RNR_CONGESTION] = "congestion",
		[SLIME_RNR_ERROR] = "error",
		[SLIME_RNR_LINK] = "link",
	};

	return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

/* ---- a sample ---- */

static void sample_fini(struct sample *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->counters[i]);
	free(s->counters);
}

static int sample_grow(struct sample *s)
{
	size_t room = s->room ? 2 * s->room : 64;
	struct counter **grown = realloc(s->counters, room * sizeof(struct counter *));

	if (!grown)
		return -ENOMEM;
	s->counters = grown;
	s->room = room;
	return 0;
}

static int sample_add(struct sample *s, const char *device, uint32_t port,
		      const struct sl_rnr_name *known, uint64_t value)
{
	struct counter *c;

	if (s->n == s->room && sample_grow(s))
		return -ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	snprintf(c->device, sizeof(c->device), "%s", device);
	c->known = known;
	c->pub = (struct slime_rnr_counter){
		.device = c->device,
		.port = port,
		.name = strrchr(known->path, '/') + 1,
		.meaning = known->meaning,
		.kind = known->kind,
		.value = value,
	};
	s->counters[s->n++] = c;
	return 0;
}

/* ---- reading ---- */

/* A counter that a driver does not have, or does not report now, is left out. */
static int read_port(struct sample *s, const char *root, const char *device, uint32_t port)
{
	int ret = 0;

	for (const struct sl_rnr_name *k = sl_rnr_names; !ret && k->path; k++) {
		int64_t value;

		if (!sl_sysfs_number(&value, root, "class/infiniband/%s/ports/%u/%s", device, port,
				     k->path) &&
		    value >= 0)
			ret = sample_add(s, device, port, k, (uint64_t)value);
	}
	return ret;
}

static int read_device(struct sample *s, const char *root, const char *device)
{
	struct sl_sysfs_names ports;
	int ret = sl_sysfs_names(&ports, PORTS_MAX, root, "class/infiniband/%s/ports", device);

	if (ret)
		return ret == -ENOMEM ? ret : 0; /* it has gone meanwhile */
	for (size_t i = 0; !ret && i < ports.n; i++)
		ret = read_port(s, root, device, (uint32_t)strtoul(ports.names[i], NULL, 10));
	sl_sysfs_names_fini(&ports);
	return ret;
}

static int read_all(struct sample *s, const char *root)
{
	struct sl_sysfs_names devices;
	int ret = sl_sysfs_names(&devices, DEVICES_MAX, root, "class/infiniband");

	if (ret == -ENOENT)
		return 0;
	if (ret)
		return ret;
	for (size_t i = 0; !ret && i < devices.n; i++)
		ret = read_device(s, root, devices.names[i]);
	sl_sysfs_names_fini(&devices);
	return ret;
}

/* ---- what was added ---- */

static int order(const struct counter *a, const struct counter *b)
{
	int by_device = strverscmp(a->device, b->device);

	if (by_device)
		return by_device;
	if (a->pub.port != b->pub.port)
		return a->pub.port < b->pub.port ? -1 : 1;
	return (a->known > b->known) - (a->known < b->known);
}

/* value is unsigned and counts on; one that is less than before began anew. */
static void add_since(struct counter *now, const struct counter *before)
{
	bool anew = now->pub.value < before->pub.value;

	now->pub.added = now->pub.value - (anew ? 0 : before->pub.value);
	now->pub.total = before->pub.total + now->pub.added;
}

/* Both are in the same order. */
static void compare(struct sample *now, const struct sample *before)
{
	size_t b = 0;

	for (size_t i = 0; i < now->n; i++) {
		while (b < before->n && order(before->counters[b], now->counters[i]) < 0)
			b++;
		if (b < before->n && !order(before->counters[b], now->counters[i]))
			add_since(now->counters[i], before->counters[b]);
	}
}

int slime_rnr_monitor_sample(struct slime_rnr_monitor *m)
{
	struct sample now = { 0 };
	int ret = read_all(&now, m->root);

	if (ret) {
		sl_error("rnr", "the counters of %s/class/infiniband cannot be read: %s", m->root,
			 strerror(-ret));
		sample_fini(&now);
		return ret == -ENOMEM ? ret : -EIO;
	}
	compare(&now, &m->last);
	sample_fini(&m->last);
	m->last = now;
	return 0;
}

/* ---- the monitor ---- */

int slime_rnr_monitor_create(const char *sysfs_root, struct slime_rnr_monitor **out)
{
	struct slime_rnr_monitor *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return -ENOMEM;
	m->root = strdup(sysfs_root ? sysfs_root : "/sys");
	ret = m->root ? slime_rnr_monitor_sample(m) : -ENOMEM;
	if (ret) {
		slime_rnr_monitor_destroy(m);
		return ret;
	}
	*out = m;
	return 0;
}

void slime_rnr_monitor_destroy(struct slime_rnr_monitor *m)
{
	if (!m)
		return;
	sample_fini(&m->last);
	free(m->root);
	free(m);
}

const struct slime_rnr_counter *const *slime_rnr_monitor_counters(const struct slime_rnr_monitor *m,
								  size_t *n)
{
	*n = m->last.n;
	return (const struct slime_rnr_counter *const *)m->last.counters;
}
