/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <string.h>

#include "nanoctrl/client/name.h"

bool nc_address_is(const struct nc_address *a, const struct nc_address *b)
{
	return a->len && a->len == b->len && !memcmp(&a->at, &b->at, a->len);
}

static size_t behind_left(const struct nc_addresses *a, const struct nc_name *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (nc_address_is(&a->list[i], &name->left))
			return i + 1;
	return 0;
}

void nc_name_take(struct nc_name *name, const struct addrinfo *list, struct nc_addresses *out)
{
	struct nc_addresses found = { .n = 0 };
	size_t first;

	for (; list && found.n < NC_ADDRESSES_MAX; list = list->ai_next) {
		struct nc_address *a = &found.list[found.n];

		if (list->ai_addrlen > sizeof(a->at))
			continue;
		memcpy(&a->at, list->ai_addr, list->ai_addrlen);
		a->len = (socklen_t)list->ai_addrlen;
		found.n++;
	}
	first = behind_left(&found, name);
	for (out->n = 0; out->n < found.n; out->n++)
		out->list[out->n] = found.list[(first + out->n) % found.n];
	name->n = found.n;
}
