/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, taken by value. They are relaxed: exact when nothing runs, close while it does. */
#ifndef SLIME_STATS_H
#define SLIME_STATS_H

#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_endpoint;

enum slime_op_kind {
	SLIME_KIND_READ,
	SLIME_KIND_WRITE,
	SLIME_KIND_WRITE_IMM,
	SLIME_KIND_IMM_RECV,
	SLIME_KIND_SEND,
	SLIME_KIND_RECV,
	SLIME_KIND_CALL,  /* calls made */
	SLIME_KIND_SERVE, /* requests handled */
	SLIME_KIND_MAX,
};

/* "read", "write", "write_imm", ... */
SLIME_API const char *slime_op_kind_name(enum slime_op_kind kind);

struct slime_kind_stats {
	uint64_t submitted; /* of SLIME_KIND_SERVE: answered, well or not */
	uint64_t completed; /* with success */
	uint64_t failed;
	uint64_t bytes; /* of the completed ones */
};

struct slime_endpoint_stats {
	struct slime_kind_stats kinds[SLIME_KIND_MAX];
};

SLIME_API void slime_endpoint_stats(const struct slime_endpoint *ep,
				    struct slime_endpoint_stats *out);

SLIME_END_DECLS

#endif
