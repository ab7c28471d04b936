/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/thread.h"
#include "pages/src/pull.h"

/* The link of a writer comes up at our end, too: a moment later. */
#define LINK_MS 5000

/* A key of the put. */
struct target {
	uint32_t page;
	uint64_t offset;   /* of the page, in the tenant's memory */
	uint64_t checksum; /* as the writer says */
	int status;	   /* 0: reserved */
};

struct pull {
	struct sl_list node; /* of free, or done */
	struct pulls *pulls;
	struct slime_op *op;
	struct tenant *tenant;
	struct slime_rpc_request *req;
	struct slime_endpoint *ep;
	bool replace;
	uint32_t n_targets;
	struct target *targets;
	struct slime_remote_mr *regions;
	uint8_t n_regions;
	struct slime_xfer *xfers;
	size_t n_xfers, cap_xfers;
};

struct pulls {
	struct slime_agent *agent;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool thread_runs;
	bool stopping; /* no more are accepted */
	bool ended;    /* and none is left */
	unsigned n_busy;
	struct sl_list free;
	struct sl_list done; /* the bytes are there, or do not come */
	struct pull all[PULLS_MAX];
};

static void refuse(struct slime_rpc_request *req, int err, const char *message)
{
	slime_rpc_reply_error(req, (uint32_t)-err, message);
}

/* ---- the thread that commits ---- */

/* In the place of the one it holds. pulls_stop() closes those that are held. */
static void hold_endpoint(struct pull *p, struct slime_endpoint *ep)
{
	struct slime_endpoint *former;

	pthread_mutex_lock(&p->pulls->lock);
	former = p->ep;
	p->ep = ep;
	pthread_mutex_unlock(&p->pulls->lock);
	if (former)
		slime_agent_endpoint_put(p->pulls->agent, former);
}

static void clean(struct pull *p)
{
	struct pulls *pulls = p->pulls;

	free(p->targets);
	free(p->regions);
	free(p->xfers);
	p->targets = NULL;
	p->regions = NULL;
	p->xfers = NULL;
	p->n_targets = p->n_regions = 0;
	p->n_xfers = p->cap_xfers = 0;
	hold_endpoint(p, NULL);
	pthread_mutex_lock(&pulls->lock);
	sl_list_append(&pulls->free, &p->node);
	pulls->n_busy--;
	pthread_cond_broadcast(&pulls->changed);
	pthread_mutex_unlock(&pulls->lock);
}

static void answer(struct pull *p)
{
	uint8_t *reply = slime_rpc_reply_buffer(p->req, p->n_targets * sizeof(uint32_t));

	if (!reply && p->n_targets) {
		refuse(p->req, -ENOBUFS, "the statuses do not fit");
		return;
	}
	for (uint32_t i = 0; i < p->n_targets; i++)
		sl_put_le32(reply + i * sizeof(uint32_t), (uint32_t)p->targets[i].status);
	slime_rpc_reply_commit(p->req, p->n_targets * sizeof(uint32_t));
}

/* All pages of a put share the fate of its one batch. */
static void finish(struct pull *p, int status)
{
	struct page_store *store = p->tenant->store;

	for (uint32_t i = 0; i < p->n_targets; i++) {
		struct target *t = &p->targets[i];

		if (t->status)
			continue;
		if (status)
			page_store_abort(store, t->page);
		t->status = status ? status
				   : page_store_commit(store, t->page, t->checksum, p->replace);
	}
	answer(p);
	clean(p);
}

/* The op can be used again, and p be freed, once on_bytes() has returned. */
static void wait_for_callback(struct pull *p)
{
	while (!slime_op_test(p->op) && slime_op_wait(p->op, -1) == -ETIMEDOUT)
		;
}

static void *commit_pages(void *arg)
{
	struct pulls *pulls = arg;
	struct sl_list *node;

	pthread_mutex_lock(&pulls->lock);
	for (;;) {
		node = sl_list_pop(&pulls->done);
		if (node) {
			struct pull *p = SL_CONTAINER_OF(node, struct pull, node);

			pthread_mutex_unlock(&pulls->lock);
			wait_for_callback(p);
			finish(p, slime_op_status(p->op));
			pthread_mutex_lock(&pulls->lock);
		} else if (pulls->ended) {
			break;
		} else {
			pthread_cond_wait(&pulls->changed, &pulls->lock);
		}
	}
	pthread_mutex_unlock(&pulls->lock);
	return NULL;
}

/* On the thread that makes progress: computing checksums here would hold up its links. */
static void on_bytes(void *arg, struct slime_op *op)
{
	struct pull *p = arg;
	struct pulls *pulls = p->pulls;

	(void)op;
	pthread_mutex_lock(&pulls->lock);
	sl_list_append(&pulls->done, &p->node);
	pthread_cond_broadcast(&pulls->changed);
	pthread_mutex_unlock(&pulls->lock);
}

/* ---- reading a request ---- */

static int read_regions(struct pull *p, struct sl_reader *r)
{
	uint8_t n = sl_read_u8(r);

	if (n > PAGES_REGIONS_MAX)
		return -EINVAL;
	p->regions = calloc(n ? n : 1, sizeof(*p->regions));
	if (!p->regions)
		return -ENOMEM;
	for (; p->n_regions < n; p->n_regions++) {
		uint16_t len = sl_read_u16(r);
		const uint8_t *desc = sl_read_span(r, len);

		if (!desc || slime_remote_mr_import(desc, len, &p->regions[p->n_regions]))
			return -EINVAL;
	}
	return r->failed ? -EINVAL : 0;
}

static int add_xfer(struct pull *p, const struct slime_xfer *x)
{
	if (p->n_xfers == p->cap_xfers) {
		size_t cap = p->cap_xfers ? 2 * p->cap_xfers : 2 * (size_t)p->n_targets;
		struct slime_xfer *more = realloc(p->xfers, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->xfers = more;
		p->cap_xfers = cap;
	}
	p->xfers[p->n_xfers++] = *x;
	return 0;
}

struct source {
	uint8_t region;
	uint64_t offset;
	uint32_t len;
};

static int read_sources(struct pull *p, struct sl_reader *r, struct source sources[PAGES_BUFS_MAX],
			uint8_t *n, uint64_t *len)
{
	*n = sl_read_u8(r);
	*len = 0;
	if (*n > PAGES_BUFS_MAX)
		return -EINVAL;
	for (uint8_t i = 0; i < *n; i++) {
		sources[i].region = sl_read_u8(r);
		sources[i].offset = sl_read_u64(r);
		sources[i].len = sl_read_u32(r);
		if (sources[i].region >= p->n_regions)
			return -EINVAL;
		*len += sources[i].len;
	}
	return r->failed ? -EINVAL : 0;
}

static int add_sources(struct pull *p, const struct target *t, const struct source *sources,
		       uint8_t n)
{
	uint64_t offset = t->offset;
	int ret = 0;

	for (uint8_t i = 0; i < n && !ret; i++) {
		struct slime_xfer x = {
			.local = p->tenant->mr,
			.remote = &p->regions[sources[i].region],
			.local_offset = offset,
			.remote_offset = sources[i].offset,
			.len = sources[i].len,
		};

		if (x.len)
			ret = add_xfer(p, &x);
		offset += x.len;
	}
	return ret;
}

/* One key: an error makes the request malformed; what else fails is the key's status. */
static int read_target(struct pull *p, struct sl_reader *r)
{
	struct target *t = &p->targets[p->n_targets];
	struct source sources[PAGES_BUFS_MAX];
	struct pages_key key;
	uint64_t len;
	uint8_t n;

	if (!pages_key_read(r, &key) || read_sources(p, r, sources, &n, &len))
		return -EINVAL;
	t->checksum = sl_read_u64(r);
	if (r->failed)
		return -EINVAL;
	p->n_targets++;
	t->status = len > UINT32_MAX
			    ? -EMSGSIZE
			    : page_store_reserve(p->tenant->store, key.at, key.len, (uint32_t)len,
						 p->replace, &t->page, &t->offset);
	return t->status ? 0 : add_sources(p, t, sources, n);
}

static int read_targets(struct pull *p, uint32_t n, struct sl_reader *r)
{
	int ret = 0;

	p->targets = calloc(n ? n : 1, sizeof(*p->targets));
	if (!p->targets)
		return -ENOMEM;
	while (p->n_targets < n && !ret)
		ret = read_target(p, r);
	return ret ? ret : r->failed || r->left ? -EINVAL : 0;
}

static void give_pages_back(struct pull *p)
{
	for (uint32_t i = 0; i < p->n_targets; i++)
		if (!p->targets[i].status)
			page_store_abort(p->tenant->store, p->targets[i].page);
}

static struct pull *take_pull(struct pulls *pulls)
{
	struct sl_list *node = NULL;

	pthread_mutex_lock(&pulls->lock);
	if (!pulls->stopping)
		node = sl_list_pop(&pulls->free);
	if (node)
		pulls->n_busy++;
	pthread_mutex_unlock(&pulls->lock);
	return node ? SL_CONTAINER_OF(node, struct pull, node) : NULL;
}

static int begin(struct pull *p, const struct pages_head *head, struct sl_reader *r)
{
	struct slime_endpoint *ep;
	char writer[SLIME_AGENT_NAME_MAX + 1], profile[SLIME_AGENT_NAME_MAX + 1];
	int ret;

	if (!pages_name_read(r, writer, SLIME_AGENT_NAME_MAX) ||
	    !pages_name_read(r, profile, SLIME_AGENT_NAME_MAX))
		return -EINVAL;
	ret = read_regions(p, r);
	if (!ret)
		ret = slime_agent_endpoint_get(p->pulls->agent, writer, profile, LINK_MS, &ep);
	if (!ret) {
		hold_endpoint(p, ep);
		ret = read_targets(p, head->n, r);
	}
	if (ret)
		give_pages_back(p);
	return ret;
}

void pulls_begin(struct pulls *pulls, struct tenant *t, struct slime_rpc_request *req,
		 const struct pages_head *head, struct sl_reader *r)
{
	struct pull *p = take_pull(pulls);
	int ret;

	if (!p) {
		refuse(req, -EAGAIN, "too many puts are under way");
		return;
	}
	p->tenant = t;
	p->req = req;
	p->replace = head->flags & SLIME_PAGES_REPLACE;
	ret = begin(p, head, r);
	if (ret) {
		refuse(req, ret,
		       ret == -EINVAL ? "malformed put" : "cannot read the pages from the writer");
		clean(p);
		return;
	}
	ret = slime_read(p->ep, p->xfers, p->n_xfers, 0, p->op);
	if (ret)
		finish(p, ret);
}

/* ---- life ---- */

static int make_ops(struct pulls *pulls)
{
	for (int i = 0; i < PULLS_MAX; i++) {
		struct pull *p = &pulls->all[i];
		struct slime_op_attr attr = { .fn = on_bytes, .arg = p };
		int ret = slime_op_create(slime_agent_context(pulls->agent), &attr, &p->op);

		if (ret)
			return ret;
		p->pulls = pulls;
		sl_list_append(&pulls->free, &p->node);
	}
	return 0;
}

int pulls_create(struct slime_agent *agent, struct pulls **out)
{
	struct pulls *pulls = calloc(1, sizeof(*pulls));
	pthread_condattr_t clock;
	int ret;

	if (!pulls)
		return -ENOMEM;
	pulls->agent = agent;
	pthread_mutex_init(&pulls->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&pulls->changed, &clock);
	pthread_condattr_destroy(&clock);
	sl_list_init(&pulls->free);
	sl_list_init(&pulls->done);
	ret = make_ops(pulls);
	if (!ret)
		ret = sl_thread_create(&pulls->thread, "slime-pages-put", commit_pages, pulls);
	pulls->thread_runs = !ret;
	if (ret) {
		pulls_destroy(pulls);
		return ret;
	}
	*out = pulls;
	return 0;
}

/* Closing their endpoints ends the reads: those of a link whose writer stands still, too. */
static void close_endpoints(struct pulls *pulls)
{
	for (int i = 0; i < PULLS_MAX; i++)
		if (pulls->all[i].ep)
			slime_endpoint_close(pulls->all[i].ep);
}

void pulls_stop(struct pulls *pulls)
{
	pthread_mutex_lock(&pulls->lock);
	pulls->stopping = true;
	while (pulls->n_busy) {
		struct timespec soon;

		close_endpoints(pulls);
		clock_gettime(CLOCK_MONOTONIC, &soon);
		soon.tv_sec++;
		pthread_cond_timedwait(&pulls->changed, &pulls->lock, &soon);
	}
	pulls->ended = true;
	pthread_cond_broadcast(&pulls->changed);
	pthread_mutex_unlock(&pulls->lock);
}

void pulls_destroy(struct pulls *pulls)
{
	if (!pulls)
		return;
	pulls_stop(pulls);
	if (pulls->thread_runs)
		pthread_join(pulls->thread, NULL);
	for (int i = 0; i < PULLS_MAX; i++)
		(void)slime_op_destroy(pulls->all[i].op);
	pthread_cond_destroy(&pulls->changed);
	pthread_mutex_destroy(&pulls->lock);
	free(pulls);
}
