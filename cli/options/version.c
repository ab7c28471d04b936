/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/version.h"
#include "slime_build.h"

const char *cli_version(void)
{
	return SLIME_VERSION;
}

const char *cli_commit(void)
{
	return SLIME_BUILD_COMMIT;
}

const char *cli_build(void)
{
	return SLIME_BUILD_TYPE;
}

const char *cli_compiler(void)
{
	return SLIME_BUILD_COMPILER;
}
