/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/auth.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
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

#define SEAL_NONCE_LEN (SL_AUTH_SEAL_LEN - SL_AUTH_TAG_LEN)

int sl_auth_seal(const uint8_t key[SL_AUTH_KEY_LEN], const void *with, size_t with_len,
		 const void *in, size_t len, uint8_t *out)
{
	uint8_t *text = out + SEAL_NONCE_LEN;
	EVP_CIPHER_CTX *c;
	int n, ret = sl_auth_random(out, SEAL_NONCE_LEN);

	if (ret)
		return ret;
	c = EVP_CIPHER_CTX_new();
	if (!c || EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, out) != 1 ||
	    (with_len && EVP_EncryptUpdate(c, NULL, &n, with, (int)with_len) != 1) ||
	    EVP_EncryptUpdate(c, text, &n, in, (int)len) != 1 ||
	    EVP_EncryptFinal_ex(c, text + len, &n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, SL_AUTH_TAG_LEN, text + len) != 1)
		ret = -ENOMEM;
	EVP_CIPHER_CTX_free(c);
	return ret;
}

int sl_auth_open(const uint8_t key[SL_AUTH_KEY_LEN], const void *with, size_t with_len,
		 const uint8_t *in, size_t len, uint8_t *out)
{
	const uint8_t *text = in + SEAL_NONCE_LEN;
	uint8_t tag[SL_AUTH_TAG_LEN];
	EVP_CIPHER_CTX *c;
	int n, ret = 0;

	if (len < SL_AUTH_SEAL_LEN)
		return -EACCES;
	len -= SL_AUTH_SEAL_LEN;
	memcpy(tag, text + len, sizeof(tag));
	c = EVP_CIPHER_CTX_new();
	if (!c || EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, in) != 1 ||
	    (with_len && EVP_DecryptUpdate(c, NULL, &n, with, (int)with_len) != 1) ||
	    EVP_DecryptUpdate(c, out, &n, text, (int)len) != 1 ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, SL_AUTH_TAG_LEN, tag) != 1)
		ret = -ENOMEM;
	else if (EVP_DecryptFinal_ex(c, out + len, &n) != 1)
		ret = -EACCES;
	EVP_CIPHER_CTX_free(c);
	if (ret)
		sl_auth_wipe(out, len);
	return ret;
}

bool sl_auth_equal(const uint8_t a[SL_AUTH_MAC_LEN], const uint8_t b[SL_AUTH_MAC_LEN])
{
	return CRYPTO_memcmp(a, b, SL_AUTH_MAC_LEN) == 0;
}

/* The number that the text begins with, and goes behind it and a comma. False: there is none. */
static bool next_user(const char **at, uid_t *out)
{
	unsigned long long uid;
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	uid = strtoull(*at, &end, 10);
	if (uid >= (uid_t)-1 || (*end && *end != ',') || (*end && !end[1]))
		return false;
	*at = *end ? end + 1 : end;
	*out = (uid_t)uid;
	return true;
}

bool sl_auth_users_valid(const char *users)
{
	uid_t uid;

	while (*users) {
		if (!next_user(&users, &uid))
			return false;
	}
	return true;
}

bool sl_auth_user(const char *users, uid_t uid)
{
	uid_t named;

	if (uid == geteuid())
		return true;
	while (users && *users && next_user(&users, &named)) {
		if (named == uid)
			return true;
	}
	return false;
}

void sl_auth_wipe(void *secret, size_t len)
{
	OPENSSL_cleanse(secret, len);
}
