/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/node.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stress/report.h"
#include "tests/stress/side.h"

static void *pump_main(void *arg)
{
	struct node *node = arg;
	struct pollfd fd = { .fd = slime_context_fd(node->ctx), .events = POLLIN };
	struct slime_event event;

	while (!node->stop) {
		if (node->manual)
			while (slime_context_poll(node->ctx) > 0 ||
			       slime_context_arm(node->ctx) == -EAGAIN)
				while (slime_context_next(node->ctx, &event))
					slot_dequeued(&event);
		while (slime_context_next(node->ctx, &event))
			slot_dequeued(&event);
		poll(&fd, 1, 20);
	}
	return NULL;
}

void node_reap(struct node *node, struct slot *slot)
{
	pthread_mutex_lock(&node->lock);
	slot->next = node->reaped;
	node->reaped = slot;
	pthread_mutex_unlock(&node->lock);
}

static void *reaper_main(void *arg)
{
	struct node *node = arg;

	while (!node->stop) {
		struct slot *all, *slot;
		bool any = false;

		pthread_mutex_lock(&node->lock);
		all = node->reaped;
		node->reaped = NULL;
		pthread_mutex_unlock(&node->lock);
		while ((slot = all)) {
			all = slot->next;
			if (slot_reap(slot))
				any = true;
			else
				node_reap(node, slot);
		}
		if (!any)
			pause_us(20);
	}
	return NULL;
}

static void *answerer_main(void *arg)
{
	struct node *node = arg;

	while (!node->stop)
		if (!serve_later(node, false))
			pause_us(1000);
	return NULL;
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void create_context(struct node *node)
{
	const struct options *options = &node->board->options;
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct dice dice =
		dice_of(options->seed, 2000 + (uint64_t)node->index, node->incarnation, 0);
	int ret;

	node->manual = roll_percent(&dice, 25);
	attr.manual = node->manual;
	attr.polling = roll_percent(&dice, 50) ? SLIME_POLLING_EVENT : SLIME_POLLING_ADAPTIVE;
	attr.spin_us = (uint32_t)roll_below(&dice, 200);
	attr.tcp_streams = 1 + (uint32_t)roll_below(&dice, 4);
	attr.shm_copy_in_submit = roll_percent(&dice, 50) ? 4096 : 1048576;
	attr.rpc_workers = 1 + (uint32_t)roll_below(&dice, 4);
	attr.foreign_memory = roll_percent(&dice, 30) ? SLIME_FOREIGN_AUTO : SLIME_FOREIGN_OFF;
	attr.tcp_user_timeout_ms = 10000; /* a busy machine is no dead peer */
	attr.rdma_devices = options->devices;
	attr.rdma_qps = 1 + (uint32_t)roll_below(&dice, 3);
	ret = slime_context_create(&attr, &node->ctx);
	if (ret)
		fail(node->where, "no context: %s", strerror(-ret));
}

static void begin_thread(const struct node *node, pthread_t *thread, void *(*run)(void *),
			 void *arg)
{
	if (pthread_create(thread, NULL, run, arg) != 0)
		fail(node->where, "no thread");
}

/* All that is left are requests that their handlers kept. */
static void destroy_context(struct node *node)
{
	int ret;

	serve_later(node, true);
	watch_begin(node->where, "slime_context_destroy()", WATCH_MS);
	ret = slime_context_destroy(node->ctx);
	watch_end();
	if (ret)
		fail(node->where, "context_destroy: %s, and all of it was destroyed",
		     strerror(-ret));
}

void node_run(struct board *board, int index)
{
	struct node node = { .board = board,
			     .index = index,
			     .incarnation = board->nodes[index].incarnation };
	struct side *sides[N_LINKS * 2];
	pthread_t threads[N_LINKS * 2];
	int n = 0, n_fds = count_fds();

	snprintf(node.where, sizeof(node.where), "node %d.%u", index, node.incarnation);
	pthread_mutex_init(&node.lock, NULL);
	create_context(&node);
	for (int i = 0; i < board->options.links; i++)
		for (int s = 0; s < 2; s++) {
			struct board_link *link = &board->links[i];
			struct side *side;

			if (link->node[s] != index)
				continue;
			side = sides[n++] = calloc(1, sizeof(*side));
			if (!side)
				fail(node.where, "no memory");
			side->node = &node;
			side->link = i;
			side->index = s;
			side->own = &link->side[s];
			side->peer = &link->side[!s];
			side->peer_node = link->node[!s];
		}
	begin_thread(&node, &node.pump, pump_main, &node);
	begin_thread(&node, &node.reaper, reaper_main, &node);
	begin_thread(&node, &node.answerer, answerer_main, &node);
	for (int i = 0; i < n; i++)
		begin_thread(&node, &threads[i], side_main, sides[i]);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	node.stop = true;
	pthread_join(node.pump, NULL);
	pthread_join(node.reaper, NULL);
	pthread_join(node.answerer, NULL);
	destroy_context(&node);
	pthread_mutex_destroy(&node.lock);
	for (int i = 0; i < n; i++)
		free(sides[i]);
	if (!board->options.threads && count_fds() > n_fds + 1)
		fail(node.where, "%d descriptors at the end, %d before", count_fds(), n_fds);
}
