/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of endpoints and regions: what is read can be written, and says the same again. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/desc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

static void read_region(const uint8_t *data, size_t len)
{
	uint8_t again[SLIME_MR_DESC_MAX];
	struct slime_remote_mr r;

	if (sl_desc_read_region(&r, data, len))
		return;
	must(r.len && r.addr + r.len >= r.addr);
	must(sl_desc_write_region(&r, again, sizeof(again)) == (int)len);
	must(!memcmp(again, data, len));
}

/* Candidates of unknown transports are left out, so that the bytes need not be the same. */
static void read_endpoint(const uint8_t *data, size_t len)
{
	uint8_t bytes[SLIME_ENDPOINT_DESC_MAX];
	struct sl_endpoint_desc d, again;
	int n;

	if (sl_desc_read_endpoint(&d, data, len))
		return;
	must(d.n <= SLIME_TRANSPORT_MAX);
	n = sl_desc_write_endpoint(&d, bytes, sizeof(bytes));
	must(n > 0);
	must(sl_desc_read_endpoint(&again, bytes, (size_t)n) == 0);
	must(!memcmp(&again, &d, sizeof(d)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	read_region(data, len);
	read_endpoint(data, len);
	return 0;
}
