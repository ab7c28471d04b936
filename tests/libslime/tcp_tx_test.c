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

#include "src/poller.h"
#include "src/transport/tcp/tcp.h"

static struct sl_poller poller;
static struct sl_transport_env env = { .poller = &poller };
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
	close(peer);
	sl_poller_fini(&poller);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			flush__while_the_stream_is_begun_to_be_read_is_made_up_for, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			flush__while_an_early_answer_waits_for_the_sender_is_made_up_for, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
