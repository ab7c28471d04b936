/* SPDX-License-Identifier: Apache-2.0 */
/* A listener's descriptor, and the messages that follow its greeting: the first byte chooses. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/listener/wire.h"
#include <slime/listener.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* What was read is written and read again. */
static void check_descriptor(const uint8_t *in, size_t len)
{
	uint8_t out[SLIME_LISTENER_DESC_MAX];
	struct sl_listener_desc d, again;
	int ret;

	if (sl_listener_desc_read(&d, in, len))
		return;
	must(d.n <= SL_LISTENER_ADDRESSES_MAX);
	ret = sl_listener_desc_write(&d, out, sizeof(out));
	must(ret > 0);
	must(sl_listener_desc_read(&again, out, (size_t)ret) == 0);
	must(memcmp(&d, &again, sizeof(d)) == 0);
}

static void check_message(enum sl_exchange_kind kind, const uint8_t *in, size_t len)
{
	static const uint8_t key[SL_AUTH_KEY_LEN], tag[SL_AUTH_TAG_LEN];
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct sl_exchange_head h;

	if (len < SL_EXCHANGE_HEAD_LEN || sl_exchange_read_head(&h, kind, in))
		return;
	must(h.len <= SL_EXCHANGE_MAX - SL_EXCHANGE_HEAD_LEN);
	if (h.len && h.len <= len - SL_EXCHANGE_HEAD_LEN)
		must(sl_exchange_open(kind, key, kind == SL_EXCHANGE_ANSWER ? tag : NULL,
				      in + SL_EXCHANGE_HEAD_LEN, h.len, desc) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % 3 == 0)
		check_descriptor(data + 1, size - 1);
	else
		check_message(data[0] % 3 == 1 ? SL_EXCHANGE_OFFER : SL_EXCHANGE_ANSWER, data + 1,
			      size - 1);
	return 0;
}
