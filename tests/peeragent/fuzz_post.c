/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer posted: anything that is taken encodes to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "peeragent/lib/plan/post.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	uint8_t again[POST_MAX];
	struct post post;

	if (!exact)
		return 0;
	if (size)
		memcpy(exact, data, size);
	if (!post_decode(exact, size, &post)) {
		size_t len = post_encode(&post, again);

		/* A want always has its flag, whatever was sent. */
		if (len != size || memcmp(again + 4, exact + 4, size - 4) != 0 ||
		    again[1] != exact[1])
			abort();
	}
	free(exact);
	return 0;
}
