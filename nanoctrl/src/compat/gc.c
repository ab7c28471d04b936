/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/gc.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <base/utf8.h>

#include "redis/child.h"
#include "compat/redis_gc.h"
#include "redis/url.h"
#include "daemon/runtime.h"
#include "server/settings.h"

/* A key on a line of its own, with any bytes. */
static void print_key(void *arg, const char *key, size_t len)
{
	size_t n;

	(void)arg;
	for (; len; key += n, len -= n) {
		n = sl_utf8_char(key, len);
		if (n && *key != '\\' && !sl_utf8_is_control(key, n)) {
			fwrite(key, 1, n, stdout);
			continue;
		}
		n = n ? n : 1;
		for (size_t i = 0; i < n; i++)
			printf("\\x%02x", (unsigned char)key[i]);
	}
	putchar('\n');
}

static int complain(const char *what)
{
	fprintf(stderr, "nanoctrl: %s\n", what);
	return 1;
}

/* The URL of a private Redis: of the data directory that was named, that of the server which runs,
 * or the default one. */
static int private_url(const struct settings *settings, const struct runtime *rt, char *out,
		       size_t room)
{
	const char *named = settings->redis.data_dir;
	struct runtime_meta meta;
	char data_dir[PATH_MAX], why[REDIS_CHILD_WHY_MAX];

	if (!named && rt && runtime_read_meta(rt, &meta)) {
		if (!meta.data_dir[0])
			return complain("the server uses a Redis that it was given: --redis-url "
					"names it");
		named = meta.data_dir;
	}
	if (runtime_data_dir(named, data_dir))
		return complain("no usable data directory; --data-dir names one");
	return redis_child_url(data_dir, false, out, room, why) ? complain(why) : 0;
}

int gc_list(const struct settings *settings, const struct options *options,
	    const struct runtime *rt)
{
	char text[PATH_MAX + 16];
	const char *why = "no memory";
	struct redis_gc_report report;
	struct redis_url url;
	int ret;

	if (!options->dry_run) {
		complain("gc: expected --dry-run: it lists, and removes nothing");
		return CLI_EXIT_USAGE;
	}
	if (settings->redis.url)
		snprintf(text, sizeof(text), "%s", settings->redis.url);
	else if (private_url(settings, rt, text, sizeof(text)))
		return 1;
	if (redis_url_parse(text, &url, &why))
		return complain(why);
	if (url.kind == REDIS_CLUSTER) {
		fprintf(stderr,
			"nanoctrl: %s: agents of other control planes keep nothing in a Redis "
			"Cluster\n",
			url.shown);
		redis_url_fini(&url);
		return 0;
	}
	ret = redis_gc(&url, (uint32_t)settings->redis.timeout_ms, print_key, NULL, &report);
	if (ret)
		fprintf(stderr, "nanoctrl: %s: %s\n", url.shown, report.why);
	else
		fprintf(stderr, "nanoctrl: %" PRIu64 " of %" PRIu64 " keys have no agent\n",
			report.n_orphans, report.n_keys);
	redis_url_fini(&url);
	return ret ? 1 : 0;
}
