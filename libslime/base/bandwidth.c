/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bandwidth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sl_bandwidth_parse(const char *text, uint64_t *out)
{
	static const struct {
		const char *unit;
		uint64_t bits;
	} units[] = { { "bps", 1 },
		      { "Kbps", 1000 },
		      { "Mbps", 1000000 },
		      { "Gbps", UINT64_C(1000000000) },
		      { "Tbps", UINT64_C(1000000000000) } };
	size_t n = strspn(text, "0123456789");
	uint64_t number;

	if (!n || n > 15)
		return -EINVAL;
	number = strtoull(text, NULL, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(text + n, units[i].unit))
			continue;
		if (!number || number > SL_BANDWIDTH_MAX / units[i].bits)
			return -EINVAL;
		*out = number * units[i].bits;
		return 0;
	}
	return -EINVAL;
}
