/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: made at random, remembered as their SHA-256. */
#ifndef NANOCTRL_DIGEST_H
#define NANOCTRL_DIGEST_H

#include <stddef.h>

#define DIGEST_HEX 65 /* digits of SHA-256 and a NUL */

/* In lower-case hexadecimal. -EIO when libcrypto refuses. */
int digest_sha256(const void *data, size_t len, char out[DIGEST_HEX]);

/* n random bytes as 2n hexadecimal digits and a NUL. -EIO. */
int digest_random(char *out, size_t n);

#endif
