/* SPDX-License-Identifier: Apache-2.0 */
/* Many links between two contexts: echo calls on each in turn, one at a time; or what the links
 * take while they rest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/measure/link.h"
#include "bench/measure/measure.h"
#include "bench/load/stamp.h"
#include "bench/rounds/ticks.h"

struct lines {
	const struct options *opt;
	struct link first; /* not measured: memory of the contexts themselves came with it */
	struct link *more; /* opt->links of them, next to be called is at */
	uint64_t n;
	uint64_t at;
	struct slime_call *call;
	uint8_t *request, *reply;
	uint64_t number;
	const struct pair *pair;
	uint64_t before; /* bytes of both processes without these links */
};

static int open_more(struct lines *l, int channel)
{
	uint64_t n = (uint64_t)l->opt->links;
	int ret = 0;

	l->more = calloc(n, sizeof(*l->more));
	if (!l->more)
		return -ENOMEM;
	while (!ret && l->n < n) {
		ret = link_open_beside(&l->more[l->n], &l->first, l->opt, channel);
		l->n += !ret;
	}
	return ret;
}

static void close_all(struct lines *l)
{
	while (l->n)
		link_close_beside(&l->more[--l->n]);
	free(l->more);
	link_close(&l->first);
}

/* The bytes of this process that are in memory. */
static uint64_t resident(void)
{
	unsigned long long all, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &all, &pages) != 2)
		pages = 0;
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- the server ---- */

/* The client asks for our memory by a packet; false: it has ended. */
static bool tell_resident(int channel, int *ret)
{
	uint64_t bytes;
	char go;

	*ret = (int)pair_hear_some(channel, &go, 1);
	if (*ret <= 0)
		return false;
	bytes = resident();
	*ret = pair_tell(channel, &bytes, sizeof(bytes));
	return !*ret;
}

static int serve(void *arg, int channel)
{
	struct lines *l = arg;
	int ret = link_open(&l->first, l->opt, LINK_SERVER, channel);

	if (ret)
		return ret;
	if (tell_resident(channel, &ret))
		ret = open_more(l, channel);
	while (!ret && tell_resident(channel, &ret))
		;
	close_all(l);
	return ret;
}

/* ---- the client ---- */

static int call_on(struct lines *l, struct slime_endpoint *ep)
{
	uint64_t size = l->opt->rounds.size;
	const struct slime_call_args args = {
		.method = slime_rpc_method_id("echo"),
		.request = l->request,
		.request_len = size,
		.reply = l->reply,
		.reply_cap = size,
		.timeout_ms = -1, /* as the references have none */
	};
	int ret;

	stamp(l->request, size, ++l->number);
	ret = slime_call_start(ep, &args, l->call);
	if (!ret)
		ret = slime_call_wait(l->call, -1);
	if (!ret)
		ret = slime_call_status(l->call);
	if (!ret && (slime_call_reply_len(l->call) != size || !stamped(l->reply, size, l->number)))
		ret = -EILSEQ;
	return ret;
}

static int call_next(struct lines *l)
{
	int ret = call_on(l, l->more[l->at].ep);

	l->at = l->at + 1 < l->n ? l->at + 1 : 0;
	return ret;
}

static int round_of_calls(void *arg, struct rounds *r)
{
	struct lines *l = arg;
	uint64_t begin = ticks_ns(), end;
	int ret;

	do {
		ret = call_next(l);
		end = ticks_ns();
		rounds_add(r, end - begin, 2 * l->opt->rounds.size);
		begin = end;
	} while (!ret && !rounds_over(r, end));
	return ret;
}

static int resident_of_both(const struct lines *l, uint64_t *out)
{
	uint64_t theirs;
	int ret = pair_tell(l->pair->channel, "", 1);

	if (!ret)
		ret = pair_hear(l->pair->channel, &theirs, sizeof(theirs));
	if (!ret)
		*out = resident() + theirs;
	return ret;
}

static int round_of_rest(void *arg, struct rounds *r)
{
	struct lines *l = arg;
	uint64_t now = ticks_ns(), bytes = 0;
	uint64_t left = r->end_ns > now ? r->end_ns - now : 0;
	const struct timespec rest = { .tv_sec = (time_t)(left / SL_NS_PER_S),
				       .tv_nsec = (long)(left % SL_NS_PER_S) };
	int ret;

	nanosleep(&rest, NULL);
	ret = resident_of_both(l, &bytes);
	/* More than none, so that it is told. */
	r->resident = bytes > l->before ? (bytes - l->before) / l->n : 1;
	r->n_ops = 1;
	return ret;
}

static int call_all_once(struct lines *l)
{
	int ret = 0;

	for (uint64_t i = 0; i < l->n && !ret; i++)
		ret = call_next(l);
	return ret;
}

/* The first link and its call bring what the contexts have in any case. */
static int open_first(struct lines *l)
{
	uint64_t size = l->opt->rounds.size;
	int ret = link_open(&l->first, l->opt, LINK_CLIENT, l->pair->channel);

	if (ret)
		return ret;
	l->request = calloc(2, size + 1);
	if (!l->request)
		return -ENOMEM;
	l->reply = l->request + size;
	ret = slime_call_create(l->first.ctx, NULL, &l->call);
	if (!ret)
		ret = call_on(l, l->first.ep);
	return ret ? ret : resident_of_both(l, &l->before);
}

static int run(struct lines *l, const struct rounds_attr *attr, bool rests)
{
	struct rounds_side side = { .round = rests ? round_of_rest : round_of_calls,
				    .arg = l,
				    .pair = l->pair };
	int ret = open_first(l);

	if (!ret)
		ret = open_more(l, l->pair->channel);
	if (!ret)
		ret = call_all_once(l);
	return ret ? ret : rounds_run(attr, &side);
}

static int measure(const struct options *o, const struct rounds_attr *attr, bool rests)
{
	struct lines l = { .opt = o };
	struct pair pair;
	int ret = pair_start(&pair, serve, &l), end;

	if (ret)
		return ret;
	l.pair = &pair;
	ret = run(&l, attr, rests);
	slime_call_destroy(l.call);
	close_all(&l);
	free(l.request);
	end = pair_end(&pair);
	return ret ? ret : end;
}

int measure_links(const struct options *o, const struct rounds_attr *attr)
{
	return measure(o, attr, false);
}

int measure_rest(const struct options *o, const struct rounds_attr *attr)
{
	return measure(o, attr, true);
}
