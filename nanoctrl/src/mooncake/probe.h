/* SPDX-License-Identifier: Apache-2.0 */
/* Whether something accepts connections at an address and a port: one connection, without a byte.
 */
#ifndef NANOCTRL_MOONCAKE_PROBE_H
#define NANOCTRL_MOONCAKE_PROBE_H

#include <stdint.h>

struct event_base;
struct probe;

enum probe_outcome {
	PROBE_ALIVE,
	PROBE_REFUSED, /* the host answers, and nothing listens there */
	PROBE_SILENT,  /* no answer in PROBE_MS, or another error */
};

#define PROBE_MS 2000

typedef void probe_fn(void *arg, enum probe_outcome outcome);

/* fn comes later, once, unless the probe is cancelled before. NULL: no memory or descriptors, or
 * address is none. */
struct probe *probe_begin(struct event_base *base, const char *address, uint16_t port, probe_fn *fn,
			  void *arg);
void probe_cancel(struct probe *probe);

#endif
