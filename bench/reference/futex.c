/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that sleep on one word and wake each other. */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/reference/reference.h"
#include "bench/rounds/ticks.h"

enum turn { CLIENT, SERVER, END };

static void wake(_Atomic uint32_t *word, uint32_t turn)
{
	atomic_store(word, turn);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t sleep_while(_Atomic uint32_t *word, uint32_t turn)
{
	uint32_t now;

	while ((now = atomic_load(word)) == turn)
		syscall(SYS_futex, word, FUTEX_WAIT, turn, NULL, NULL, 0);
	return now;
}

static int serve(void *arg, int channel)
{
	_Atomic uint32_t *word = arg;

	(void)channel;
	while (sleep_while(word, CLIENT) != END)
		wake(word, CLIENT);
	return 0;
}

static int futex_round(void *arg, struct rounds *r)
{
	_Atomic uint32_t *word = arg;
	uint64_t begin = ticks_ns();
	uint64_t now;

	do {
		wake(word, SERVER);
		sleep_while(word, SERVER);
		now = ticks_ns();
		rounds_add(r, now - begin, 0);
		begin = now;
	} while (!rounds_over(r, begin));
	return 0;
}

int reference_futex(const struct options *o, const struct rounds_attr *attr)
{
	struct pair pair;
	struct rounds_side side = { .round = futex_round, .pair = &pair };
	int ret, end;

	(void)o;
	side.arg = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (side.arg == MAP_FAILED)
		return -errno;
	ret = pair_start(&pair, serve, side.arg);
	if (ret)
		return ret;
	ret = rounds_run(attr, &side);
	wake(side.arg, END);
	end = pair_end(&pair);
	return ret ? ret : end;
}
