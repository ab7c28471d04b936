/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "cli/process/descriptors.h"

uint64_t cli_descriptors_raise(void)
{
	struct rlimit limit, all;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return UINT64_MAX;
	all = (struct rlimit){ limit.rlim_max, limit.rlim_max };
	return setrlimit(RLIMIT_NOFILE, &all) ? limit.rlim_cur : all.rlim_cur;
}
