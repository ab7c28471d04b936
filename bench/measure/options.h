/* SPDX-License-Identifier: Apache-2.0 */
/* What slime-measure can be told. */
#ifndef MEASURE_OPTIONS_H
#define MEASURE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/rounds/options.h"

enum measure_memory {
	MEMORY_OWN,	   /* the caller's, unknown to the library */
	MEMORY_REGISTERED, /* of slime_mem_alloc, in a region */
	MEMORY_IN_PLACE,   /* the request in a region, the reply where the handler wrote it */
};

struct options {
	struct rounds_options rounds; /* the first: its tables are for both */
	int transport;		      /* enum slime_transport */
	int polling;		      /* enum slime_polling */
	const char *device;	      /* of the client, and of the server; NULL: the first */
	const char *server_device;
	int64_t qps;

	int64_t inflight; /* batches, or calls */

	/* read, write */
	bool one_place; /* of all batches in flight */
	bool foreign;

	/* rpc */
	int memory; /* enum measure_memory */
	bool count;

	/* links, rest */
	int64_t links;

	/* mixed */
	bool other_link;

	/* target */
	bool by_handles;

	/* control, target */
	const char *url;

	/* control */
	int route; /* enum route */
	int64_t connections;
	int64_t entities;
};

extern const struct cli_program measure_program;

#endif
