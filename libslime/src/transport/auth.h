/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs: HMAC-SHA256, nonces, and a comparison in constant time; and the users that may give
 * one. */
#ifndef SL_AUTH_H
#define SL_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <slime/export.h>

#define SL_AUTH_KEY_LEN	  32
#define SL_AUTH_MAC_LEN	  32
#define SL_AUTH_NONCE_LEN 32
#define SL_AUTH_TAG_LEN	  16
#define SL_AUTH_SEAL_LEN  (12 + SL_AUTH_TAG_LEN) /* what sealing adds */

/* len random bytes from the kernel, at most 256. Returns 0 or -EIO. */
SLIME_CHECKED int sl_auth_random(void *out, size_t len);

/* HMAC-SHA256 of len bytes under key. Returns 0, or -ENOMEM: out is zeroed then. */
SLIME_CHECKED int sl_auth_mac(const uint8_t key[SL_AUTH_KEY_LEN], const void *data, size_t len,
			      uint8_t out[SL_AUTH_MAC_LEN]);

/*
 * Encrypt and authenticate len bytes by AES-256-GCM, together with `with`, which both ends know:
 * out is a random nonce (12), len bytes, and the tag. Returns 0, -EIO or -ENOMEM.
 */
SLIME_CHECKED int sl_auth_seal(const uint8_t key[SL_AUTH_KEY_LEN], const void *with,
			       size_t with_len, const void *in, size_t len, uint8_t *out);

/* The reverse, of len bytes in all; out is len - SL_AUTH_SEAL_LEN. 0, or -EACCES: nothing is in out
 * then; -ENOMEM. */
SLIME_CHECKED int sl_auth_open(const uint8_t key[SL_AUTH_KEY_LEN], const void *with,
			       size_t with_len, const uint8_t *in, size_t len, uint8_t *out);

/* Whether two MACs are equal, in constant time. */
bool sl_auth_equal(const uint8_t a[SL_AUTH_MAC_LEN], const uint8_t b[SL_AUTH_MAC_LEN]);

/* Whether the text names users as shm_users of slime_context_attr does. */
bool sl_auth_users_valid(const char *users);

/* Whether a process of that user, on this host, may be a peer: our own user may, and users that
 * are named. */
bool sl_auth_user(const char *users, uid_t uid);

/* Clear a secret so that the compiler does not leave it out. */
void sl_auth_wipe(void *secret, size_t len);

#endif
