/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page over HTTP for a few clients. Each sends one request, gets its answer and is
 * disconnected. Further clients wait in the kernel's queue until one leaves; each leaves within
 * timeout_ms.
 */
#ifndef PEERAGENT_PAGE_H
#define PEERAGENT_PAGE_H

#include <stdint.h>

struct event_base;
struct evbuffer;
struct page;

/* Appends the current content of the page to out. */
typedef void page_fn(void *arg, struct evbuffer *out);

/* Texts are the caller's, and live as long as the page. */
struct page_attr {
	const char *host;     /* a numeric address; of the call alone */
	uint16_t port;	      /* 0 takes a free one */
	const char *path;     /* of GET; every other one is 404 */
	const char *type;     /* of its content */
	unsigned max_clients; /* at a time */
	int timeout_ms;	      /* of a client, from its connection to its end */
	page_fn *render;
	void *arg;
};

/* -EINVAL for a host that is no address, a negative errno of bind(2), -ENOMEM. */
int page_create(struct event_base *base, const struct page_attr *attr, struct page **out);
void page_destroy(struct page *page);

/* Where it listens, "127.0.0.1:9464". */
const char *page_address(const struct page *page);

#endif
