/* SPDX-License-Identifier: Apache-2.0 */
#include "http/budget.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/random.h>

#include "base/loopback.h"
#include "nanoctrl/net/loop.h"

#define SWOLLEN	      8388608 /* what is worth to be given back */
#define SHRUNK	      1048576
#define TRIM_MS	      1000
#define ADDRESS_SHARE 4 /* of all: what one address beyond loopback may hold */

#define FIRST_LARGE 15 /* the class of BUDGET_SMALL + 1 bytes */

_Static_assert(BUDGET_SMALL == 1 << (FIRST_LARGE - 1), "the first class of large ones");

/* The bits of bytes - 1. */
static unsigned class_of(size_t bytes)
{
	unsigned n = bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;

	return n < BUDGET_CLASSES ? n : BUDGET_CLASSES - 1;
}

void budget_init(struct budget *b, size_t most, struct event *trim)
{
	memset(b, 0, sizeof(*b));
	b->most = most;
	b->reserve = most / 8 < BUDGET_RESERVE ? most / 8 : BUDGET_RESERVE;
	b->trim = trim;
	for (unsigned i = 0; i < BUDGET_CLASSES; i++)
		sl_list_init(&b->classes[i]);
	/* Without randomness a client could choose addresses that share an entry. */
	if (getrandom(&b->seed, sizeof(b->seed), GRND_NONBLOCK) != (ssize_t)sizeof(b->seed))
		b->seed = (uint64_t)(uintptr_t)b;
}

/* The part of an address that tells clients apart: an IPv4 address, or the network of an IPv6
 * address. */
static size_t network_of(const char *peer, unsigned char out[16])
{
	if (!strncmp(peer, "::ffff:", 7))
		peer += 7;
	if (inet_pton(AF_INET, peer, out) == 1)
		return 4;
	return inet_pton(AF_INET6, peer, out) == 1 ? 8 : 0;
}

void budget_enter(struct budget *b, struct budget_share *s, const char *peer)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ b->seed;
	unsigned char bytes[16];
	size_t len = sl_is_loopback_address(peer) ? 0 : network_of(peer, bytes);

	for (size_t i = 0; i < len; i++) /* FNV-1a */
		h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
	s->address = len ? (unsigned)((h ^ h >> 32) % BUDGET_ADDRESSES) : BUDGET_ADDRESSES;
	s->bytes = 0;
	sl_list_init(&s->node);
}

/* The difference is unsigned, and wraps. */
static void count(struct budget *b, size_t before, size_t now)
{
	b->total += now - before;
	if (before > BUDGET_SMALL)
		b->large -= before;
	if (now > BUDGET_SMALL)
		b->large += now;
	if (b->total > SWOLLEN) {
		b->swollen = true;
	} else if (b->swollen && b->total < SHRUNK) {
		b->swollen = false;
		if (b->trim)
			loop_set_timer(b->trim, TRIM_MS);
	}
}

static void count_address(struct budget *b, const struct budget_share *s, size_t now)
{
	if (s->address < BUDGET_ADDRESSES)
		b->of_address[s->address] += now - s->bytes;
}

/* A share that stays in its class keeps its position. */
void budget_hold(struct budget *b, struct budget_share *s, size_t bytes)
{
	if (bytes == s->bytes)
		return;
	count(b, s->bytes, bytes);
	count_address(b, s, bytes);
	if (!bytes || !s->bytes || class_of(bytes) != class_of(s->bytes)) {
		sl_list_remove(&s->node);
		if (bytes)
			sl_list_append(&b->classes[class_of(bytes)], &s->node);
	}
	s->bytes = bytes;
}

size_t budget_keep(struct budget *b, struct budget_share *s)
{
	size_t bytes = s->bytes;

	count_address(b, s, 0);
	sl_list_remove(&s->node);
	s->bytes = 0;
	return bytes;
}

void budget_release(struct budget *b, size_t bytes)
{
	count(b, bytes, 0);
}

/* The oldest of the largest, of this class and above; NULL: none. */
static struct budget_share *largest(struct budget *b, unsigned least)
{
	for (unsigned i = BUDGET_CLASSES; i-- > least;)
		if (!sl_list_empty(&b->classes[i]))
			return SL_CONTAINER_OF(b->classes[i].next, struct budget_share, node);
	return NULL;
}

struct budget_share *budget_payer(struct budget *b, struct budget_share *s)
{
	if (s->address < BUDGET_ADDRESSES && b->of_address[s->address] > b->most / ADDRESS_SHARE)
		return s;
	if (b->total > b->most)
		return largest(b, 0);
	return b->large > b->most - b->reserve ? largest(b, FIRST_LARGE) : NULL;
}
