/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/raw.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "tests/stress/mutate.h"
#include "tests/stress/report.h"

bool raw_is_odd(struct raw *r)
{
	return r->one_in && roll_below(&r->dice, r->one_in) == 0;
}

uint64_t raw_field(struct raw *r, uint64_t value)
{
	if (!raw_is_odd(r))
		return value;
	switch (roll_below(&r->dice, 3)) {
	case 0:
		return value + 1;
	case 1:
		return value - 1;
	default:
		return mutate_word(&r->dice);
	}
}

/* ---- descriptors ---- */

static void listen_tcp(struct raw *r, struct sl_writer *w)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(r->listener, (struct sockaddr *)&at, sizeof(at)) || listen(r->listener, 16) ||
	    getsockname(r->listener, (struct sockaddr *)&at, &len))
		fail("raw", "no listener: %s", strerror(errno));
	sl_write_u8(w, 4);
	sl_write_u16(w, ntohs(at.sin_port));
	sl_write_bytes(w, &at.sin_addr, 4);
}

static socklen_t unix_address(struct sockaddr_un *at, const void *name, size_t len)
{
	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(at->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static void listen_unix(struct raw *r, struct sl_writer *w)
{
	struct sockaddr_un at;
	char name[40];
	int len = snprintf(name, sizeof(name), "slime-raw-%d", (int)getpid());
	socklen_t at_len = unix_address(&at, name, (size_t)len);

	r->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(r->listener, (struct sockaddr *)&at, at_len) || listen(r->listener, 16))
		fail("raw", "no listener: %s", strerror(errno));
	sl_write_bytes(w, name, (size_t)len);
}

/* A region that the peer may ask for. */
static void make_region(struct raw *r)
{
	struct sl_writer w = { r->own, sizeof(r->own), false };

	sl_write_bytes(&w, "RMSL", 4);
	sl_write_u16(&w, 2);
	sl_write_u16(&w, 0);
	sl_write_u64(&w, r->self[0]);
	sl_write_u64(&w, (uintptr_t)r->memory);
	sl_write_u64(&w, sizeof(r->memory));
	sl_write_u64(&w, 77);
	sl_write_u32(&w, 5);
	sl_write_u32(&w, 3);
	sl_write_u64(&w, roll(&r->dice));
	sl_write_u64(&w, roll(&r->dice));
}

void raw_init(struct raw *r, enum slime_transport transport, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->dice = (struct dice){ seed };
	r->transport = transport;
	r->initiator = roll_percent(&r->dice, 50);
	/* the smaller id is the initiator's */
	r->self[0] = r->initiator ? 1 : UINT64_MAX;
	r->self[1] = roll(&r->dice);
	for (size_t i = 0; i < sizeof(r->secret); i++)
		r->secret[i] = (uint8_t)roll(&r->dice);
	r->listener = -1;
	make_region(r);
}

size_t raw_write_endpoint(struct raw *r, uint8_t *desc)
{
	uint8_t candidate[64];
	struct sl_writer c = { candidate, sizeof(candidate), false };
	struct sl_writer w = { desc, SLIME_ENDPOINT_DESC_MAX, false };

	if (r->transport == SLIME_TRANSPORT_TCP)
		listen_tcp(r, &c);
	else
		listen_unix(r, &c);
	sl_write_bytes(&w, "PESL", 4);
	sl_write_u16(&w, 1);
	sl_write_u16(&w, 1);
	sl_write_u64(&w, r->self[0]);
	sl_write_u64(&w, r->self[1]);
	sl_write_bytes(&w, r->secret, sizeof(r->secret));
	sl_write_u8(&w, r->transport == SLIME_TRANSPORT_TCP ? 2 : 1);
	sl_write_u8(&w, 0);
	sl_write_u16(&w, (uint16_t)(sizeof(candidate) - c.room));
	sl_write_bytes(&w, candidate, sizeof(candidate) - c.room);
	return SLIME_ENDPOINT_DESC_MAX - w.room;
}

static void mac(const uint8_t key[32], const struct sl_writer *w, const uint8_t *text,
		uint8_t out[32])
{
	if (!HMAC(EVP_sha256(), key, 32, text, (size_t)(w->at - text), out, NULL))
		fail("raw", "no HMAC");
}

static void write_ids(const struct raw *r, struct sl_writer *w, bool of_initiator)
{
	const uint64_t *ids = of_initiator == r->initiator ? r->self : r->peer;

	sl_write_u64(w, ids[0]);
	sl_write_u64(w, ids[1]);
}

static void make_key(struct raw *r)
{
	uint8_t text[81];
	struct sl_writer w = { text, sizeof(text), false };

	sl_write_bytes(&w, "slime link key 1", 17);
	write_ids(r, &w, true);
	write_ids(r, &w, false);
	sl_write_bytes(&w, r->initiator ? r->peer_secret : r->secret, 32);
	mac(r->initiator ? r->secret : r->peer_secret, &w, text, r->key);
}

bool raw_read_endpoint(struct raw *r, const uint8_t *desc, size_t len)
{
	struct sl_reader in = { desc, len, false };
	unsigned n;

	sl_read_span(&in, 6);
	n = sl_read_u16(&in);
	r->peer[0] = sl_read_u64(&in);
	r->peer[1] = sl_read_u64(&in);
	sl_read_bytes(&in, r->peer_secret, sizeof(r->peer_secret));
	make_key(r);
	for (unsigned i = 0; i < n && !in.failed; i++) {
		uint8_t transport = sl_read_u8(&in);
		const uint8_t *bytes;

		sl_read_u8(&in);
		r->address_len = sl_read_u16(&in);
		bytes = sl_read_span(&in, r->address_len);
		if (bytes && r->address_len <= sizeof(r->address) &&
		    transport == (r->transport == SLIME_TRANSPORT_TCP ? 2 : 1)) {
			memcpy(r->address, bytes, r->address_len);
			return true;
		}
	}
	return false;
}

/* ---- sockets ---- */

static void limit_waits(int fd)
{
	struct timeval limit = { .tv_sec = RAW_PATIENCE_MS / 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int dial(const struct raw *r)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_un un;
	const struct sockaddr *at = (struct sockaddr *)&in;
	bool tcp = r->transport == SLIME_TRANSPORT_TCP;
	socklen_t len = sizeof(in);
	int fd;

	if (tcp) {
		in.sin_port = htons(sl_get_le16(r->address + 1));
		memcpy(&in.sin_addr, r->address + 3, 4);
	} else {
		len = unix_address(&un, r->address, r->address_len);
		at = (struct sockaddr *)&un;
	}
	fd = socket(tcp ? AF_INET : AF_UNIX, (tcp ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC,
		    0);
	if (fd >= 0 && connect(fd, at, len) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int raw_connect(struct raw *r)
{
	struct pollfd p = { .fd = r->listener, .events = POLLIN };
	int fd = -1;

	if (r->initiator)
		fd = dial(r);
	else if (poll(&p, 1, RAW_PATIENCE_MS) == 1)
		fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		limit_waits(fd);
	return fd;
}

/* ---- the greeting ---- */

struct greeting {
	uint8_t hello[80], challenge[76], proof[40], verdict[8];
	uint16_t stream;
};

static struct sl_writer begin(uint8_t *out, size_t len, uint8_t kind)
{
	struct sl_writer w = { out, len, false };

	memset(out, 0, len);
	sl_write_bytes(&w, "SLIM", 4);
	sl_write_u16(&w, 2);
	sl_write_u8(&w, kind);
	sl_write_u8(&w, 0);
	return w;
}

static void prove(const struct raw *r, const struct greeting *g, uint8_t role, uint8_t out[32])
{
	uint8_t text[124];
	struct sl_writer w = { text, sizeof(text), false };

	sl_write_bytes(&w, "slime-greeting-2", 16);
	sl_write_u8(&w, role);
	sl_write_u8(&w, g->hello[10]);
	sl_write_u16(&w, g->stream);
	write_ids(r, &w, true);
	write_ids(r, &w, false);
	sl_write_bytes(&w, g->hello + 48, 32);
	sl_write_bytes(&w, g->challenge + 8, 32);
	sl_write_bytes(&w, g->hello + 12, 4);
	sl_write_bytes(&w, g->challenge + 72, 4);
	mac(r->key, &w, text, out);
}

static bool say(struct raw *r, int fd, uint8_t *bytes, size_t len)
{
	if (r->one_in && roll_below(&r->dice, 40 * (uint64_t)r->one_in) == 0)
		mutate_bytes(&r->dice, bytes, len);
	return send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool hear(int fd, uint8_t *bytes, size_t len)
{
	return recv(fd, bytes, len, MSG_WAITALL) == (ssize_t)len;
}

static void write_hello(struct raw *r, struct greeting *g)
{
	struct sl_writer w = begin(g->hello, sizeof(g->hello), 1);

	sl_write_u16(&w, g->stream);
	sl_write_u8(&w, r->transport == SLIME_TRANSPORT_TCP ? 2 : 1);
	sl_write_u8(&w, 0);
	sl_write_u32(&w, (uint32_t)roll(&r->dice) & 0xffff); /* offers that nobody knows */
	write_ids(r, &w, false);
	write_ids(r, &w, true);
	for (int i = 0; i < 4; i++)
		sl_write_u64(&w, roll(&r->dice));
}

static bool greet_as_initiator(struct raw *r, int fd, struct greeting *g)
{
	struct sl_writer w = begin(g->proof, sizeof(g->proof), 3);

	write_hello(r, g);
	if (!say(r, fd, g->hello, sizeof(g->hello)) ||
	    !hear(fd, g->challenge, sizeof(g->challenge)))
		return false;
	prove(r, g, 1, w.at);
	return say(r, fd, g->proof, sizeof(g->proof)) && hear(fd, g->verdict, sizeof(g->verdict)) &&
	       g->verdict[7] == 0;
}

static bool greet_as_acceptor(struct raw *r, int fd, struct greeting *g)
{
	struct sl_writer w = begin(g->challenge, sizeof(g->challenge), 2);

	if (!hear(fd, g->hello, sizeof(g->hello)))
		return false;
	g->stream = sl_get_le16(g->hello + 8);
	for (int i = 0; i < 4; i++)
		sl_write_u64(&w, roll(&r->dice));
	prove(r, g, 2, w.at);
	begin(g->verdict, sizeof(g->verdict), 4);
	return say(r, fd, g->challenge, sizeof(g->challenge)) &&
	       hear(fd, g->proof, sizeof(g->proof)) && say(r, fd, g->verdict, sizeof(g->verdict));
}

bool raw_greet(struct raw *r, int fd, uint16_t *stream)
{
	struct greeting g = { .stream = *stream };
	bool ok = r->initiator ? greet_as_initiator(r, fd, &g) : greet_as_acceptor(r, fd, &g);

	*stream = g.stream;
	return ok;
}
