/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/thread.h"
#include "pages/src/pull.h"

/* The link of a writer comes up at our end, too: a moment later. */
#define LINK_MS	     5000
#define LINK_LOOK_MS 5
/* Getting an endpoint from the agent's loop takes two switches of threads, so endpoints of writers
 * are kept for a while. A broken one is dropped at the next check. */
#define KEEP_MS	     10000
#define KEEP_LOOK_MS 100
#define NAME_MAX_LEN (SLIME_AGENT_NAME_MAX + 1)
/* Pages are read in steps of about so many bytes, and checked while these are in a cache of the CPU
 * that read them: of the thread that makes progress, which looks at its links between two steps. */
#define STEP_BYTES (UINT64_C(512) << 10)

/* A key of the put. */
struct target {
	uint32_t page;
	uint64_t offset;   /* of the page, in the tenant's memory */
	uint64_t checksum; /* as the writer says */
	uint64_t len;
	size_t xfers_end;
	int status; /* 0: reserved */
};

/* An endpoint that is kept; all under the lock. */
struct writer {
	struct slime_endpoint *ep; /* NULL: the place is free */
	char name[NAME_MAX_LEN], profile[NAME_MAX_LEN];
	unsigned n_pulls;
	uint64_t used_ns;
};

struct pull {
	struct sl_list node; /* of free, or unlinked */
	struct pulls *pulls;
	struct slime_op *op;
	struct tenant *tenant;
	struct slime_rpc_request *req;
	struct writer *writer;
	/* While there is no link: */
	char name[NAME_MAX_LEN], profile[NAME_MAX_LEN];
	uint64_t until_ns;
	struct sl_reader r; /* behind these */

	bool replace;
	uint32_t n_asked;
	uint32_t n_targets;
	struct target *targets;
	struct slime_remote_mr *regions;
	uint8_t n_regions;
	struct slime_xfer *xfers;
	size_t n_xfers, cap_xfers;
	uint32_t step, step_end; /* targets of this step */
};

struct pulls {
	struct slime_agent *agent;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool thread_runs;
	bool stopping; /* no pull begins any more */
	unsigned n_busy;
	struct sl_list free;
	struct sl_list unlinked; /* no endpoint leads to their writers yet */
	struct pull all[PULLS_MAX];
	struct writer writers[PULLS_MAX];
};

static void refuse(struct slime_rpc_request *req, int err, const char *message)
{
	slime_rpc_reply_error(req, (uint32_t)-err, message);
}

/* ---- writers ---- */

static bool is_connected(const struct slime_endpoint *ep)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* The writer of this name, for one pull more; NULL: no endpoint is kept that leads to it. */
static struct writer *take_writer(struct pulls *pulls, const char *name, const char *profile)
{
	struct writer *found = NULL;

	pthread_mutex_lock(&pulls->lock);
	for (int i = 0; i < PULLS_MAX && !found; i++) {
		struct writer *w = &pulls->writers[i];

		if (w->ep && !strcmp(w->name, name) && !strcmp(w->profile, profile) &&
		    is_connected(w->ep))
			found = w;
	}
	if (found) {
		found->n_pulls++;
		found->used_ns = sl_clock_ns();
	}
	pthread_mutex_unlock(&pulls->lock);
	return found;
}

/* For one pull of it. There is always a place: as many as pulls, and unused writers are replaced.
 */
static struct writer *keep_writer(struct pulls *pulls, const struct pull *p,
				  struct slime_endpoint *ep)
{
	struct slime_endpoint *former;
	struct writer *w = NULL;

	pthread_mutex_lock(&pulls->lock);
	for (int i = 0; i < PULLS_MAX; i++) {
		struct writer *other = &pulls->writers[i];

		if (!other->n_pulls && (!w || !other->ep || (w->ep && other->used_ns < w->used_ns)))
			w = other;
	}
	former = w->ep;
	w->ep = ep;
	w->n_pulls = 1;
	w->used_ns = sl_clock_ns();
	memcpy(w->name, p->name, sizeof(w->name));
	memcpy(w->profile, p->profile, sizeof(w->profile));
	pthread_mutex_unlock(&pulls->lock);
	if (former)
		slime_agent_endpoint_put(pulls->agent, former);
	return w;
}

/* Give back connections that broke, or are not used any more; with all also those without a pull.
 */
static void drop_writers(struct pulls *pulls, bool all)
{
	uint64_t now = sl_clock_ns();

	for (int i = 0; i < PULLS_MAX; i++) {
		struct writer *w = &pulls->writers[i];
		struct slime_endpoint *ep = NULL;

		pthread_mutex_lock(&pulls->lock);
		if (w->ep && !w->n_pulls &&
		    (all || now - w->used_ns > KEEP_MS * SL_NS_PER_MS || !is_connected(w->ep))) {
			ep = w->ep;
			w->ep = NULL;
		}
		pthread_mutex_unlock(&pulls->lock);
		if (ep)
			slime_agent_endpoint_put(pulls->agent, ep);
	}
}

/* ---- reading, checking, answering ---- */

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
	pthread_mutex_lock(&pulls->lock);
	if (p->writer)
		p->writer->n_pulls--;
	p->writer = NULL;
	sl_list_append(&pulls->free, &p->node);
	pulls->n_busy--;
	if (pulls->stopping)
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

/* The pages of a step share the fate of its batch. */
static void end_step(struct pull *p, int status)
{
	struct page_store *store = p->tenant->store;

	for (uint32_t i = p->step; i < p->step_end; i++) {
		struct target *t = &p->targets[i];

		if (t->status)
			continue;
		if (status)
			page_store_abort(store, t->page);
		t->status = status ? status
				   : page_store_commit(store, t->page, t->checksum, p->replace);
	}
	p->step = p->step_end;
}

/* The rest is not read. */
static void fail(struct pull *p, int status)
{
	p->step_end = p->n_targets;
	end_step(p, status);
}

static void choose_step(struct pull *p)
{
	uint64_t len = 0;

	while (p->step_end < p->n_targets && len < STEP_BYTES)
		len += p->targets[p->step_end++].len;
}

/* true: a step is under way. */
static bool begin_step(struct pull *p)
{
	size_t from = p->step ? p->targets[p->step - 1].xfers_end : 0;
	size_t to = p->targets[p->step_end - 1].xfers_end;
	int ret = from < to ? slime_read(p->writer->ep, p->xfers + from, to - from, 0, p->op) : 0;

	if (ret)
		fail(p, ret);
	else if (from == to)
		end_step(p, 0);
	return !ret && from < to;
}

static void go_on(struct pull *p)
{
	while (p->step < p->n_targets) {
		choose_step(p);
		if (begin_step(p))
			return;
	}
	answer(p);
	clean(p);
}

/* Until this returned p's op is pending to other threads, also when p is free already. */
static void on_bytes(void *arg, struct slime_op *op)
{
	struct pull *p = arg;
	int status = slime_op_status(op);

	if (status)
		fail(p, status);
	else
		end_step(p, 0);
	go_on(p);
}

/* The op can be used again once on_bytes() has returned. */
static void wait_for_callback(struct pull *p)
{
	while (!slime_op_test(p->op) && slime_op_wait(p->op, -1) == -ETIMEDOUT)
		;
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
	int ret;

	if (!pages_key_read(r, &key) || read_sources(p, r, sources, &n, &len))
		return -EINVAL;
	t->checksum = sl_read_u64(r);
	if (r->failed)
		return -EINVAL;
	p->n_targets++;
	t->len = len;
	t->status = len > UINT32_MAX
			    ? -EMSGSIZE
			    : page_store_reserve(p->tenant->store, key.at, key.len, (uint32_t)len,
						 p->replace, &t->page, &t->offset);
	ret = t->status ? 0 : add_sources(p, t, sources, n);
	t->xfers_end = p->n_xfers;
	return ret;
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

/* Begin to read from the writer; the request is answered. */
static void pull_pages(struct pull *p)
{
	int ret = read_targets(p, p->n_asked, &p->r);

	if (ret) {
		give_pages_back(p);
		refuse(p->req, ret, "malformed put");
		clean(p);
		return;
	}
	p->step = p->step_end = 0;
	go_on(p);
}

static int read_writer(struct pull *p)
{
	if (!pages_name_read(&p->r, p->name, SLIME_AGENT_NAME_MAX) ||
	    !pages_name_read(&p->r, p->profile, SLIME_AGENT_NAME_MAX))
		return -EINVAL;
	return read_regions(p, &p->r);
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
	p->n_asked = head->n;
	p->r = *r;
	ret = read_writer(p);
	if (ret) {
		refuse(req, ret, "malformed put");
		clean(p);
		return;
	}
	p->writer = take_writer(pulls, p->name, p->profile);
	if (p->writer) {
		pull_pages(p);
		return;
	}
	p->until_ns = sl_clock_ns() + LINK_MS * SL_NS_PER_MS;
	pthread_mutex_lock(&pulls->lock);
	sl_list_append(&pulls->unlinked, &p->node);
	pthread_cond_broadcast(&pulls->changed);
	pthread_mutex_unlock(&pulls->lock);
}

/* ---- the thread that finds links ---- */

static bool is_stopping(struct pulls *pulls)
{
	bool stopping;

	pthread_mutex_lock(&pulls->lock);
	stopping = pulls->stopping;
	pthread_mutex_unlock(&pulls->lock);
	return stopping;
}

/* false: its link is not up yet. */
static bool link_one(struct pull *p)
{
	struct pulls *pulls = p->pulls;
	struct slime_endpoint *ep;
	int ret = 0;

	if (is_stopping(pulls))
		ret = -ESHUTDOWN;
	else
		p->writer = take_writer(pulls, p->name, p->profile);
	if (!ret && !p->writer) {
		ret = slime_agent_endpoint_get(pulls->agent, p->name, p->profile, 0, &ep);
		if (!ret)
			p->writer = keep_writer(pulls, p, ep);
	}
	if (!ret) {
		wait_for_callback(p);
		pull_pages(p);
		return true;
	}
	if ((ret == -ETIMEDOUT || ret == -ENOENT) && sl_clock_ns() < p->until_ns)
		return false;
	refuse(p->req, ret, "cannot read the pages from the writer");
	clean(p);
	return true;
}

static void link_all(struct pulls *pulls)
{
	struct sl_list waiting, *node;

	sl_list_init(&waiting);
	pthread_mutex_lock(&pulls->lock);
	sl_list_splice(&waiting, &pulls->unlinked);
	pthread_mutex_unlock(&pulls->lock);
	while ((node = sl_list_pop(&waiting))) {
		struct pull *p = SL_CONTAINER_OF(node, struct pull, node);

		if (link_one(p))
			continue;
		pthread_mutex_lock(&pulls->lock);
		sl_list_append(&pulls->unlinked, &p->node);
		pthread_mutex_unlock(&pulls->lock);
	}
}

/* Waits for work: for a time while something is to be looked at again. */
static void wait_for_change(struct pulls *pulls)
{
	bool waits = !sl_list_empty(&pulls->unlinked), keeps = false;
	uint64_t until = sl_clock_ns() + (waits ? LINK_LOOK_MS : KEEP_LOOK_MS) * SL_NS_PER_MS;
	struct timespec ts = { .tv_sec = (time_t)(until / SL_NS_PER_S),
			       .tv_nsec = (long)(until % SL_NS_PER_S) };

	for (int i = 0; i < PULLS_MAX && !keeps; i++)
		keeps = pulls->writers[i].ep;
	if (waits || keeps)
		pthread_cond_timedwait(&pulls->changed, &pulls->lock, &ts);
	else
		pthread_cond_wait(&pulls->changed, &pulls->lock);
}

/* Closing their endpoints ends the reads, also those of a link whose writer is stopped. */
static void close_endpoints(struct pulls *pulls)
{
	for (int i = 0; i < PULLS_MAX; i++)
		if (pulls->writers[i].n_pulls)
			slime_endpoint_close(pulls->writers[i].ep);
}

static void end_pulls(struct pulls *pulls)
{
	pthread_mutex_lock(&pulls->lock);
	while (pulls->n_busy) {
		struct timespec soon;

		close_endpoints(pulls);
		pthread_mutex_unlock(&pulls->lock);
		link_all(pulls); /* refuses them */
		pthread_mutex_lock(&pulls->lock);
		clock_gettime(CLOCK_MONOTONIC, &soon);
		soon.tv_sec++;
		if (pulls->n_busy)
			pthread_cond_timedwait(&pulls->changed, &pulls->lock, &soon);
	}
	pthread_mutex_unlock(&pulls->lock);
	drop_writers(pulls, true);
}

static void *find_links(void *arg)
{
	struct pulls *pulls = arg;

	while (!is_stopping(pulls)) {
		link_all(pulls);
		drop_writers(pulls, false);
		pthread_mutex_lock(&pulls->lock);
		if (!pulls->stopping)
			wait_for_change(pulls);
		pthread_mutex_unlock(&pulls->lock);
	}
	end_pulls(pulls);
	return NULL;
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
	sl_list_init(&pulls->unlinked);
	ret = make_ops(pulls);
	if (!ret)
		ret = sl_thread_create(&pulls->thread, "slime-pages-put", find_links, pulls);
	pulls->thread_runs = !ret;
	if (ret) {
		pulls_destroy(pulls);
		return ret;
	}
	*out = pulls;
	return 0;
}

/* It waits for nothing: the thread needs the agent's loop to put endpoints back, and that may be
 * the one that stops us. The agent leaves when they are back. */
void pulls_stop(struct pulls *pulls)
{
	pthread_mutex_lock(&pulls->lock);
	pulls->stopping = true;
	pthread_cond_broadcast(&pulls->changed);
	pthread_mutex_unlock(&pulls->lock);
}

void pulls_end(struct pulls *pulls)
{
	pulls_stop(pulls);
	if (pulls->thread_runs)
		pthread_join(pulls->thread, NULL);
	pulls->thread_runs = false;
}

void pulls_destroy(struct pulls *pulls)
{
	if (!pulls)
		return;
	pulls_end(pulls);
	for (int i = 0; i < PULLS_MAX; i++)
		(void)slime_op_destroy(pulls->all[i].op);
	pthread_cond_destroy(&pulls->changed);
	pthread_mutex_destroy(&pulls->lock);
	free(pulls);
}
