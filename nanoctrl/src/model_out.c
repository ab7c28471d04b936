/* SPDX-License-Identifier: Apache-2.0 */
#include "model_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void out_bytes(struct out *o, const char *text, size_t len)
{
	if (!o->failed && o->len + len + 1 > o->room) {
		size_t room = 2 * (o->len + len + 1);
		char *bigger = realloc(o->at, room);

		o->failed = !bigger;
		if (bigger) {
			o->at = bigger;
			o->room = room;
		}
	}
	if (o->failed)
		return;
	memcpy(o->at + o->len, text, len);
	o->len += len;
	o->at[o->len] = '\0';
}

void out_json(struct out *o, struct store_text t)
{
	out_bytes(o, t.len ? t.at : "null", t.len ? t.len : 4);
}

void out_words(struct out *o, const char *words)
{
	out_bytes(o, words, strlen(words));
}

void out_escaped(struct out *o, struct store_text t)
{
	char escape[8];

	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c == '"' || c == '\\') {
			out_bytes(o, c == '"' ? "\\\"" : "\\\\", 2);
		} else if (c < 0x20) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			out_bytes(o, escape, 6);
		} else {
			out_bytes(o, t.at + i, 1);
		}
	}
}

void out_member(struct out *o, const char *before, struct store_text t)
{
	out_words(o, before);
	out_words(o, "\"");
	out_escaped(o, t);
	out_words(o, "\"");
}

char *out_finish(struct out *o)
{
	if (!o->failed)
		return o->at;
	free(o->at);
	return NULL;
}
