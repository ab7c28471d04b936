/* SPDX-License-Identifier: Apache-2.0 */
/* The options of slime. */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options/option.h"

struct options {
	/* of an agent of its own */
	const char *const *urls;
	size_t n_urls;
	const char *scope;
	const char *token_file;
	int64_t timeout_ms;
	int transport; /* enum slime_transport; 0: any */

	/* of this host */
	const char *sysfs;
	const char *procfs;
	bool json;

	/* of pages */
	const char *tenant;
	int64_t replicas;

	/* of doctor */
	const char *redis;
	const char *peer;
	bool quiet;
};

extern const struct cli_program tool_program;

#endif
