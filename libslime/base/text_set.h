/* SPDX-License-Identifier: Apache-2.0 */
/* A set of texts of any bytes, which it copies. All zero it is empty. */
#ifndef NANOCTRL_TEXT_SET_H
#define NANOCTRL_TEXT_SET_H

#include <stddef.h>
#include <stdint.h>

struct text_set {
	uint64_t seed; /* random, so that chosen texts cannot collide */
	char *bytes;   /* of all texts, one after the other */
	size_t len, room;
	struct text_set_slot *slots; /* a power of two of them, more than half of them empty */
	size_t n_slots, n;
};

/* Whether it was not there yet: 1, 0, or -ENOMEM. */
int text_set_add(struct text_set *s, const char *text, size_t len);

void text_set_fini(struct text_set *s);

#endif
