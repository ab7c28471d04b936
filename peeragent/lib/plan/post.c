/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/plan/post.h"

#include <assert.h>
#include <errno.h>

#include "base/wire.h"

#define POST_VERSION 1
#define FLAG_WANTS   1

size_t post_encode(const struct post *post, void *buf)
{
	struct sl_writer w = { .at = buf, .room = POST_MAX };

	sl_write_u8(&w, POST_VERSION);
	sl_write_u8(&w, (uint8_t)post->kind);
	sl_write_u16(&w, post->wants ? FLAG_WANTS : 0);
	sl_write_u64(&w, post->attempt);
	sl_write_bytes(&w, post->desc, post->desc_len);
	assert(!w.failed);
	return POST_MAX - w.room;
}

static bool rest_fits(uint8_t kind, size_t len)
{
	return len <= SLIME_ENDPOINT_DESC_MAX && (len || kind == POST_WANT);
}

int post_decode(const void *buf, size_t len, struct post *out)
{
	struct sl_reader r = { .at = buf, .left = len };
	uint8_t version = sl_read_u8(&r);
	uint8_t kind = sl_read_u8(&r);
	uint16_t flags = sl_read_u16(&r);
	uint64_t attempt = sl_read_u64(&r);

	if (r.failed || version != POST_VERSION || kind < POST_WANT || kind > POST_ANSWER ||
	    flags & ~FLAG_WANTS || attempt > POST_ATTEMPT_MAX || !rest_fits(kind, r.left))
		return -EPROTO;
	*out = (struct post){
		.kind = (enum post_kind)kind,
		.wants = kind == POST_WANT || flags & FLAG_WANTS,
		.attempt = attempt,
		.desc = r.at,
		.desc_len = r.left,
	};
	return 0;
}
