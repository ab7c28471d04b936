/* SPDX-License-Identifier: Apache-2.0 */
/* What this process sends over sockets, and memory that it shares with others, is changed at
 * random: it becomes a peer that holds every key and breaks every rule. */
#ifndef STRESS_MUTATE_H
#define STRESS_MUTATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/stress/dice.h"

/* A word that is odd where a length, an index or a count is expected. */
uint64_t mutate_word(struct dice *dice);

/* One change of a few of the len bytes; len is not 0. */
void mutate_bytes(struct dice *dice, uint8_t *bytes, size_t len);

/* From now on one in so many sends is changed; 0: none. n counts what was changed. */
void mutate_sends(uint64_t seed, uint32_t one_in, _Atomic uint64_t *n);

/* A thread begins to write to memory that is shared with others, so often each millisecond. */
void mutate_memory(uint64_t seed, uint32_t per_ms, _Atomic uint64_t *n);

#endif
