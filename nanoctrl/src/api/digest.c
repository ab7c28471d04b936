/* SPDX-License-Identifier: Apache-2.0 */
#include "api/digest.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#define RANDOM_MAX 64

static void hex(char *out, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 15];
	}
	*out = '\0';
}

int digest_sha256(const void *data, size_t len, char out[DIGEST_HEX])
{
	unsigned char md[EVP_MAX_MD_SIZE];

	if (EVP_Digest(data, len, md, NULL, EVP_sha256(), NULL) != 1)
		return -EIO;
	hex(out, md, 32);
	return 0;
}

int digest_random(char *out, size_t n)
{
	unsigned char bytes[RANDOM_MAX];

	assert(n <= sizeof(bytes));
	if (RAND_bytes(bytes, (int)n) != 1)
		return -EIO;
	hex(out, bytes, n);
	return 0;
}
