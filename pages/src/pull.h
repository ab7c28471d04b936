/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts, at the owner. A put is one request with many keys: pages are reserved, the bytes are read
 * from the writer in one batch, and a thread of its own computes checksums, commits and answers.
 * Until then the pages are invisible; on any failure they are given back.
 */
#ifndef PAGES_PULL_H
#define PAGES_PULL_H

#include "pages/src/tenant.h"

struct pulls;

/* Puts that are under way at one time; more are answered with EAGAIN. */
#define PULLS_MAX 128

int pulls_create(struct slime_agent *agent, struct pulls **out);

/* Begin to answer a put; r holds the bytes after its head. On the thread that makes progress: a put
 * of a writer whose link is not up here yet continues elsewhere. */
void pulls_begin(struct pulls *pulls, struct tenant *t, struct slime_rpc_request *req,
		 const struct pages_head *head, struct sl_reader *r);

/* Accept no more, and begin to end those under way: their endpoints are closed, and all are put
 * back. Waits for nothing. */
void pulls_stop(struct pulls *pulls);

/* Wait until that is done. */
void pulls_end(struct pulls *pulls);
void pulls_destroy(struct pulls *pulls);

#endif
