/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input, output and error as what they are taken for. */
#ifndef CLI_STANDARD_H
#define CLI_STANDARD_H

/*
 * The first thing a program does: of descriptors 0, 1 and 2 those that are closed, as by `>&-`, are
 * /dev/null from here on. Otherwise the next file or socket that is opened gets the number, and
 * what is printed goes there. A negative errno when that cannot be had.
 */
int cli_standard_open(void);

#endif
