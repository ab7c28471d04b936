/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/mutate.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/stress/dice.h"
#include "tests/stress/report.h"

#define HEAD	 96 /* of what is sent at once: where heads and their first pieces are */
#define MAPS_MAX 64
#define MAP_MOST (1024 * 1024) /* of a mapping is written to: rings and slots are at its begin */

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dice send_dice;
static _Atomic uint32_t one_in;
static _Atomic uint64_t *n_sends, *n_words;
static struct dice word_dice;
static uint32_t words_per_ms;

uint64_t mutate_word(struct dice *dice)
{
	static const uint64_t words[] = { 0,	    1,		2,	   63,	       64,
					  1024,	    16384,	65535,	   65536,      0x7fffffff,
					  1u << 31, UINT32_MAX, INT64_MAX, UINT64_MAX, 8 };

	return roll_percent(dice, 30) ? roll(dice)
				      : words[roll_below(dice, sizeof(words) / sizeof(words[0]))];
}

void mutate_bytes(struct dice *dice, uint8_t *bytes, size_t len)
{
	size_t width = (size_t)1 << roll_below(dice, 4), at;
	uint64_t word = mutate_word(dice);

	if (len < width)
		width = 1;
	at = roll_below(dice, len - width + 1) / width * width;
	if (roll_percent(dice, 40))
		bytes[at] ^= (uint8_t)(1u << roll_below(dice, 8));
	else if (roll_percent(dice, 30))
		bytes[at] = (uint8_t)(bytes[at] + (roll_percent(dice, 50) ? 1 : -1));
	else
		memcpy(bytes + at, &word, width);
}

static bool is_chosen(void)
{
	uint32_t n = one_in;

	return n && roll_below(&send_dice, n) == 0;
}

/* The first part is copied and changed; it may be cut short, or be sent twice. */
static ssize_t send_changed(int fd, const struct msghdr *msg, int flags)
{
	uint8_t copy[HEAD];
	size_t len = msg->msg_iovlen ? msg->msg_iov[0].iov_len : 0;
	struct iovec part = { copy, len < HEAD ? len : HEAD };
	struct msghdr changed = *msg;
	ssize_t n;

	if (!len)
		return __real_sendmsg(fd, msg, flags);
	memcpy(copy, msg->msg_iov[0].iov_base, part.iov_len);
	for (uint64_t i = 0, times = 1 + roll_below(&send_dice, 3); i < times; i++)
		mutate_bytes(&send_dice, copy, part.iov_len);
	changed.msg_iov = &part;
	changed.msg_iovlen = 1;
	if (changed.msg_controllen && roll_percent(&send_dice, 20))
		changed.msg_controllen = 0; /* without its descriptors */
	if (roll_percent(&send_dice, 10))
		(void)__real_sendmsg(fd, &changed, flags);
	if (roll_percent(&send_dice, 10))
		return (ssize_t)part.iov_len; /* it is lost */
	n = __real_sendmsg(fd, &changed, flags);
	if (roll_percent(&send_dice, 5))
		shutdown(fd, SHUT_WR);
	return n;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n;

	if (!one_in)
		return __real_sendmsg(fd, msg, flags);
	pthread_mutex_lock(&lock);
	if (is_chosen()) {
		atomic_fetch_add(n_sends, 1);
		n = send_changed(fd, msg, flags);
	} else {
		n = __real_sendmsg(fd, msg, flags);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
	struct iovec part = { (void *)(uintptr_t)bytes, len };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	return one_in ? __wrap_sendmsg(fd, &msg, flags) : __real_send(fd, bytes, len, flags);
}

void mutate_sends(uint64_t seed, uint32_t n, _Atomic uint64_t *count)
{
	send_dice = (struct dice){ seed };
	n_sends = count;
	one_in = n;
}

struct map {
	uint8_t *at;
	size_t len;
};

/* Mappings of memfds that this process may write: rings, slots, pages, the regions of the peer. */
static int find_maps(struct map *maps)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (file && n < MAPS_MAX && fgets(line, sizeof(line), file)) {
		unsigned long from, to;
		char rights[8];

		if (!strstr(line, "memfd:") ||
		    sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || rights[1] != 'w' ||
		    rights[3] != 's')
			continue;
		maps[n].at = (uint8_t *)from; /* NOLINT: that is what the file says */
		maps[n++].len = to - from < MAP_MOST ? to - from : MAP_MOST;
	}
	if (file)
		fclose(file);
	return n;
}

static void *write_words(void *arg)
{
	struct map maps[MAPS_MAX];
	int n = 0;

	(void)arg;
	for (uint64_t ms = 0;; ms++) {
		if (ms % 16 == 0)
			n = find_maps(maps);
		for (uint32_t i = 0; n && i < words_per_ms; i++) {
			struct map *map = &maps[roll_below(&word_dice, (uint64_t)n)];
			/* most of it at the begin, where indexes are */
			size_t most =
				roll_percent(&word_dice, 50) && map->len > 4096 ? 4096 : map->len;
			size_t at = roll_below(&word_dice, most / 64) * 64;

			mutate_bytes(&word_dice, map->at + at, 64);
			atomic_fetch_add(n_words, 1);
		}
		pause_us(1000);
	}
	return NULL;
}

void mutate_memory(uint64_t seed, uint32_t per_ms, _Atomic uint64_t *count)
{
	pthread_t thread;

	word_dice = (struct dice){ seed };
	n_words = count;
	words_per_ms = per_ms;
	if (pthread_create(&thread, NULL, write_words, NULL) == 0)
		pthread_detach(thread);
}
