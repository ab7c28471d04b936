/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "pages/src/message.h"

void pages_right(const struct slime_remote_mr *region, uint8_t right[PAGES_RIGHT_LEN])
{
	uint8_t bytes[56];
	XXH128_hash_t h;

	sl_put_le64(bytes, region->owner);
	sl_put_le64(bytes + 8, region->addr);
	sl_put_le64(bytes + 16, region->len);
	sl_put_le64(bytes + 24, region->generation);
	sl_put_le64(bytes + 32, region->secret[0]);
	sl_put_le64(bytes + 40, region->secret[1]);
	sl_put_le64(bytes + 48, region->id);
	h = XXH3_128bits(bytes, sizeof(bytes));
	sl_put_le64(right, h.low64);
	sl_put_le64(right + 8, h.high64);
}

int pages_head_read(struct sl_reader *r, struct pages_head *out)
{
	uint8_t version = sl_read_u8(r);

	out->flags = sl_read_u8(r);
	out->tenant_len = sl_read_u16(r);
	out->n = sl_read_u32(r);
	out->right = sl_read_span(r, PAGES_RIGHT_LEN);
	out->tenant = sl_read_span(r, out->tenant_len);
	if (r->failed || version != PAGES_VERSION || out->n > PAGES_KEYS_MAX)
		return -EINVAL;
	return 0;
}

void pages_head_write(struct sl_writer *w, const struct pages_head *head)
{
	sl_write_u8(w, PAGES_VERSION);
	sl_write_u8(w, head->flags);
	sl_write_u16(w, head->tenant_len);
	sl_write_u32(w, head->n);
	sl_write_bytes(w, head->right, PAGES_RIGHT_LEN);
	sl_write_bytes(w, head->tenant, head->tenant_len);
}

bool pages_key_read(struct sl_reader *r, struct pages_key *out)
{
	out->len = sl_read_u16(r);
	out->at = sl_read_span(r, out->len);
	return !r->failed;
}

void pages_key_write(struct sl_writer *w, const void *key, size_t len)
{
	sl_write_u16(w, (uint16_t)len);
	sl_write_bytes(w, key, len);
}

bool pages_name_read(struct sl_reader *r, char *out, size_t max)
{
	uint16_t len = sl_read_u16(r);
	const uint8_t *p = sl_read_span(r, len);

	if (!p || !len || len > max || memchr(p, 0, len))
		return false;
	memcpy(out, p, len);
	out[len] = 0;
	return true;
}

void pages_name_write(struct sl_writer *w, const char *name)
{
	pages_key_write(w, name, strlen(name));
}

void pages_found_write(uint8_t to[PAGES_PLACE_LEN], const struct pages_found *found)
{
	sl_put_le64(to, found->place.page);
	sl_put_le64(to + 8, found->place.header);
	sl_put_le64(to + 16, found->place.generation);
	sl_put_le32(to + 24, found->place.len);
	sl_put_le32(to + 28, (uint32_t)found->status);
}

void pages_found_read(const uint8_t from[PAGES_PLACE_LEN], struct pages_found *out)
{
	out->place.page = sl_get_le64(from);
	out->place.header = sl_get_le64(from + 8);
	out->place.generation = sl_get_le64(from + 16);
	out->place.len = sl_get_le32(from + 24);
	out->status = (int)sl_get_le32(from + 28);
}

/* All members are figures of 64 bits, so that they are an array. */
#define N_FIGURES (sizeof(struct slime_pages_stat) / sizeof(uint64_t))

void pages_stat_write(uint8_t to[PAGES_STAT_LEN], const struct slime_pages_stat *stat)
{
	uint64_t figures[N_FIGURES];

	memcpy(figures, stat, sizeof(figures));
	for (size_t i = 0; i < N_FIGURES; i++)
		sl_put_le64(to + i * sizeof(uint64_t), figures[i]);
}

void pages_stat_add(const uint8_t from[PAGES_STAT_LEN], struct slime_pages_stat *sums)
{
	uint64_t figures[N_FIGURES];

	memcpy(figures, sums, sizeof(figures));
	for (size_t i = 0; i < N_FIGURES; i++)
		figures[i] += sl_get_le64(from + i * sizeof(uint64_t));
	memcpy(sums, figures, sizeof(figures));
}
