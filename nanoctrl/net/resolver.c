/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/resolver.h"

#include <errno.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "nanoctrl/net/event_log.h"

struct nc_resolver {
	struct evdns_base *dns;
	struct event *turn; /* the one of the loop in which nothing is left of what has ended */
	size_t n_out;	    /* lookups that libevent has not called back */
	bool gone;	    /* for its owner */
};

/* Until libevent has called back, which it does for a cancelled one, too. */
struct nc_lookup {
	struct nc_resolver *resolver;
	struct evdns_getaddrinfo_request *request; /* NULL while it is being started */
	struct nc_lookup **place;		   /* where the owner keeps it; NULL: he is gone */
	nc_found_fn *fn;
	void *arg;
};

static void release(struct nc_resolver *r)
{
	evdns_base_free(r->dns, 0);
	event_free(r->turn);
	free(r);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct nc_resolver *r = arg;

	(void)fd;
	(void)what;
	if (r->gone && !r->n_out)
		release(r);
}

/* libevent may still have the other question of this lookup, which looks at the evdns_base when its
 * end is told, in this turn of the loop. */
static void note_end(struct nc_resolver *r)
{
	static const struct timeval at_once;

	r->n_out--;
	if (evtimer_add(r->turn, &at_once))
		event_active(r->turn, EV_TIMEOUT, 0);
}

static void on_found(int error, struct evutil_addrinfo *list, void *arg)
{
	struct nc_lookup *lookup = arg;

	if (lookup->request)
		note_end(lookup->resolver);
	if (lookup->place) {
		*lookup->place = NULL;
		if (!error && !list)
			error = EVUTIL_EAI_NONAME;
		lookup->fn(lookup->arg, error, error ? NULL : list);
	}
	if (list)
		evutil_freeaddrinfo(list);
	free(lookup);
}

int nc_lookup_start(struct nc_lookup **out, struct nc_resolver *resolver, const char *host,
		    uint16_t port, nc_found_fn *fn, void *arg)
{
	const struct evutil_addrinfo hints = { .ai_family = AF_UNSPEC,
					       .ai_socktype = SOCK_STREAM,
					       .ai_protocol = IPPROTO_TCP };
	struct nc_lookup *lookup = calloc(1, sizeof(*lookup));
	struct evdns_getaddrinfo_request *request;
	char digits[8];

	if (!lookup)
		return -ENOMEM;
	*lookup = (struct nc_lookup){ .resolver = resolver, .place = out, .fn = fn, .arg = arg };
	*out = lookup;
	snprintf(digits, sizeof(digits), "%u", port);
	request = evdns_getaddrinfo(resolver->dns, host, digits, &hints, on_found, lookup);
	if (!request)
		return 0;
	lookup->request = request;
	resolver->n_out++;
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

int nc_resolver_create(struct event_base *base, struct nc_resolver **out)
{
	struct nc_resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	nc_event_log_take();
	r->turn = evtimer_new(base, on_turn, r);
	r->dns = r->turn ? evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE) : NULL;
	if (!r->dns) {
		if (r->turn)
			event_free(r->turn);
		free(r);
		return -ENOMEM;
	}
	/* Addresses and /etc/hosts need no name server, so one without is fine. */
	evdns_base_resolv_conf_parse(r->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
	*out = r;
	return 0;
}

void nc_resolver_destroy(struct nc_resolver *r)
{
	if (!r)
		return;
	r->gone = true;
	if (!r->n_out && !evtimer_pending(r->turn, NULL))
		release(r);
}
