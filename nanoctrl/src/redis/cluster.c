/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>

static const struct cluster_node nobody;

/* A name or an address, of which nothing but these is made; "" means where we have it from. */
static bool set_host(struct cluster_node *node, const char *host, size_t len, const char *from)
{
	static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789.:-_";

	if (!len) {
		host = from;
		len = strlen(from);
	}
	if (!len || len >= sizeof(node->host))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!host[i] || !strchr(bytes, host[i]))
			return false;
	memcpy(node->host, host, len);
	node->host[len] = '\0';
	return true;
}

/* {host or nil, port, id, ...} */
static bool read_node(const redisReply *from, const char *host, struct cluster_node *out)
{
	const redisReply *name;
	long long port;

	if (from->type != REDIS_REPLY_ARRAY || from->elements < 2 ||
	    from->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	name = from->element[0];
	port = from->element[1]->integer;
	if (port < 1 || port > 65535 ||
	    (name->type != REDIS_REPLY_STRING && name->type != REDIS_REPLY_NIL))
		return false;
	out->port = (uint16_t)port;
	return name->type == REDIS_REPLY_NIL ? set_host(out, "", 0, host)
					     : set_host(out, name->str, (size_t)name->len, host);
}

static void remember(struct cluster_map *map, const struct cluster_node *node)
{
	for (unsigned i = 0; i < map->n; i++)
		if (map->nodes[i].port == node->port && !strcmp(map->nodes[i].host, node->host))
			return;
	if (map->n < CLUSTER_NODES_MAX)
		map->nodes[map->n++] = *node;
}

/* {first slot, last slot, primary, replica, ...}. A replica whose address is not known is left out.
 */
static bool read_range(const redisReply *range, unsigned slot, const char *from,
		       struct cluster_map *map)
{
	struct cluster_node node;
	long long first, last;

	if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
	    range->element[0]->type != REDIS_REPLY_INTEGER ||
	    range->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	first = range->element[0]->integer;
	last = range->element[1]->integer;
	if (first < 0 || last < first || last >= CLUSTER_SLOTS)
		return false;
	for (size_t i = 2; i < range->elements; i++) {
		if (!read_node(range->element[i], from, &node))
			continue;
		remember(map, &node);
		if (i == 2 && first <= slot && slot <= last)
			map->owner = node;
	}
	return true;
}

int cluster_read_slots(const redisReply *reply, unsigned slot, const char *from,
		       struct cluster_map *out)
{
	struct cluster_map map = { .n = 0 };

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements > CLUSTER_SLOTS)
		return -EPROTO;
	for (size_t i = 0; i < reply->elements; i++)
		if (!read_range(reply->element[i], slot, from, &map))
			return -EPROTO;
	*out = map;
	return 0;
}

/* A decimal number, behind which text goes on. */
static bool read_number(const char **text, unsigned max, unsigned *out)
{
	unsigned n = 0;
	const char *at = *text;

	while (*at >= '0' && *at <= '9' && n <= max)
		n = n * 10 + (unsigned)(*at++ - '0');
	if (at == *text || n > max)
		return false;
	*text = at;
	*out = n;
	return true;
}

static bool read_address(const char *text, const char *from, struct cluster_node *out)
{
	const char *colon = strrchr(text, ':');
	const char *at = colon ? colon + 1 : text;
	unsigned port;

	if (!colon || !read_number(&at, 65535, &port) || *at || !port)
		return false;
	out->port = (uint16_t)port;
	return set_host(out, text, (size_t)(colon - text), from);
}

enum cluster_redirect cluster_read_redirect(const char *error, unsigned slot, const char *from,
					    struct cluster_node *to)
{
	bool moved = !strncmp(error, "MOVED ", 6);
	const char *at = error + (moved ? 6 : 4);
	unsigned of;

	*to = nobody;
	if (!moved && strncmp(error, "ASK ", 4) != 0)
		return CLUSTER_STAY;
	if (!read_number(&at, CLUSTER_SLOTS - 1, &of) || of != slot || *at != ' ')
		return CLUSTER_STAY;
	if (!read_address(at + 1, from, to))
		*to = nobody;
	return moved ? CLUSTER_MOVED : CLUSTER_ASK;
}
