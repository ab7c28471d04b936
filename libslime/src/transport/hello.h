/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a greeting: docs/wire.md. Four messages, each of a fixed length, so that they are
 * read exactly on a byte stream and on a packet socket alike:
 *
 *	initiator -> acceptor   HELLO      our id, the id of the peer, our nonce
 *	acceptor -> initiator   CHALLENGE  its nonce, its proof; or, with a code, a refusal
 *	initiator -> acceptor   PROOF      ours
 *	acceptor -> initiator   VERDICT    code 0: welcome
 *
 * Decoders take hostile bytes.
 */
#ifndef SL_HELLO_H
#define SL_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "src/transport/auth.h"
#include "src/transport/transport.h"

#define SL_HELLO_MAGIC	 UINT32_C(0x4d494c53) /* "SLIM" */
#define SL_HELLO_VERSION 2

/*
 * What an end can do beyond the version, one bit each. A bit of the lower half is an offer: it
 * counts if both ends set it, and an end that does not know it ignores it. A bit of the upper
 * half is required: an end that does not know it refuses the link.
 */
#define SL_FEATURES	     UINT32_C(0)
#define SL_FEATURES_REQUIRED UINT32_C(0xffff0000)

static inline bool sl_features_known(uint32_t theirs)
{
	return !(theirs & SL_FEATURES_REQUIRED & ~SL_FEATURES);
}

#define SL_HELLO_LEN	 80
#define SL_CHALLENGE_LEN 76
#define SL_PROOF_LEN	 40
#define SL_VERDICT_LEN	 8
#define SL_HELLO_MAX	 SL_HELLO_LEN

/* Why an acceptor refuses. */
enum sl_refusal {
	SL_WELCOME,
	SL_REFUSED_UNKNOWN, /* no such endpoint, or it expects another peer */
	SL_REFUSED_NOT_YET, /* it exists, and did not learn of its peer in time: dial again */
	SL_REFUSED_VERSION,
	SL_REFUSED_KEY,
	SL_REFUSED_FEATURE, /* the initiator requires one that we do not know */
	SL_REFUSED_USER,    /* of a unix socket: processes of its user are not accepted */
};

enum sl_role {
	SL_INITIATOR = 1,
	SL_ACCEPTOR,
};

/* The bytes that both proofs cover. */
struct sl_hello {
	enum slime_transport transport;
	uint16_t stream;
	uint32_t features; /* the initiator's */
	struct sl_link_id initiator;
	struct sl_link_id acceptor;
	uint8_t nonce[SL_AUTH_NONCE_LEN];	   /* the initiator's */
	uint8_t acceptor_nonce[SL_AUTH_NONCE_LEN]; /* in the challenge */
	uint32_t acceptor_features;		   /* the same */
};

void sl_hello_write(const struct sl_hello *h, uint8_t out[SL_HELLO_LEN]);
/* Nonce and features of the acceptor. */
void sl_hello_write_challenge(const struct sl_hello *h, const uint8_t mac[SL_AUTH_MAC_LEN],
			      uint8_t out[SL_CHALLENGE_LEN]);
void sl_hello_write_proof(const uint8_t mac[SL_AUTH_MAC_LEN], uint8_t out[SL_PROOF_LEN]);

/* A refusal in the place of a challenge, or a verdict: the first len bytes. */
void sl_hello_write_code(enum sl_refusal code, uint8_t *out, size_t len);

/* The readers: 0, -EPROTO not such a message, -EPROTONOSUPPORT another version. The caller that
 * reads a HELLO or a CHALLENGE checks its features by sl_features_known(). */
int sl_hello_read(struct sl_hello *h, const uint8_t in[SL_HELLO_LEN]);
int sl_hello_read_proof(uint8_t mac[SL_AUTH_MAC_LEN], const uint8_t in[SL_PROOF_LEN]);

/* The initiator's: also what the acceptor's code means, -ENOENT (unknown), -EAGAIN (not yet),
 * -EPROTONOSUPPORT (version, or feature), -EACCES (key), -EPERM (user). */
int sl_hello_read_challenge(struct sl_hello *h, uint8_t mac[SL_AUTH_MAC_LEN],
			    const uint8_t in[SL_CHALLENGE_LEN]);
int sl_hello_read_verdict(const uint8_t in[SL_VERDICT_LEN]);

/* The proof of a role under the link's key. 0 or -ENOMEM. */
SLIME_CHECKED int sl_hello_mac(const struct sl_hello *h, enum sl_role role,
			       const uint8_t key[SL_AUTH_KEY_LEN], uint8_t out[SL_AUTH_MAC_LEN]);

/* Whether len bytes of a message, which need not be whole, say that they are of another version. */
bool sl_hello_is_foreign(const uint8_t *in, size_t len);

/*
 * Receive the rest of a message of len bytes, of which *have are in buf. Returns 0 when it is
 * whole, -EAGAIN when more must come, -ECONNRESET at the end of the stream, -EPROTO for a packet
 * that is longer.
 */
int sl_hello_recv(int fd, uint8_t *buf, size_t len, size_t *have);

/* Send one message in one call; it fits the buffer of a fresh socket. 0 or a negative errno. */
int sl_hello_send(int fd, const uint8_t *buf, size_t len);

#endif
