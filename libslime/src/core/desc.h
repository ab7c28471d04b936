/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of descriptors: docs/wire.md. Every decoder takes hostile bytes. */
#ifndef SL_DESC_H
#define SL_DESC_H

#include <stddef.h>
#include <stdint.h>

#include <slime/context.h>
#include <slime/endpoint.h>
#include <slime/mr.h>

#define SL_SECRET_LEN	 32
#define SL_CANDIDATE_MAX 1280

struct sl_candidate {
	enum slime_transport transport;
	uint16_t len;
	uint8_t bytes[SL_CANDIDATE_MAX];
};

struct sl_endpoint_desc {
	uint64_t context;
	uint64_t endpoint;
	uint8_t secret[SL_SECRET_LEN];
	unsigned n;
	struct sl_candidate candidates[SLIME_TRANSPORT_MAX];
};

/* Both return the length written, or -ENOSPC. */
int sl_desc_write_endpoint(const struct sl_endpoint_desc *d, void *buf, size_t cap);
int sl_desc_write_region(const struct slime_remote_mr *r, void *buf, size_t cap);

/* 0, -EINVAL, -EPROTONOSUPPORT. */
int sl_desc_read_endpoint(struct sl_endpoint_desc *d, const void *buf, size_t len);
int sl_desc_read_region(struct slime_remote_mr *r, const void *buf, size_t len);

#endif
