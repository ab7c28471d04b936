/* SPDX-License-Identifier: Apache-2.0 */
/* A raw peer over shm: the page "shm" of docs/wire.md. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/stress/mutate.h"
#include "tests/stress/raw.h"
#include "tests/stress/report.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { SEGMENT = 1, ACCEPT, READY, MAP, MAPPED, WITHDRAW, WITHDRAWN, BYE, BYE_DONE, ENDED };

#define PACKET	   48
#define HALF	   (61568 + 458752)
#define ENTRIES	   480
#define ENTRY	   128
#define RING_AT	   128
#define SLOTS_AT   61568
#define AREA_CALLS (64 * 1024 + 8 * 16384)
#define SEALS	   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PAGE_LEN   32 /* whether its owner sleeps, and at 16 the mark */
#define BOARD_LEN  576
#define BOARD_BITS 4096
#define MARK_AT	   16
#define OWN_LEN	   (1 << 20) /* of the memory that is offered */
#define FDS	   4
#define VERSION	   4
#define HEARD_AT   12 /* in a half: bells that its owner took */
#define UNHEARD	   16
#define ASKED	   32
/* flags of SEGMENT, ACCEPT and READY */
#define FOREIGN_ALLOWED 1
#define FOREIGN_REACHED 4

struct packet {
	uint8_t bytes[PACKET];
	int fds[FDS];
	int n_fds;
};

struct link {
	struct raw *r;
	int sock;
	int segment_fd, page_fd, board_fd, own_fd;
	int odd_fd;	      /* nothing that belongs into a packet */
	uint8_t *own, *other; /* halves */
	uint8_t *theirs;      /* the board of the other end */
	_Atomic uint32_t *page;
	uint64_t nonce, n_posted, n_read;
	uint32_t n_rung, n_heard;   /* bells */
	struct packet asked[ASKED]; /* MAP and WITHDRAW of the peer, not yet answered */
	unsigned n_asked;
	bool foreign; /* the peer reaches memory of ours without a descriptor */
	bool ended;
	struct raw_msg msg;
};

/* ---- what it gives ---- */

static int memory(const char *name, size_t len, int seals, void **out)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)len))
		fail("raw", "no memory: %s", strerror(errno));
	*out = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*out == MAP_FAILED || fcntl(fd, F_ADD_SEALS, seals))
		fail("raw", "no mapping: %s", strerror(errno));
	return fd;
}

/* A descriptor, or one that is nothing of the kind. */
static int odd_fd(struct raw *r, int fd)
{
	void *at = NULL;
	int ends[2];

	if (!raw_is_odd(r))
		return fd;
	switch (roll_below(&r->dice, 6)) {
	case 0:
		return memory("raw-open", HALF * 2, 0, &at);
	case 1:
		return memory("raw-short", 4096, SEALS, &at);
	case 2:
		return memory("raw-long", (size_t)HALF * 4, SEALS, &at);
	case 3:
		return pipe2(ends, O_CLOEXEC) ? fd : ends[1];
	case 4:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	default:
		return eventfd(0, EFD_CLOEXEC);
	}
}

static uint64_t start_time(void)
{
	unsigned long long ticks = 0;
	char line[1024] = "", *at;
	FILE *file = fopen("/proc/self/stat", "re");

	if (file && fgets(line, sizeof(line), file) && (at = strrchr(line, ')')))
		for (int i = 0; at && i < 20; i++) {
			at = strchr(at + 1, ' ');
			if (at && i == 19)
				sscanf(at, "%llu", &ticks);
		}
	if (file)
		fclose(file);
	return ticks;
}

/* ---- packets ---- */

struct fields {
	uint8_t kind, flags;
	int32_t status;
	uint32_t id, access;
	uint64_t a, b, c, len;
	int fds[FDS];
	int n_fds;
};

static void send_packet(struct link *l, struct fields f)
{
	struct raw *r = l->r;
	uint8_t bytes[PACKET];
	struct sl_writer w = { bytes, sizeof(bytes), false };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} control = { 0 };
	struct iovec part = { bytes, sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	if (f.n_fds && raw_is_odd(r))
		f.n_fds--;
	else if (f.n_fds < FDS && raw_is_odd(r))
		f.fds[f.n_fds++] = l->odd_fd;
	sl_write_u8(&w, (uint8_t)(raw_is_odd(r) && raw_is_odd(r) ? VERSION - 1 : VERSION));
	sl_write_u8(&w, (uint8_t)raw_field(r, f.kind));
	sl_write_u8(&w, (uint8_t)raw_field(r, f.flags));
	sl_write_u8(&w, (uint8_t)raw_field(r, (uint64_t)f.n_fds));
	sl_write_u32(&w, (uint32_t)raw_field(r, (uint64_t)(int64_t)f.status));
	sl_write_u32(&w, (uint32_t)raw_field(r, f.id));
	sl_write_u32(&w, (uint32_t)raw_field(r, f.access));
	sl_write_u64(&w, raw_field(r, f.a));
	sl_write_u64(&w, raw_field(r, f.b));
	sl_write_u64(&w, raw_field(r, f.c));
	sl_write_u64(&w, raw_field(r, f.len));
	if (raw_is_odd(r) && raw_is_odd(r))
		part.iov_len = roll_below(&r->dice, sizeof(bytes));
	if (f.n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE((size_t)f.n_fds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN((size_t)f.n_fds * sizeof(int));
		for (int i = 0; i < f.n_fds; i++)
			((int *)CMSG_DATA(&control.align))[i] = odd_fd(r, f.fds[i]);
	}
	if (sendmsg(l->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		l->ended = true;
	(*r->n_messages)++;
	for (int i = 0; i < f.n_fds; i++) {
		int fd = ((int *)CMSG_DATA(&control.align))[i];

		if (fd >= 0 && fd != f.fds[i])
			close(fd);
	}
}

static _Atomic uint32_t *heard_at(uint8_t *half)
{
	return (_Atomic uint32_t *)(half + HEARD_AT);
}

/* Also a bell, a packet of one byte: *len is the length. */
static bool recv_any(struct link *l, struct packet *p, int flags, ssize_t *len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} control;
	struct iovec part = { p->bytes, sizeof(p->bytes) };
	struct msghdr msg = { .msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(l->sock, &msg, flags | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	p->n_fds = 0;
	if (c && c->cmsg_type == SCM_RIGHTS) {
		p->n_fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(p->fds, CMSG_DATA(c), (size_t)p->n_fds * sizeof(int));
	}
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n != PACKET && n != 1)
		l->ended = true;
	*len = n;
	return !l->ended;
}

static bool recv_packet(struct link *l, struct packet *p, int flags)
{
	ssize_t len;

	while (recv_any(l, p, flags, &len)) {
		if (len == PACKET)
			return true;
		atomic_store(heard_at(l->own), (uint32_t)raw_field(l->r, ++l->n_heard));
	}
	return false;
}

static void close_fds(struct packet *p)
{
	while (p->n_fds)
		close(p->fds[--p->n_fds]);
}

static void take_packets(struct link *l)
{
	struct packet p;

	while (!l->ended && recv_packet(l, &p, MSG_DONTWAIT)) {
		if ((p.bytes[1] == MAP || p.bytes[1] == WITHDRAW) && l->n_asked < ASKED)
			l->asked[l->n_asked++] = p;
		close_fds(&p);
	}
}

/* Memory for a MAP: ours, which the peer then reads and writes. */
static void answer(struct link *l)
{
	unsigned i = l->n_asked ? (unsigned)roll_below(&l->r->dice, l->n_asked) : 0;
	struct fields f = { .kind = MAPPED, .access = 3 };
	struct packet p;

	if (!l->n_asked)
		return;
	p = l->asked[i];
	if (!raw_is_odd(l->r))
		l->asked[i] = l->asked[--l->n_asked];
	f.id = sl_get_le32(p.bytes + 8);
	f.a = sl_get_le64(p.bytes + 16);
	if (p.bytes[1] == WITHDRAW) {
		f.kind = WITHDRAWN;
		f.access = 0;
	} else if (roll_percent(&l->r->dice, 20)) {
		f.access = 0;
		f.status = roll_percent(&l->r->dice, 50) ? -ESTALE : -EACCES;
	} else if (l->foreign && roll_percent(&l->r->dice, 30)) {
		f.len = sl_get_le64(l->r->own + 24);
	} else {
		f.fds[f.n_fds++] = l->own_fd;
		f.b = roll_below(&l->r->dice, 16) * 4096;
		f.c = OWN_LEN;
		f.len = sl_get_le64(l->r->own + 24);
	}
	send_packet(l, f);
}

static void ask(struct link *l)
{
	const struct slime_remote_mr *mr = &l->r->theirs;

	send_packet(l, (struct fields){ .kind = roll_percent(&l->r->dice, 80) ? MAP : WITHDRAWN,
					.id = mr->id,
					.a = mr->generation,
					.b = mr->secret[0],
					.c = mr->secret[1] });
}

/* A packet of any kind, at any time. */
static void send_stray(struct link *l)
{
	struct dice *dice = &l->r->dice;
	struct fields f = { .kind = (uint8_t)roll_below(dice, 12),
			    .id = (uint32_t)roll_below(dice, 300),
			    .a = roll_below(dice, 300),
			    .b = mutate_word(dice),
			    .c = mutate_word(dice),
			    .len = mutate_word(dice),
			    .n_fds = (int)roll_below(dice, FDS + 1) };
	const int fds[] = { l->own_fd, l->segment_fd, l->page_fd, l->board_fd, l->odd_fd };

	for (int i = 0; i < f.n_fds; i++)
		f.fds[i] = fds[roll_below(dice, 5)];
	send_packet(l, f);
}

/* ---- the ring ---- */

static _Atomic uint64_t *word_at(uint8_t *half, size_t at)
{
	return (_Atomic uint64_t *)(half + at);
}

static size_t slot_at(unsigned area, unsigned slot)
{
	size_t at = SLOTS_AT + (area ? 64 * 1024 + (area - 1) * (size_t)AREA_CALLS : 0);

	return slot < 64 ? at + slot * (size_t)1024
			 : at + 64 * 1024 + (slot - 64) * (size_t)RAW_SLOT_LARGE;
}

static void ring_bell(struct link *l)
{
	uint8_t bell = VERSION;

	if (l->n_rung - atomic_load(heard_at(l->other)) >= UNHEARD && !raw_is_odd(l->r))
		return;
	l->n_rung++;
	if (send(l->sock, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		l->ended = true;
}

/* Into its slot, and, when it is short, perhaps into the entry. */
static void post(struct link *l, struct raw_msg *m)
{
	uint8_t *entry = l->own + RING_AT + l->n_posted % ENTRIES * ENTRY;
	unsigned slot = sl_get_le16(m->head + 2), kind = m->head[0];
	unsigned area = kind == 2 ? 0 : kind == 4 ? 1 : 2;
	bool here = (kind == 4 || kind == 5) && m->len >= 1 && m->len <= 64 &&
		    roll_percent(&l->r->dice, 50);

	if (m->len && slot < (area ? 72 : 64))
		memcpy(l->own + slot_at(area, slot), m->payload,
		       slot < 64 && m->len > 1024 ? 1024 : m->len);
	if (here) {
		sl_put_le16(m->head + 2, (uint16_t)(slot | 0x8000));
		memcpy(entry + 64, m->payload, 64);
	}
	memcpy(entry + 8, m->head, RAW_MSG_LEN);
	if (kind == 4 && roll_percent(&l->r->dice, 30))
		entry[9] |= (uint8_t)(roll(&l->r->dice) & 0xfc);
	atomic_store_explicit(word_at(entry, 0), raw_field(l->r, ++l->n_posted),
			      memory_order_release);
	(*l->r->n_messages)++;
	if (!raw_is_odd(l->r))
		ring_bell(l);
}

static void take_ring(struct link *l)
{
	for (;;) {
		uint8_t *entry = l->other + RING_AT + l->n_read % ENTRIES * ENTRY;
		uint8_t head[RAW_MSG_LEN];

		if (atomic_load_explicit(word_at(entry, 0), memory_order_acquire) != l->n_read + 1)
			break;
		memcpy(head, entry + 8, sizeof(head));
		l->n_read++;
		raw_heard(l->r, head);
	}
	l->r->n_taken = *word_at(l->other, 64);
}

/* Bytes of its half, at any time, as they should not be. */
static void scribble(struct link *l)
{
	struct dice *dice = &l->r->dice;
	size_t most = roll_percent(dice, 50) ? 256 : HALF;

	if (roll_percent(dice, 30))
		mutate_bytes(dice, l->theirs, BOARD_LEN);
	mutate_bytes(dice, l->own + roll_below(dice, most / 64) * 64, 64);
}

static void send_one(struct link *l)
{
	struct raw *r = l->r;
	struct dice *dice = &r->dice;

	if (raw_is_odd(r) && raw_is_odd(r)) {
		if (roll_percent(dice, 50))
			send_stray(l);
		else
			scribble(l);
		return;
	}
	switch (roll_below(dice, 12)) {
	case 0:
		*word_at(l->own, 64) = raw_field(r, r->n_taken_here);
		break;
	case 1:
		*l->page = (uint32_t)roll_below(dice, 2);
		break;
	case 2:
		if (roll_percent(dice, 20))
			ask(l);
		break;
	case 3:
		if (roll_below(dice, 2000) == 0)
			send_packet(
				l, (struct fields){ .kind = roll_percent(dice, 50) ? BYE : ENDED });
		break;
	case 4:
	case 5:
		answer(l);
		break;
	case 6:
	case 7:
	case 8:
		if (raw_message(r, true, &l->msg))
			post(l, &l->msg);
		break;
	default:
		if (raw_message(r, false, &l->msg))
			post(l, &l->msg);
	}
}

/* ---- its life ---- */

static bool map_segment(struct link *l, int fd, bool is_initiator)
{
	uint8_t *at = mmap(NULL, (size_t)HALF * 2, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return false;
	l->own = is_initiator ? at : at + HALF;
	l->other = is_initiator ? at + HALF : at;
	*word_at(l->own, 0) = raw_field(l->r, l->nonce);
	return true;
}

static bool map_board(struct link *l, int fd)
{
	l->theirs = mmap(NULL, BOARD_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return l->theirs != MAP_FAILED;
}

static void introduce(struct link *l, uint8_t kind)
{
	struct fields f = { .kind = kind,
			    .flags = roll_percent(&l->r->dice, 80) ? FOREIGN_ALLOWED : 0,
			    .a = l->nonce,
			    .b = (uintptr_t)l->page + MARK_AT,
			    .c = start_time(),
			    .id = (uint32_t)roll_below(&l->r->dice, BOARD_BITS) };

	if (kind == SEGMENT)
		f.fds[f.n_fds++] = l->segment_fd;
	f.fds[f.n_fds++] = l->page_fd;
	f.fds[f.n_fds++] = l->board_fd;
	send_packet(l, f);
}

static bool shake_hands(struct link *l)
{
	bool first = l->r->initiator;
	struct packet p;

	if (first && !map_segment(l, l->segment_fd, true))
		return false;
	if (first)
		introduce(l, SEGMENT);
	if (!recv_packet(l, &p, 0) || p.n_fds != (first ? 2 : 3))
		return false;
	if ((!first && !map_segment(l, p.fds[0], false)) || !map_board(l, p.fds[p.n_fds - 1]))
		return false;
	if (!first)
		introduce(l, ACCEPT);
	if (first)
		send_packet(l, (struct fields){ .kind = READY });
	else if (!raw_is_odd(l->r) && !recv_packet(l, &p, 0))
		return false;
	l->foreign = p.bytes[2] & FOREIGN_REACHED;
	return true;
}

static void make_offer(struct link *l)
{
	void *at = NULL;

	l->segment_fd = memory("raw-segment", (size_t)HALF * 2, SEALS, &at);
	l->page_fd = memory("raw-page", PAGE_LEN, SEALS, &at);
	l->page = at;
	sl_put_le64((uint8_t *)at + MARK_AT, roll(&l->r->dice));
	l->board_fd = memory("raw-board", BOARD_LEN, SEALS, &at);
	l->own_fd = memory("raw-region", OWN_LEN, SEALS, &at);
	l->odd_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->nonce = roll(&l->r->dice);
}

void raw_shm_live(struct raw *r)
{
	static struct link link;
	struct link *l = &link;
	int64_t until = now_ms() + 2000;
	uint16_t stream = 0;

	l->r = r;
	make_offer(l);
	while ((l->sock = raw_connect(r)) < 0 || !raw_greet(r, l->sock, &stream)) {
		if (l->sock < 0 || now_ms() > until)
			return;
		close(l->sock); /* it may not expect us yet */
		pause_us(20000);
	}
	if (!shake_hands(l))
		return;
	while (!l->ended) {
		take_packets(l);
		take_ring(l);
		send_one(l);
		if (roll_percent(&r->dice, 20))
			pause_us(50);
	}
}
