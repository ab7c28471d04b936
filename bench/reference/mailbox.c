/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that spin on a word each: of size 0 the ping-pong of a cache line, else an echo of
 * three copies. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/reference/reference.h"
#include "bench/load/stamp.h"
#include "bench/rounds/ticks.h"

#define STOP UINT64_MAX /* instead of the next number: the round is over */

struct mailbox {
	_Alignas(64) _Atomic uint64_t asked;
	_Alignas(64) _Atomic uint64_t answered;
	_Alignas(64) uint8_t bytes[]; /* the request, then the reply */
};

struct talk {
	uint64_t size;
	uint64_t room;	 /* size in whole lines */
	uint64_t stride; /* from one mailbox to the next */
	uint64_t n_boxes;
	uint8_t *boxes;
	uint64_t *seen;	  /* the server's: the last number of each */
	uint8_t *request; /* the client's own */
	uint8_t *reply;
	uint64_t number;
	const struct pair *pair;
};

/* ---- the server ---- */

static inline struct mailbox *box_of(const struct talk *t, uint64_t i)
{
	return (struct mailbox *)(void *)(t->boxes + i * t->stride);
}

/* Whether that mailbox says stop. */
static inline bool look_at(const struct talk *t, uint64_t i)
{
	struct mailbox *box = box_of(t, i);
	uint64_t now = atomic_load_explicit(&box->asked, memory_order_acquire);

	if (now == t->seen[i])
		return false;
	t->seen[i] = now;
	if (now == STOP)
		return true;
	memcpy(box->bytes + t->room, box->bytes, t->size);
	atomic_store_explicit(&box->answered, now, memory_order_release);
	return false;
}

static void answer_until_stop(const struct talk *t)
{
	for (;;) {
		for (uint64_t i = 0; i < t->n_boxes; i++) {
			if (look_at(t, i))
				return;
		}
	}
}

/* A round begins with a packet, and ends with one of ours. */
static int serve(void *arg, int channel)
{
	struct talk *t = arg;
	char go;
	ssize_t n;
	int ret = 0;

	while (!ret && (n = pair_hear_some(channel, &go, 1)) > 0) {
		ret = pair_tell(channel, "", 1);
		answer_until_stop(t);
		if (!ret)
			ret = pair_tell(channel, "", 1);
	}
	return ret ? ret : (int)n;
}

/* ---- the client ---- */

static void trip(struct talk *t, struct mailbox *box)
{
	memcpy(box->bytes, t->request, t->size);
	atomic_store_explicit(&box->asked, t->number, memory_order_release);
	while (atomic_load_explicit(&box->answered, memory_order_acquire) != t->number)
		;
	memcpy(t->reply, box->bytes + t->room, t->size);
}

static int trips(struct talk *t, struct rounds *r)
{
	uint64_t begin = ticks_ns();
	uint64_t end, at = 0;

	do {
		stamp(t->request, t->size, ++t->number);
		trip(t, box_of(t, at));
		at = at + 1 < t->n_boxes ? at + 1 : 0;
		end = ticks_ns();
		rounds_add(r, end - begin, 2 * t->size);
		if (!stamped(t->reply, t->size, t->number))
			return -EILSEQ;
		begin = end;
	} while (!rounds_over(r, end));
	return 0;
}

static int talk_round(void *arg, struct rounds *r)
{
	struct talk *t = arg;
	char heard;
	int ret;

	ret = pair_tell(t->pair->channel, "", 1);
	if (!ret)
		ret = pair_hear(t->pair->channel, &heard, 1);
	if (!ret)
		ret = trips(t, r);
	atomic_store(&box_of(t, 0)->asked, STOP);
	return ret ? ret : pair_hear(t->pair->channel, &heard, 1);
}

static int open_talk(struct talk *t, uint64_t size, uint64_t n_boxes)
{
	void *boxes;

	*t = (struct talk){ .size = size, .room = (size + 63) / 64 * 64, .n_boxes = n_boxes };
	t->stride = sizeof(struct mailbox) + 2 * t->room;
	boxes = mmap(NULL, n_boxes * t->stride, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (boxes == MAP_FAILED)
		return -errno;
	t->boxes = boxes;
	t->seen = calloc(n_boxes, sizeof(*t->seen));
	t->request = aligned_alloc(64, t->room + 64);
	t->reply = aligned_alloc(64, t->room + 64);
	if (!t->seen || !t->request || !t->reply)
		return -ENOMEM;
	memset(t->request, 'q', size);
	memset(t->reply, 'r', size);
	return 0;
}

int reference_mailbox(const struct options *o, const struct rounds_attr *attr)
{
	struct talk t;
	struct pair pair;
	struct rounds_side side = { .round = talk_round, .arg = &t, .pair = &pair };
	int ret = open_talk(&t, o->rounds.size, (uint64_t)o->links);
	int end = 0;

	if (!ret)
		ret = pair_start(&pair, serve, &t);
	if (!ret) {
		t.pair = &pair;
		ret = rounds_run(attr, &side);
		end = pair_end(&pair);
	}
	free(t.seen);
	free(t.request);
	free(t.reply);
	return ret ? ret : end;
}
