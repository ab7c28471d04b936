/* SPDX-License-Identifier: Apache-2.0 */
/* One blocking request to a server of ours, from its command line. */
#ifndef NANOCTRL_DAEMON_PROBE_H
#define NANOCTRL_DAEMON_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROBE_BODY_MAX 4194304

struct probe_reply {
	int status;
	char *body; /* NUL-terminated; free it */
};

/*
 * GET path at url ("http://127.0.0.1:3000", an address and no name), within timeout_ms.
 *   -EINVAL     url is none           -EPROTO  what answers does not speak HTTP
 *   -ETIMEDOUT  no answer in time     -EFBIG   the body is longer than PROBE_BODY_MAX
 *   other       of sockets
 */
int probe_get(const char *url, const char *path, int timeout_ms, struct probe_reply *out);

/* Whether the product, as "nanoctrl", answers at url: 0 and its pid, or as above; -EPROTO for any
 * other server. */
int probe_health(const char *url, const char *product, int timeout_ms, pid_t *pid);

#endif
