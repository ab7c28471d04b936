/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of the first release: its struct ends before `check`, and what lies behind is not its.
 */
#include <stddef.h>
#include <stdlib.h>

#include <slime/plugin.h>

static int init(struct slime_agent *agent, const struct slime_plugin_option *options, size_t n,
		void **state)
{
	(void)agent;
	(void)options;
	(void)n;
	*state = NULL;
	return 0;
}

static const char *check(const struct slime_plugin_option *options, size_t n, size_t *index)
{
	(void)options;
	(void)n;
	(void)index;
	abort();
}

const struct slime_plugin slime_plugin = {
	.abi = SLIME_PLUGIN_ABI,
	.size = offsetof(struct slime_plugin, check),
	.name = "first",
	.init = init,
	.check = check,
	.cancel = abort,
	.workers = UINT32_MAX,
};
