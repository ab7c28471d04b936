/* SPDX-License-Identifier: Apache-2.0 */
/* What was on the way when its link ended lands nowhere, however late it comes. */
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/libslime/transport/raw_peer.h"

#define LEN 8192

static struct tcp_piece piece_of(const struct raw *r, uint64_t offset)
{
	return (struct tcp_piece){ .region = r->remote.id,
				   .len = LEN,
				   .generation = r->remote.generation,
				   .offset = offset };
}

/* All of a write but its payload. */
static void begin_write(const struct raw *r, int fd, uint64_t offset)
{
	struct tcp_piece piece = piece_of(r, offset);
	uint8_t out[TCP_PIECE_LEN];

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_WRITE, .count = 1, .len = LEN });
	tcp_piece_write(&piece, out);
	raw_send(fd, out, sizeof(out));
}

static void write_whole(const struct raw *r, int fd, uint64_t offset, uint8_t value)
{
	uint8_t payload[LEN];

	memset(payload, value, sizeof(payload));
	begin_write(r, fd, offset);
	raw_send(fd, payload, sizeof(payload));
	assert_int_equal(raw_recv_head(fd).kind, TCP_REPLY);
}

static void await_byte(const uint8_t *at, uint8_t value)
{
	uint64_t deadline = sl_deadline_ns(PATIENCE_MS);

	while (*(const volatile uint8_t *)at != value && sl_clock_ns() < deadline)
		sched_yield();
	assert_int_equal(*(const volatile uint8_t *)at, value);
}

/* Whether they still take it: neither matters. */
static void send_late(int fd, const uint8_t *bytes, size_t len)
{
	(void)!send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void assert_memory(const struct raw *r, uint64_t offset, uint8_t value)
{
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(r->memory[offset + i], value);
}

/* Half a write came; its link ends; the next link writes the same bytes; then comes the rest. */
static void write__of_an_earlier_link_lands_nowhere_after_the_next(void **state)
{
	struct raw *r = *state;
	uint8_t half[LEN / 2];
	int old, new;

	memset(half, 1, sizeof(half));
	old = raw_link(r);
	begin_write(r, old, 0);
	raw_send(old, half, sizeof(half));
	await_byte(&r->memory[0], 1);

	raw_renew(r);
	new = raw_link(r);
	write_whole(r, new, 0, 2);
	send_late(old, half, sizeof(half));
	/* And one that the old link never began. */
	send_late(old, half, sizeof(half));
	write_whole(r, new, LEN, 3);
	assert_memory(r, 0, 2);
	assert_memory(r, LEN, 3);
	close(old);
	close(new);
}

/* What lay in the socket, unread, when the link ended. */
static void write__unread_when_its_link_ended_lands_nowhere(void **state)
{
	struct raw *r = *state;
	uint8_t payload[LEN];
	int old, new;

	memset(payload, 1, sizeof(payload));
	old = raw_link(r);
	slime_endpoint_close(r->ep);
	begin_write(r, old, 0);
	raw_send(old, payload, sizeof(payload));
	raw_renew(r);
	memset(r->memory, 9, LEN);
	new = raw_link(r);
	write_whole(r, new, LEN, 3);
	assert_memory(r, 0, 9);
	assert_memory(r, LEN, 3);
	close(old);
	close(new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			write__of_an_earlier_link_lands_nowhere_after_the_next, raw_setup,
			raw_teardown),
		cmocka_unit_test_setup_teardown(write__unread_when_its_link_ended_lands_nowhere,
						raw_setup, raw_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
