/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends what a thread wants sent that finds a stream's lock taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/core/poller.h"
#include "src/transport/tcp/tcp.h"

static struct sl_poller poller;
static void nobody_sleeps(void *arg)
{
	(void)arg;
}

static bool makes_no_pass(void *arg)
{
	(void)arg;
	return false;
}

static struct sl_transport_env env = {
	.poller = &poller,
	.kick = nobody_sleeps,
	.in_pass = makes_no_pass,
};
static struct tcp_transport transport = { .transport = { .env = &env } };
static struct tcp_conn conn;
static struct tcp_stream *stream;
static int peer; /* the other end of the stream */

/* ---- a thread that comes at the worst moment ---- */

static bool comes;

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static void *want_frame_sent(void *arg)
{
	pthread_mutex_lock(&conn.lock);
	stream->open_due = true;
	__real_pthread_mutex_unlock(&conn.lock);
	tcp_tx_flush(stream);
	return arg;
}

/* It is there, and gone, when the lock is let go of. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	pthread_t other;

	if (comes && lock == &stream->tx_lock) {
		comes = false;
		assert_int_equal(pthread_create(&other, NULL, want_frame_sent, NULL), 0);
		assert_int_equal(pthread_join(other, NULL), 0);
	}
	return __real_pthread_mutex_unlock(lock);
}

/* ---- ---- */

static int setup(void **state)
{
	int ends[2];

	(void)state;
	memset(&conn, 0, sizeof(conn));
	conn.t = &transport;
	conn.n_streams = 1;
	pthread_mutex_init(&conn.lock, NULL);
	sl_list_init(&conn.ops);
	sl_todo_entry_init(&conn.todo);
	sl_timer_init(&conn.timer, NULL);
	sl_todo_init(&transport.todo);
	tcp_pools_init(&transport);
	atomic_store(&conn.state, TCP_CONN_UP);
	assert_int_equal(sl_poller_init(&poller, false), 0);
	assert_int_equal(tcp_stream_create(&conn, 0, &conn.streams[0]), 0);
	stream = conn.streams[0];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	assert_int_equal(sl_poller_add(&poller, &stream->source, ends[0], 0), 0);
	stream->fd = ends[0];
	peer = ends[1];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tcp_stream_stop(stream);
	tcp_stream_free(stream);
	if (peer >= 0)
		close(peer);
	sl_poller_fini(&poller);
	tcp_pools_fini(&transport);
	sl_todo_fini(&transport.todo);
	pthread_mutex_destroy(&conn.lock);
	return 0;
}

static void assert_frame_sent(void)
{
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_head h;

	assert_false(comes);
	assert_int_equal(recv(peer, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(tcp_head_read(&h, bytes), 0);
	assert_int_equal(h.kind, TCP_OPEN);
}

static void flush__while_the_stream_is_begun_to_be_read_is_made_up_for(void **state)
{
	(void)state;
	comes = true;
	tcp_stream_pause(stream, false);
	assert_frame_sent();
}

static void flush__while_an_early_answer_waits_for_the_sender_is_made_up_for(void **state)
{
	(void)state;
	comes = true;
	assert_null(tcp_request_find(stream, 0));
	assert_frame_sent();
}

/* It said goodbye, and that was not read yet. */
static void flush__to_a_peer_that_hung_up_leaves_its_end_to_who_reads(void **state)
{
	uint8_t bye[TCP_HEAD_LEN];

	(void)state;
	tcp_head_write(&(struct tcp_head){ .kind = TCP_BYE }, bye);
	assert_int_equal(send(peer, bye, sizeof(bye), 0), sizeof(bye));
	close(peer);
	peer = -1;
	stream->opened = true;
	stream->open_due = true;
	tcp_tx_flush(stream);
	assert_false(conn.ending);

	tcp_rx_run(stream);
	assert_true(conn.ending);
	assert_int_equal(conn.end_cause, 0);
}

/* ---- goodbye ---- */

/* What the stream's socket has no room for. */
static void block(struct tcp_stream *s)
{
	static const uint8_t bytes[4096];

	while (send(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	s->open_due = true;
	tcp_tx_flush(s);
	assert_true(s->blocked);
}

/* The peer may read the first stream later than another, and drops what comes behind BYE. */
static void leave__behind_a_message_that_is_in_the_socket_does_not_overtake_it(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(tcp_stream_create(&conn, 1, &conn.streams[1]), 0);
	conn.n_streams = 2;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	assert_int_equal(sl_poller_add(&poller, &conn.streams[1]->source, ends[0], 0), 0);
	conn.streams[1]->fd = ends[0];
	assert_true(tcp_conn_queue(&conn, &(struct sl_msg){ .kind = SL_MSG_IMM }));
	stream->opened = true;
	tcp_tx_flush(stream);
	assert_int_equal(conn.n_msgs, 0);
	block(stream);

	conn.end_local = true;
	atomic_store(&conn.ending, true);
	tcp_conn_run(&conn);
	assert_int_equal(tcp_conn_state(&conn), TCP_CONN_LEAVING);
	assert_ptr_equal(conn.bye_stream, stream);
	assert_int_equal(recv(ends[1], ends, 1, 0), -1);
	sl_timer_cancel(&poller, &conn.timer);
	tcp_stream_stop(conn.streams[1]);
	tcp_stream_free(conn.streams[1]);
	conn.streams[1] = NULL;
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			flush__while_the_stream_is_begun_to_be_read_is_made_up_for, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			flush__while_an_early_answer_waits_for_the_sender_is_made_up_for, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			flush__to_a_peer_that_hung_up_leaves_its_end_to_who_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(
			leave__behind_a_message_that_is_in_the_socket_does_not_overtake_it, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
