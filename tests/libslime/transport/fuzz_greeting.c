/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a greeting; the first byte chooses which, and the rest is filled up with zeros.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/transport/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

static void check_hello(const uint8_t in[SL_HELLO_LEN])
{
	struct sl_hello h = { 0 };
	uint8_t out[SL_HELLO_LEN];

	if (sl_hello_read(&h, in))
		return;
	sl_hello_write(&h, out);
	/* But for what is reserved. */
	out[11] = in[11];
	must(memcmp(out, in, sizeof(out)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t in[SL_HELLO_MAX] = { 0 };
	struct sl_hello h = { 0 };
	uint8_t mac[SL_AUTH_MAC_LEN];

	if (!size)
		return 0;
	memcpy(in, data + 1, size - 1 < sizeof(in) ? size - 1 : sizeof(in));
	switch (data[0] % 4) {
	case 0:
		check_hello(in);
		break;
	case 1:
		if (sl_hello_read_challenge(&h, mac, in) == 0)
			must(memcmp(h.acceptor_nonce, in + 8, sizeof(h.acceptor_nonce)) == 0 &&
			     memcmp(mac, in + 40, sizeof(mac)) == 0);
		break;
	case 2:
		if (sl_hello_read_proof(mac, in) == 0)
			must(memcmp(mac, in + 8, sizeof(mac)) == 0);
		break;
	default:
		must(sl_hello_read_verdict(in) <= 0);
		break;
	}
	return 0;
}
