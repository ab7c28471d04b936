/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign bytes as a file of figures: what is taken has sizes that grow and figures that divide. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/rpc/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sweep s;
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	if (!sweep_parse(&s, "fuzz", text, NULL)) {
		if (!s.n || s.n > SWEEP_MAX_POINTS || strlen(s.head) >= SWEEP_MAX_HEAD)
			abort();
		for (size_t i = 0; i < s.n; i++) {
			if (!s.points[i].size || (i && s.points[i].size <= s.points[i - 1].size) ||
			    !(s.points[i].avg_us >= 0) || !(s.points[i].bw_gb_s >= 0))
				abort();
		}
	}
	free(text);
	return 0;
}
