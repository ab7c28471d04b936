/* SPDX-License-Identifier: Apache-2.0 */
/* The page and the board of a peer's context: mapped once, however many links there are to it. */
#include <stdlib.h>
#include <sys/stat.h>

#include "src/transport/shm/shm.h"

/* By their files: what a peer says of itself is not asked. */
static struct shm_peer *find(struct shm_transport *t, const struct stat *page,
			     const struct stat *board)
{
	struct sl_list *e;

	sl_list_for_each (e, &t->peers) {
		struct shm_peer *p = SL_CONTAINER_OF(e, struct shm_peer, link);

		if (p->dev == page->st_dev && p->page_ino == page->st_ino &&
		    p->board_dev == board->st_dev && p->board_ino == board->st_ino)
			return p;
	}
	return NULL;
}

static int create(struct shm_transport *t, int page_fd, int board_fd, struct shm_peer **out)
{
	struct shm_peer *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	ret = shm_page_map(page_fd, &p->page);
	if (!ret)
		ret = shm_board_map(board_fd, &p->board);
	if (ret) {
		shm_page_unmap(p->page);
		free(p);
		return ret;
	}
	sl_list_append(&t->peers, &p->link);
	*out = p;
	return 0;
}

int shm_peer_get(struct shm_transport *t, int page_fd, int board_fd, struct shm_peer **out)
{
	struct stat page, board;
	struct shm_peer *p;
	int ret = 0;

	if (fstat(page_fd, &page) || fstat(board_fd, &board))
		return -errno;
	p = find(t, &page, &board);
	if (!p)
		ret = create(t, page_fd, board_fd, &p);
	if (ret)
		return ret;
	p->dev = page.st_dev;
	p->page_ino = page.st_ino;
	p->board_dev = board.st_dev;
	p->board_ino = board.st_ino;
	p->n_links++;
	*out = p;
	return 0;
}

void shm_peer_put(struct shm_peer *p)
{
	if (!p || --p->n_links)
		return;
	sl_list_remove(&p->link);
	shm_page_unmap(p->page);
	shm_board_unmap(p->board);
	free(p);
}

void shm_peer_forget(struct shm_peer *p)
{
	if (p && !--p->n_links)
		free(p);
}
