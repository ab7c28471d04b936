/* SPDX-License-Identifier: Apache-2.0 */
/* What the module has beside the public headers. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <slime/agent.h>
#include <slime/pages.h>
#include <slime/slime.h>
#include <slime/target.h>

/* A batch from arrays of offsets and lengths, without a loop in Python. */
static void py_fill_xfers(struct slime_xfer *x, size_t n, struct slime_mr *local,
			  const struct slime_remote_mr *remote, const uint64_t *local_offsets,
			  const uint64_t *remote_offsets, const uint64_t *lengths)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (struct slime_xfer){ .local = local,
					    .remote = remote,
					    .local_offset = local_offsets[i],
					    .remote_offset = remote_offsets[i],
					    .len = lengths[i] };
}

/* ---- what asyncio awaits ---- */

/* Ops and calls of a context that ended and are awaited: a stack, and a descriptor that says when
 * it is not empty. */
struct py_queue {
	_Atomic(struct py_future *) head;
	int fd;
};

enum { PY_NOT_AWAITED, PY_AWAITED, PY_DONE };

/* Belongs to one op or call. It is in the queue at most once, and only when it is awaited. */
struct py_future {
	struct py_future *next;
	struct py_queue *queue;
	_Atomic int state;
	uint64_t key;
};

static struct py_queue *py_queue_create(void)
{
	struct py_queue *q = calloc(1, sizeof(*q));

	if (q)
		q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q && q->fd < 0) {
		free(q);
		q = NULL;
	}
	return q;
}

static void py_queue_destroy(struct py_queue *q)
{
	if (q)
		close(q->fd);
	free(q);
}

static int py_queue_fd(const struct py_queue *q)
{
	return q->fd;
}

/* All that ended since the last call, as a list. */
static struct py_future *py_queue_take(struct py_queue *q)
{
	uint64_t count;
	ssize_t n = read(q->fd, &count, sizeof(count));

	(void)n; /* nothing to read is normal */
	return atomic_exchange(&q->head, NULL);
}

static struct py_future *py_future_create(struct py_queue *q, uint64_t key)
{
	struct py_future *f = calloc(1, sizeof(*f));

	if (f) {
		f->queue = q;
		f->key = key;
	}
	return f;
}

static void py_future_destroy(struct py_future *f)
{
	free(f);
}

/* Whether it will come by the queue; else it has ended already. */
static bool py_future_await(struct py_future *f)
{
	int state = PY_NOT_AWAITED;

	return atomic_compare_exchange_strong(&f->state, &state, PY_AWAITED) || state == PY_AWAITED;
}

/* It is readable until the next take. */
static void py_queue_ring(struct py_queue *q)
{
	uint64_t one = 1;
	ssize_t n = write(q->fd, &one, sizeof(one));

	(void)n; /* a full counter is readable */
}

static void py_end(struct py_future *f)
{
	struct py_queue *q = f->queue;

	if (atomic_exchange(&f->state, PY_DONE) != PY_AWAITED)
		return;
	f->next = atomic_load(&q->head);
	while (!atomic_compare_exchange_weak(&q->head, &f->next, f))
		;
	py_queue_ring(q);
}

static void py_op_end(void *arg, struct slime_op *op)
{
	(void)op;
	py_end(arg);
}

static void py_call_end(void *arg, struct slime_call *call)
{
	(void)call;
	py_end(arg);
}

static int py_op_create(struct slime_context *ctx, struct py_future *f, struct slime_op **out)
{
	struct slime_op_attr attr = { .fn = py_op_end, .arg = f };

	return slime_op_create(ctx, &attr, out);
}

static int py_call_create(struct slime_context *ctx, struct py_future *f, struct slime_call **out)
{
	struct slime_call_attr attr = { .fn = py_call_end, .arg = f };

	return slime_call_create(ctx, &attr, out);
}

static void py_pages_end(void *arg, struct slime_pages_request *req)
{
	(void)req;
	py_end(arg);
}

/* Its end comes by the queue, always. */
static int py_pages_request_create(struct slime_pages *pages, struct py_future *f,
				   struct slime_pages_request **out)
{
	struct slime_pages_request_attr attr = { .fn = py_pages_end, .arg = f };

	f->state = PY_AWAITED;
	return slime_pages_request_create(pages, &attr, out);
}

/* The next request; NULL: none came within spin_us. The caller makes the context's progress
 * meanwhile, so that no other thread has to be woken. */
static struct slime_rpc_request *py_next_request(struct slime_context *ctx, uint32_t spin_us)
{
	struct timespec begin, now;
	struct slime_event event;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (;;) {
		while (slime_context_next(ctx, &event)) {
			if (event.kind == SLIME_EVENT_REQUEST)
				return event.request;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 >=
		    (long)spin_us)
			return NULL;
		if (slime_context_poll(ctx) <= 0)
			sched_yield();
	}
}

/* ---- endpoints that a listener made ---- */

/* In the order of their coming, until Python takes them. The listener bounds how many there are. */
struct py_arrivals {
	pthread_mutex_t lock;
	struct py_arrival *first, **last;
	int fd; /* readable while there is one */
};

struct py_arrival {
	struct py_arrival *next;
	struct slime_endpoint *ep;
};

static struct py_arrivals *py_arrivals_create(void)
{
	struct py_arrivals *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (a->fd < 0) {
		free(a);
		return NULL;
	}
	pthread_mutex_init(&a->lock, NULL);
	a->last = &a->first;
	return a;
}

static int py_arrivals_fd(const struct py_arrivals *a)
{
	return a->fd;
}

/* NULL: there is none. */
static struct slime_endpoint *py_arrivals_next(struct py_arrivals *a)
{
	struct slime_endpoint *ep = NULL;
	struct py_arrival *first;
	uint64_t one;

	pthread_mutex_lock(&a->lock);
	first = a->first;
	if (first) {
		ssize_t n = read(a->fd, &one, sizeof(one));

		(void)n;
		ep = first->ep;
		a->first = first->next;
		if (!a->first)
			a->last = &a->first;
	}
	pthread_mutex_unlock(&a->lock);
	free(first);
	return ep;
}

/* After its listener. Those that Python did not take end here. */
static void py_arrivals_destroy(struct py_arrivals *a)
{
	struct slime_endpoint *ep;

	while ((ep = py_arrivals_next(a)) != NULL)
		slime_endpoint_destroy(ep);
	close(a->fd);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* On the listener's thread. */
static void py_arrive(void *arg, struct slime_listener *listener, struct slime_endpoint *ep)
{
	struct py_arrival *new = malloc(sizeof(*new));
	struct py_arrivals *a = arg;
	uint64_t one = 1;
	ssize_t n;

	(void)listener;
	if (!new) {
		slime_endpoint_destroy(ep);
		return;
	}
	*new = (struct py_arrival){ .ep = ep };
	pthread_mutex_lock(&a->lock);
	*a->last = new;
	a->last = &new->next;
	n = write(a->fd, &one, sizeof(one));
	(void)n;
	pthread_mutex_unlock(&a->lock);
}

/* What the capsule of __dlpack__() begins with. */
struct py_dltensor {
	void *data;
	int32_t device_type, device_id, ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

/* ---- why something failed, in the library's words ---- */

static _Thread_local char py_said[512];
static enum slime_log_level py_level = SLIME_LOG_WARN;
/* The last trouble with nanoctrl, which the loops of agents log. */
static pthread_mutex_t py_control_lock = PTHREAD_MUTEX_INITIALIZER;
static char py_control_said[512];

/* The last warning or error of this thread is kept for the exception; what py_level allows goes to
 * standard error as well. No Python runs here: threads of the library log, too. */
static void py_log(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	(void)arg;
	if (level <= SLIME_LOG_WARN)
		snprintf(py_said, sizeof(py_said), "%s: %s", part, line);
	if (level <= SLIME_LOG_WARN && !strcmp(part, "ctrl")) {
		pthread_mutex_lock(&py_control_lock);
		snprintf(py_control_said, sizeof(py_control_said), "%s", line);
		pthread_mutex_unlock(&py_control_lock);
	}
	if (level <= py_level)
		fprintf(stderr, "%s %s: %s\n", names[level], part, line);
}

static void py_log_to_stderr(int level)
{
	py_level = (enum slime_log_level)level;
	slime_log_set(py_log, NULL, level < SLIME_LOG_WARN ? SLIME_LOG_WARN : py_level);
}

static void py_log_of_control(char *out, size_t cap)
{
	pthread_mutex_lock(&py_control_lock);
	snprintf(out, cap, "%s", py_control_said);
	pthread_mutex_unlock(&py_control_lock);
}

static void py_log_forget(void)
{
	py_said[0] = 0;
}

static const char *py_log_said(void)
{
	return py_said;
}
