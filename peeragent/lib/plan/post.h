/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An offer of one end of a link for the other through nanoctrl, as bytes; docs/wire.md has the
 * layout.
 */
#ifndef AGENT_POST_H
#define AGENT_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/endpoint.h>

enum post_kind { POST_WANT = 1, POST_OFFER, POST_ANSWER };

#define POST_ATTEMPT_MAX ((UINT64_C(1) << 53) - 1) /* as all numbers that nanoctrl takes */
#define POST_MAX	 (12 + SLIME_ENDPOINT_DESC_MAX)
#define POST_CAUSE_SENT	 511 /* bytes of a cause */

struct post {
	enum post_kind kind;
	bool wants;	  /* the sender wants the link itself */
	uint64_t attempt; /* WANT: the one it has seen end, or 0 */
	const void *desc; /* of its endpoint; WANT: why the attempt ended, as text, or nothing */
	size_t desc_len;
};

/* The length written to buf of POST_MAX bytes. */
size_t post_encode(const struct post *post, void *buf);

/* desc points into buf. -EPROTO for what is malformed or of another version. */
int post_decode(const void *buf, size_t len, struct post *out);

#endif
