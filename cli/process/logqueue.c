/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/process/logqueue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/* Lines that come soon after the first one leave with it. */
#define GATHER_MS 20
/* A reader that takes nothing is waited for in such steps; a disk that is full is tried again. */
#define READER_MS 100
#define RETRY_MS  1000
/* For how long drops are not told again. */
#define TELL_MS 5000
/* Beyond its time, until it is left alone with a write that does not end. */
#define STUCK_MS 500

struct way {
	size_t most; /* bytes of one write; under the lock */
	bool socket; /* always or never: what is opened again is none, */
	bool waits;  /* and this, either: it does when it is full, so it is asked before */
};

struct cli_log_queue {
	int fd;
	pthread_t thread;
	pthread_mutex_t lock; /* held for a copy of a line, never for a system call that may wait */
	pthread_cond_t wake;
	pthread_cond_t ended;
	uint64_t put, written; /* bytes, since the ring was last empty */
	uint64_t end_ns;       /* when the thread gives up; 0: it is not to end */
	struct way way;	       /* in which fd is written to */
	bool asleep;	       /* the thread, until it is woken */
	bool reopened;	       /* and it has not looked since */
	bool done;	       /* the thread is */
	bool left;	       /* alone, the thread is: it releases the queue */
	_Atomic uint64_t dropped;
	int why;	       /* the last were: errno, or 0 where the reader is slow */
	uint64_t told;	       /* of these */
	uint64_t telling;      /* with the last line that told of some, */
	uint64_t told_at;      /* which ends there in the ring; 0: it is written */
	bool told_nobody;      /* the ring was full */
	uint64_t tell_next_ns; /* the thread's */
	char ring[CLI_LOG_QUEUE_MAX];
};

/* A pipe takes so much whole or not at all, so no line of others gets into one of ours. */
static struct way way_of(int fd)
{
	struct stat st = { .st_mode = 0 };
	int flags = fcntl(fd, F_GETFL);
	struct way way = { .most = PIPE_BUF };

	fstat(fd, &st);
	way.socket = S_ISSOCK(st.st_mode);
	if (S_ISREG(st.st_mode))
		way.most = CLI_LOG_QUEUE_MAX;
	else
		way.waits = !way.socket && !(flags & O_NONBLOCK);
	return way;
}

/* A waiting one is written to when it has room for PIPE_BUF: then no thread waits, unless others
 * write to it as well. */
static bool may_write(const struct cli_log_queue *q)
{
	struct pollfd p = { .fd = q->fd, .events = POLLOUT };

	if (!q->way.waits || poll(&p, 1, 0) == 1)
		return true;
	errno = EAGAIN;
	return false;
}

static ssize_t write_now(const struct cli_log_queue *q, struct iovec *v, size_t n)
{
	const struct msghdr m = { .msg_iov = v, .msg_iovlen = n };

	if (q->way.socket)
		return sendmsg(q->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	return may_write(q) ? writev(q->fd, v, (int)n) : -1;
}

/* ---- threads that log lines ---- */

static size_t piece_at(struct cli_log_queue *q, uint64_t at, size_t len, struct iovec v[2])
{
	size_t from = at % CLI_LOG_QUEUE_MAX, first = CLI_LOG_QUEUE_MAX - from;

	v[0] = (struct iovec){ q->ring + from, len < first ? len : first };
	v[1] = (struct iovec){ q->ring, len - v[0].iov_len };
	return v[1].iov_len ? 2 : 1;
}

/* The thread sleeps, or gathers lines and has half of the ring now. */
static bool is_to_wake(const struct cli_log_queue *q, size_t before, size_t now)
{
	return q->asleep || (before < CLI_LOG_QUEUE_MAX / 2 && now >= CLI_LOG_QUEUE_MAX / 2);
}

void cli_log_queue_put(struct cli_log_queue *q, const char *line, size_t len)
{
	bool fits, wake = false, tells = pthread_equal(pthread_self(), q->thread);
	struct iovec v[2];
	size_t before;

	pthread_mutex_lock(&q->lock);
	before = q->put - q->written;
	fits = len <= CLI_LOG_QUEUE_MAX - before;
	if (fits) {
		piece_at(q, q->put, len, v);
		memcpy(v[0].iov_base, line, v[0].iov_len);
		memcpy(v[1].iov_base, line + v[0].iov_len, v[1].iov_len);
		q->put += len;
		wake = is_to_wake(q, before, before + len);
		q->asleep = false;
	}
	if (tells && fits)
		q->told_at = q->put;
	else if (tells)
		q->told_nobody = true;
	pthread_mutex_unlock(&q->lock);
	if (wake)
		pthread_cond_signal(&q->wake);
	if (!fits && !tells)
		atomic_fetch_add(&q->dropped, 1);
}

void cli_log_queue_write(struct cli_log_queue *q, const char *line, size_t len)
{
	struct iovec v = { (void *)(uintptr_t)line, len };
	ssize_t n = q->way.waits && len > PIPE_BUF ? 0 : write_now(q, &v, 1);
	size_t done = n < 0 ? 0 : (size_t)n;

	if (done < len)
		cli_log_queue_put(q, line + done, len - done);
}

uint64_t cli_log_queue_dropped(struct cli_log_queue *q)
{
	return atomic_load(&q->dropped);
}

/* ---- the thread ---- */

/* With the lock, which it gives back meanwhile; it may be woken early. */
static void wait_until(struct cli_log_queue *q, pthread_cond_t *what, uint64_t ns)
{
	const struct timespec at = { (time_t)(ns / SL_NS_PER_S), (long)(ns % SL_NS_PER_S) };

	pthread_cond_timedwait(what, &q->lock, &at);
}

static bool is_untold(struct cli_log_queue *q)
{
	return atomic_load(&q->dropped) != q->told;
}

/* Until there is something to do; true when that is lines. */
static bool await_lines(struct cli_log_queue *q)
{
	while (q->put == q->written && !q->end_ns) {
		q->asleep = true;
		if (!is_untold(q))
			pthread_cond_wait(&q->wake, &q->lock);
		else if (sl_clock_ns() < q->tell_next_ns)
			wait_until(q, &q->wake, q->tell_next_ns);
		else
			break;
	}
	q->asleep = false;
	return q->put != q->written;
}

static void gather(struct cli_log_queue *q)
{
	uint64_t until = sl_clock_ns() + GATHER_MS * SL_NS_PER_MS;

	while (!q->end_ns && !q->reopened && q->put - q->written < CLI_LOG_QUEUE_MAX / 2 &&
	       sl_clock_ns() < until)
		wait_until(q, &q->wake, until);
}

/* Whole lines, if one fits. */
static size_t length_of_piece(const struct cli_log_queue *q, uint64_t end)
{
	size_t len = (size_t)(end - q->written), n = len < q->way.most ? len : q->way.most;

	if (n == len)
		return len;
	for (size_t whole = n; whole; whole--)
		if (q->ring[(q->written + whole - 1) % CLI_LOG_QUEUE_MAX] == '\n')
			return whole;
	return n;
}

/* After a write that failed with err. False: there is no time for another one. */
static bool wait_for_room(struct cli_log_queue *q, int err)
{
	struct pollfd p = { .fd = q->fd, .events = POLLOUT };

	q->why = err == EAGAIN ? 0 : err;
	if (q->end_ns && (err != EAGAIN || sl_clock_ns() >= q->end_ns))
		return false;
	if (err != EAGAIN) {
		uint64_t until = sl_clock_ns() + RETRY_MS * SL_NS_PER_MS;

		while (!q->end_ns && !q->reopened && sl_clock_ns() < until)
			wait_until(q, &q->wake, until);
		q->reopened = false;
		return true;
	}
	pthread_mutex_unlock(&q->lock);
	poll(&p, 1, READER_MS);
	pthread_mutex_lock(&q->lock);
	return true;
}

/* All that is there now. False: it cannot be, and the time is over. */
static bool write_out(struct cli_log_queue *q)
{
	uint64_t end = q->put;

	q->reopened = false;
	while (q->written < end) {
		struct iovec v[2];
		size_t n_pieces = piece_at(q, q->written, length_of_piece(q, end), v);
		ssize_t n;
		int err;

		pthread_mutex_unlock(&q->lock);
		n = write_now(q, v, n_pieces);
		err = errno;
		pthread_mutex_lock(&q->lock);
		if (n > 0)
			q->written += (uint64_t)n;
		else if (!wait_for_room(q, n ? err : ENOSPC))
			return false;
	}
	/* So that few lines use few pages. */
	if (q->written == q->put)
		q->written = q->put = q->told_at = 0;
	return true;
}

void cli_log_queue_tell(uint64_t n, int why)
{
	sl_warn("log", "%" PRIu64 " lines were dropped: %s", n,
		why ? strerror(why) : "what takes the log does not keep up");
}

/* At the end the thread that ends the queue reports. */
static void tell(struct cli_log_queue *q)
{
	uint64_t n = atomic_load(&q->dropped) - q->told;
	int why = q->why;

	if (!n || q->end_ns || sl_clock_ns() < q->tell_next_ns)
		return;
	q->told += n;
	q->telling = n;
	q->told_nobody = false;
	q->tell_next_ns = sl_clock_ns() + TELL_MS * SL_NS_PER_MS;
	pthread_mutex_unlock(&q->lock);
	cli_log_queue_tell(n, why);
	pthread_mutex_lock(&q->lock);
	if (q->told_nobody)
		q->told -= n;
}

static void drop_the_rest(struct cli_log_queue *q)
{
	/* A line that told of some is none of those that were said. */
	if (q->told_at > q->written)
		q->told -= q->telling - 1;
	for (; q->written < q->put; q->written++)
		if (q->ring[q->written % CLI_LOG_QUEUE_MAX] == '\n')
			atomic_fetch_add(&q->dropped, 1);
}

static void release(struct cli_log_queue *q)
{
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->wake);
	pthread_cond_destroy(&q->ended);
	free(q);
}

static void *run(void *arg)
{
	struct cli_log_queue *q = arg;
	bool going = true, left;

	pthread_mutex_lock(&q->lock);
	while (going) {
		if (await_lines(q)) {
			gather(q);
			going = write_out(q);
		} else {
			going = !q->end_ns;
		}
		tell(q);
	}
	drop_the_rest(q);
	q->done = true;
	left = q->left;
	pthread_cond_signal(&q->ended);
	pthread_mutex_unlock(&q->lock);
	if (left)
		release(q);
	return NULL;
}

/* ---- life ---- */

int cli_log_queue_create(int fd, struct cli_log_queue **out)
{
	struct cli_log_queue *q = calloc(1, sizeof(*q));
	pthread_condattr_t monotonic;
	int ret;

	if (!q)
		return -ENOMEM;
	q->fd = fd;
	q->way = way_of(fd);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->wake, &monotonic);
	pthread_cond_init(&q->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	ret = sl_thread_create(&q->thread, "log", run, q);
	if (ret)
		release(q);
	else
		*out = q;
	return ret;
}

void cli_log_queue_reopened(struct cli_log_queue *q)
{
	size_t most = way_of(q->fd).most;

	pthread_mutex_lock(&q->lock);
	q->way.most = most;
	q->reopened = true;
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->lock);
}

bool cli_log_queue_destroy(struct cli_log_queue *q, int timeout_ms, uint64_t *untold, int *why)
{
	pthread_t thread;
	uint64_t until;
	bool done;

	*untold = 0;
	*why = 0;
	if (!q)
		return true;
	thread = q->thread;
	pthread_mutex_lock(&q->lock);
	q->end_ns = sl_deadline_ns(timeout_ms);
	until = q->end_ns + STUCK_MS * SL_NS_PER_MS;
	pthread_cond_signal(&q->wake);
	while (!q->done && sl_clock_ns() < until)
		wait_until(q, &q->ended, until);
	done = q->done;
	q->left = !done;
	*untold = atomic_load(&q->dropped) - q->told;
	*why = q->why;
	pthread_mutex_unlock(&q->lock);
	if (!done) {
		pthread_detach(thread);
		return false;
	}
	pthread_join(thread, NULL);
	release(q);
	return true;
}
