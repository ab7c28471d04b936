/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/dns.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/name.h"
#include "nanoctrl/client/url.h"

/* Until the resolver has called back, which it does for a cancelled one, too. */
struct nc_lookup {
	struct evdns_getaddrinfo_request *request;
	struct nc_lookup **place; /* where the owner keeps it; NULL: he is gone */
	struct nc_name *name;
	nc_found_fn *fn;
	void *arg;
};

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

static void take(struct nc_lookup *lookup, const struct evutil_addrinfo *list)
{
	struct nc_addresses found = { .n = 0 }, turned = { .n = 0 };
	size_t first;

	for (; list && found.n < NC_ADDRESSES_MAX; list = list->ai_next) {
		struct nc_address *a = &found.list[found.n];

		if (list->ai_addrlen > sizeof(a->at))
			continue;
		memcpy(&a->at, list->ai_addr, list->ai_addrlen);
		a->len = (socklen_t)list->ai_addrlen;
		found.n++;
	}
	first = behind_left(&found, lookup->name);
	for (; turned.n < found.n; turned.n++)
		turned.list[turned.n] = found.list[(first + turned.n) % found.n];
	lookup->name->n = found.n;
	lookup->fn(lookup->arg, found.n ? 0 : EVUTIL_EAI_NONAME, &turned);
}

static void on_found(int error, struct evutil_addrinfo *list, void *arg)
{
	static const struct nc_addresses none;
	struct nc_lookup *lookup = arg;

	if (lookup->place) {
		*lookup->place = NULL;
		if (error)
			lookup->fn(lookup->arg, error, &none);
		else
			take(lookup, list);
	}
	if (list)
		evutil_freeaddrinfo(list);
	free(lookup);
}

int nc_lookup_start(struct nc_lookup **out, struct evdns_base *dns, const struct nc_url *url,
		    struct nc_name *name, nc_found_fn *fn, void *arg)
{
	const struct evutil_addrinfo hints = { .ai_family = AF_UNSPEC,
					       .ai_socktype = SOCK_STREAM,
					       .ai_protocol = IPPROTO_TCP };
	struct nc_lookup *lookup = calloc(1, sizeof(*lookup));
	struct evdns_getaddrinfo_request *request;
	char port[8];

	if (!lookup)
		return -ENOMEM;
	*lookup = (struct nc_lookup){ .place = out, .name = name, .fn = fn, .arg = arg };
	*out = lookup;
	snprintf(port, sizeof(port), "%u", url->port);
	request = evdns_getaddrinfo(dns, url->host, port, &hints, on_found, lookup);
	if (*out)
		lookup->request = request;
	return 0;
}

void nc_lookup_cancel(struct nc_lookup *lookup)
{
	if (!lookup)
		return;
	*lookup->place = NULL;
	lookup->place = NULL;
	evdns_getaddrinfo_cancel(lookup->request);
}
