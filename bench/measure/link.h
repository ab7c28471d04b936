/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a link between the two processes of a pair, and memory to use over it. */
#ifndef MEASURE_LINK_H
#define MEASURE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure/options.h"
#include <slime/slime.h>

struct link {
	struct slime_context *ctx;
	struct slime_rpc_service *service; /* of the server */
	struct slime_endpoint *ep;
	struct slime_op *op;
};

enum link_side { LINK_CLIENT, LINK_SERVER };

/* Connect over the channel of the pair. Both ends offer the methods "echo" and "copy" (calls.h). On
 * an error the link is closed. */
int link_open(struct link *l, const struct options *o, enum link_side side, int channel);
/* The same without threads: whoever waits moves it. */
int link_open_manual(struct link *l, const struct options *o, enum link_side side, int channel);
void link_close(struct link *l);
/* Another link of the same two contexts. Closed before the first. */
int link_open_beside(struct link *l, const struct link *first, const struct options *o,
		     int channel);
void link_close_beside(struct link *l);

/* A region, and the memory under it: from slime_mem_alloc, or foreign. */
struct space {
	struct slime_mem *mem; /* NULL: foreign */
	struct slime_mr *mr;
	uint8_t *bytes;
	uint64_t len;
};

int space_open(struct space *s, struct link *l, uint64_t len, uint32_t access, bool foreign);
void space_close(struct space *s);

/* The server's region, to the client. */
int space_tell(const struct space *s, int channel);
int space_hear(struct slime_remote_mr *out, int channel);

#endif
