/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that holds the key and breaks the protocol, or asks for what it may not have. The link
 * ends with one line in the log, or the request gets its error; nothing else notices.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/libslime/transport/raw_peer.h"
#include "src/rpc/rpc_call.h"
#include "src/transport/tcp/tcp.h"

#define IN_RAW(fn) cmocka_unit_test_setup_teardown(fn, raw_setup, raw_teardown)

/* The link is closed for it: the peer sees its end, the endpoint breaks, one line says so. */
static void assert_broken(struct raw *r, int fd, int cause)
{
	raw_await_end(fd);
	close(fd);
	assert_int_equal(raw_await_state(r, SLIME_ENDPOINT_BROKEN), cause);
	assert_int_equal(log_lines_with("the peer broke the protocol"), cause == -EPROTO);
}

static void raw_header(int fd, const uint8_t bytes[TCP_HEAD_LEN])
{
	raw_send(fd, bytes, TCP_HEAD_LEN);
}

static void rx__an_unknown_kind_ends_the_link(void **state)
{
	int fd = raw_link(*state);

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_KINDS });
	assert_broken(*state, fd, -EPROTO);
}

static void rx__another_version_ends_the_link(void **state)
{
	uint8_t bytes[TCP_HEAD_LEN] = { TCP_FRAME_VERSION + 1, TCP_CREDIT };
	int fd = raw_link(*state);

	raw_header(fd, bytes);
	assert_broken(*state, fd, -EPROTO);
}

static void rx__an_absurd_length_ends_the_link(void **state)
{
	struct tcp_piece piece = raw_piece(*state, 0, UINT32_MAX);
	struct tcp_head h = { .kind = TCP_WRITE, .count = 1, .len = UINT32_MAX };
	int fd = raw_link(*state);

	raw_send_pieces(fd, h, &piece);
	assert_broken(*state, fd, -EPROTO);
}

static void rx__a_length_that_is_not_the_sum_ends_the_link(void **state)
{
	struct tcp_piece piece = raw_piece(*state, 0, 100);
	struct tcp_head h = { .kind = TCP_WRITE, .count = 1, .len = 200 };
	int fd = raw_link(*state);

	raw_send_pieces(fd, h, &piece);
	assert_broken(*state, fd, -EPROTO);
}

static void rx__a_slot_that_does_not_exist_ends_the_link(void **state)
{
	struct sl_msg m = { .kind = SL_MSG_SEND, .slot = SL_SEND_SLOTS, .len = 1 };
	uint8_t out[TCP_MSG_LEN];
	int fd = raw_link(*state);

	tcp_msg_write(&m, out);
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_MSG, .len = 1 });
	raw_send(fd, out, sizeof(out));
	assert_broken(*state, fd, -EPROTO);
}

static void rx__an_answer_nobody_asked_for_ends_the_link(void **state)
{
	int fd = raw_link(*state);

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_REPLY, .id = 3 });
	assert_broken(*state, fd, -EPROTO);
}

static void rx__data_nobody_asked_for_ends_the_link(void **state)
{
	int fd = raw_link(*state);

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_DATA, .id = 0, .len = 8 });
	assert_broken(*state, fd, -EPROTO);
}

static void rx__a_second_ready_ends_the_link(void **state)
{
	int fd = raw_link(*state);

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_READY });
	assert_broken(*state, fd, -EPROTO);
}

static void rx__anything_before_ready_ends_the_link(void **state)
{
	static const uint8_t early[] = { TCP_CREDIT, TCP_BYE, TCP_REPLY };

	for (size_t i = 0; i < sizeof(early); i++) {
		struct raw *r;
		int fd;

		assert_ok(raw_teardown(state));
		assert_ok(raw_setup(state));
		r = *state;
		raw_connect(r, true, 0, PATIENCE_MS);
		fd = raw_greet(r, 0);
		raw_send_head(fd, (struct tcp_head){ .kind = TCP_OPEN, .arg = 1 });
		raw_send_head(fd, (struct tcp_head){ .kind = early[i] });
		assert_int_equal(raw_connected(r), -EPROTO);
		close(fd);
	}
}

static void rx__a_credit_that_shrinks_ends_the_link(void **state)
{
	int fd = raw_link(*state);

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_CREDIT, .arg = 5 });
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_CREDIT, .arg = 4 });
	assert_broken(*state, fd, -EPROTO);
}

/* It asks for much and reads nothing: what we must remember of it is bounded. */
static void rx__more_requests_than_allowed_end_the_link(void **state)
{
	struct raw *r = *state;
	struct tcp_piece pieces[16];
	struct tcp_head h = { .kind = TCP_READ, .count = 16, .len = TCP_REQUEST_MAX };
	int fd = raw_link(r);

	for (int i = 0; i < 16; i++)
		pieces[i] = raw_piece(r, 0, sizeof(r->memory));
	/* Socket buffers take some MiB of answers, and the rest would be ours to remember. */
	for (int i = 0; i < 200; i++) {
		uint8_t out[TCP_HEAD_LEN + 16 * TCP_PIECE_LEN];

		h.id = (uint32_t)i % TCP_REQUESTS;
		tcp_head_write(&h, out);
		for (int j = 0; j < 16; j++)
			tcp_piece_write(&pieces[j], out + TCP_HEAD_LEN + j * TCP_PIECE_LEN);
		if (send(fd, out, sizeof(out), MSG_NOSIGNAL) < 0)
			break;
	}
	assert_broken(r, fd, -EPROTO);
}

static void rx__a_frame_cut_off_by_the_end_is_the_end(void **state)
{
	int fd = raw_link(*state);

	raw_send_request(fd, TCP_WRITE, 0, raw_piece(*state, 0, 1000));
	raw_send(fd, "only this", 9);
	shutdown(fd, SHUT_WR);
	assert_broken(*state, fd, -ECONNRESET);
}

/* It has all that we have open, and does nothing with it. */
static pid_t fork_child(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return child;
}

static void rx__broken_while_a_forked_child_lives_ends_the_link(void **state)
{
	int fd = raw_link(*state);
	pid_t child = fork_child();
	struct pollfd end = { .fd = fd, .events = POLLRDHUP };
	int told;

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_KINDS });
	told = poll(&end, 1, PATIENCE_MS);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(told, 1);
	assert_broken(*state, fd, -EPROTO);
}

static void rx__the_end_without_bye_is_death(void **state)
{
	int fd = raw_link(*state);

	shutdown(fd, SHUT_WR);
	assert_broken(*state, fd, -ECONNRESET);
}

static void rx__bye_is_a_close(void **state)
{
	struct raw *r = *state;
	int fd = raw_link(r);

	raw_send_head(fd, (struct tcp_head){ .kind = TCP_BYE });
	raw_await_end(fd);
	close(fd);
	assert_ok(raw_await_state(r, SLIME_ENDPOINT_CLOSED));
	assert_int_equal(log_lines_with("broke the protocol"), 0);
}

/* ---- requests that are well formed ---- */

static void assert_reply(int fd, uint32_t id, enum tcp_code code)
{
	struct tcp_head h = raw_recv_head(fd);

	assert_int_equal(h.kind, TCP_REPLY);
	assert_int_equal(h.id, id);
	assert_int_equal(h.arg, code);
}

static void write_and_expect(int fd, uint32_t id, struct tcp_piece piece, enum tcp_code code)
{
	raw_send_request(fd, TCP_WRITE, id, piece);
	raw_send(fd, "12345678", piece.len);
	assert_reply(fd, id, code);
}

static void serve__a_write_lands_where_it_belongs(void **state)
{
	struct raw *r = *state;
	int fd = raw_link(r);

	write_and_expect(fd, 7, raw_piece(r, 100, 8), TCP_OK);
	assert_memory_equal(r->memory + 99, "\00012345678\000", 10);
	close(fd);
}

static void serve__refused_writes_leave_the_stream_in_step(void **state)
{
	struct raw *r = *state;
	struct tcp_piece stale = raw_piece(r, 0, 8), nowhere = raw_piece(r, 0, 8);
	struct tcp_piece wraps = raw_piece(r, UINT64_MAX - 3, 8);
	int fd = raw_link(r);

	stale.generation++;
	nowhere.region = UINT32_MAX;
	write_and_expect(fd, 0, stale, TCP_STALE);
	write_and_expect(fd, 1, nowhere, TCP_STALE);
	write_and_expect(fd, 2, wraps, TCP_RANGE);
	write_and_expect(fd, 3, raw_piece(r, sizeof(r->memory) - 7, 8), TCP_RANGE);
	write_and_expect(fd, 4, raw_piece(r, sizeof(r->memory) - 8, 8), TCP_OK);
	assert_memory_equal(r->memory, "\0\0\0\0\0\0\0\0", 8);
	close(fd);
}

static void serve__a_write_of_which_one_piece_is_wrong_writes_nothing(void **state)
{
	struct raw *r = *state;
	struct tcp_piece pieces[] = { raw_piece(r, 0, 4), raw_piece(r, sizeof(r->memory), 4) };
	struct tcp_head h = { .kind = TCP_WRITE, .count = 2, .len = 8 };
	int fd = raw_link(r);

	raw_send_pieces(fd, h, pieces);
	raw_send(fd, "12345678", 8);
	assert_reply(fd, 0, TCP_RANGE);
	assert_memory_equal(r->memory, "\0\0\0\0", 4);
	close(fd);
}

static void serve__a_read_brings_the_bytes_or_the_reason(void **state)
{
	struct raw *r = *state;
	struct tcp_head h;
	uint8_t pad[TCP_PAD_LEN], bytes[8];
	int fd = raw_link(r);

	memcpy(r->memory + 5, "contents", 8);
	raw_send_request(fd, TCP_READ, 9, raw_piece(r, 5, 8));
	h = raw_recv_head(fd);
	assert_int_equal(h.kind, TCP_DATA);
	assert_int_equal(h.id, 9);
	assert_int_equal(h.len, 8);
	raw_recv(fd, pad, sizeof(pad));
	raw_recv(fd, bytes, 8);
	assert_memory_equal(bytes, "contents", 8);
	raw_send_request(fd, TCP_READ, 9, raw_piece(r, sizeof(r->memory), 8));
	assert_reply(fd, 9, TCP_RANGE);
	close(fd);
}

static void serve__what_the_region_does_not_grant_is_refused(void **state)
{
	struct raw *r = *state;
	int fd;

	assert_ok(slime_mr_destroy(r->mr));
	assert_ok(slime_mr_create(r->ctx, r->memory, sizeof(r->memory), SLIME_ACCESS_REMOTE_READ,
				  &r->mr));
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(r->mr, desc, sizeof(desc));

	assert_ok(slime_remote_mr_import(desc, (size_t)len, &r->remote));
	fd = raw_link(r);
	write_and_expect(fd, 0, raw_piece(r, 0, 8), TCP_ACCESS);
	close(fd);
}

/* It knows the region's number and generation, from another descriptor or by trying. */
static void serve__a_region_whose_secret_was_not_shown_is_out_of_reach(void **state)
{
	struct raw *r = *state;
	struct tcp_piece piece = raw_piece(r, 0, 8), beyond = raw_piece(r, sizeof(r->memory), 8);
	struct slime_remote_mr right = r->remote;
	int fd;

	memset(r->memory, 7, 8);
	r->remote.id = UINT32_MAX;
	fd = raw_link(r);
	write_and_expect(fd, 0, piece, TCP_STALE);
	write_and_expect(fd, 1, beyond, TCP_STALE);
	raw_send_request(fd, TCP_READ, 2, piece);
	assert_reply(fd, 2, TCP_STALE);
	assert_memory_equal(r->memory, "\7\7\7\7\7\7\7\7", 8);
	raw_show(fd, &right);
	write_and_expect(fd, 3, piece, TCP_OK);
	close(fd);
}

/* Of each half of it one bit. The two before leave the link as it was. */
static void serve__the_third_wrong_secret_ends_the_link_with_one_line(void **state)
{
	struct raw *r = *state;
	struct tcp_piece piece = raw_piece(r, 0, 8);
	struct slime_remote_mr right = r->remote;
	int fd;

	r->remote.id = UINT32_MAX;
	fd = raw_link(r);
	for (int i = 0; i < SL_WRONG_SECRETS; i++) {
		struct slime_remote_mr wrong = right;

		write_and_expect(fd, 0, piece, TCP_STALE);
		wrong.secret[i % 2] ^= UINT64_C(1) << i * 20;
		raw_show(fd, &wrong);
	}
	raw_await_end(fd);
	assert_int_equal(raw_await_state(r, SLIME_ENDPOINT_BROKEN), -EPROTO);
	assert_int_equal(log_lines_with("wrong secrets"), 1);
	close(fd);
}

/* A region that is withdrawn while its secret is on the way: the peer is not to blame. */
static void serve__secrets_of_regions_that_are_gone_are_not_counted(void **state)
{
	struct raw *r = *state;
	struct slime_remote_mr gone = r->remote;
	int fd = raw_link(r);

	gone.generation++;
	for (int i = 0; i < 10 * SL_WRONG_SECRETS; i++)
		raw_show(fd, &gone);
	write_and_expect(fd, 0, raw_piece(r, 0, 8), TCP_OK);
	close(fd);
}

/* A call's room for its reply, which the peer of that call alone was told of; who has a descriptor
 * of before can tell what its number is. */
static void serve__memory_lent_for_a_call_is_out_of_reach_of_other_peers(void **state)
{
	struct raw *r = *state;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint8_t asked[TCP_MSG_LEN + SL_SLOT_SMALL];
	struct tcp_piece piece = { .len = 8 };
	struct slime_call *call;
	int fd = raw_link(r);

	args.method = slime_rpc_method_id("any");
	args.reply = r->memory;
	args.reply_cap = sizeof(r->memory);
	assert_ok(slime_call_create(r->ctx, NULL, &call));
	assert_ok(slime_call_start(r->ep, &args, call));
	raw_recv(fd, asked, TCP_MSG_LEN + raw_recv_head(fd).len);
	piece.region = call->reply_region->id;
	piece.generation = call->reply_region->generation;
	write_and_expect(fd, 0, piece, TCP_OK);

	/* As if this were another link of the same context. */
	assert_int_equal(call->reply_region->loan_to, r->self.endpoint);
	call->reply_region->loan_to++;
	write_and_expect(fd, 1, piece, TCP_STALE);
	raw_send_request(fd, TCP_READ, 2, piece);
	assert_reply(fd, 2, TCP_STALE);
	close(fd);
	assert_ok(slime_call_wait(call, PATIENCE_MS));
	assert_ok(slime_call_destroy(call));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW(rx__an_unknown_kind_ends_the_link),
		IN_RAW(rx__another_version_ends_the_link),
		IN_RAW(rx__an_absurd_length_ends_the_link),
		IN_RAW(rx__a_length_that_is_not_the_sum_ends_the_link),
		IN_RAW(rx__a_slot_that_does_not_exist_ends_the_link),
		IN_RAW(rx__an_answer_nobody_asked_for_ends_the_link),
		IN_RAW(rx__data_nobody_asked_for_ends_the_link),
		IN_RAW(rx__a_second_ready_ends_the_link),
		IN_RAW(rx__anything_before_ready_ends_the_link),
		IN_RAW(rx__a_credit_that_shrinks_ends_the_link),
		IN_RAW(rx__more_requests_than_allowed_end_the_link),
		IN_RAW(rx__a_frame_cut_off_by_the_end_is_the_end),
		IN_RAW(rx__broken_while_a_forked_child_lives_ends_the_link),
		IN_RAW(rx__the_end_without_bye_is_death),
		IN_RAW(rx__bye_is_a_close),
		IN_RAW(serve__a_write_lands_where_it_belongs),
		IN_RAW(serve__refused_writes_leave_the_stream_in_step),
		IN_RAW(serve__a_write_of_which_one_piece_is_wrong_writes_nothing),
		IN_RAW(serve__a_read_brings_the_bytes_or_the_reason),
		IN_RAW(serve__what_the_region_does_not_grant_is_refused),
		IN_RAW(serve__a_region_whose_secret_was_not_shown_is_out_of_reach),
		IN_RAW(serve__the_third_wrong_secret_ends_the_link_with_one_line),
		IN_RAW(serve__secrets_of_regions_that_are_gone_are_not_counted),
		IN_RAW(serve__memory_lent_for_a_call_is_out_of_reach_of_other_peers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
