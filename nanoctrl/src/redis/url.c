/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/hex.h"

#define REDIS_PORT    6379
#define SENTINEL_PORT 26379
#define SENTINEL      "redis+sentinel://"
#define CLUSTER	      REDIS_CLUSTER_SCHEME

void redis_url_fini(struct redis_url *url)
{
	free(url->path);
	free(url->host);
	for (unsigned i = 0; i < url->n_seeds; i++)
		free(url->seeds[i].host);
	free(url->primary);
	free(url->user);
	free(url->password);
	free(url->shown);
	memset(url, 0, sizeof(*url));
}

unsigned redis_url_tries(const struct redis_url *url)
{
	return url->n_seeds ? 2 * url->n_seeds : 1;
}

/* A percent-decoded copy of len bytes; NULL with errno EINVAL or ENOMEM. */
static char *decoded(const char *from, size_t len)
{
	char *to = malloc(len + 1);
	size_t n = 0;

	if (!to) {
		errno = ENOMEM;
		return NULL;
	}
	for (size_t i = 0; i < len; i++) {
		if (from[i] != '%') {
			to[n++] = from[i];
			continue;
		}
		if (len - i < 3 || hex_digit(from[i + 1]) < 0 || hex_digit(from[i + 2]) < 0) {
			free(to);
			errno = EINVAL;
			return NULL;
		}
		to[n++] = (char)(hex_digit(from[i + 1]) * 16 + hex_digit(from[i + 2]));
		i += 2;
	}
	to[n] = '\0';
	return to;
}

/* A decimal number of the whole of text[0..len), at most max. */
static bool number(const char *text, size_t len, unsigned max, unsigned *out)
{
	unsigned v = 0;

	if (!len || len > 9)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (unsigned)(text[i] - '0');
	}
	*out = v;
	return v <= max;
}

static int parse_userinfo(const char *text, size_t len, struct redis_url *url)
{
	const char *colon = memchr(text, ':', len);
	size_t user_len = colon ? (size_t)(colon - text) : len;

	if (user_len) {
		url->user = decoded(text, user_len);
		if (!url->user)
			return -errno;
	}
	if (!colon)
		return -EINVAL;
	url->password = decoded(colon + 1, len - user_len - 1);
	return url->password ? 0 : -errno;
}

/* host[:port]; port is the one to take when there is none. */
static int parse_host(const char *text, size_t len, unsigned port, struct redis_host *out,
		      const char **why)
{
	const char *end = text + len;
	const char *host = text;
	const char *after;

	if (len && *text == '[') {
		after = memchr(text, ']', len);
		if (!after) {
			*why = "the bracket of the IPv6 address is not closed";
			return -EINVAL;
		}
		host++;
		out->host = strndup(host, (size_t)(after - host));
		after++;
	} else {
		after = memchr(text, ':', len);
		if (!after)
			after = end;
		out->host = strndup(host, (size_t)(after - host));
	}
	if (!out->host)
		return -ENOMEM;
	if (!*out->host) {
		*why = "the host is missing";
		return -EINVAL;
	}
	if (after != end &&
	    (*after != ':' || !number(after + 1, (size_t)(end - after - 1), 65535, &port) ||
	     !port)) {
		*why = "the port is not a number from 1 to 65535";
		return -EINVAL;
	}
	out->port = (uint16_t)port;
	return 0;
}

/* [[user]:password@], which is taken off the front of *text. */
static int parse_secret(const char **text, size_t *len, struct redis_url *url, const char **why)
{
	const char *at = memrchr(*text, '@', *len);
	int ret;

	if (!at)
		return 0;
	ret = parse_userinfo(*text, (size_t)(at - *text), url);
	*why = "the part before @ is not [user]:password";
	*len -= (size_t)(at + 1 - *text);
	*text = at + 1;
	return ret;
}

/* The text after the host: nothing, a slash, or /db. */
static int parse_db(const char *slash, struct redis_url *url, const char **why)
{
	if (!slash || !slash[1] || number(slash + 1, strlen(slash + 1), 65535, &url->db))
		return 0;
	*why = "the database is not a number";
	return -EINVAL;
}

static int parse_tcp(const char *text, struct redis_url *url, const char **why)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	struct redis_host host = { 0 };
	int ret = parse_secret(&text, &len, url, why);

	if (!ret)
		ret = parse_host(text, len, REDIS_PORT, &host, why);
	url->host = host.host;
	url->port = host.port;
	if (!ret)
		ret = parse_db(slash, url, why);
	if (ret)
		return ret;
	if (asprintf(&url->shown, "redis://%s:%u/%u", url->host, url->port, url->db) < 0) {
		url->shown = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* host[:port][,host[:port]...]; port is for hosts without one. */
static int parse_seeds(const char *text, size_t len, unsigned port, struct redis_url *url,
		       const char **why)
{
	const char *end = text + len;
	int ret = 0;

	for (const char *comma; !ret && text <= end; text = comma + 1) {
		if (url->n_seeds == REDIS_SEEDS_MAX) {
			*why = "it has more than 16 hosts";
			return -EINVAL;
		}
		comma = memchr(text, ',', (size_t)(end - text));
		if (!comma)
			comma = end;
		ret = parse_host(text, (size_t)(comma - text), port, &url->seeds[url->n_seeds++],
				 why);
	}
	return ret;
}

static int parse_sentinel(const char *text, struct redis_url *url, const char **why)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : 0;
	const char *db = slash ? strchr(slash + 1, '/') : NULL;
	int ret;

	url->kind = REDIS_SENTINEL;
	if (!slash || !slash[1] || db == slash + 1) {
		*why = "the primary's name, as its sentinels call it, is missing";
		return -EINVAL;
	}
	ret = parse_secret(&text, &len, url, why);
	if (!ret)
		ret = parse_seeds(text, len, SENTINEL_PORT, url, why);
	if (!ret)
		ret = parse_db(db, url, why);
	if (ret)
		return ret;
	url->primary = strndup(slash + 1, db ? (size_t)(db - slash - 1) : strlen(slash + 1));
	if (!url->primary || asprintf(&url->shown, SENTINEL "%.*s/%s/%u", (int)len, text,
				      url->primary, url->db) < 0) {
		url->shown = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* A cluster has one database. */
static int parse_cluster(const char *text, struct redis_url *url, const char **why)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	int ret;

	url->kind = REDIS_CLUSTER;
	if (slash && slash[1]) {
		*why = "a Redis Cluster has no databases to choose from";
		return -EINVAL;
	}
	ret = parse_secret(&text, &len, url, why);
	if (!ret)
		ret = parse_seeds(text, len, REDIS_PORT, url, why);
	if (!ret && asprintf(&url->shown, CLUSTER "%.*s", (int)len, text) < 0) {
		url->shown = NULL;
		ret = -ENOMEM;
	}
	return ret;
}

static int parse_unix(const char *text, struct redis_url *url, const char **why)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	const char *query;
	int ret = parse_secret(&text, &len, url, why);

	if (ret)
		return ret;
	query = strchr(text, '?');
	len = query ? (size_t)(query - text) : strlen(text);
	if (*text != '/' || len >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		*why = "the socket is not an absolute path of at most 107 bytes";
		return -EINVAL;
	}
	if (query && (strncmp(query, "?db=", 4) != 0 ||
		      !number(query + 4, strlen(query + 4), 65535, &url->db))) {
		*why = "what follows the path is not ?db=NUMBER";
		return -EINVAL;
	}
	url->path = strndup(text, len);
	if (asprintf(&url->shown, "unix://%s", text) < 0)
		url->shown = NULL;
	return url->path && url->shown ? 0 : -ENOMEM;
}

int redis_url_parse(const char *text, struct redis_url *out, const char **why)
{
	struct redis_url url = { 0 };
	int ret;

	if (strncmp(text, "redis://", 8) == 0) {
		ret = parse_tcp(text + 8, &url, why);
	} else if (strncmp(text, SENTINEL, strlen(SENTINEL)) == 0) {
		ret = parse_sentinel(text + strlen(SENTINEL), &url, why);
	} else if (strncmp(text, CLUSTER, strlen(CLUSTER)) == 0) {
		ret = parse_cluster(text + strlen(CLUSTER), &url, why);
	} else if (strncmp(text, "unix://", 7) == 0) {
		ret = parse_unix(text + 7, &url, why);
	} else {
		*why = "it begins with none of redis://, redis+sentinel://, redis+cluster:// and "
		       "unix://";
		ret = -EINVAL;
	}
	if (ret) {
		redis_url_fini(&url);
		return ret;
	}
	*out = url;
	return 0;
}
