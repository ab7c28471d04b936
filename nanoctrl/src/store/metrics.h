/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and gauges of nanoctrl as Prometheus text. */
#ifndef NANOCTRL_STORE_METRICS_H
#define NANOCTRL_STORE_METRICS_H

#include <stdint.h>

struct evbuffer;
struct store_hub;

/* nanoctrl_NAME_total and nanoctrl_NAME. */
void metrics_counter(struct evbuffer *out, const char *name, const char *help,
		     const _Atomic uint64_t *value);
void metrics_gauge(struct evbuffer *out, const char *name, const char *help, uint64_t value);

/* One call took this long. */
void store_note_time(struct store_hub *hub, uint64_t took_us);

#endif
