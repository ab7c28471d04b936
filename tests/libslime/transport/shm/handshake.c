/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer hands over while a shm connection comes up, and what of it is refused. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/libslime/transport/shm/raw.h"
#include "src/transport/shm/shm.h"
#include "support/sealed_file.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A counter that one more would overflow. */
#define SATURATED UINT64_C(0xfffffffffffffffe)

/* The peer offers this descriptor in place of the index-th of its introduction. */
static void assert_refused_with(struct raw_shm *r, uint8_t kind, int index, int fd)
{
	struct shm_packet p;

	raw_shm_greet(r, kind == SHM_SEGMENT);
	if (kind == SHM_ACCEPT)
		assert_int_equal(raw_shm_hear(r).kind, SHM_SEGMENT);
	p = raw_shm_introduction(r, kind);
	p.fds[index] = fd;
	/* A segment is right in everything else. */
	if (kind == SHM_SEGMENT && index == 0)
		(void)!pwrite(fd, &p.a, sizeof(p.a), 0);
	raw_shm_say(r, &p);
	raw_shm_assert_broken(r, -EPROTO, "Protocol error");
	close(fd);
}

/* ---- the segment ---- */

static void segment__without_every_seal_is_refused(void **state)
{
	static const int seals[] = { 0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_SEAL,
				     F_SEAL_GROW | F_SEAL_SEAL };

	for (size_t i = 0; i < sizeof(seals) / sizeof(seals[0]); i++) {
		assert_refused_with(*state, SHM_SEGMENT, 0,
				    sealed_file(sizeof(struct shm_segment), seals[i]));
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	}
}

static void segment__too_short_is_refused(void **state)
{
	assert_refused_with(*state, SHM_SEGMENT, 0,
			    sealed_file(sizeof(struct shm_segment) - 1, SEALS));
}

static void segment__too_long_is_refused(void **state)
{
	assert_refused_with(*state, SHM_SEGMENT, 0,
			    sealed_file(sizeof(struct shm_segment) + 1, SEALS));
}

static void segment__that_is_no_memory_is_refused(void **state)
{
	int fds[2];

	assert_ok(pipe2(fds, O_CLOEXEC));
	close(fds[1]);
	assert_refused_with(*state, SHM_SEGMENT, 0, fds[0]);
}

static void segment__with_another_nonce_than_was_said_is_refused(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet p;

	raw_shm_greet(r, true);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	p.a++;
	raw_shm_say(r, &p);
	raw_shm_assert_broken(r, -EPROTO, "Protocol error");
}

/* ---- the page ---- */

static void page__without_seals_is_refused(void **state)
{
	assert_refused_with(*state, SHM_SEGMENT, 1, sealed_file(sizeof(struct shm_page), 0));
}

static void page__without_seals_is_refused_by_an_initiator(void **state)
{
	assert_refused_with(*state, SHM_ACCEPT, 0, sealed_file(sizeof(struct shm_page), 0));
}

/* ---- the board ---- */

static void board__without_seals_is_refused(void **state)
{
	assert_refused_with(*state, SHM_SEGMENT, 2, sealed_file(sizeof(struct shm_board), 0));
}

static void board__too_short_is_refused_by_an_initiator(void **state)
{
	assert_refused_with(*state, SHM_ACCEPT, 1,
			    sealed_file(sizeof(struct shm_board) - 64, SEALS));
}

static void board__with_a_bit_out_of_range_is_refused(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet p;

	raw_shm_greet(r, true);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	p.id = SHM_BOARD_BITS;
	raw_shm_say(r, &p);
	raw_shm_assert_broken(r, -EPROTO, "Protocol error");
}

/* ---- the bell ---- */

/* How many bells came since the last look. */
static unsigned count_bells(struct raw_shm *r)
{
	struct shm_packet p;
	unsigned n = 0;

	while (shm_channel_recv(r->sock, &p) == 0) {
		assert_int_equal(p.kind, SHM_BELL);
		n++;
	}
	return n;
}

static void send_imm(struct raw_shm *r)
{
	assert_ok(slime_write_imm(r->ep, NULL, 0, 0, 42, r->op));
	assert_true(slime_op_test(r->op));
	assert_ok(slime_op_status(r->op));
}

static void send_bell(const struct raw_shm *r)
{
	assert_ok(shm_channel_ring(r->sock));
}

static void introduction__has_no_descriptor_but_the_page_and_the_board(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet p;

	raw_shm_greet(r, true);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	raw_shm_say(r, &p);
	p = raw_shm_hear(r);
	assert_int_equal(p.kind, SHM_ACCEPT);
	assert_int_equal(p.n_fds, 2);
}

static void bell__is_rung_for_a_peer_that_sleeps_until_too_many_are_not_heard(void **state)
{
	struct raw_shm *r = *state;

	raw_shm_link(r);
	send_imm(r);
	assert_int_equal(count_bells(r), 0);
	atomic_store(&r->page->sleeping, 1);
	for (int i = 0; i < SHM_BELLS_MAX + 3; i++)
		send_imm(r);
	assert_int_equal(count_bells(r), SHM_BELLS_MAX);
	send_imm(r);
	assert_int_equal(count_bells(r), 0);
	atomic_store(&r->own->n_heard, 1);
	send_imm(r);
	send_imm(r);
	assert_int_equal(count_bells(r), 1);
	/* A count that cannot be is the peer's own loss. */
	atomic_store(&r->own->n_heard, UINT32_MAX / 2);
	send_imm(r);
	assert_int_equal(count_bells(r), 0);
	assert_false(r->ended);
}

/* Such a peer says that it has heard each, and reads none. */
static void bell__of_a_peer_that_never_reads_does_not_stop_us(void **state)
{
	struct raw_shm *r = *state;
	unsigned n;

	raw_shm_link(r);
	atomic_store(&r->page->sleeping, 1);
	/* A send that waited would be ended by this. */
	alarm(PATIENCE_MS / 1000);
	for (uint32_t i = 1; i <= 2000; i++) {
		send_imm(r);
		atomic_store(&r->own->n_heard, i);
		atomic_store(&r->own->imm_taken, i);
	}
	alarm(0);
	n = count_bells(r);
	assert_in_range(n, SHM_BELLS_MAX, 1999);
	assert_false(r->ended);
	/* Those that found no room do not count as rung. */
	atomic_store(&r->own->n_heard, n);
	send_imm(r);
	assert_int_equal(count_bells(r), 1);
}

static void bell__that_comes_is_heard(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet map;

	raw_shm_link(r);
	send_bell(r);
	raw_shm_turn(r);
	assert_int_equal(atomic_load(&r->other->n_heard), 1);
	/* As many as a peer likes, and what it says besides. */
	for (int i = 0; i < 100; i++)
		send_bell(r);
	map = raw_shm_map(r->mr);
	raw_shm_say(r, &map);
	assert_int_equal(raw_shm_hear(r).kind, SHM_MAPPED);
	assert_false(r->ended);
}

static void bell__before_the_link_is_up_ends_the_connection(void **state)
{
	struct raw_shm *r = *state;

	raw_shm_greet(r, true);
	send_bell(r);
	raw_shm_assert_broken(r, -EPROTO, "Protocol error");
}

static void bell__of_another_version_ends_the_link_with_words(void **state)
{
	struct raw_shm *r = *state;
	uint8_t bell = SHM_PACKET_VERSION - 1;

	raw_shm_link(r);
	assert_int_equal(send(r->sock, &bell, 1, MSG_NOSIGNAL), 1);
	raw_shm_assert_broken(r, -EPROTO, "the peer speaks another version of the shm protocol");
}

/* ---- who it is, and when ---- */

static void peer__that_is_another_process_than_it_says_is_refused(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet p;

	raw_shm_greet(r, true);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	p.c++;
	raw_shm_say(r, &p);
	raw_shm_assert_broken(r, -ESRCH, "No such process");
}

static void packet__before_its_time_ends_the_connection(void **state)
{
	static const uint8_t early[] = { SHM_ACCEPT,   SHM_READY,     SHM_MAP,
					 SHM_WITHDRAW, SHM_WITHDRAWN, SHM_BYE_DONE };

	for (size_t i = 0; i < sizeof(early); i++) {
		struct raw_shm *r = *state;
		struct shm_packet p = { .kind = early[i] };

		raw_shm_greet(r, true);
		if (early[i] == SHM_ACCEPT) {
			p = raw_shm_introduction(r, SHM_SEGMENT);
			p.kind = SHM_ACCEPT;
			p.n_fds = 2;
		}
		raw_shm_say(r, &p);
		raw_shm_assert_broken(r, -EPROTO, "Protocol error");
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	}
}

static void packet__of_another_version_ends_the_connection_with_words(void **state)
{
	struct raw_shm *r = *state;
	uint8_t packet[48] = { 1, SHM_READY };

	raw_shm_greet(r, true);
	assert_int_equal(send(r->sock, packet, sizeof(packet), MSG_NOSIGNAL), sizeof(packet));
	raw_shm_assert_broken(r, -EPROTO, "the peer speaks another version of the shm protocol");
}

static void segment__offered_twice_ends_the_connection(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet p;

	raw_shm_greet(r, true);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	raw_shm_say(r, &p);
	raw_shm_say(r, &p);
	raw_shm_assert_broken(r, -EPROTO, "Protocol error");
}

static void segment__offered_by_an_acceptor_ends_the_connection(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet p;

	raw_shm_greet(r, false);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	raw_shm_say(r, &p);
	raw_shm_assert_broken(r, -EPROTO, "Protocol error");
}

static void ready__said_twice_ends_the_connection(void **state)
{
	struct raw_shm *r = *state;
	struct shm_packet ready = { .kind = SHM_READY };

	raw_shm_link(r);
	raw_shm_say(r, &ready);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol: a packet");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(segment__without_every_seal_is_refused),
		IN_RAW_SHM(segment__too_short_is_refused),
		IN_RAW_SHM(segment__too_long_is_refused),
		IN_RAW_SHM(segment__that_is_no_memory_is_refused),
		IN_RAW_SHM(segment__with_another_nonce_than_was_said_is_refused),
		IN_RAW_SHM(page__without_seals_is_refused),
		IN_RAW_SHM(board__without_seals_is_refused),
		IN_RAW_SHM(board__too_short_is_refused_by_an_initiator),
		IN_RAW_SHM(board__with_a_bit_out_of_range_is_refused),
		IN_RAW_SHM(page__without_seals_is_refused_by_an_initiator),
		IN_RAW_SHM(introduction__has_no_descriptor_but_the_page_and_the_board),
		IN_RAW_SHM(bell__is_rung_for_a_peer_that_sleeps_until_too_many_are_not_heard),
		IN_RAW_SHM(bell__of_a_peer_that_never_reads_does_not_stop_us),
		IN_RAW_SHM(bell__that_comes_is_heard),
		IN_RAW_SHM(bell__before_the_link_is_up_ends_the_connection),
		IN_RAW_SHM(bell__of_another_version_ends_the_link_with_words),
		IN_RAW_SHM(peer__that_is_another_process_than_it_says_is_refused),
		IN_RAW_SHM(packet__before_its_time_ends_the_connection),
		IN_RAW_SHM(packet__of_another_version_ends_the_connection_with_words),
		IN_RAW_SHM(segment__offered_twice_ends_the_connection),
		IN_RAW_SHM(segment__offered_by_an_acceptor_ends_the_connection),
		IN_RAW_SHM(ready__said_twice_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
