/* SPDX-License-Identifier: Apache-2.0 */
#include "model/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 256 /* most texts fit at once */

void out_bytes(struct out *o, const char *text, size_t len)
{
	if (!o->failed && o->len + len + 1 > o->room) {
		size_t room = 2 * (o->len + len + 1) + ROOM_MIN;
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
	size_t done = 0; /* bytes of t that are in o */

	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		out_bytes(o, t.at + done, i - done);
		done = i + 1;
		if (c == '"' || c == '\\') {
			out_bytes(o, c == '"' ? "\\\"" : "\\\\", 2);
		} else {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			out_bytes(o, escape, 6);
		}
	}
	if (done < t.len)
		out_bytes(o, t.at + done, t.len - done);
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
