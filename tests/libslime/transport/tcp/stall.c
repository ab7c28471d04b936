/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that holds the key and is slow, or stops in the middle: what is under way goes on when it
 * does, or the link ends in time.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/libslime/transport/raw_peer.h"
#include "src/endpoint/endpoint.h"
#include "src/rpc/rpc_call.h"
#include "src/transport/tcp/tcp.h"

#define IN_RAW(fn) cmocka_unit_test_setup_teardown(fn, raw_setup, raw_teardown)

static struct slime_remote_mr region_of_the_peer(uint64_t len, uint32_t access)
{
	return (struct slime_remote_mr){
		.owner = 1, .len = len, .generation = 1, .access = access
	};
}

/* Its process stands still with much under way, for longer than a dead host may: all comes, late.
 */
static void serve__a_peer_that_reads_nothing_for_long_is_not_dead(void **state)
{
	struct raw *r = *state;
	struct tcp_piece pieces[16];
	struct tcp_head h = { .kind = TCP_READ, .count = 16, .len = TCP_REQUEST_MAX };
	struct pollfd hangup = { .events = POLLRDHUP };
	static uint8_t bytes[TCP_REQUEST_MAX];
	int fd = raw_link(r);

	for (int i = 0; i < 16; i++)
		pieces[i] = raw_piece(r, 0, sizeof(r->memory));
	for (h.id = 0; h.id < TCP_REQUESTS; h.id++)
		raw_send_pieces(fd, h, pieces);
	/* For longer than the peer's timeout it keeps the connection, though nobody reads its
	 * answers. */
	hangup.fd = fd;
	assert_int_equal(poll(&hangup, 1, 3 * RAW_TIMEOUT_MS), 0);
	for (int i = 0; i < TCP_REQUESTS; i++) {
		assert_int_equal(raw_recv_head(fd).kind, TCP_DATA);
		raw_recv(fd, bytes, TCP_PAD_LEN);
		raw_recv(fd, bytes, sizeof(bytes));
	}
	close(fd);
}

/* An answer that comes byte by byte: no part of it is taken for another. */
static void read__answered_byte_by_byte_brings_the_bytes(void **state)
{
	struct raw *r = *state;
	struct slime_remote_mr theirs = region_of_the_peer(4096, SLIME_ACCESS_REMOTE_READ);
	struct slime_xfer xfers[] = {
		{ .local = r->mr, .remote = &theirs, .local_offset = 10, .len = 8 },
		{ .local = r->mr, .remote = &theirs, .remote_offset = 100, .len = 8 },
	};
	struct tcp_head h = { .kind = TCP_DATA, .len = 16 };
	uint8_t list[2 * TCP_PIECE_LEN], answer[TCP_HEAD_LEN + TCP_PAD_LEN + 16] = { 0 };
	int fd = raw_link(r);
	int one = 1;

	assert_ok(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	assert_ok(slime_read(r->ep, xfers, 2, 0, r->op));
	h.id = raw_recv_head(fd).id;
	raw_recv(fd, list, sizeof(list));
	tcp_head_write(&h, answer);
	memcpy(answer + TCP_HEAD_LEN + TCP_PAD_LEN, "the fourteenth..", 16);
	for (size_t i = 0; i < sizeof(answer); i++) {
		assert_int_equal(slime_op_wait(r->op, 1), -ETIMEDOUT);
		/* And the next wait receives what is there. */
		raw_send(fd, answer + i, 1);
	}
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_status(r->op));
	assert_memory_equal(r->memory + 10, "the four", 8);
	assert_memory_equal(r->memory, "teenth..", 8);
	close(fd);
}

static void read_write(int fd, uint32_t id)
{
	static uint8_t bytes[TCP_REQUEST_MAX];
	struct tcp_head h = raw_recv_head(fd);

	assert_int_equal(h.kind, TCP_WRITE);
	assert_int_equal(h.id, id);
	assert_int_equal(h.len, TCP_REQUEST_MAX);
	raw_recv(fd, bytes, h.count * TCP_PIECE_LEN);
	raw_recv(fd, bytes, h.len);
}

static void take_write(int fd, uint32_t id)
{
	read_write(fd, id);
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_REPLY, .id = id });
}

/* Requests leave together, as far as the sockets have room: the first is answered while a later one
 * is half sent. */
static void write__answered_while_the_next_request_is_half_sent_goes_on(void **state)
{
	static uint8_t memory[8 * TCP_REQUEST_MAX];
	struct raw *r = *state;
	struct slime_remote_mr theirs =
		region_of_the_peer(sizeof(memory), SLIME_ACCESS_REMOTE_WRITE);
	struct slime_xfer x = { .remote = &theirs, .len = sizeof(memory) };
	int fd = raw_link(r);
	int window = 32 << 10;

	/* The sender's buffer grows with the window: it stays below what leaves at once. */
	assert_ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof(window)));
	assert_ok(slime_mr_create(r->ctx, memory, sizeof(memory), 0, &x.local));
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	for (uint32_t id = 0; id < 8; id++)
		take_write(fd, id);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_status(r->op));
	close(fd);
	assert_ok(slime_mr_destroy(x.local));
}

static struct tcp_conn *conn_of(struct raw *r)
{
	return tcp_conn_of(r->ep->attempts[SLIME_TRANSPORT_TCP].conn);
}

/* A peer that reads nothing and asks on can have us queue answers, up to a bound: an immediate that
 * comes on top of them finds no place, and the link ends. */
static void write_imm__when_messages_are_as_many_as_may_be_ends_the_link(void **state)
{
	static uint8_t memory[2 * TCP_REQUEST_MAX];
	struct raw *r = *state;
	struct slime_remote_mr theirs =
		region_of_the_peer(sizeof(memory), SLIME_ACCESS_REMOTE_WRITE);
	struct slime_xfer x = { .remote = &theirs, .len = sizeof(memory) };
	int fd = raw_link(r);
	struct tcp_conn *c;

	assert_ok(slime_mr_create(r->ctx, memory, sizeof(memory), 0, &x.local));
	assert_ok(slime_write_imm(r->ep, &x, 1, 0, 7, r->op));
	take_write(fd, 0);
	read_write(fd, 1);
	/* Nothing is sent meanwhile. */
	c = conn_of(r);
	pthread_mutex_lock(&c->streams[0]->tx_lock);
	pthread_mutex_lock(&c->lock);
	while (tcp_conn_queue(c, &(struct sl_msg){ .kind = 0 }))
		;
	pthread_mutex_unlock(&c->lock);
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_REPLY, .id = 1 });
	while (!atomic_load(&c->ending))
		sched_yield();
	pthread_mutex_unlock(&c->streams[0]->tx_lock);
	raw_await_end(fd);
	close(fd);
	assert_int_equal(raw_await_state(r, SLIME_ENDPOINT_BROKEN), -ENOBUFS);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_true(slime_op_status(r->op) != 0);
	assert_ok(slime_mr_destroy(x.local));
}

/* All that the endpoint says until its goodbye: whether an immediate was among it. */
static bool hears_imm_before_bye(int fd)
{
	static uint8_t bytes[TCP_REQUEST_MAX];
	bool heard = false;

	for (;;) {
		struct tcp_head h = raw_recv_head(fd);
		struct sl_msg m;

		if (h.kind == TCP_BYE)
			return heard;
		raw_recv(fd, bytes, tcp_head_list_len(&h));
		if (h.kind == TCP_MSG && tcp_msg_read(&m, &h, bytes) == 0)
			heard = m.kind == SL_MSG_IMM;
		raw_recv(fd, bytes, h.len);
	}
}

/* It waits behind what the peer does not read, as the one who wrote it closes the link. */
static void write_imm__that_ended_before_a_close_has_its_immediate_sent(void **state)
{
	static uint8_t memory[2 * TCP_REQUEST_MAX];
	struct raw *r = *state;
	struct slime_remote_mr theirs =
		region_of_the_peer(sizeof(memory), SLIME_ACCESS_REMOTE_WRITE);
	struct slime_xfer x = { .remote = &theirs, .len = sizeof(memory) };
	struct slime_xfer in_the_way = { .remote = &theirs, .len = 512 << 10 };
	int fd = raw_link(r);
	struct tcp_stream *s = conn_of(r)->streams[0];
	struct slime_op *other;
	int size = 32 << 10;

	assert_ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	assert_ok(setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	assert_ok(slime_op_create(r->ctx, NULL, &other));
	assert_ok(slime_mr_create(r->ctx, memory, sizeof(memory), 0, &x.local));
	in_the_way.local = x.local;
	assert_ok(slime_write_imm(r->ep, &x, 1, 0, 7, r->op));
	take_write(fd, 0);
	read_write(fd, 1);
	assert_ok(slime_write(r->ep, &in_the_way, 1, 0, other));
	raw_send_head(fd, (struct tcp_head){ .kind = TCP_REPLY, .id = 1 });
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_status(r->op));
	/* It does not leave before we have seen that it is about to. */
	pthread_mutex_lock(&s->tx_lock);
	slime_endpoint_close(r->ep);
	while (!atomic_load(&s->conn->ending))
		sched_yield();
	pthread_mutex_unlock(&s->tx_lock);

	assert_true(hears_imm_before_bye(fd));
	close(fd);
	assert_ok(slime_op_wait(other, PATIENCE_MS));
	assert_ok(slime_op_destroy(other));
	assert_ok(slime_mr_destroy(x.local));
}

/* The peer stands still in the midst of a write, its window closed, and the link is closed. */
static int close_at_a_peer_that_stands_still(struct raw *r)
{
	uint8_t *memory = malloc(2 * TCP_REQUEST_MAX);
	struct slime_remote_mr theirs =
		region_of_the_peer(2 * TCP_REQUEST_MAX, SLIME_ACCESS_REMOTE_WRITE);
	struct slime_xfer x = { .remote = &theirs, .len = 2 * TCP_REQUEST_MAX };
	int size = 32 << 10;
	int fd = raw_link(r);

	assert_non_null(memory);
	memset(memory, 'm', 2 * TCP_REQUEST_MAX);
	assert_ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	assert_ok(
		setsockopt(conn_of(r)->streams[0]->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	assert_ok(slime_mr_create(r->ctx, memory, 2 * TCP_REQUEST_MAX, 0, &x.local));
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	slime_endpoint_close(r->ep);
	raw_await_state(r, SLIME_ENDPOINT_CLOSED);
	/* It has all of its memory back. */
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_int_equal(slime_op_status(r->op), -ECANCELED);
	assert_ok(slime_mr_destroy(x.local));
	free(memory);
	return fd;
}

static void close__at_a_peer_that_stands_still_is_a_close_when_it_goes_on(void **state)
{
	static uint8_t bytes[TCP_REQUEST_MAX];
	int fd = close_at_a_peer_that_stands_still(*state);
	struct tcp_head h;

	while ((h = raw_recv_head(fd)).kind != TCP_BYE) {
		assert_int_equal(h.kind, TCP_WRITE);
		raw_recv(fd, bytes, tcp_head_list_len(&h));
		raw_recv(fd, bytes, h.len);
		assert_int_equal(bytes[0], 'm');
		assert_memory_equal(bytes, bytes + 1, h.len - 1);
	}
	raw_await_end(fd);
	close(fd);
}

static int open_end = -1;
static pid_t child; /* has all that was open here */

static void context_destroy__waits_for_no_peer_that_stands_still(void **state)
{
	open_end = close_at_a_peer_that_stands_still(*state);
	child = fork();
	assert_true(child >= 0);
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* It hears of that all the same. */
static int teardown_before_the_peer(void **state)
{
	int ret = raw_teardown(state);

	raw_await_end(open_end);
	close(open_end);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return ret;
}

/* From now on the socket takes no segment, as if its host had lost power. There are kernels where
 * only root may do that. */
static bool fall_silent(int fd)
{
	struct sock_filter drop = { .code = BPF_RET | BPF_K, .k = 0 };
	struct sock_fprog all = { .len = 1, .filter = &drop };

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof(all)) == 0)
		return true;
	assert_int_equal(errno, EPERM);
	return false;
}

static void write__to_a_host_that_fell_silent_is_connreset_in_time(void **state)
{
	struct raw *r = *state;
	struct slime_remote_mr theirs = region_of_the_peer(4096, SLIME_ACCESS_REMOTE_WRITE);
	struct slime_xfer x = { .local = r->mr, .remote = &theirs, .len = 8 };
	int fd = raw_link(r);
	uint64_t begin;

	if (!fall_silent(fd)) {
		close(fd);
		skip();
	}
	begin = sl_clock_ms();
	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_int_equal(slime_op_status(r->op), -ECONNRESET);
	/* The kernel counts in ticks; the end is seen when this thread runs again. */
	assert_in_range(sl_clock_ms() - begin, RAW_TIMEOUT_MS - 20, 20 * RAW_TIMEOUT_MS);
	close(fd);
}

/* As whoever looks for what a peer writes: there is no other word of it. */
static void await_first_byte(struct raw *r)
{
	while (__atomic_load_n(&r->memory[0], __ATOMIC_ACQUIRE) != 'o')
		sched_yield();
}

/* It is to come back. */
static void await_withdrawal(const struct sl_region *lent)
{
	while (atomic_load(&lent->state) != SL_REGION_WITHDRAWN)
		sched_yield();
}

/* It begins a write into a region and stops: the region can be had back, and the link pays. */
static void mr_destroy__under_a_write_that_stalls_ends_the_link(void **state)
{
	struct raw *r = *state;
	int fd = raw_link(r);

	raw_send_request(fd, TCP_WRITE, 0, raw_piece(r, 0, 1000));
	raw_send(fd, "only this", 9);
	await_first_byte(r);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
	raw_await_end(fd);
	close(fd);
}

static void *destroy_mr(void *mr)
{
	return slime_mr_destroy(mr) ? mr : NULL;
}

/* Nobody came to look at the peer until all of its time was over: then it still has some. */
static void mr_destroy__under_a_write_that_stalls_when_nobody_could_look_ends_the_link(void **state)
{
	struct raw *r = *state;
	int fd = raw_link(r);
	struct tcp_conn *c = conn_of(r);
	pthread_t thread;
	void *left;

	raw_send_request(fd, TCP_WRITE, 0, raw_piece(r, 0, 1000));
	raw_send(fd, "only this", 9);
	await_first_byte(r);
	pthread_mutex_lock(&c->lock);
	assert_ok(pthread_create(&thread, NULL, destroy_mr, r->mr));
	await_withdrawal(r->mr->region);
	poll(NULL, 0, RAW_TIMEOUT_MS + 100);
	pthread_mutex_unlock(&c->lock);
	assert_ok(pthread_join(thread, &left));
	assert_null(left);
	r->mr = NULL;
	raw_await_end(fd);
	close(fd);
}

/* The peer's time is not begun anew by every other region that goes meanwhile. */
static void mr_destroy__under_a_write_that_stalls_ends_while_others_are_destroyed(void **state)
{
	struct raw *r = *state;
	struct slime_mr *other;
	uint8_t bytes[64];
	pthread_t thread;
	void *left;
	int fd = raw_link(r);

	raw_send_request(fd, TCP_WRITE, 0, raw_piece(r, 0, 1000));
	raw_send(fd, "only this", 9);
	await_first_byte(r);
	assert_ok(pthread_create(&thread, NULL, destroy_mr, r->mr));
	while (pthread_tryjoin_np(thread, &left)) {
		assert_ok(slime_mr_create(r->ctx, bytes, sizeof(bytes), 0, &other));
		assert_ok(slime_mr_destroy(other));
	}
	assert_null(left);
	r->mr = NULL;
	raw_await_end(fd);
	close(fd);
}

static bool has_seen(struct raw *r, enum slime_endpoint_state state)
{
	bool seen;

	pthread_mutex_lock(&r->lock);
	seen = r->seen[state];
	pthread_mutex_unlock(&r->lock);
	return seen;
}

/* Somebody looks whether the lent region is his in the moment in which its link ends. */
static void call__ends_with_its_link_once_nobody_looks_at_what_it_lent(void **state)
{
	struct raw *r = *state;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct sl_region *lent;
	struct slime_call *call;
	int fd = raw_link(r);

	args.method = slime_rpc_method_id("any");
	args.reply = r->memory;
	args.reply_cap = sizeof(r->memory);
	assert_ok(slime_call_create(r->ctx, NULL, &call));
	assert_ok(slime_call_start(r->ep, &args, call));
	lent = call->reply_region;
	atomic_fetch_add(&lent->n_users, 1);
	close(fd);
	await_withdrawal(lent);
	/* For as long as it takes to give up on it. */
	for (int i = 0; i < 10000 && !has_seen(r, SLIME_ENDPOINT_BROKEN); i++)
		sched_yield();
	atomic_fetch_sub(&lent->n_users, 1);
	assert_ok(slime_call_wait(call, PATIENCE_MS));
	assert_int_equal(slime_call_status(call), -ECONNRESET);
	assert_ok(slime_call_destroy(call));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW(serve__a_peer_that_reads_nothing_for_long_is_not_dead),
		IN_RAW(read__answered_byte_by_byte_brings_the_bytes),
		IN_RAW(write__answered_while_the_next_request_is_half_sent_goes_on),
		IN_RAW(write_imm__that_ended_before_a_close_has_its_immediate_sent),
		IN_RAW(write_imm__when_messages_are_as_many_as_may_be_ends_the_link),
		IN_RAW(close__at_a_peer_that_stands_still_is_a_close_when_it_goes_on),
		cmocka_unit_test_setup_teardown(
			context_destroy__waits_for_no_peer_that_stands_still, raw_setup,
			teardown_before_the_peer),
		IN_RAW(write__to_a_host_that_fell_silent_is_connreset_in_time),
		IN_RAW(mr_destroy__under_a_write_that_stalls_ends_the_link),
		IN_RAW(mr_destroy__under_a_write_that_stalls_when_nobody_could_look_ends_the_link),
		IN_RAW(mr_destroy__under_a_write_that_stalls_ends_while_others_are_destroyed),
		IN_RAW(call__ends_with_its_link_once_nobody_looks_at_what_it_lent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
