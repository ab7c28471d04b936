/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/board.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/stress/report.h"

static const int link_nodes[N_LINKS][2] = { { 0, 1 }, { 2, 0 }, { 1, 2 }, { 0, 1 } };

struct board *board_create(const struct options *options)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;

	if (board == MAP_FAILED)
		fail("board", "no memory");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	board->options = *options;
	for (int i = 0; i < N_LINKS; i++) {
		memcpy(board->links[i].node, link_nodes[i], sizeof(link_nodes[i]));
		for (int s = 0; s < 2; s++)
			for (int a = 0; a < N_AREAS; a++)
				pthread_mutex_init(&board->links[i].side[s].areas[a].lock, &attr);
	}
	pthread_mutexattr_destroy(&attr);
	return board;
}

bool board_does(const struct board *board, const char *word)
{
	const char *at = board->options.without;
	size_t len = strlen(word);

	for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, word, len) == 0 && (at[len] == ',' || !at[len]))
			return false;
	return true;
}

void area_lock(struct area *area)
{
	int ret = pthread_mutex_lock(&area->lock);

	/* The bytes that its owner was to know are still unknown: they become known last. */
	if (ret == EOWNERDEAD)
		pthread_mutex_consistent(&area->lock);
	else if (ret)
		fail("board", "a lock: %s", strerror(ret));
}

void area_unlock(struct area *area)
{
	pthread_mutex_unlock(&area->lock);
}
