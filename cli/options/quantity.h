/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units as people write them: "15s", "1.5h", "128KiB". Exact, or refused. */
#ifndef CLI_QUANTITY_H
#define CLI_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

/* Enough for every text that the functions below write. */
#define CLI_QUANTITY_MAX 32

/* 0, or -EINVAL: not a whole decimal number, or beyond 64 bits. */
int cli_integer_parse(const char *text, int64_t *out);

/* ns, us, ms, s, m, h, d; a bare number is seconds. -EINVAL also when it is no whole number of ns.
 */
int cli_duration_parse(const char *text, int64_t *out_ns);

/* B, KiB, MiB, GiB, TiB; a bare number is bytes. -EINVAL also when it is no whole number of bytes.
 */
int cli_size_parse(const char *text, int64_t *out_bytes);

/* The largest unit that says it exactly: 131072 is "128KiB", 1500 ms is "1500ms". Returns out. */
char *cli_duration_format(char *out, size_t len, int64_t ns);
char *cli_size_format(char *out, size_t len, int64_t bytes);

#endif
