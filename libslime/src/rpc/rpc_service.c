/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/rpc/rpc.h"
#include "src/rpc/rpc_service.h"

#define FIRST_PLACES 16

/* FNV-1a, spread once more so that the low bits, which choose the place, depend on all of them. */
uint64_t slime_rpc_method_id(const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	return h ? h : 1;
}

/* The place of id in the table, or the free one where it would be. */
static struct sl_method *place(struct sl_method *table, uint32_t n_places, uint64_t id)
{
	uint32_t i = (uint32_t)id & (n_places - 1);

	while (table[i].id && table[i].id != id)
		i = (i + 1) & (n_places - 1);
	return &table[i];
}

const struct sl_method *sl_rpc_service_find(const struct slime_rpc_service *s, uint64_t id)
{
	const struct sl_method *m;

	if (!s || !id)
		return NULL;
	m = place(s->table, s->n_places, id);
	return m->id ? m : NULL;
}

static int grow(struct slime_rpc_service *s)
{
	uint32_t n_places = s->n_places * 2;
	struct sl_method *table;

	if (2 * (s->n_methods + 1) <= s->n_places)
		return 0;
	table = calloc(n_places, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n_places; i++) {
		if (s->table[i].id)
			*place(table, n_places, s->table[i].id) = s->table[i];
	}
	free(s->table);
	s->table = table;
	s->n_places = n_places;
	return 0;
}

int slime_rpc_service_create(struct slime_context *ctx, struct slime_rpc_service **out)
{
	struct slime_rpc_service *s;
	struct sl_rpc *rpc;
	int ret = sl_context_check(ctx);

	if (!ret)
		ret = sl_rpc_get(ctx, &rpc);
	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ctx = ctx;
	s->rpc = rpc;
	s->n_places = FIRST_PLACES;
	s->table = calloc(s->n_places, sizeof(*s->table));
	if (!s->table) {
		free(s);
		return -ENOMEM;
	}
	pthread_mutex_init(&s->lock, NULL);
	sl_rpc_add_child(ctx);
	*out = s;
	return 0;
}

static int check(const char *name, const struct slime_rpc_method_attr *attr)
{
	size_t len = name ? strnlen(name, SLIME_RPC_NAME_MAX + 1) : 0;

	if (!len || len > SLIME_RPC_NAME_MAX || !attr)
		return -EINVAL;
	switch (attr->flags) {
	case 0:
	case SLIME_RPC_INLINE:
	/* In place it has to be inline: others may still have the request when the link and its
	 * memory are gone. */
	case SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE:
		return attr->fn ? 0 : -EINVAL;
	case SLIME_RPC_QUEUED:
		return attr->fn ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

static int add_locked(struct slime_rpc_service *s, const char *name,
		      const struct slime_rpc_method_attr *attr)
{
	struct sl_method *m;
	uint64_t id = slime_rpc_method_id(name);
	char *copy;
	int ret;

	if (s->n_endpoints)
		return -EBUSY;
	if (place(s->table, s->n_places, id)->id)
		return -EEXIST;
	ret = grow(s);
	if (!ret && !attr->flags)
		ret = sl_rpc_start_workers(s->rpc);
	if (ret)
		return ret;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	m = place(s->table, s->n_places, id);
	*m = (struct sl_method){ .id = id, .name = copy, .attr = *attr };
	s->n_methods++;
	return 0;
}

void slime_rpc_method_attr_init(struct slime_rpc_method_attr *attr)
{
	*attr = (struct slime_rpc_method_attr)SLIME_RPC_METHOD_ATTR_INIT;
}

int slime_rpc_method_add(struct slime_rpc_service *s, const char *name,
			 const struct slime_rpc_method_attr *attr)
{
	int ret = sl_context_check(s->ctx);

	if (!ret)
		ret = check(name, attr);
	if (ret)
		return ret;
	pthread_mutex_lock(&s->lock);
	ret = add_locked(s, name, attr);
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* The place becomes free; those behind it that are not at their own place move up. */
static void take_out(struct slime_rpc_service *s, struct sl_method *m)
{
	uint32_t i = (uint32_t)(m - s->table);

	free(m->name);
	*m = (struct sl_method){ 0 };
	s->n_methods--;
	for (;;) {
		struct sl_method moved;

		i = (i + 1) & (s->n_places - 1);
		moved = s->table[i];
		if (!moved.id)
			return;
		s->table[i] = (struct sl_method){ 0 };
		*place(s->table, s->n_places, moved.id) = moved;
	}
}

int slime_rpc_method_remove(struct slime_rpc_service *s, const char *name)
{
	struct sl_method *m;
	int ret = sl_context_check(s->ctx);

	if (ret)
		return ret;
	pthread_mutex_lock(&s->lock);
	m = place(s->table, s->n_places, slime_rpc_method_id(name));
	if (s->n_endpoints)
		ret = -EBUSY;
	else if (!m->id || strcmp(m->name, name) != 0)
		ret = -ENOENT;
	else
		take_out(s, m);
	pthread_mutex_unlock(&s->lock);
	return ret;
}

int slime_rpc_service_destroy(struct slime_rpc_service *s)
{
	uint32_t n_endpoints;

	if (!s)
		return 0;
	if (!sl_context_check(s->ctx)) {
		pthread_mutex_lock(&s->lock);
		n_endpoints = s->n_endpoints;
		pthread_mutex_unlock(&s->lock);
		if (n_endpoints)
			return -EBUSY;
		sl_rpc_remove_child(s->ctx);
	}
	for (uint32_t i = 0; i < s->n_places; i++)
		free(s->table[i].name);
	free(s->table);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return 0;
}

void sl_rpc_service_attach(struct slime_rpc_service *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->n_endpoints++;
	pthread_mutex_unlock(&s->lock);
}

void sl_rpc_service_detach(struct slime_rpc_service *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->n_endpoints--;
	pthread_mutex_unlock(&s->lock);
}
