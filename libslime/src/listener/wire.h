/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a listener's descriptor, and of the two messages that follow a greeting at a
 * listener: docs/wire.md. Every reader takes hostile bytes.
 */
#ifndef SL_LISTENER_WIRE_H
#define SL_LISTENER_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "src/core/desc.h"
#include "src/transport/auth.h"

#define SL_LISTENER_ADDRESSES_MAX 2

struct sl_listener_desc {
	uint64_t id; /* of the listener: random */
	uint8_t key[SL_AUTH_KEY_LEN];
	unsigned n;
	/* In the order in which a dialer tries them. */
	struct sockaddr_storage addresses[SL_LISTENER_ADDRESSES_MAX];
	socklen_t lens[SL_LISTENER_ADDRESSES_MAX];
};

/* The length written, or -ENOSPC. */
int sl_listener_desc_write(const struct sl_listener_desc *d, void *buf, size_t cap);
/* 0, -EINVAL, -EPROTONOSUPPORT. */
int sl_listener_desc_read(struct sl_listener_desc *d, const void *buf, size_t len);

enum sl_exchange_kind {
	SL_EXCHANGE_OFFER = 1, /* the dialer's endpoint */
	SL_EXCHANGE_ANSWER,    /* the listener's, or why there is none */
};

enum sl_exchange_code {
	SL_EXCHANGE_OK,
	SL_EXCHANGE_FULL,      /* max_endpoints */
	SL_EXCHANGE_MALFORMED, /* the offer is no endpoint's descriptor */
	SL_EXCHANGE_FAILED,    /* the listener's log has the reason */
};

#define SL_EXCHANGE_HEAD_LEN 8
#define SL_EXCHANGE_MAX	     (SL_EXCHANGE_HEAD_LEN + SL_AUTH_SEAL_LEN + SLIME_ENDPOINT_DESC_MAX)

struct sl_exchange_head {
	enum sl_exchange_kind kind;
	enum sl_exchange_code code;
	uint16_t len; /* of what follows */
};

/* 0 or -EPROTO; a length that is out of bounds is -EPROTO. */
int sl_exchange_read_head(struct sl_exchange_head *h, enum sl_exchange_kind kind,
			  const uint8_t in[SL_EXCHANGE_HEAD_LEN]);

/*
 * A message with a sealed descriptor; after is the tag of the offer that an answer belongs to, NULL
 * in an offer. Writes at most SL_EXCHANGE_MAX bytes; the length, or -EIO, -ENOMEM.
 */
int sl_exchange_write(enum sl_exchange_kind kind, const uint8_t key[SL_AUTH_KEY_LEN],
		      const uint8_t after[SL_AUTH_TAG_LEN], const void *desc, size_t len,
		      uint8_t *out);
/* An answer without a descriptor. Its length. */
int sl_exchange_write_code(enum sl_exchange_code code, uint8_t *out);

/* The seal of a message over len bytes behind its head; out holds SLIME_ENDPOINT_DESC_MAX bytes.
 * Its length, -EACCES, -ENOMEM. */
int sl_exchange_open(enum sl_exchange_kind kind, const uint8_t key[SL_AUTH_KEY_LEN],
		     const uint8_t after[SL_AUTH_TAG_LEN], const uint8_t *sealed, size_t len,
		     uint8_t *out);

#endif
