/* SPDX-License-Identifier: Apache-2.0 */
/* Where a Redis is: the parts of a URL. */
#ifndef NANOCTRL_REDIS_URL_H
#define NANOCTRL_REDIS_URL_H

#include <stddef.h>
#include <stdint.h>

#define REDIS_SCHEME	     "redis://"
#define REDIS_CLUSTER_SCHEME "redis+cluster://"
#define REDIS_SEEDS_MAX	     16

enum redis_kind { REDIS_PLAIN, REDIS_SENTINEL, REDIS_CLUSTER };

struct redis_host {
	char *host;
	uint16_t port;
};

struct redis_url {
	enum redis_kind kind;
	char *path; /* of a unix socket; NULL: TCP */
	char *host; /* NULL with seeds, which are asked for it */
	uint16_t port;
	struct redis_host seeds[REDIS_SEEDS_MAX]; /* sentinels, or nodes of the cluster */
	unsigned n_seeds;
	char *primary; /* what sentinels call it */
	unsigned db;
	char *user;	/* NULL: none */
	char *password; /* NULL: none */
	char *shown;	/* the URL without its secret, for logs and errors */
};

/*
 * redis://[[user]:password@]host[:port][/db] with an IPv6 address in brackets,
 * redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/primary[/db] where the hosts are
 * sentinels and the rest is of the primary,
 * redis+cluster://[[user]:password@]host[:port][,host[:port]...] where the hosts are some nodes of
 * a Redis Cluster, or unix://[[user]:password@]/path[?db=n]; user and password may be
 * percent-encoded. On -EINVAL *why says what is wrong. -ENOMEM.
 */
int redis_url_parse(const char *text, struct redis_url *out, const char **why);

/* How many connection attempts fail before it is out of reach: two to each server that can be
 * asked. */
unsigned redis_url_tries(const struct redis_url *url);

void redis_url_fini(struct redis_url *url);

#endif
