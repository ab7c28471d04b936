/* SPDX-License-Identifier: Apache-2.0 */
/* The sources from which this binary was built. */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

const char *cli_version(void); /* "0.1.0" */
const char *
cli_commit(void); /* "4cec2e5a0b1c", with "-dirty" when the tree had changes, or "unknown" */
const char *cli_build(void);	/* "Release", with sanitizers named */
const char *cli_compiler(void); /* "GNU 12.2.0 -O3 -DNDEBUG" */

#endif
