/* SPDX-License-Identifier: Apache-2.0 */
/* A file whose first line is a secret. */
#ifndef CLI_SECRET_H
#define CLI_SECRET_H

#include <stddef.h>

/*
 * Read it into out, without the end of the line. 0, or what cli_secret_error() has words for:
 *   -EPERM    others than its owner may read or write the file, so that it is none
 *   -ENODATA  its first line is empty
 *   -E2BIG    the line is longer than cap - 1 bytes
 *   -ETIMEDOUT  it is a pipe, and its writer sends nothing
 *   else what open(2) and read(2) say
 */
int cli_secret_read(const char *path, char *out, size_t cap);

/* The error of the file, for people. */
const char *cli_secret_error(int ret);

#endif
