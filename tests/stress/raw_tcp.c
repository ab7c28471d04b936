/* SPDX-License-Identifier: Apache-2.0 */
/* A raw peer over tcp: the page "tcp" of docs/wire.md. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/stress/mutate.h"
#include "tests/stress/raw.h"
#include "tests/stress/report.h"

enum { OPEN = 1, READY, MSG, READ, DATA, WRITE, WRITE_IMM, REPLY, CREDIT, WITHDRAW, BYE, SECRET };

#define HEAD	      24
#define PIECES	      32
#define LIST_MAX      ((size_t)PIECES * 24)
#define PAYLOAD_MAX   ((size_t)1 << 20)
#define STREAMS	      4
#define PEERS_STREAMS 2 /* what the peer dials: its tcp_streams */
#define ANSWERS	      32

struct answer {
	uint32_t id;
	uint64_t len; /* of DATA; a REPLY has none */
	bool data, refused, imm;
};

struct stream {
	int fd;
	uint8_t in[HEAD + LIST_MAX];
	size_t have;
	uint64_t skip;	/* payload that nobody looks at */
	uint32_t taken; /* a bit for each id of ours that is out */
	bool shown;	/* the secret */
	struct answer answers[ANSWERS];
	unsigned n_answers;
};

struct link {
	struct raw *r;
	struct stream streams[STREAMS];
	unsigned n;
	bool ended;
	struct raw_msg msg;
	uint8_t out[HEAD + LIST_MAX + 64 + PAYLOAD_MAX];
};

/* ---- what comes ---- */

static uint64_t payload_len(const uint8_t *head)
{
	uint64_t len = sl_get_le64(head + 8);

	return head[1] == READ ? 0 : len;
}

static size_t list_len(const uint8_t *head)
{
	size_t n = sl_get_le16(head + 2);

	if (head[1] == MSG)
		return RAW_MSG_LEN;
	if (head[1] == DATA)
		return 40;
	if (head[1] == SECRET)
		return 16;
	return n <= PIECES ? n * 24 : LIST_MAX;
}

static void push(struct stream *s, struct answer a)
{
	if (s->n_answers < ANSWERS)
		s->answers[s->n_answers++] = a;
}

static void heard(struct link *l, struct stream *s)
{
	uint32_t id = sl_get_le32(s->in + 4);
	uint64_t len = sl_get_le64(s->in + 8), arg = sl_get_le64(s->in + 16);

	switch (s->in[1]) {
	case MSG:
		raw_heard(l->r, s->in + HEAD);
		break;
	case READ:
		if (roll_percent(&l->r->dice, 80))
			push(s, (struct answer){ .id = id, .len = len, .data = true });
		else
			push(s, (struct answer){ .id = id, .refused = true });
		break;
	case WRITE:
	case WRITE_IMM:
		push(s, (struct answer){ .id = id, .imm = s->in[1] == WRITE_IMM });
		break;
	case DATA:
	case REPLY:
		if (id < 16)
			s->taken &= ~(1u << id);
		break;
	case CREDIT:
		l->r->n_taken = arg;
		break;
	default:
		break;
	}
}

/* All that is there. */
static void take(struct link *l, struct stream *s)
{
	uint8_t rest[16384];

	while (!l->ended) {
		size_t want = s->have < HEAD ? HEAD : HEAD + list_len(s->in);
		ssize_t n;

		if (s->skip)
			n = recv(s->fd, rest, s->skip < sizeof(rest) ? s->skip : sizeof(rest),
				 MSG_DONTWAIT);
		else
			n = recv(s->fd, s->in + s->have, want - s->have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			l->ended = true;
			return;
		}
		if (s->skip) {
			s->skip -= (uint64_t)n;
		} else {
			s->have += (size_t)n;
			if (s->have < HEAD || s->have < HEAD + list_len(s->in))
				continue;
			s->skip = payload_len(s->in);
		}
		/* nothing is answered before all of it is here */
		if (!s->skip) {
			s->have = 0;
			heard(l, s);
		}
	}
}

static void take_all(struct link *l)
{
	for (unsigned i = 0; i < l->n; i++)
		take(l, &l->streams[i]);
}

/* ---- what goes ---- */

/* len bytes of out; what the peer sends is read meanwhile, so that both go on. */
static void give(struct link *l, struct stream *s, size_t len)
{
	int64_t until = now_ms() + RAW_PATIENCE_MS;
	size_t at = 0;

	while (at < len && !l->ended && now_ms() < until) {
		ssize_t n = send(s->fd, l->out + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
		struct pollfd p = { .fd = s->fd, .events = POLLIN | POLLOUT };

		if (n > 0) {
			at += (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			poll(&p, 1, 10);
			take_all(l);
		} else {
			l->ended = true;
		}
	}
	(*l->r->n_messages)++;
}

/* The head; behind it the caller writes list bytes. */
static uint8_t *begin(struct link *l, uint8_t kind, uint16_t count, uint32_t id, uint64_t len,
		      uint64_t arg)
{
	struct raw *r = l->r;

	l->out[0] = 2;
	l->out[1] = (uint8_t)raw_field(r, kind);
	sl_put_le16(l->out + 2, (uint16_t)raw_field(r, count));
	sl_put_le32(l->out + 4, (uint32_t)raw_field(r, id));
	sl_put_le64(l->out + 8, raw_field(r, len));
	sl_put_le64(l->out + 16, raw_field(r, arg));
	return l->out + HEAD;
}

/* As many bytes as the head says, when that is not absurd: what follows is in step. */
static void finish(struct link *l, struct stream *s, size_t list, uint64_t len)
{
	uint64_t says = sl_get_le64(l->out + 8);

	if (l->out[1] != READ && says <= PAYLOAD_MAX && roll_percent(&l->r->dice, 90))
		len = says;
	if (raw_is_odd(l->r) && raw_is_odd(l->r))
		mutate_bytes(&l->r->dice, l->out, HEAD + list);
	give(l, s, HEAD + list + len);
}

static void send_msg(struct link *l, bool answer)
{
	struct raw_msg *m = &l->msg;
	uint8_t *at;

	if (!raw_message(l->r, answer, m))
		return;
	at = begin(l, MSG, 0, 0, m->len, 0);
	memcpy(at, m->head, RAW_MSG_LEN);
	memcpy(at + RAW_MSG_LEN, m->payload, m->len);
	/* on stream 0, as all but odd ones */
	finish(l, &l->streams[raw_is_odd(l->r) ? roll_below(&l->r->dice, l->n) : 0], RAW_MSG_LEN,
	       m->len);
}

static void show_secret(struct link *l, struct stream *s)
{
	const struct slime_remote_mr *mr = &l->r->theirs;
	uint8_t *at = begin(l, SECRET, 0, mr->id, 0, mr->generation);

	sl_put_le64(at, raw_field(l->r, mr->secret[0]));
	sl_put_le64(at + 8, raw_field(l->r, mr->secret[1]));
	s->shown = true;
	finish(l, s, 16, 0);
}

static int free_id(struct link *l, const struct stream *s)
{
	int start = (int)roll_below(&l->r->dice, 16);

	for (int i = 0; i < 16; i++)
		if (!(s->taken >> (start + i) % 16 & 1) || raw_is_odd(l->r))
			return (start + i) % 16;
	return -1;
}

static void send_request(struct link *l, struct stream *s, uint8_t kind)
{
	const struct slime_remote_mr *mr = &l->r->theirs;
	struct dice *dice = &l->r->dice;
	uint16_t n = (uint16_t)(1 + (roll_percent(dice, 50) ? 0 : roll_below(dice, PIECES)));
	uint8_t pieces[LIST_MAX], *at;
	uint64_t sum = 0;
	int id = free_id(l, s);

	if (n > PIECES || id < 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		uint32_t len = (uint32_t)roll_len(dice, 32768 / n);

		len = (uint32_t)raw_field(l->r, len ? len : 1);
		at = pieces + (size_t)i * 24;
		sl_put_le32(at, (uint32_t)raw_field(l->r, mr->id));
		sl_put_le32(at + 4, len);
		sl_put_le64(at + 8, raw_field(l->r, mr->generation));
		sl_put_le64(at + 16, raw_field(l->r, roll_below(dice, 32768)));
		sum += len;
	}
	s->taken |= 1u << id;
	if (kind == WRITE_IMM)
		l->r->n_imms++;
	at = begin(l, kind, n, (uint32_t)id, sum, kind == WRITE_IMM ? roll(dice) & UINT32_MAX : 0);
	memcpy(at, pieces, (size_t)n * 24);
	finish(l, s, (size_t)n * 24, kind == READ || sum > PAYLOAD_MAX ? 0 : sum);
}

static void send_answer(struct link *l, struct stream *s)
{
	unsigned i = s->n_answers ? (unsigned)roll_below(&l->r->dice, s->n_answers) : 0;
	struct answer a;

	if (!s->n_answers)
		return;
	a = s->answers[i];
	if (!raw_is_odd(l->r))
		s->answers[i] = s->answers[--s->n_answers];
	if (a.data && a.len <= PAYLOAD_MAX) {
		memset(begin(l, DATA, 0, a.id, a.len, 0), 0, 40);
		finish(l, s, 40, a.len);
	} else {
		uint64_t code = a.refused || roll_percent(&l->r->dice, 20)
					? 1 + roll_below(&l->r->dice, 3)
					: 0;

		/* one that is refused is not counted */
		if (a.imm && code == 0)
			l->r->n_taken_here++;
		begin(l, REPLY, 0, a.id, 0, code);
		finish(l, s, 0, 0);
	}
}

/* A frame of any kind, at any time. */
static void send_stray(struct link *l, struct stream *s)
{
	struct dice *dice = &l->r->dice;
	uint8_t kind = (uint8_t)roll_below(dice, 14);
	uint16_t count = (uint16_t)(roll_percent(dice, 70) ? 0 : roll_below(dice, 34));
	uint64_t len = roll_percent(dice, 70) ? 0 : roll_below(dice, 2000);

	memset(begin(l, kind, count, (uint32_t)roll_below(dice, 17), len, roll_below(dice, 200)), 0,
	       LIST_MAX + 64);
	finish(l, s, list_len(l->out), len);
}

static void send_one(struct link *l)
{
	struct dice *dice = &l->r->dice;
	struct stream *s = &l->streams[roll_below(dice, l->n)];

	if (!s->shown && !raw_is_odd(l->r)) {
		show_secret(l, s);
		return;
	}
	if (raw_is_odd(l->r) && raw_is_odd(l->r)) {
		send_stray(l, s);
		return;
	}
	switch (roll_below(dice, 16)) {
	case 0:
	case 1:
		send_request(l, s, READ);
		break;
	case 2:
		send_request(l, s, WRITE);
		break;
	case 3:
		if (l->r->n_imms - l->r->n_taken < RAW_IMMS || raw_is_odd(l->r))
			send_request(l, s, WRITE_IMM);
		break;
	case 4:
		begin(l, CREDIT, 0, 0, 0, l->r->n_taken_here);
		finish(l, &l->streams[0], 0, 0);
		break;
	case 5:
		begin(l, WITHDRAW, 0, 0, 0, roll_below(dice, 100));
		finish(l, &l->streams[0], 0, 0);
		break;
	case 6:
		if (roll_below(dice, 1000) == 0) {
			begin(l, BYE, 0, 0, 0, 0);
			finish(l, s, 0, 0);
		} else if (roll_below(dice, 50) == 0) {
			show_secret(l, s);
		}
		break;
	case 7:
	case 8:
	case 9:
	case 10:
		send_answer(l, s);
		break;
	case 11:
	case 12:
	case 13:
		send_msg(l, true);
		break;
	default:
		send_msg(l, false);
	}
}

/* ---- its life ---- */

/* The peer's streams come in any order. */
static bool connect_stream(struct link *l, uint16_t stream)
{
	int64_t until = now_ms() + 2000;
	int fd;

	while ((fd = raw_connect(l->r)) >= 0) {
		uint16_t is = stream;

		if (raw_greet(l->r, fd, &is) && is < l->n) {
			l->streams[is].fd = fd;
			return true;
		}
		close(fd); /* it may not expect us yet */
		if (now_ms() > until)
			break;
		pause_us(20000);
	}
	return false;
}

static bool connect_streams(struct link *l)
{
	struct raw *r = l->r;

	l->n = r->initiator ? 1 + (unsigned)roll_below(&r->dice, STREAMS) : PEERS_STREAMS;
	for (uint16_t i = 0; i < l->n; i++)
		l->streams[i].fd = -1;
	for (uint16_t i = 0; i < l->n; i++)
		if (!connect_stream(l, i))
			return false;
	for (uint16_t i = 0; i < l->n; i++)
		if (l->streams[i].fd < 0)
			return false;
	return true;
}

static void open_streams(struct link *l)
{
	for (unsigned i = 0; i < l->n; i++) {
		begin(l, OPEN, 0, i, 0, l->n);
		finish(l, &l->streams[i], 0, 0);
	}
}

/* OPEN or READY of the peer, which nothing answers; now and then it is not waited for. */
static void await_head(struct link *l, struct stream *s)
{
	uint8_t head[HEAD];

	if (raw_is_odd(l->r))
		return;
	if (recv(s->fd, head, sizeof(head), MSG_WAITALL) != sizeof(head))
		l->ended = true;
}

static void begin_link(struct link *l)
{
	if (l->r->initiator)
		open_streams(l);
	for (unsigned i = 0; i < l->n && !l->ended; i++)
		await_head(l, &l->streams[i]);
	if (!l->r->initiator)
		open_streams(l);
	begin(l, READY, 0, 0, 0, 0);
	finish(l, &l->streams[0], 0, 0);
	await_head(l, &l->streams[0]);
}

void raw_tcp_live(struct raw *r)
{
	static struct link link;
	struct link *l = &link;

	l->r = r;
	if (!connect_streams(l))
		return;
	begin_link(l);
	while (!l->ended) {
		take_all(l);
		send_one(l);
		if (roll_percent(&r->dice, 20))
			pause_us(50);
	}
}
