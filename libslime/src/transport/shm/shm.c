/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/transport/link_listener.h"
#include "src/transport/shm/shm.h"

/* Bytes that a pass copies for all links, where several ops wait. A message waits for so many. */
#define COPIED_PER_PASS	  (UINT64_C(512) << 10)
#define PASSES_UNTIL_REST 1024
/* So long a message may lie unseen whose mark a peer has cleared. */
#define ALL_NS (2 * SL_NS_PER_MS)

/* The abstract name: other network namespaces cannot see it, and nothing is left behind. */
static int listen_on(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int ret;

	if (fd < 0)
		return -errno;
	memcpy(addr.sun_path + 1, name, len);
	if (bind(fd, (struct sockaddr *)&addr,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) ||
	    listen(fd, 128)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

static int open_listener(struct shm_transport *t)
{
	uint64_t random[2];
	int fd;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(t->name, sizeof(t->name), "slime-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	fd = listen_on(t->name);
	if (fd < 0)
		return fd;
	return sl_link_listener_create(&t->base, fd, shm_conn_greeted, &t->listener);
}

static int create(const struct sl_transport_env *env, struct sl_transport **out)
{
	struct shm_transport *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	t->base = (struct sl_transport){ .ops = &sl_shm_transport, .env = env };
	sl_list_init(&t->conns);
	sl_list_init(&t->retained);
	sl_list_init(&t->peers);
	sl_list_init(&t->active);
	sl_list_init(&t->copying);
	sl_todo_init(&t->todo);
	t->base.watched[0] = &t->conns;
	t->base.todo = &t->todo;
	ret = shm_start_time(getpid(), &t->start_time);
	if (ret)
		goto free_t;
	ret = shm_page_create(&t->page, &t->page_fd);
	if (ret)
		goto free_t;
	ret = shm_board_create(&t->board, &t->board_fd);
	if (ret)
		goto free_page;
	ret = open_listener(t);
	if (ret)
		goto free_board;
	*out = &t->base;
	return 0;

free_board:
	shm_board_unmap(t->board);
	close(t->board_fd);
free_page:
	shm_page_unmap(t->page);
	close(t->page_fd);
free_t:
	sl_todo_fini(&t->todo);
	sl_error("shm", "not available: %s", strerror(-ret));
	free(t);
	return ret;
}

static void destroy(struct sl_transport *base)
{
	struct shm_transport *t = (struct shm_transport *)base;

	while (!sl_list_empty(&t->retained))
		shm_retained_destroy(SL_CONTAINER_OF(t->retained.next, struct shm_retained, link));
	sl_link_listener_destroy(t->listener);
	shm_page_unmap(t->page);
	close(t->page_fd);
	shm_board_unmap(t->board);
	close(t->board_fd);
	sl_todo_fini(&t->todo);
	free(t);
}

static void forget(struct sl_transport *base)
{
	struct shm_transport *t = (struct shm_transport *)base;
	struct sl_list *e;

	while ((e = sl_list_pop(&t->retained)))
		shm_retained_forget(SL_CONTAINER_OF(e, struct shm_retained, link));
	sl_link_listener_forget(t->listener);
	free(t);
}

static int offer(struct sl_transport *base, const struct sl_link_id *self,
		 const struct slime_endpoint_attr *attr, struct sl_writer *w, struct sl_offer **out,
		 struct sl_why *why)
{
	struct shm_transport *t = (struct shm_transport *)base;

	(void)self;
	(void)attr;
	(void)why;
	*out = NULL;
	sl_write_bytes(w, t->name, strlen(t->name));
	return 0;
}

/* ---- progress ---- */

static unsigned run_todo(struct shm_transport *t)
{
	unsigned passes = sl_todo_count(&t->todo);
	struct sl_todo_entry *e;
	unsigned n = 0;

	/* What comes in meanwhile has its turn in the next pass. */
	while (passes-- && (e = sl_todo_take(&t->todo)))
		n += shm_conn_progress(SL_CONTAINER_OF(e, struct shm_conn, todo));
	return n;
}

/* The link that waits longest has its turn. */
static unsigned copy_turn(struct shm_transport *t, uint64_t *budget)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &t->copying) {
		struct shm_conn *c = SL_CONTAINER_OF(e, struct shm_conn, copying);
		unsigned n = shm_work_any(c) ? shm_work_turn(c, budget) : 0;

		/* What is submitted from here on has the link looked at again. */
		if (n || !shm_work_any(c))
			sl_list_remove(e);
		if (n) {
			sl_list_append(&t->copying, e);
			return n;
		}
	}
	return 0;
}

/* A pass's portion. Messages of all links are polled before the next. */
static unsigned copy_portion(struct shm_transport *t)
{
	uint64_t budget = COPIED_PER_PASS;
	unsigned n = 0, turn;

	do {
		turn = copy_turn(t, &budget);
		n += turn;
	} while (turn && budget);
	return n;
}

static unsigned poll_active(struct shm_transport *t)
{
	struct sl_list *e, *tmp;
	unsigned n = 0;

	sl_list_for_each_safe (e, tmp, &t->active) {
		struct shm_conn *c = SL_CONTAINER_OF(e, struct shm_conn, turn);

		if (shm_conn_has_message(c)) {
			c->quiet_passes = 0;
			n += shm_conn_progress(c);
		} else if (++c->quiet_passes >= PASSES_UNTIL_REST) {
			shm_turn_rest(c);
		}
	}
	return n;
}

/* Of one that is not active. It may be gone afterwards. */
static unsigned poll_other(struct shm_conn *c)
{
	if (atomic_load_explicit(&c->state, memory_order_relaxed) != SHM_CONN_READY ||
	    !shm_conn_has_message(c))
		return 0;
	shm_turn_found(c);
	return shm_conn_progress(c);
}

static unsigned poll_bit(struct shm_transport *t, unsigned bit)
{
	struct shm_conn *next = t->by_bit[bit];
	unsigned n = 0;

	while (next) {
		struct shm_conn *c = next;

		next = c->same_bit;
		if (!shm_turn_is_active(c))
			n += poll_other(c);
	}
	return n;
}

/* A bit is taken out, then the rings are looked at: what comes behind that is marked again. */
static unsigned poll_marked(struct shm_transport *t)
{
	uint64_t words = atomic_exchange(&t->board->marked, 0);
	unsigned n = 0;

	for (; words; words &= words - 1) {
		unsigned word = (unsigned)__builtin_ctzll(words);
		uint64_t bits = atomic_exchange(&t->board->words[word], 0);

		for (; bits; bits &= bits - 1)
			n += poll_bit(t, word * 64 + (unsigned)__builtin_ctzll(bits));
	}
	return n;
}

static unsigned poll_all(struct shm_transport *t)
{
	struct sl_list *e, *tmp;
	unsigned n = 0;

	sl_list_for_each_safe (e, tmp, &t->conns) {
		struct shm_conn *c = SL_CONTAINER_OF(e, struct shm_conn, link);

		if (!shm_turn_is_active(c))
			n += poll_other(c);
	}
	return n;
}

/* Peers can clear the board: a thread that is about to sleep must not leave anything behind, and
 * one that continues finds it in time. */
static bool all_are_due(struct shm_transport *t)
{
	uint64_t now;

	if (atomic_load_explicit(&t->page->sleeping, memory_order_relaxed))
		return true;
	if (!*t->base.env->poll_all)
		return false;
	now = sl_clock_ns();
	if (now < t->all_due_ns)
		return false;
	t->all_due_ns = now + ALL_NS;
	return true;
}

static unsigned progress(struct sl_transport *base)
{
	struct shm_transport *t = (struct shm_transport *)base;
	unsigned n = 0;

	if (sl_todo_count(&t->todo))
		n += run_todo(t);
	n += poll_active(t);
	if (atomic_load_explicit(&t->board->marked, memory_order_relaxed))
		n += poll_marked(t);
	if (all_are_due(t))
		n += poll_all(t);
	return sl_list_empty(&t->copying) ? n : n + copy_portion(t);
}

static void arm(struct sl_transport *base)
{
	struct shm_transport *t = (struct shm_transport *)base;

	atomic_store_explicit(&t->page->sleeping, 1, memory_order_relaxed);
}

static void disarm(struct sl_transport *base)
{
	struct shm_transport *t = (struct shm_transport *)base;

	atomic_store_explicit(&t->page->sleeping, 0, memory_order_relaxed);
}

const struct sl_transport_ops sl_shm_transport = {
	.id = SLIME_TRANSPORT_SHM,
	.create = create,
	.destroy = destroy,
	.forget = forget,
	.offer = offer,
	.conn_create = shm_conn_create,
	.withdraw = shm_withdraw,
	.progress = progress,
	.arm = arm,
	.disarm = disarm,
};
