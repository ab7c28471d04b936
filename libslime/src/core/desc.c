/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "src/core/desc.h"

#define ENDPOINT_VERSION 1
#define REGION_VERSION	 2
#define ENDPOINT_MAGIC	 UINT32_C(0x4c534550) /* "PESL" */
#define REGION_MAGIC	 UINT32_C(0x4c534d52) /* "RMSL" */

static int finish_write(const struct sl_writer *w, size_t cap)
{
	return w->failed ? -ENOSPC : (int)(cap - w->room);
}

static int read_head(struct sl_reader *r, uint32_t magic, uint16_t known)
{
	uint32_t m = sl_read_u32(r);
	uint16_t version = sl_read_u16(r);

	if (r->failed || m != magic)
		return -EINVAL;
	return version == known ? 0 : -EPROTONOSUPPORT;
}

int sl_desc_write_endpoint(const struct sl_endpoint_desc *d, void *buf, size_t cap)
{
	struct sl_writer w = { .at = buf, .room = cap };

	sl_write_u32(&w, ENDPOINT_MAGIC);
	sl_write_u16(&w, ENDPOINT_VERSION);
	sl_write_u16(&w, (uint16_t)d->n);
	sl_write_u64(&w, d->context);
	sl_write_u64(&w, d->endpoint);
	sl_write_bytes(&w, d->secret, sizeof(d->secret));
	for (unsigned i = 0; i < d->n; i++) {
		sl_write_u8(&w, (uint8_t)d->candidates[i].transport);
		sl_write_u8(&w, 0);
		sl_write_u16(&w, d->candidates[i].len);
		sl_write_bytes(&w, d->candidates[i].bytes, d->candidates[i].len);
	}
	return finish_write(&w, cap);
}

/* Candidates of transports this version does not know are left out, so that newer peers can offer
 * more. */
static int read_candidate(struct sl_endpoint_desc *d, struct sl_reader *r)
{
	uint8_t transport = sl_read_u8(r);
	uint8_t reserved = sl_read_u8(r);
	uint16_t len = sl_read_u16(r);
	const uint8_t *bytes = sl_read_span(r, len);
	struct sl_candidate *c = &d->candidates[d->n];

	(void)reserved;
	if (!bytes || len > SL_CANDIDATE_MAX)
		return -EINVAL;
	if (transport == SLIME_TRANSPORT_NONE || transport >= SLIME_TRANSPORT_MAX)
		return 0;
	for (unsigned i = 0; i < d->n; i++) {
		if (d->candidates[i].transport == (enum slime_transport)transport)
			return -EINVAL;
	}
	c->transport = (enum slime_transport)transport;
	c->len = len;
	memcpy(c->bytes, bytes, len);
	d->n++;
	return 0;
}

int sl_desc_read_endpoint(struct sl_endpoint_desc *d, const void *buf, size_t len)
{
	struct sl_reader r = { .at = buf, .left = len };
	uint16_t n;
	int ret = read_head(&r, ENDPOINT_MAGIC, ENDPOINT_VERSION);

	if (ret)
		return ret;
	memset(d, 0, sizeof(*d));
	n = sl_read_u16(&r);
	d->context = sl_read_u64(&r);
	d->endpoint = sl_read_u64(&r);
	sl_read_bytes(&r, d->secret, sizeof(d->secret));
	for (uint16_t i = 0; i < n && !ret; i++)
		ret = r.failed ? -EINVAL : read_candidate(d, &r);
	if (ret || r.failed || r.left)
		return -EINVAL;
	return 0;
}

int sl_desc_write_region(const struct slime_remote_mr *m, void *buf, size_t cap)
{
	struct sl_writer w = { .at = buf, .room = cap };

	sl_write_u32(&w, REGION_MAGIC);
	sl_write_u16(&w, REGION_VERSION);
	sl_write_u16(&w, (uint16_t)m->kind);
	sl_write_u64(&w, m->owner);
	sl_write_u64(&w, m->addr);
	sl_write_u64(&w, m->len);
	sl_write_u64(&w, m->generation);
	sl_write_u32(&w, m->id);
	sl_write_u32(&w, m->access);
	sl_write_u64(&w, m->secret[0]);
	sl_write_u64(&w, m->secret[1]);
	return finish_write(&w, cap);
}

int sl_desc_read_region(struct slime_remote_mr *m, const void *buf, size_t len)
{
	struct sl_reader r = { .at = buf, .left = len };
	struct slime_remote_mr got = { 0 };
	int ret = read_head(&r, REGION_MAGIC, REGION_VERSION);

	if (ret)
		return ret;
	got.kind = sl_read_u16(&r);
	got.owner = sl_read_u64(&r);
	got.addr = sl_read_u64(&r);
	got.len = sl_read_u64(&r);
	got.generation = sl_read_u64(&r);
	got.id = sl_read_u32(&r);
	got.access = sl_read_u32(&r);
	got.secret[0] = sl_read_u64(&r);
	got.secret[1] = sl_read_u64(&r);
	if (r.failed || r.left || !got.len || got.addr + got.len < got.addr)
		return -EINVAL;
	*m = got;
	return 0;
}
