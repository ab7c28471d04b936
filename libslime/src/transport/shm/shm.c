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

#include "base/log.h"
#include "src/transport/link_listener.h"
#include "src/transport/shm/shm.h"

/* A server of many clients looks at those that are at it; one that comes back is found after a few
 * passes, and at once when it was rung for. */
#define PASSES_UNTIL_IDLE 1024
#define IDLE_PER_PASS	  2
/* Bytes that a pass copies for all links, where several ops wait. A message waits for so many. */
#define COPIED_PER_PASS (UINT64_C(512) << 10)

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

static int open_door(struct shm_transport *t)
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
	sl_list_init(&t->awake);
	sl_list_init(&t->idle);
	t->base.watched[0] = &t->awake;
	t->base.watched[1] = &t->idle;
	ret = shm_start_time(getpid(), &t->start_time);
	if (ret)
		goto free_t;
	ret = shm_page_create(&t->page, &t->page_fd);
	if (ret)
		goto free_t;
	ret = open_door(t);
	if (ret)
		goto free_page;
	*out = &t->base;
	return 0;

free_page:
	shm_page_unmap(t->page);
	close(t->page_fd);
free_t:
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

static struct shm_conn *conn_of(struct sl_list *turn)
{
	return SL_CONTAINER_OF(turn, struct shm_conn, turn);
}

static void move(struct shm_conn *c, struct sl_list *to)
{
	sl_list_remove(&c->turn);
	sl_list_append(to, &c->turn);
	c->quiet_passes = 0;
}

/* The link that waits longest has its turn. */
static unsigned copy_turn(struct shm_transport *t, uint64_t *budget)
{
	struct sl_list *e;

	sl_list_for_each (e, &t->awake) {
		struct shm_conn *c = conn_of(e);
		unsigned n = shm_work_any(c) ? shm_work_turn(c, budget) : 0;

		if (n) {
			move(c, &t->awake);
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

static unsigned poll_awake(struct shm_transport *t)
{
	struct sl_list *e, *tmp;
	bool works = false;
	unsigned n = 0;

	sl_list_for_each_safe (e, tmp, &t->awake) {
		struct shm_conn *c = conn_of(e);

		if (!shm_conn_is_quiet(c)) {
			c->quiet_passes = 0;
			works |= shm_work_any(c);
			n += shm_conn_progress(c);
		} else if (++c->quiet_passes >= PASSES_UNTIL_IDLE) {
			move(c, &t->idle);
		}
	}
	return works ? n + copy_portion(t) : n;
}

/* The first at most max of them, which go to the end of the list. */
static unsigned poll_idle(struct shm_transport *t, unsigned max)
{
	struct sl_list *last = t->idle.prev;
	unsigned n = 0;

	for (unsigned i = 0; i < max && !sl_list_empty(&t->idle); i++) {
		struct sl_list *e = t->idle.next;
		struct shm_conn *c = conn_of(e);
		bool quiet = shm_conn_is_quiet(c);

		move(c, quiet ? &t->idle : &t->awake);
		/* It may be gone afterwards. */
		if (!quiet)
			n += shm_conn_progress(c);
		if (e == last)
			break;
	}
	return n;
}

static unsigned progress(struct sl_transport *base)
{
	struct shm_transport *t = (struct shm_transport *)base;
	unsigned n = poll_awake(t);
	bool all;

	if (sl_list_empty(&t->idle))
		return n;
	/* Who is about to sleep must not leave anything behind. */
	all = *base->env->poll_all ||
	      atomic_load_explicit(&t->page->sleeping, memory_order_relaxed);
	return n + poll_idle(t, all ? UINT_MAX : IDLE_PER_PASS);
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
