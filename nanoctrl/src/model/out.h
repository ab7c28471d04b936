/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON text in the making. It grows; what fails for want of memory shows at the end. */
#ifndef NANOCTRL_MODEL_OUT_H
#define NANOCTRL_MODEL_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include "store/store.h"

struct out {
	char *at;
	size_t len, room;
	bool failed;
};

void out_bytes(struct out *o, const char *text, size_t len);
void out_words(struct out *o, const char *words);

/* JSON as it is; null for an empty text. */
void out_json(struct out *o, struct store_text json);

/* The inside of a JSON string; text is UTF-8. */
void out_escaped(struct out *o, struct store_text text);

/* before, then the text as a JSON string. */
void out_member(struct out *o, const char *before, struct store_text text);

/* The text, for the caller to free(); NULL when there was no memory. */
char *out_finish(struct out *o);

#endif
