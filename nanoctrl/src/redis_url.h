/* SPDX-License-Identifier: Apache-2.0 */
/* Where a Redis is: the parts of a URL. */
#ifndef NANOCTRL_REDIS_URL_H
#define NANOCTRL_REDIS_URL_H

#include <stdint.h>

struct redis_url {
	char *path; /* of a unix socket; NULL: TCP */
	char *host;
	uint16_t port;
	unsigned db;
	char *user;	/* NULL: none */
	char *password; /* NULL: none */
	char *shown;	/* the URL without its secret, for logs and errors */
};

/*
 * redis://[[user]:password@]host[:port][/db] with an IPv6 address in brackets, or
 * unix:///path[?db=n]; user and password may be percent-encoded. On -EINVAL *why says what is
 * wrong. -ENOMEM.
 */
int redis_url_parse(const char *text, struct redis_url *out, const char **why);

void redis_url_fini(struct redis_url *url);

#endif
