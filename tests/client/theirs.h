/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load of clients of DLSlime's NanoCtrl, in the test's loop: agents and services that register,
 * beat, and write regions and metadata through any of several servers; with a ledger of what was
 * acknowledged.
 */
#ifndef TESTS_CLIENT_THEIRS_H
#define TESTS_CLIENT_THEIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "server.h"

struct event_base;

/* Registers all of them. The servers live longer. */
void theirs_start(struct event_base *base, const struct server *const *servers, size_t n,
		  const char *scope);

/* From now on they write; or no more, and are quiet when what they sent has been answered. */
void theirs_write(bool on);
bool theirs_are_quiet(void);

uint64_t theirs_acknowledged(void);

/* Holds what the servers say against the ledger. */
void theirs_check(void);

/* All of them go, and what they wrote. */
void theirs_leave(void);

/* Without a word. Harmless when none was started. */
void theirs_stop(void);

#endif
