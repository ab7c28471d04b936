/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of slime-cache: its command line, as DLSlimeCache's. */
#ifndef PAGES_CACHE_SETTINGS_H
#define PAGES_CACHE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cli/options/option.h"

#define CACHE_PORT 8765 /* the default */

struct cache_settings {
	const char *host;
	uint16_t port;
	bool insecure;
	const char *const *names; /* of this host, in Host fields */
	size_t n_names;
	const char *slab_size, *memory_size; /* cache_size() */
	const char *ctrl;		     /* NULL: it registers nowhere */
	const char *scope;
	const char *service_id;
	const char *advertise_host; /* NULL: as it listens */
	int64_t beat_ms;
	bool metadata_only;
	bool quiet;
	int log_level;
	const char *log_file;
	int64_t wait_ms;
	const char *health_host;
	uint16_t health_port;
	const char *runtime_dir;
	const char *address;
	int64_t timeout_ms;
	bool force;
};

/* 262144, 256K, 256kb, 256KiB: powers of 1024, as DLSlimeCache reads sizes. False for others. */
bool cache_size(const char *text, uint64_t *out);

extern const struct cli_program cache_program;

#endif
