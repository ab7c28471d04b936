/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that this thread touches an instruction at a time: after the n-th instruction that read or
 * wrote there, something happens, as if another process, or thread, had been that fast. x86-64; one
 * at a time. What the thread sanitizer does for an atomic access counts as one.
 */
#ifndef TEST_STEPPER_H
#define TEST_STEPPER_H

#include <stdbool.h>
#include <stddef.h>

/* Runs in a signal handler, in which the memory can be touched. */
typedef void stepper_fn(void *arg);

/* From here on, len bytes at the page at: after n accesses fn runs, once. */
void stepper_begin(void *at, size_t len, unsigned n, stepper_fn *fn, void *arg);

/* The memory is as before. Whether there were so many accesses. */
bool stepper_end(void);

#endif
