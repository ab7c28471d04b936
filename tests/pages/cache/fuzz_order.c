/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign bytes as the body of a request: what is taken has a name, and what is refused a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	for (int kind = ORDER_STORE; kind <= ORDER_ONE; kind++) {
		char why[ORDER_WHY_MAX] = "";
		struct order o;
		int ret = order_read(text, size, (enum order_kind)kind, &o, why);

		if (ret ? !*why : !o.peer || strlen(o.peer) > DIRECTORY_PEER_MAX)
			abort();
		if (!ret)
			order_fini(&o);
	}
	free(text);
	return 0;
}
