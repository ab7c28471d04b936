/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that answers what it likes when it is asked for its regions, or asks what it likes for
 * ours; and system calls that fail meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/libslime/transport/shm/raw.h"
#include "src/core/region.h"
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

static int wait_for_op(struct raw_shm *r)
{
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	return slime_op_status(r->op);
}

/* What becomes of our read of x, in a region that is new to us, when the peer answers this for it.
 */
static int read_new(struct raw_shm *r, const struct slime_xfer *x, const struct shm_packet *answer)
{
	raw_shm_link(r);
	assert_ok(slime_read(r->ep, x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	raw_shm_say(r, answer);
	return wait_for_op(r);
}

/* The same of all of the region. */
static int read_answered_with(struct raw_shm *r, const struct shm_packet *answer)
{
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };

	return read_new(r, &x, answer);
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

/* The same read, of that generation, which asks for it: what it came to. */
static int read_of(struct raw_shm *r, uint64_t generation, const struct shm_packet *answer)
{
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };
	struct shm_packet asked;

	remote.generation = generation;
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	if (answer) {
		asked = raw_shm_hear(r);
		assert_int_equal(asked.kind, SHM_MAP);
		assert_int_equal(asked.a, generation);
		raw_shm_say(r, answer);
	}
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	return slime_op_status(r->op);
}

/* Its descriptor was made up: the region that has this id can be reached all the same. */
static void read__of_a_generation_that_never_was_leaves_the_others_in_reach(void **state)
{
	int fd = sealed_file(8192, SEALS);
	struct shm_packet never = { .kind = SHM_MAPPED, .id = 3, .a = 9, .status = -ESTALE };
	struct shm_packet good = good_answer(fd);
	struct raw_shm *r = *state;

	raw_shm_link(r);
	assert_int_equal(read_of(r, 9, &never), -ESTALE);
	assert_ok(read_of(r, 5, &good));
	close(fd);
}

static void read__of_another_generation_than_what_is_mapped_is_stale(void **state)
{
	int fd = sealed_file(8192, SEALS);
	struct shm_packet good = good_answer(fd);
	struct raw_shm *r = *state;

	raw_shm_link(r);
	assert_ok(read_of(r, 5, &good));
	assert_int_equal(read_of(r, 9, NULL), -ESTALE);
	assert_ok(read_of(r, 5, NULL));
	close(fd);
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

/* Of each half of it one bit: who guesses is told no more than of a region that is not there. */
static void map__with_wrong_secrets_is_stale_and_the_third_ends_the_link(void **state)
{
	struct raw_shm *r = *state;

	raw_shm_link(r);
	for (int i = 0; i < SL_WRONG_SECRETS; i++) {
		struct shm_packet map = raw_shm_map(r->mr), said;

		*(i % 2 ? &map.b : &map.c) ^= UINT64_C(1) << i * 20;
		raw_shm_say(r, &map);
		if (i + 1 == SL_WRONG_SECRETS)
			break;
		said = raw_shm_hear(r);
		assert_int_equal(said.kind, SHM_MAPPED);
		assert_int_equal(said.status, -ESTALE);
		assert_int_equal(said.n_fds, 0);
		assert_false(r->ended);
	}
	raw_shm_assert_broken(r, -EPROTO, "wrong secrets");
	assert_int_equal(log_lines_with("wrong secrets"), 1);
	/* Nothing was given: nobody is waited for. */
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

/* ---- foreign memory ---- */

/* The peer's process has a copy of it. */
static uint8_t in_process[8192];

/* Our transfer with memory of the peer's process, once the mark there is another one than at the
 * beginning. */
static int transfer_without_mark(struct raw_shm *r,
				 int (*transfer)(struct slime_endpoint *, const struct slime_xfer *,
						 size_t, uint32_t, struct slime_op *))
{
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };
	struct shm_packet answer = good_answer(-1);

	answer.n_fds = 0;
	remote.addr = (uintptr_t)in_process;
	r->foreign = true;
	in_process[0] = 1;
	assert_ok(read_new(r, &x, &answer));
	assert_int_equal(r->bytes[0], 1);
	r->bytes[0] = 2;
	r->page->mark[SHM_MARK_LEN - 1] ^= 1;
	assert_ok(transfer(r->ep, &x, 1, 0, r->op));
	return wait_for_op(r);
}

/* And nothing is written there. */
static void transfer__with_a_process_of_another_mark_is_econnreset(void **state)
{
	struct raw_shm *r = *state;
	struct iovec here = { .iov_base = r->bytes, .iov_len = 1 };
	struct iovec there = { .iov_base = in_process, .iov_len = 1 };

	assert_int_equal(transfer_without_mark(r, slime_read), -ECONNRESET);
	raw_shm_assert_broken(r, -ECONNRESET, "runs another program");
	assert_ok(raw_shm_teardown(state));
	assert_ok(raw_shm_setup(state));
	r = *state;
	assert_int_equal(transfer_without_mark(r, slime_write), -ECONNRESET);
	here.iov_base = r->bytes;
	assert_int_equal(process_vm_readv(r->pid, &here, 1, &there, 1, 0), 1);
	assert_int_equal(r->bytes[0], 1);
}

/* ---- holes ---- */

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#define HUGE_LEN (UINT64_C(2) << 20)
#define STRANGER 65532

static void map__of_a_region_for_reading_only_gives_a_file_that_cannot_be_punched(void **state)
{
	struct raw_shm *r = *state;
	struct slime_mem *mem;
	struct slime_mr *mr;
	int fd;

	assert_ok(slime_mem_alloc(r->ctx, RAW_SHM_LEN, NULL, &mem));
	assert_ok(slime_mr_create(r->ctx, slime_mem_addr(mem), RAW_SHM_LEN,
				  SLIME_ACCESS_REMOTE_READ, &mr));
	fd = mr->region->memfd;
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_ok(slime_mr_destroy(mr));
	assert_ok(slime_mem_destroy(mem));
}

static void answer_to_map__with_huge_pages_of_another_user_is_unsupported(void **state)
{
	struct raw_shm *r = *state;
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
	struct shm_packet answer = good_answer(fd);

	/* Only root can be several users, and not every kernel has huge pages. */
	if (geteuid() != 0 || fd < 0)
		skip();
	assert_ok(ftruncate(fd, HUGE_LEN));
	assert_ok(fcntl(fd, F_ADD_SEALS, SEALS));
	answer.c = HUGE_LEN;
	r->uid = STRANGER;
	assert_int_equal(read_answered_with(r, &answer), -EOPNOTSUPP);
	close(fd);
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

/* This process has no place for another descriptor, until it has. */
static void answer_to_map__that_finds_no_descriptor_fails_the_op(void **state)
{
	struct raw_shm *r = *state;
	struct slime_remote_mr remote = theirs(r);
	struct slime_xfer x = { .local = r->mr, .remote = &remote, .len = remote.len };
	int fd = sealed_file(8192, SEALS), lowest;
	struct shm_packet good = good_answer(fd);
	struct rlimit limit, none;

	raw_shm_link(r);
	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAP);
	lowest = dup(fd);
	assert_ok(close(lowest));
	assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
	none = (struct rlimit){ .rlim_cur = (rlim_t)lowest, .rlim_max = limit.rlim_max };
	assert_ok(setrlimit(RLIMIT_NOFILE, &none));
	raw_shm_say(r, &good);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
	assert_int_equal(slime_op_status(r->op), -EMFILE);
	assert_false(r->ended);

	assert_ok(read_of(r, remote.generation, &good));
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
	struct shm_packet map = raw_shm_map(r->mr);

	raw_shm_link(r);
	fail_sends(r, ETOOMANYREFS);
	raw_shm_say(r, &map);
	raw_shm_assert_broken(r, -ETOOMANYREFS, strerror(ETOOMANYREFS));
	send_errno = 0;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(answer_to_map__that_is_right_is_read),
		IN_RAW_SHM(answer_to_map__that_cannot_be_ends_the_link),
		IN_RAW_SHM(answer_to_map__with_less_than_was_promised_fails_the_op),
		IN_RAW_SHM(answer_to_map__that_nobody_asked_for_ends_the_link),
		IN_RAW_SHM(read__of_a_generation_that_never_was_leaves_the_others_in_reach),
		IN_RAW_SHM(read__of_another_generation_than_what_is_mapped_is_stale),
		IN_RAW_SHM(map__of_what_there_is_not_is_refused),
		IN_RAW_SHM(map__with_wrong_secrets_is_stale_and_the_third_ends_the_link),
		IN_RAW_SHM(transfer__with_a_process_of_another_mark_is_econnreset),
		IN_RAW_SHM(map__of_a_region_for_reading_only_gives_a_file_that_cannot_be_punched),
		IN_RAW_SHM(answer_to_map__with_huge_pages_of_another_user_is_unsupported),
		IN_RAW_SHM(withdrawing__what_we_never_had_is_confirmed),
		IN_RAW_SHM(socket__that_is_not_read_ends_the_link),
		IN_RAW_SHM(answer_to_map__that_cannot_be_mapped_fails_the_op),
		IN_RAW_SHM(answer_to_map__that_finds_no_descriptor_fails_the_op),
		IN_RAW_SHM(read__whose_question_cannot_be_sent_fails),
		IN_RAW_SHM(read__whose_question_finds_a_full_socket_ends_the_link),
		IN_RAW_SHM(map__that_cannot_be_answered_ends_the_link),
		IN_RAW_SHM(goodbye__in_the_middle_of_a_long_write_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
