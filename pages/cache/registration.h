/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service of kind "cache" at a control plane, by the routes of DLSlime's NanoCtrl: clients of
 * DLSlimeCache find it there. It is made again when the control plane forgot it, and tried again
 * while it does not answer. Of the thread that runs the base, but for the trouble.
 */
#ifndef PAGES_CACHE_REGISTRATION_H
#define PAGES_CACHE_REGISTRATION_H

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct registration;

struct registration_attr {
	struct event_base *base;
	const char *url;	/* of the control plane */
	const char *scope;	/* NULL: none */
	const char *service_id; /* "cache:0" */
	const char *host;	/* where clients reach the cache */
	uint16_t port;
	unsigned beat_ms;
};

/* Begins at once. The attr's strings are copied. -EINVAL for a URL that is none, -EPROTONOSUPPORT,
 * -ENOMEM. */
int registration_create(const struct registration_attr *attr, struct registration **out);

/* From any thread: why the control plane does not list the cache; "" while it does. */
void registration_trouble(struct registration *r, char *out, size_t room);

/* Takes the service away, and runs the base for it, at most for ms. Afterwards the base is turned
 * once more before it is freed. Harmless for NULL. */
void registration_destroy(struct registration *r, unsigned ms);

#endif
