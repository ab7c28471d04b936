/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/wire.h"

enum message {
	MSG_HELLO = 1,
	MSG_CHALLENGE,
	MSG_PROOF,
	MSG_VERDICT,
};

/* Every message begins with magic, version, kind and code. */
static struct sl_writer begin(uint8_t *out, size_t len, enum message kind, enum sl_refusal code)
{
	struct sl_writer w = { .at = out, .room = len };

	memset(out, 0, len);
	sl_write_u32(&w, SL_HELLO_MAGIC);
	sl_write_u16(&w, SL_HELLO_VERSION);
	sl_write_u8(&w, (uint8_t)kind);
	sl_write_u8(&w, (uint8_t)code);
	return w;
}

static int open_message(struct sl_reader *r, enum message kind, uint8_t *code)
{
	uint32_t magic = sl_read_u32(r);
	uint16_t version = sl_read_u16(r);
	uint8_t found = sl_read_u8(r);

	*code = sl_read_u8(r);
	if (r->failed || magic != SL_HELLO_MAGIC)
		return -EPROTO;
	if (version != SL_HELLO_VERSION)
		return -EPROTONOSUPPORT;
	return found == kind ? 0 : -EPROTO;
}

static void write_id(struct sl_writer *w, struct sl_link_id id)
{
	sl_write_u64(w, id.context);
	sl_write_u64(w, id.endpoint);
}

static struct sl_link_id read_id(struct sl_reader *r)
{
	struct sl_link_id id = { .context = sl_read_u64(r) };

	id.endpoint = sl_read_u64(r);
	return id;
}

void sl_hello_write(const struct sl_hello *h, uint8_t out[SL_HELLO_LEN])
{
	struct sl_writer w = begin(out, SL_HELLO_LEN, MSG_HELLO, SL_WELCOME);

	sl_write_u16(&w, h->stream);
	sl_write_u8(&w, (uint8_t)h->transport);
	sl_write_u8(&w, 0);
	sl_write_u32(&w, h->features);
	write_id(&w, h->acceptor);
	write_id(&w, h->initiator);
	sl_write_bytes(&w, h->nonce, sizeof(h->nonce));
}

int sl_hello_read(struct sl_hello *h, const uint8_t in[SL_HELLO_LEN])
{
	struct sl_reader r = { .at = in, .left = SL_HELLO_LEN };
	uint8_t code;
	int ret = open_message(&r, MSG_HELLO, &code);

	if (ret)
		return ret;
	h->stream = sl_read_u16(&r);
	h->transport = sl_read_u8(&r);
	sl_read_u8(&r);
	h->features = sl_read_u32(&r);
	h->acceptor = read_id(&r);
	h->initiator = read_id(&r);
	sl_read_bytes(&r, h->nonce, sizeof(h->nonce));
	return code == SL_WELCOME && !r.failed ? 0 : -EPROTO;
}

void sl_hello_write_challenge(const struct sl_hello *h, const uint8_t mac[SL_AUTH_MAC_LEN],
			      uint8_t out[SL_CHALLENGE_LEN])
{
	struct sl_writer w = begin(out, SL_CHALLENGE_LEN, MSG_CHALLENGE, SL_WELCOME);

	sl_write_bytes(&w, h->acceptor_nonce, SL_AUTH_NONCE_LEN);
	sl_write_bytes(&w, mac, SL_AUTH_MAC_LEN);
	sl_write_u32(&w, h->acceptor_features);
}

void sl_hello_write_proof(const uint8_t mac[SL_AUTH_MAC_LEN], uint8_t out[SL_PROOF_LEN])
{
	struct sl_writer w = begin(out, SL_PROOF_LEN, MSG_PROOF, SL_WELCOME);

	sl_write_bytes(&w, mac, SL_AUTH_MAC_LEN);
}

void sl_hello_write_code(enum sl_refusal code, uint8_t *out, size_t len)
{
	begin(out, len, len == SL_CHALLENGE_LEN ? MSG_CHALLENGE : MSG_VERDICT, code);
}

int sl_hello_read_proof(uint8_t mac[SL_AUTH_MAC_LEN], const uint8_t in[SL_PROOF_LEN])
{
	struct sl_reader r = { .at = in, .left = SL_PROOF_LEN };
	uint8_t code;
	int ret = open_message(&r, MSG_PROOF, &code);

	if (ret)
		return ret;
	sl_read_bytes(&r, mac, SL_AUTH_MAC_LEN);
	return r.failed ? -EPROTO : 0;
}

static int refusal_to_errno(uint8_t code)
{
	switch (code) {
	case SL_WELCOME:
		return 0;
	case SL_REFUSED_UNKNOWN:
		return -ENOENT;
	case SL_REFUSED_NOT_YET:
		return -EAGAIN;
	case SL_REFUSED_KEY:
		return -EACCES;
	case SL_REFUSED_USER:
		return -EPERM;
	case SL_REFUSED_VERSION:
	case SL_REFUSED_FEATURE:
		return -EPROTONOSUPPORT;
	default:
		return -EPROTO;
	}
}

int sl_hello_read_challenge(struct sl_hello *h, uint8_t mac[SL_AUTH_MAC_LEN],
			    const uint8_t in[SL_CHALLENGE_LEN])
{
	struct sl_reader r = { .at = in, .left = SL_CHALLENGE_LEN };
	uint8_t code;
	int ret = open_message(&r, MSG_CHALLENGE, &code);

	if (ret)
		return ret;
	ret = refusal_to_errno(code);
	if (ret)
		return ret;
	sl_read_bytes(&r, h->acceptor_nonce, SL_AUTH_NONCE_LEN);
	sl_read_bytes(&r, mac, SL_AUTH_MAC_LEN);
	h->acceptor_features = sl_read_u32(&r);
	return r.failed ? -EPROTO : 0;
}

int sl_hello_read_verdict(const uint8_t in[SL_VERDICT_LEN])
{
	struct sl_reader r = { .at = in, .left = SL_VERDICT_LEN };
	uint8_t code;
	int ret = open_message(&r, MSG_VERDICT, &code);

	return ret ? ret : refusal_to_errno(code);
}

int sl_hello_mac(const struct sl_hello *h, enum sl_role role, const uint8_t key[SL_AUTH_KEY_LEN],
		 uint8_t out[SL_AUTH_MAC_LEN])
{
	static const char label[] = "slime-greeting-2";
	uint8_t said[124];
	struct sl_writer w = { .at = said, .room = sizeof(said) };

	sl_write_bytes(&w, label, sizeof(label) - 1);
	sl_write_u8(&w, (uint8_t)role);
	sl_write_u8(&w, (uint8_t)h->transport);
	sl_write_u16(&w, h->stream);
	write_id(&w, h->initiator);
	write_id(&w, h->acceptor);
	sl_write_bytes(&w, h->nonce, sizeof(h->nonce));
	sl_write_bytes(&w, h->acceptor_nonce, sizeof(h->acceptor_nonce));
	sl_write_u32(&w, h->features);
	sl_write_u32(&w, h->acceptor_features);
	return sl_auth_mac(key, said, sizeof(said) - w.room, out);
}

bool sl_hello_is_foreign(const uint8_t *in, size_t len)
{
	struct sl_reader r = { .at = in, .left = len };
	uint32_t magic = sl_read_u32(&r);
	uint16_t version = sl_read_u16(&r);

	return !r.failed && magic == SL_HELLO_MAGIC && version != SL_HELLO_VERSION;
}

int sl_hello_recv(int fd, uint8_t *buf, size_t len, size_t *have)
{
	while (*have < len) {
		struct iovec iov = { .iov_base = buf + *have, .iov_len = len - *have };
		struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			return -EPROTO;
		*have += (size_t)n;
	}
	return 0;
}

int sl_hello_send(int fd, const uint8_t *buf, size_t len)
{
	ssize_t n;

	do {
		n = send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EPIPE) /* it hung up, with or without our bytes unread */
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN ? -EPROTO : -errno;
	return (size_t)n == len ? 0 : -EPROTO;
}
