/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/report.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slime/log.h>

#define N_LINES	  60
#define N_WATCHES 64

static struct {
	pthread_mutex_t lock;
	char text[N_LINES][240];
	uint64_t n;
	char process[32];
} lines = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct watch {
	_Atomic(const char *) what;
	_Atomic(const char *) where;
	_Atomic int64_t since, limit;
	_Atomic bool taken;
} watches[N_WATCHES];

static _Atomic bool *any_failed;
static _Thread_local struct watch *own_watch;

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pause_us(int64_t us)
{
	struct timespec span = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&span, NULL); /* the passing of time */
}

static void keep_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	pthread_mutex_lock(&lines.lock);
	snprintf(lines.text[lines.n++ % N_LINES], sizeof(lines.text[0]), "%lld %d %s: %s",
		 (long long)now_ms(), (int)level, part, line);
	pthread_mutex_unlock(&lines.lock);
}

_Noreturn void fail(const char *where, const char *format, ...)
{
	va_list args;

	if (any_failed) {
		/* a process that the sanitizer ended was first: its parent sees it now */
		pause_us(30000);
		while (atomic_exchange(any_failed, true))
			pause();
	}
	flockfile(stderr);
	fprintf(stderr, "stress: %s at %lld: %s: ", lines.process, (long long)now_ms(), where);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\nstress: the last lines of this process's log:\n", stderr);
	pthread_mutex_lock(&lines.lock);
	for (uint64_t i = lines.n > N_LINES ? lines.n - N_LINES : 0; i < lines.n; i++)
		fprintf(stderr, "  %s\n", lines.text[i % N_LINES]);
	if (getenv("STRESS_HOLD")) /* for a debugger */
		for (;;)
			pause();
	abort();
}

static struct watch *take_watch(void)
{
	for (int i = 0; i < N_WATCHES; i++)
		if (!atomic_exchange(&watches[i].taken, true))
			return &watches[i];
	fail("watch", "too many threads");
}

void watch_begin(const char *where, const char *what, int64_t limit_ms)
{
	if (!own_watch)
		own_watch = take_watch();
	own_watch->where = where;
	own_watch->limit = limit_ms;
	own_watch->since = now_ms();
	own_watch->what = what;
}

void watch_end(void)
{
	int64_t took = now_ms() - own_watch->since;
	const char *what = own_watch->what;

	own_watch->what = NULL;
	if (took > own_watch->limit)
		fail(own_watch->where, "%s took %lld ms", what, (long long)took);
}

static void *watch_all(void *arg)
{
	(void)arg;
	for (;;) {
		pause_us(200000);
		for (int i = 0; i < N_WATCHES; i++) {
			const char *what = watches[i].what;
			int64_t since = watches[i].since;

			/* the limit of another wait may stand there by now: a little later is
			 * enough */
			if (what && now_ms() - since > watches[i].limit + 1000 &&
			    since == watches[i].since && what == watches[i].what)
				fail(watches[i].where, "%s takes longer than %lld ms", what,
				     (long long)watches[i].limit);
		}
	}
	return NULL;
}

void report_begin(const char *process, _Atomic bool *failed)
{
	pthread_t thread;

	any_failed = failed;
	snprintf(lines.process, sizeof(lines.process), "%s", process);
	slime_log_set(keep_line, NULL, SLIME_LOG_INFO);
	if (pthread_create(&thread, NULL, watch_all, NULL) != 0)
		fail(process, "no thread");
	pthread_detach(thread);
}
