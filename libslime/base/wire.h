/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that cross a process: little-endian, a version first, every length checked. A cursor that
 * ran over its end stays failed; callers look at it once, after the last field.
 */
#ifndef SL_BASE_WIRE_H
#define SL_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void sl_put_le16(void *to, uint16_t v)
{
	uint8_t *p = to;

	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static inline void sl_put_le32(void *to, uint32_t v)
{
	uint8_t *p = to;

	sl_put_le16(p, (uint16_t)v);
	sl_put_le16(p + 2, (uint16_t)(v >> 16));
}

static inline void sl_put_le64(void *to, uint64_t v)
{
	uint8_t *p = to;

	sl_put_le32(p, (uint32_t)v);
	sl_put_le32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t sl_get_le16(const void *from)
{
	const uint8_t *p = from;

	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t sl_get_le32(const void *from)
{
	const uint8_t *p = from;

	return sl_get_le16(p) | (uint32_t)sl_get_le16(p + 2) << 16;
}

static inline uint64_t sl_get_le64(const void *from)
{
	const uint8_t *p = from;

	return sl_get_le32(p) | (uint64_t)sl_get_le32(p + 4) << 32;
}

struct sl_writer {
	uint8_t *at;
	size_t room;
	bool failed; /* something did not fit */
};

static inline void sl_write_bytes(struct sl_writer *w, const void *from, size_t len)
{
	if (w->failed || len > w->room) {
		w->failed = true;
		return;
	}
	if (len)
		memcpy(w->at, from, len);
	w->at += len;
	w->room -= len;
}

static inline void sl_write_u8(struct sl_writer *w, uint8_t v)
{
	sl_write_bytes(w, &v, 1);
}

static inline void sl_write_u16(struct sl_writer *w, uint16_t v)
{
	uint8_t b[2];

	sl_put_le16(b, v);
	sl_write_bytes(w, b, sizeof(b));
}

static inline void sl_write_u32(struct sl_writer *w, uint32_t v)
{
	uint8_t b[4];

	sl_put_le32(b, v);
	sl_write_bytes(w, b, sizeof(b));
}

static inline void sl_write_u64(struct sl_writer *w, uint64_t v)
{
	uint8_t b[8];

	sl_put_le64(b, v);
	sl_write_bytes(w, b, sizeof(b));
}

struct sl_reader {
	const uint8_t *at;
	size_t left;
	bool failed; /* read over the end */
};

/* The next len bytes in place; NULL, and the cursor failed, when there are not so many. */
static inline const uint8_t *sl_read_span(struct sl_reader *r, size_t len)
{
	const uint8_t *p = r->at;

	if (r->failed || len > r->left) {
		r->failed = true;
		return NULL;
	}
	r->at += len;
	r->left -= len;
	return p;
}

/* Copies len bytes; a failed read leaves zeros. */
static inline void sl_read_bytes(struct sl_reader *r, void *to, size_t len)
{
	const uint8_t *p = sl_read_span(r, len);

	if (p && len)
		memcpy(to, p, len);
	else if (len)
		memset(to, 0, len);
}

static inline uint8_t sl_read_u8(struct sl_reader *r)
{
	const uint8_t *p = sl_read_span(r, 1);

	return p ? *p : 0;
}

static inline uint16_t sl_read_u16(struct sl_reader *r)
{
	const uint8_t *p = sl_read_span(r, 2);

	return p ? sl_get_le16(p) : 0;
}

static inline uint32_t sl_read_u32(struct sl_reader *r)
{
	const uint8_t *p = sl_read_span(r, 4);

	return p ? sl_get_le32(p) : 0;
}

static inline uint64_t sl_read_u64(struct sl_reader *r)
{
	const uint8_t *p = sl_read_span(r, 8);

	return p ? sl_get_le64(p) : 0;
}

#endif
