/* SPDX-License-Identifier: Apache-2.0 */
#include "src/listener/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "base/wire.h"
#include "src/transport/tcp/tcp.h"

#define LISTENER_MAGIC	 UINT32_C(0x4c534e4c) /* "LNSL" */
#define LISTENER_VERSION 1

enum address_kind {
	ADDRESS_UNIX = 1,
	ADDRESS_TCP,
};

/* ---- the descriptor ---- */

static void write_address(struct sl_writer *w, const struct sockaddr_storage *a, socklen_t len)
{
	uint8_t bytes[sizeof(struct sockaddr_un)];
	struct sl_writer part = { .at = bytes, .room = sizeof(bytes) };

	if (a->ss_family == AF_UNIX)
		sl_write_bytes(&part, ((const struct sockaddr_un *)a)->sun_path,
			       len - offsetof(struct sockaddr_un, sun_path));
	else
		tcp_write_candidate(a, &part);
	sl_write_u8(w, a->ss_family == AF_UNIX ? ADDRESS_UNIX : ADDRESS_TCP);
	sl_write_u8(w, 0);
	sl_write_u16(w, (uint16_t)(sizeof(bytes) - part.room));
	sl_write_bytes(w, bytes, sizeof(bytes) - part.room);
}

int sl_listener_desc_write(const struct sl_listener_desc *d, void *buf, size_t cap)
{
	struct sl_writer w = { .at = buf, .room = cap };

	sl_write_u32(&w, LISTENER_MAGIC);
	sl_write_u16(&w, LISTENER_VERSION);
	sl_write_u16(&w, (uint16_t)d->n);
	sl_write_u64(&w, d->id);
	sl_write_bytes(&w, d->key, sizeof(d->key));
	for (unsigned i = 0; i < d->n; i++)
		write_address(&w, &d->addresses[i], d->lens[i]);
	return w.failed ? -ENOSPC : (int)(cap - w.room);
}

static int read_unix(struct sockaddr_storage *a, socklen_t *out, const uint8_t *bytes, size_t len)
{
	struct sockaddr_un *un = (struct sockaddr_un *)a;

	if (len < 2 || len > sizeof(un->sun_path) || (bytes[0] && memchr(bytes, 0, len)))
		return -EINVAL;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, bytes, len);
	*out = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return 0;
}

/* Addresses of kinds that this version does not know are left out. */
static int read_address(struct sl_listener_desc *d, struct sl_reader *r)
{
	uint8_t kind = sl_read_u8(r);
	uint8_t reserved = sl_read_u8(r);
	uint16_t len = sl_read_u16(r);
	const uint8_t *bytes = sl_read_span(r, len);
	struct sockaddr_storage *a;
	int ret;

	(void)reserved;
	if (!bytes)
		return -EINVAL;
	if (kind != ADDRESS_UNIX && kind != ADDRESS_TCP)
		return 0;
	if (d->n == SL_LISTENER_ADDRESSES_MAX)
		return -EINVAL;
	a = &d->addresses[d->n];
	if (kind == ADDRESS_UNIX)
		ret = read_unix(a, &d->lens[d->n], bytes, len);
	else
		ret = tcp_read_candidate(a, bytes, len);
	if (ret)
		return ret;
	if (kind == ADDRESS_TCP)
		d->lens[d->n] = tcp_address_len(a);
	d->n++;
	return 0;
}

int sl_listener_desc_read(struct sl_listener_desc *d, const void *buf, size_t len)
{
	struct sl_reader r = { .at = buf, .left = len };
	uint32_t magic = sl_read_u32(&r);
	uint16_t version = sl_read_u16(&r);
	uint16_t n = sl_read_u16(&r);
	int ret = 0;

	memset(d, 0, sizeof(*d));
	if (r.failed || magic != LISTENER_MAGIC)
		return -EINVAL;
	if (version != LISTENER_VERSION)
		return -EPROTONOSUPPORT;
	d->id = sl_read_u64(&r);
	sl_read_bytes(&r, d->key, sizeof(d->key));
	for (uint16_t i = 0; i < n && !ret; i++)
		ret = r.failed ? -EINVAL : read_address(d, &r);
	return ret || r.failed || r.left ? -EINVAL : 0;
}

/* ---- the exchange ---- */

static void write_head(uint8_t *out, struct sl_exchange_head h)
{
	struct sl_writer w = { .at = out, .room = SL_EXCHANGE_HEAD_LEN };

	sl_write_u8(&w, (uint8_t)h.kind);
	sl_write_u8(&w, (uint8_t)h.code);
	sl_write_u16(&w, h.len);
	sl_write_u32(&w, 0);
}

int sl_exchange_read_head(struct sl_exchange_head *h, enum sl_exchange_kind kind,
			  const uint8_t in[SL_EXCHANGE_HEAD_LEN])
{
	struct sl_reader r = { .at = in, .left = SL_EXCHANGE_HEAD_LEN };

	h->kind = (enum sl_exchange_kind)sl_read_u8(&r);
	h->code = (enum sl_exchange_code)sl_read_u8(&r);
	h->len = sl_read_u16(&r);
	if (h->kind != kind || h->code > SL_EXCHANGE_FAILED ||
	    (kind == SL_EXCHANGE_OFFER && h->code != SL_EXCHANGE_OK))
		return -EPROTO;
	if (h->code != SL_EXCHANGE_OK)
		return h->len ? -EPROTO : 0;
	if (h->len <= SL_AUTH_SEAL_LEN || h->len > SL_EXCHANGE_MAX - SL_EXCHANGE_HEAD_LEN)
		return -EPROTO;
	return 0;
}

/* Each direction has a key of its own, so that no message can be taken for one of the other. */
static int direction_key(enum sl_exchange_kind kind, const uint8_t key[SL_AUTH_KEY_LEN],
			 uint8_t out[SL_AUTH_KEY_LEN])
{
	static const char offer[] = "slime listener offer 1", answer[] = "slime listener answer 1";

	return kind == SL_EXCHANGE_OFFER ? sl_auth_mac(key, offer, sizeof(offer), out)
					 : sl_auth_mac(key, answer, sizeof(answer), out);
}

int sl_exchange_write(enum sl_exchange_kind kind, const uint8_t key[SL_AUTH_KEY_LEN],
		      const uint8_t after[SL_AUTH_TAG_LEN], const void *desc, size_t len,
		      uint8_t *out)
{
	uint8_t own[SL_AUTH_KEY_LEN];
	int ret = direction_key(kind, key, own);

	if (!ret)
		ret = sl_auth_seal(own, after, after ? SL_AUTH_TAG_LEN : 0, desc, len,
				   out + SL_EXCHANGE_HEAD_LEN);
	sl_auth_wipe(own, sizeof(own));
	if (ret)
		return ret;
	len += SL_AUTH_SEAL_LEN;
	write_head(out, (struct sl_exchange_head){ kind, SL_EXCHANGE_OK, (uint16_t)len });
	return (int)(SL_EXCHANGE_HEAD_LEN + len);
}

int sl_exchange_write_code(enum sl_exchange_code code, uint8_t *out)
{
	write_head(out, (struct sl_exchange_head){ SL_EXCHANGE_ANSWER, code, 0 });
	return SL_EXCHANGE_HEAD_LEN;
}

int sl_exchange_open(enum sl_exchange_kind kind, const uint8_t key[SL_AUTH_KEY_LEN],
		     const uint8_t after[SL_AUTH_TAG_LEN], const uint8_t *sealed, size_t len,
		     uint8_t *out)
{
	uint8_t own[SL_AUTH_KEY_LEN];
	int ret = direction_key(kind, key, own);

	if (!ret)
		ret = sl_auth_open(own, after, after ? SL_AUTH_TAG_LEN : 0, sealed, len, out);
	sl_auth_wipe(own, sizeof(own));
	return ret ? ret : (int)(len - SL_AUTH_SEAL_LEN);
}
