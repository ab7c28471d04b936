/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a text leads to this host alone. */
#ifndef SL_BASE_LOOPBACK_H
#define SL_BASE_LOOPBACK_H

#include <stdbool.h>

/* A numeric address of 127.0.0.0/8, or ::1; those of 127.0.0.0/8 mapped into IPv6 as well. */
bool sl_is_loopback_address(const char *text);

/* The same, or the name localhost. No other name counts, even if it begins like one of these. */
bool sl_is_loopback_host(const char *text);

#endif
