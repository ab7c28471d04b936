/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/lookups.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <event2/dns.h>
#include <event2/util.h>

static _Atomic unsigned n_out;

unsigned lookups_out(void)
{
	return n_out;
}

struct lookup {
	evdns_getaddrinfo_cb fn;
	void *arg;
};

static void on_end(int error, struct evutil_addrinfo *list, void *arg)
{
	struct lookup l = *(struct lookup *)arg;

	free(arg);
	n_out--;
	l.fn(error, list, l.arg);
}

struct evdns_getaddrinfo_request *__real_evdns_getaddrinfo(struct evdns_base *base,
							   const char *host, const char *service,
							   const struct evutil_addrinfo *hints,
							   evdns_getaddrinfo_cb fn, void *arg);
__attribute__((visibility("default"))) struct evdns_getaddrinfo_request *
__wrap_evdns_getaddrinfo(struct evdns_base *base, const char *host, const char *service,
			 const struct evutil_addrinfo *hints, evdns_getaddrinfo_cb fn, void *arg);
struct evdns_getaddrinfo_request *__wrap_evdns_getaddrinfo(struct evdns_base *base,
							   const char *host, const char *service,
							   const struct evutil_addrinfo *hints,
							   evdns_getaddrinfo_cb fn, void *arg)
{
	struct lookup *l = malloc(sizeof(*l));

	if (!l)
		abort();
	*l = (struct lookup){ fn, arg };
	n_out++;
	return __real_evdns_getaddrinfo(base, host, service, hints, on_end, l);
}

void __real_evdns_base_free(struct evdns_base *base, int fail_requests);
__attribute__((visibility("default"))) void __wrap_evdns_base_free(struct evdns_base *base,
								   int fail_requests);
void __wrap_evdns_base_free(struct evdns_base *base, int fail_requests)
{
	assert_int_equal(n_out, 0);
	__real_evdns_base_free(base, fail_requests);
}
