/* SPDX-License-Identifier: Apache-2.0 */
#include "src/progress/manual.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "src/progress/context.h"

int sl_manual_open(struct slime_context *ctx)
{
	const int fds[] = { ctx->poller.fd, ctx->completions.fd };
	struct epoll_event e = { .events = EPOLLIN };
	int ret = 0;

	ctx->manual_fd = ctx->attr.manual ? epoll_create1(EPOLL_CLOEXEC) : -1;
	if (!ctx->attr.manual)
		return 0;
	if (ctx->manual_fd < 0)
		return -errno;
	ctx->tells_of_poller = true;
	for (int i = 0; i < 2 && !ret; i++)
		ret = epoll_ctl(ctx->manual_fd, EPOLL_CTL_ADD, fds[i], &e) ? -errno : 0;
	if (ret)
		close(ctx->manual_fd);
	return ret;
}

void sl_manual_tell(struct slime_context *ctx, bool tell)
{
	struct epoll_event e = { .events = tell ? EPOLLIN : 0 };
	int ret = 0;

	pthread_mutex_lock(&ctx->progress.lock);
	if (ctx->tells_of_poller != tell)
		ret = epoll_ctl(ctx->manual_fd, EPOLL_CTL_MOD, ctx->poller.fd, &e);
	ctx->tells_of_poller = tell;
	pthread_mutex_unlock(&ctx->progress.lock);
	/* The set has the descriptor, and nothing is allocated for a change. */
	assert(!ret);
	(void)ret;
}

void sl_manual_close(struct slime_context *ctx)
{
	if (ctx->manual_fd >= 0)
		close(ctx->manual_fd);
}
