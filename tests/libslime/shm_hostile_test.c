/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that writes what it likes into the memory we share, and over the socket beside it. The
 * link ends with one line in the log, or nothing happens; never is a byte touched that the peer was
 * not given.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raw_shm.h"
#include "src/endpoint.h"
#include "support/random.h"
#include "support/sealed_file.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* ---- system calls that fail ---- */

static int mmap_errno; /* of a file */
static int send_errno; /* of our end; the peer's is test_sock */
static int test_sock = -1;

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (!mmap_errno || fd < 0)
		return __real_mmap(addr, len, prot, flags, fd, offset);
	errno = mmap_errno;
	return MAP_FAILED;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!send_errno || fd == test_sock)
		return __real_sendmsg(fd, msg, flags);
	errno = send_errno;
	return -1;
}

static void fail_sends(const struct raw_shm *r, int err)
{
	test_sock = r->sock;
	send_errno = err;
}

/* ---- messages ---- */

static void assert_ends_link(void **state, const struct sl_msg *m)
{
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, m);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	assert_ok(raw_shm_teardown(state));
	assert_ok(raw_shm_setup(state));
}

static void message__malformed_ends_the_link(void **state)
{
	static const struct sl_msg bad[] = {
		{ .kind = 0 },
		{ .kind = SL_MSG_KINDS },
		{ .kind = 255, .slot = 65535, .len = UINT32_MAX },
		{ .kind = SL_MSG_IMM, .len = 1 },
		{ .kind = SL_MSG_SEND, .slot = SL_SEND_SLOTS },
		{ .kind = SL_MSG_SEND, .slot = 65535, .len = 1 },
		{ .kind = SL_MSG_SEND, .len = SL_SLOT_SMALL + 1 },
		{ .kind = SL_MSG_SEND, .len = UINT32_MAX },
		{ .kind = SL_MSG_REQUEST, .slot = SL_CALL_SLOTS },
		{ .kind = SL_MSG_REQUEST, .slot = 0, .len = SL_SLOT_SMALL + 1 },
		{ .kind = SL_MSG_REQUEST, .slot = SL_CALL_SLOTS - 1, .len = SL_SLOT_LARGE + 1 },
		{ .kind = SL_MSG_REPLY, .slot = SL_CALL_SLOTS, .len = 1 },
		/* Payloads that go along. */
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE, .len = SL_SHORT_LEN + 1 },
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE, .len = UINT32_MAX },
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE },
		{ .kind = SL_MSG_REQUEST, .slot = SHM_SLOT_HERE | SL_CALL_SLOTS, .len = 1 },
		{ .kind = SL_MSG_REPLY, .slot = SHM_SLOT_HERE | SL_CALL_SLOTS, .len = 1 },
		{ .kind = SL_MSG_SEND, .slot = SHM_SLOT_HERE, .len = 1 },
		{ .kind = SL_MSG_IMM, .slot = SHM_SLOT_HERE, .len = 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_ends_link(state, &bad[i]);
}

static void message__answering_what_was_not_asked_ends_the_link(void **state)
{
	static const struct sl_msg bad[] = {
		{ .kind = SL_MSG_SEND_DONE, .slot = 0 },
		{ .kind = SL_MSG_SEND_DONE, .slot = 65535 },
		{ .kind = SL_MSG_REPLY, .slot = 0, .w = { 7 } },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_ends_link(state, &bad[i]);
}

static void message__immediates_beyond_the_window_end_the_link(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (int i = 0; i < SL_WINDOW_IMM; i++)
		raw_shm_post(r, &m);
	assert_false(r->ended);
	raw_shm_post(r, &m);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
}

static void message__into_a_slot_in_use_ends_the_link(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_SEND, .slot = 3, .len = 8, .w = { 0, 8 } };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, &m);
	assert_false(r->ended);
	raw_shm_post(r, &m);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
}

/* ---- indexes ---- */

/* Only the number that comes next is read: what was, or is far ahead, is not there. */
static void ring__numbers_that_are_not_next_are_not_read(void **state)
{
	static const uint64_t numbers[] = { 0, 1, SL_RING_ENTRIES, 3 + SL_RING_ENTRIES,
					    UINT64_MAX };
	struct sl_msg m = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	raw_shm_post(r, &m);
	raw_shm_post(r, &m);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		for (int e = 0; e < SL_RING_ENTRIES; e++) {
			r->own->ring[e].m.kind = 99;
			atomic_store(&r->own->ring[e].seq, numbers[i]);
		}
		raw_shm_turn(r);
	}
	assert_false(r->ended);
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_imm_recv(r->ep, r->op));
		assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	}
	assert_ok(slime_imm_recv(r->ep, r->op));
	assert_int_equal(slime_op_wait(r->op, 0), -ETIMEDOUT);
}

/* Wherever it says it is, what we post stays in our ring. */
static void imm_taken__that_lies_costs_us_nothing(void **state)
{
	static const uint64_t lies[] = { UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 40, 0, 129 };
	struct raw_shm *r = *state;
	unsigned n_posted = 0;

	raw_shm_link(r);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		atomic_store(&r->own->imm_taken, lies[i]);
		for (int k = 0; k < 2 * SL_RING_ENTRIES; k++) {
			int ret = slime_write_imm(r->ep, NULL, 0, 0, 1, r->op);

			assert_true(ret == 0 || ret == -EAGAIN);
			n_posted += ret == 0;
		}
		raw_shm_turn(r);
	}
	assert_true(n_posted > SL_WINDOW_IMM);
	assert_false(r->ended);
}

/* It can write to what we tell it, and not to what we know. */
static void imm_taken__that_the_peer_wrote_over_is_told_again(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_IMM };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (uint64_t n = 1; n <= 3; n++) {
		atomic_store(&r->other->imm_taken, UINT64_MAX);
		raw_shm_post(r, &m);
		assert_ok(slime_imm_recv(r->ep, r->op));
		assert_ok(slime_op_wait(r->op, PATIENCE_MS));
		assert_int_equal(atomic_load(&r->other->imm_taken), n);
	}
}

/* ---- regions ---- */

/* A region of the peer's, as its descriptor says it is. */
static struct slime_remote_mr theirs(const struct raw_shm *r)
{
	return (struct slime_remote_mr){
		.owner = RAW_SHM_FIRST,
		.len = 8192,
		.generation = 5,
		.id = 3,
		.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
		.kind = r->remote.kind,
	};
}

static struct shm_packet good_answer(int fd)
{
	return (struct shm_packet){
		.kind = SHM_MAPPED,
		.id = 3,
		.a = 5,
		.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
		.c = 8192,
		.len = 8192,
		.n_fds = 1,
		.fds = { fd },
	};
}

/* What becomes of our read of all of the region when the peer answers this for it. */
static int read_answered_with(struct raw_shm *r, const struct shm_packet *answer)
{
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };

	raw_shm_link(r);
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	raw_shm_say(r, answer);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	return slime_op_status(r->op);
}

static void answer_to_map__that_is_right_is_read(void **state)
{
	int fd = sealed_file(8192, SEALS);
	struct shm_packet answer = good_answer(fd);

	assert_ok(read_answered_with(*state, &answer));
	close(fd);
}

static void answer_to_map__that_cannot_be_ends_the_link(void **state)
{
	int sealed = sealed_file(8192, SEALS), unsealed = sealed_file(8192, 0);
	struct shm_packet bad[10];

	for (size_t i = 0; i < 10; i++)
		bad[i] = good_answer(sealed);
	bad[0].fds[0] = unsealed;
	bad[1].c = 4096;
	bad[2].c = 16384;
	bad[3].c = UINT64_MAX;
	bad[4].b = 1;
	bad[5].b = UINT64_MAX;
	bad[6].len = 8193;
	bad[7].len = UINT64_MAX;
	bad[8].status = 5;
	bad[9].a = 6;
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(read_answered_with(*state, &bad[i]), -EPROTO);
		raw_shm_assert_broken(*state, -EPROTO, "the peer broke the protocol: a packet");
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	}
	close(sealed);
	close(unsealed);
}

/* The region is less than its descriptor said: nothing outside of it is touched. */
static void answer_to_map__with_less_than_was_promised_fails_the_op(void **state)
{
	int fd = sealed_file(8192, SEALS);
	struct shm_packet shorter = good_answer(fd), write_only = good_answer(fd);
	struct shm_packet foreign = good_answer(fd), gone = good_answer(fd);

	shorter.len = 8191;
	write_only.access = SLIME_ACCESS_REMOTE_WRITE;
	foreign.n_fds = 0;
	gone.status = -ESTALE;
	gone.n_fds = 0;
	assert_int_equal(read_answered_with(*state, &shorter), -ERANGE);
	assert_ok(raw_shm_teardown(state));
	assert_ok(raw_shm_setup(state));
	assert_int_equal(read_answered_with(*state, &write_only), -EACCES);
	assert_ok(raw_shm_teardown(state));
	assert_ok(raw_shm_setup(state));
	assert_int_equal(read_answered_with(*state, &foreign), -EOPNOTSUPP);
	assert_ok(raw_shm_teardown(state));
	assert_ok(raw_shm_setup(state));
	assert_int_equal(read_answered_with(*state, &gone), -ESTALE);
	close(fd);
}

static void answer_to_map__that_nobody_asked_for_ends_the_link(void **state)
{
	static const uint32_t ids[] = { 0, 3, 65535, 65536, UINT32_MAX };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct shm_packet p = { .kind = SHM_MAPPED, .id = ids[i] };
		struct raw_shm *r = *state;

		raw_shm_link(r);
		raw_shm_say(r, &p);
		raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol: a packet");
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	}
}

static void map__of_what_there_is_not_is_refused(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet map[] = {
		{ .kind = SHM_MAP, .id = r->remote.id, .a = r->remote.generation + 1 },
		{ .kind = SHM_MAP, .id = r->remote.id + 1, .a = r->remote.generation },
		{ .kind = SHM_MAP, .id = UINT32_MAX, .a = r->remote.generation },
	};

	raw_shm_link(r);
	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		struct shm_packet said;

		raw_shm_say(r, &map[i]);
		said = raw_shm_hear(r);
		assert_int_equal(said.kind, SHM_MAPPED);
		assert_int_equal(said.status, -ESTALE);
		assert_int_equal(said.n_fds, 0);
	}
	assert_false(r->ended);
}

static void withdrawing__what_we_never_had_is_confirmed(void **state)
{
	static const uint32_t ids[] = { 0, 65535, 65536, UINT32_MAX };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct shm_packet p = { .kind = SHM_WITHDRAW, .id = ids[i], .a = 9 }, said;
		struct shm_packet back = { .kind = SHM_WITHDRAWN, .id = ids[i], .a = 9 };

		raw_shm_say(r, &p);
		said = raw_shm_hear(r);
		assert_int_equal(said.kind, SHM_WITHDRAWN);
		assert_int_equal(said.id, ids[i]);
		raw_shm_say(r, &back);
	}
	assert_false(r->ended);
}

/* It asks and reads no answer: what waits for it is bounded. */
static void socket__that_is_not_read_ends_the_link(void **state)
{
	struct shm_packet map = { .kind = SHM_MAP, .id = UINT32_MAX };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (int i = 0; i < 100000 && !r->ended; i++) {
		if (shm_channel_send(r->sock, &map))
			raw_shm_turn(r);
	}
	raw_shm_assert_broken(r, -ECONNRESET, "does not read its socket");
}

/* It would be locked, and there may not be more of that: no reason to look again for ever. */
static void answer_to_map__that_cannot_be_mapped_fails_the_op(void **state)
{
	struct raw_shm *r = *state;
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };
	int fd = sealed_file(8192, SEALS);
	struct shm_packet answer = good_answer(fd);

	raw_shm_link(r);
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	mmap_errno = EAGAIN;
	raw_shm_say(r, &answer);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	mmap_errno = 0;
	assert_int_equal(slime_op_status(r->op), -ENOMEM);
	assert_false(r->ended);
	close(fd);
}

static void read__whose_question_cannot_be_sent_fails(void **state)
{
	struct raw_shm *r = *state;
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };

	raw_shm_link(r);
	fail_sends(r, ENOBUFS);
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	send_errno = 0;
	assert_int_equal(slime_op_status(r->op), -ENOMEM);
	assert_false(r->ended);

	/* It is no property of the region. */
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	raw_shm_kill(r);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
}

static void read__whose_question_finds_a_full_socket_ends_the_link(void **state)
{
	struct raw_shm *r = *state;
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };

	raw_shm_link(r);
	fail_sends(r, EAGAIN);
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	send_errno = 0;
	assert_int_equal(slime_op_status(r->op), -ECONNRESET);
	raw_shm_assert_broken(r, -ECONNRESET, "does not read its socket");
}

/* The kernel has no room for its descriptor: the peer would wait for it for ever. */
static void map__that_cannot_be_answered_ends_the_link(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet map = { .kind = SHM_MAP, .id = r->remote.id, .a = r->remote.generation };

	raw_shm_link(r);
	fail_sends(r, ETOOMANYREFS);
	raw_shm_say(r, &map);
	raw_shm_assert_broken(r, -ETOOMANYREFS, strerror(ETOOMANYREFS));
	send_errno = 0;
}

/* ---- the last immediate ---- */

/* Two threads want it when the link is gone: the one that came first, and has not taken it yet,
 * gets it; the other would wait for ever. */
static void imm_recv__for_what_another_is_about_to_take_is_refused(void **state)
{
	struct sl_msg imm = { .kind = SL_MSG_IMM, .w = { 7 } };
	struct shm_packet bye = { .kind = SHM_BYE };
	struct raw_shm *r = *state;
	struct slime_op *other;

	assert_ok(slime_op_create(r->ctx, NULL, &other));
	raw_shm_link(r);
	raw_shm_post(r, &imm);
	raw_shm_say(r, &bye);
	assert_int_equal(raw_shm_hear(r).kind, SHM_BYE_DONE);
	sl_list_append(&r->ep->imm_ops, &other->link);
	assert_int_equal(slime_imm_recv(r->ep, r->op), -ENOTCONN);
	sl_list_remove(&other->link);

	assert_ok(slime_imm_recv(r->ep, r->op));
	assert_true(slime_op_test(r->op));
	assert_int_equal(slime_op_imm(r->op), 7);
	assert_int_equal(slime_imm_recv(r->ep, r->op), -ENOTCONN);
	assert_ok(slime_op_destroy(other));
}

/* ---- a peer that leaves while we write ---- */

#define LONG (UINT64_C(64) << 20)
#define LATE (UINT64_C(8) << 20)

/* It may have given up the memory that we write: its goodbye is heard soon. */
static void goodbye__in_the_middle_of_a_long_write_ends_it(void **state)
{
	struct raw_shm *r = *state;
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .remote = &remote, .len = LONG };
	int fd = sealed_file(LONG, SEALS);
	struct shm_packet answer = good_answer(fd), bye = { .kind = SHM_BYE };
	struct slime_mem *mem;
	struct stat st;

	remote.len = answer.c = answer.len = LONG;
	assert_ok(slime_mem_alloc(r->ctx, LONG, NULL, &mem));
	assert_ok(slime_mr_create(r->ctx, slime_mem_addr(mem), LONG, 0, &x.local));
	raw_shm_link(r);
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	assert_ok(shm_channel_send(r->sock, &answer));
	while (!fstat(fd, &st) && !st.st_blocks)
		assert_true(slime_context_poll(r->ctx) >= 0);
	assert_ok(shm_channel_send(r->sock, &bye));
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_int_equal(slime_op_status(r->op), -ECONNRESET);
	/* Pages that nobody wrote are not there. */
	assert_ok(fstat(fd, &st));
	assert_in_range(st.st_blocks * UINT64_C(512), 1, LATE);
	assert_ok(slime_mr_destroy(x.local));
	assert_ok(slime_mem_destroy(mem));
	close(fd);
}

/* ---- all of it at once ---- */

#define LINKS	      40
#define SCRIBBLES_MAX 200000

struct scribbler {
	struct raw_shm *r;
	uint64_t seed;
	_Atomic uint64_t n; /* scribbles so far */
	_Atomic bool stop;
	pthread_t thread;
};

/* A message that is likely to be taken, or not far from it. */
static struct sl_msg some_message(uint64_t *seed)
{
	struct sl_msg m = { .kind = (uint8_t)(next_random(seed) % SL_MSG_KINDS) };

	m.slot = (uint16_t)(next_random(seed) % (SL_CALL_SLOTS + 1));
	m.flags = (uint8_t)(next_random(seed) % 4);
	if (sl_msg_area(m.kind) != SL_AREAS)
		m.len = (uint32_t)(next_random(seed) % (SL_SLOT_SMALL + 2));
	for (int i = 0; i < 6; i++)
		m.w[i] = next_random(seed) % 3 ? next_random(seed) % 2048 : next_random(seed);
	if (next_random(seed) % 2)
		m.w[1] = m.len;
	return m;
}

/* Everywhere: the entry that is read next, those around it, slots, and also our own half. */
static void scribble(struct scribbler *s, uint64_t n)
{
	struct raw_shm *r = s->r;
	uint8_t *bytes = (uint8_t *)r->segment;
	struct shm_entry *e = &r->own->ring[n % SL_RING_ENTRIES];
	uint64_t at = next_random(&s->seed) % (sizeof(*r->segment) - 8);
	uint64_t junk = next_random(&s->seed);

	memcpy(bytes + at, &junk, 1 + junk % 8);
	e->m = some_message(&s->seed);
	atomic_store_explicit(&e->seq, n + 1, memory_order_release);
	/* And under the eyes of who reads it. */
	e->m = some_message(&s->seed);
}

static void *scribble_on(void *arg)
{
	struct scribbler *s = arg;

	for (uint64_t n = 0; n < SCRIBBLES_MAX && !atomic_load(&s->stop); n++) {
		scribble(s, n);
		atomic_store(&s->n, n + 1);
		if (n % 8 == 0)
			sched_yield();
	}
	return NULL;
}

/* What an application does meanwhile. */
static void use_link(struct raw_shm *r, struct slime_op *ops[3], struct slime_call *call)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	if (slime_op_test(ops[0]))
		(void)!slime_imm_recv(r->ep, ops[0]);
	if (slime_op_test(ops[1]))
		(void)!slime_recv(r->ep, r->mr, 0, 4096, 0, 0, ops[1]);
	if (slime_op_test(ops[2]))
		(void)!slime_send(r->ep, r->mr, 4096, 100, 1, ops[2]);
	if (!slime_call_test(call))
		return;
	args.method = slime_rpc_method_id("echo");
	args.request = r->bytes + 8192;
	args.request_len = 100;
	args.reply = r->bytes + 12288;
	args.reply_cap = 4096;
	(void)!slime_call_start(r->ep, &args, call);
}

/* Whatever it writes: the link breaks or goes on, each op ends once, and no byte but those of the
 * receives and of the reply changes. */
static void use_under(struct scribbler *s)
{
	struct raw_shm *r = s->r;
	struct slime_call *call;
	struct slime_op *ops[3];

	for (int i = 0; i < 3; i++)
		assert_ok(slime_op_create(r->ctx, NULL, &ops[i]));
	assert_ok(slime_call_create(r->ctx, NULL, &call));
	assert_ok(pthread_create(&s->thread, NULL, scribble_on, s));
	while (atomic_load(&s->n) < 2000 && !r->ended) {
		use_link(r, ops, call);
		assert_true(slime_context_poll(r->ctx) >= 0);
	}
	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	for (int i = 0; i < 3; i++) {
		assert_ok(slime_op_wait(ops[i], PATIENCE_MS));
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_ok(slime_call_wait(call, PATIENCE_MS));
	assert_ok(slime_call_destroy(call));
}

static void scribbling__over_all_that_is_shared_harms_nobody_else(void **state)
{
	static uint8_t before[RAW_SHM_LEN];
	uint64_t seed = UINT64_C(0x5eed);
	unsigned n_broken = 0;

	for (int i = 0; i < LINKS; i++) {
		struct raw_shm *r = *state;
		struct scribbler s = { .r = r, .seed = next_random(&seed) };

		memset(r->bytes, 0x5a, RAW_SHM_LEN);
		memcpy(before, r->bytes, RAW_SHM_LEN);
		raw_shm_link(r);
		use_under(&s);
		n_broken += r->cause == -EPROTO;
		assert_memory_equal(r->bytes + 4096, before + 4096, 8192);
		assert_memory_equal(r->bytes + 16384, before + 16384, RAW_SHM_LEN - 16384);
		assert_in_range(log_lines_with(""), 0, 1);
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	}
	assert_true(n_broken > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(message__malformed_ends_the_link),
		IN_RAW_SHM(message__answering_what_was_not_asked_ends_the_link),
		IN_RAW_SHM(message__immediates_beyond_the_window_end_the_link),
		IN_RAW_SHM(message__into_a_slot_in_use_ends_the_link),
		IN_RAW_SHM(ring__numbers_that_are_not_next_are_not_read),
		IN_RAW_SHM(imm_taken__that_lies_costs_us_nothing),
		IN_RAW_SHM(imm_taken__that_the_peer_wrote_over_is_told_again),
		IN_RAW_SHM(answer_to_map__that_is_right_is_read),
		IN_RAW_SHM(answer_to_map__that_cannot_be_ends_the_link),
		IN_RAW_SHM(answer_to_map__with_less_than_was_promised_fails_the_op),
		IN_RAW_SHM(answer_to_map__that_nobody_asked_for_ends_the_link),
		IN_RAW_SHM(map__of_what_there_is_not_is_refused),
		IN_RAW_SHM(withdrawing__what_we_never_had_is_confirmed),
		IN_RAW_SHM(socket__that_is_not_read_ends_the_link),
		IN_RAW_SHM(answer_to_map__that_cannot_be_mapped_fails_the_op),
		IN_RAW_SHM(read__whose_question_cannot_be_sent_fails),
		IN_RAW_SHM(read__whose_question_finds_a_full_socket_ends_the_link),
		IN_RAW_SHM(map__that_cannot_be_answered_ends_the_link),
		IN_RAW_SHM(imm_recv__for_what_another_is_about_to_take_is_refused),
		IN_RAW_SHM(goodbye__in_the_middle_of_a_long_write_ends_it),
		IN_RAW_SHM(scribbling__over_all_that_is_shared_harms_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
