/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "src/core/poller.h"

static void drain_wake(struct sl_source *s, uint32_t events)
{
	uint64_t count;
	ssize_t n = read(s->fd, &count, sizeof(count));

	(void)n;
	(void)events;
}

static void drain_alarm(struct sl_source *s, uint32_t events)
{
	struct sl_poller *p = SL_CONTAINER_OF(s, struct sl_poller, alarm);

	drain_wake(s, events);
	p->alarm_ns = SL_NEVER;
}

static int add_alarm(struct sl_poller *p)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int ret;

	if (fd < 0)
		return -errno;
	ret = sl_poller_add(p, &p->alarm, fd, EPOLLIN);
	if (ret)
		close(fd);
	return ret;
}

int sl_poller_init(struct sl_poller *p, bool alarm)
{
	int ret;

	*p = (struct sl_poller){
		.next_timer_ns = SL_NEVER,
		.wake = { .fn = drain_wake, .fd = -1 },
		.alarm = { .fn = drain_alarm, .fd = -1 },
		.alarm_ns = SL_NEVER,
	};
	sl_list_init(&p->timers);
	p->fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->fd < 0)
		return -errno;
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->wake_fd < 0) {
		ret = -errno;
		goto close_epoll;
	}
	ret = sl_poller_add(p, &p->wake, p->wake_fd, EPOLLIN);
	if (!ret && alarm)
		ret = add_alarm(p);
	if (ret)
		goto close_wake;
	return 0;

close_wake:
	close(p->wake_fd);
close_epoll:
	close(p->fd);
	return ret;
}

void sl_poller_fini(struct sl_poller *p)
{
	sl_poller_close(p, &p->alarm);
	close(p->wake_fd);
	close(p->fd);
}

int sl_poller_add(struct sl_poller *p, struct sl_source *s, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &e))
		return -errno;
	s->fd = fd;
	s->events = events;
	return 0;
}

int sl_poller_change(struct sl_poller *p, struct sl_source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (s->events == events)
		return 0;
	if (epoll_ctl(p->fd, EPOLL_CTL_MOD, s->fd, &e))
		return -errno;
	s->events = events;
	return 0;
}

/* A source that was removed must not be called. */
static void forget_dispatch(struct sl_poller *p, const struct sl_source *s)
{
	for (int i = 0; i < p->n_dispatching; i++) {
		if (p->dispatching[i] == s)
			p->dispatching[i] = NULL;
	}
}

void sl_poller_remove(struct sl_poller *p, struct sl_source *s)
{
	if (s->fd < 0)
		return;
	epoll_ctl(p->fd, EPOLL_CTL_DEL, s->fd, NULL);
	s->fd = -1;
	forget_dispatch(p, s);
}

void sl_poller_close(struct sl_poller *p, struct sl_source *s)
{
	int fd = s->fd;

	if (fd < 0)
		return;
	sl_poller_remove(p, s);
	close(fd);
}

void sl_poller_hand_over(struct sl_poller *p, struct sl_source *from, struct sl_source *to)
{
	struct epoll_event e = { .events = from->events, .data.ptr = to };
	int ret = epoll_ctl(p->fd, EPOLL_CTL_MOD, from->fd, &e);

	/* The set has the descriptor, and nothing is allocated for a change. */
	assert(!ret);
	(void)ret;
	to->fd = from->fd;
	to->events = from->events;
	from->fd = -1;
	forget_dispatch(p, from);
}

void sl_poller_wake(struct sl_poller *p)
{
	uint64_t one = 1;
	ssize_t n = write(p->wake_fd, &one, sizeof(one));

	/* A full counter is readable already. */
	(void)n;
}

void sl_poller_set_alarm(struct sl_poller *p)
{
	uint64_t ns = p->next_timer_ns;
	/* 0 is off. */
	struct itimerspec when = {
		.it_value.tv_sec = ns == SL_NEVER ? 0 : (time_t)(ns / SL_NS_PER_S),
		.it_value.tv_nsec = ns == SL_NEVER ? 0 : (long)(ns % SL_NS_PER_S),
	};
	int ret;

	if (ns == p->alarm_ns)
		return;
	ret = timerfd_settime(p->alarm.fd, TFD_TIMER_ABSTIME, &when, NULL);
	/* The descriptor and the time are valid. */
	assert(!ret);
	(void)ret;
	p->alarm_ns = ns;
}

void sl_timer_init(struct sl_timer *t, sl_timer_fn *fn)
{
	sl_list_init(&t->link);
	t->fn = fn;
	t->when_ns = SL_NEVER;
}

void sl_timer_set(struct sl_poller *p, struct sl_timer *t, uint64_t when_ns)
{
	sl_list_remove(&t->link);
	t->when_ns = when_ns;
	if (when_ns == SL_NEVER)
		return;
	sl_list_append(&p->timers, &t->link);
	if (when_ns < p->next_timer_ns)
		p->next_timer_ns = when_ns;
}

void sl_timer_cancel(struct sl_poller *p, struct sl_timer *t)
{
	(void)p; /* next_timer_ns may be too early now: one look too many */
	sl_list_remove(&t->link);
	t->when_ns = SL_NEVER;
}

static struct sl_timer *first_due(struct sl_poller *p, uint64_t now)
{
	struct sl_list *e;

	p->next_timer_ns = SL_NEVER;
	sl_list_for_each (e, &p->timers) {
		struct sl_timer *t = SL_CONTAINER_OF(e, struct sl_timer, link);

		if (t->when_ns <= now)
			return t;
		if (t->when_ns < p->next_timer_ns)
			p->next_timer_ns = t->when_ns;
	}
	return NULL;
}

static unsigned run_timers(struct sl_poller *p)
{
	struct sl_timer *t;
	uint64_t now;
	unsigned n = 0;

	if (p->next_timer_ns == SL_NEVER)
		return 0;
	now = sl_clock_ns();
	if (now < p->next_timer_ns)
		return 0;
	while ((t = first_due(p, now))) {
		sl_timer_cancel(p, t);
		t->fn(t);
		n++;
	}
	return n;
}

int sl_poller_wait_ms(uint64_t until_ns)
{
	uint64_t now, ms;

	if (!until_ns)
		return 0;
	if (until_ns == SL_NEVER)
		return -1;
	now = sl_clock_ns();
	if (now >= until_ns)
		return 0;
	ms = (until_ns - now + SL_NS_PER_MS - 1) / SL_NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

unsigned sl_poller_run(struct sl_poller *p, uint64_t deadline_ns)
{
	struct epoll_event events[SL_POLLER_EVENTS];
	unsigned handled = 0;
	int n;

	n = epoll_wait(
		p->fd, events, SL_POLLER_EVENTS,
		sl_poller_wait_ms(deadline_ns < p->next_timer_ns ? deadline_ns : p->next_timer_ns));
	if (n < 0)
		n = 0; /* EINTR: the caller looks again */
	for (int i = 0; i < n; i++)
		p->dispatching[i] = events[i].data.ptr;
	p->n_dispatching = n;
	for (int i = 0; i < n; i++) {
		struct sl_source *s = p->dispatching[i];

		if (!s)
			continue;
		s->fn(s, events[i].events);
		handled += s != &p->wake && s != &p->alarm;
	}
	p->n_dispatching = 0;
	return handled + run_timers(p);
}
