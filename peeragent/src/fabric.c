/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/fabric.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <event2/buffer.h>

#include "base/thread.h"
#include <slime/rnr.h>

#define METRIC "slime_rdma_port_trouble_total"

struct fabric {
	struct slime_rnr_monitor *monitor; /* the thread's */
	uint32_t interval_ms;
	pthread_t thread;
	pthread_mutex_t lock; /* over what follows */
	pthread_cond_t wake;
	bool ending;
	char *text; /* of the last sample; NULL without counters */
	size_t len;
};

/* ---- text ---- */

/* A name is the kernel's word, but ends no label early. */
static void print_label(FILE *to, const char *name)
{
	for (; *name; name++)
		fputc(*name == '"' || *name == '\\' ? '_' : *name, to);
}

static void print_counters(FILE *to, const struct slime_rnr_counter *const *all, size_t n)
{
	fputs("# HELP " METRIC " what RDMA ports count of trouble, under their drivers' names\n"
	      "# TYPE " METRIC " counter\n",
	      to);
	for (size_t i = 0; i < n; i++) {
		fputs(METRIC "{device=\"", to);
		print_label(to, all[i]->device);
		fprintf(to, "\",port=\"%u\",kind=\"%s\",counter=\"%s\"} %" PRIu64 "\n",
			all[i]->port, slime_rnr_kind_name(all[i]->kind), all[i]->name,
			all[i]->value);
	}
}

/* Without memory the last text stays. */
static void renew_text(struct fabric *f)
{
	size_t n, len = 0;
	const struct slime_rnr_counter *const *all = slime_rnr_monitor_counters(f->monitor, &n);
	char *text = NULL, *old;
	FILE *to = open_memstream(&text, &len);

	if (!to)
		return;
	if (n)
		print_counters(to, all, n);
	if (fclose(to)) {
		free(text);
		return;
	}
	pthread_mutex_lock(&f->lock);
	old = f->text;
	f->text = text;
	f->len = len;
	pthread_mutex_unlock(&f->lock);
	free(old);
}

void fabric_print(struct fabric *f, struct evbuffer *out)
{
	pthread_mutex_lock(&f->lock);
	if (f->len)
		evbuffer_add(out, f->text, f->len);
	pthread_mutex_unlock(&f->lock);
}

/* ---- the thread ---- */

static struct timespec after(uint32_t ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

/* False when it is time to end. */
static bool rest(struct fabric *f)
{
	struct timespec until = after(f->interval_ms);
	bool ending;

	pthread_mutex_lock(&f->lock);
	while (!f->ending && pthread_cond_timedwait(&f->wake, &f->lock, &until) != ETIMEDOUT)
		;
	ending = f->ending;
	pthread_mutex_unlock(&f->lock);
	return !ending;
}

static void *ask(void *arg)
{
	struct fabric *f = arg;

	while (rest(f))
		if (!slime_rnr_monitor_sample(f->monitor))
			renew_text(f);
	return NULL;
}

static void init_locks(struct fabric *f)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&f->lock, NULL);
}

static void free_all(struct fabric *f)
{
	slime_rnr_monitor_destroy(f->monitor);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->wake);
	free(f->text);
	free(f);
}

int fabric_create(const char *sysfs_root, uint32_t interval_ms, struct fabric **out)
{
	struct fabric *f = calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return -ENOMEM;
	f->interval_ms = interval_ms;
	init_locks(f);
	ret = slime_rnr_monitor_create(sysfs_root, &f->monitor);
	if (!ret) {
		renew_text(f);
		ret = sl_thread_create(&f->thread, "slime-fabric", ask, f);
	}
	if (ret) {
		free_all(f);
		return ret;
	}
	*out = f;
	return 0;
}

void fabric_destroy(struct fabric *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->ending = true;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	free_all(f);
}
