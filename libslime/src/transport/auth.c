/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/auth.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

int sl_auth_random(void *out, size_t len)
{
	ssize_t n;

	assert(len <= 256); /* so much comes whole once the pool is seeded */
	do {
		n = getrandom(out, len, 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : -EIO;
}

int sl_auth_mac(const uint8_t key[SL_AUTH_KEY_LEN], const void *data, size_t len,
		uint8_t out[SL_AUTH_MAC_LEN])
{
	if (HMAC(EVP_sha256(), key, SL_AUTH_KEY_LEN, data, len, out, NULL))
		return 0;
	memset(out, 0, SL_AUTH_MAC_LEN);
	return -ENOMEM;
}

bool sl_auth_equal(const uint8_t a[SL_AUTH_MAC_LEN], const uint8_t b[SL_AUTH_MAC_LEN])
{
	return CRYPTO_memcmp(a, b, SL_AUTH_MAC_LEN) == 0;
}

bool sl_auth_user(uid_t uid)
{
	uid_t own = geteuid();

	return uid == own || uid == 0 || own == 0;
}

void sl_auth_wipe(void *secret, size_t len)
{
	OPENSSL_cleanse(secret, len);
}
