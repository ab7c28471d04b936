/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/progress/context.h"
#include "src/progress/manual.h"
#include "src/progress/progress_token.h"
#include "src/transport/auth.h"
#include <slime/version.h>

static const struct sl_transport_ops *const all_transports[] = {
	&sl_shm_transport,
	&sl_rdma_transport,
	&sl_tcp_transport,
};

const char *slime_version(void)
{
	return SLIME_VERSION;
}

size_t slime_context_device_stats(const struct slime_context *ctx, struct slime_device_stats *out,
				  size_t cap)
{
	struct sl_transport *t = ctx->transports[SLIME_TRANSPORT_RDMA];

	/* In a child after fork they are the parent's. */
	return sl_context_check(ctx) ? 0 : t->ops->device_stats(t, out, cap);
}

void slime_context_latency(const struct slime_context *ctx, enum slime_transport transport,
			   enum slime_op_kind kind, struct slime_latency *out)
{
	*out = (struct slime_latency){ .n = 0 };
	if ((unsigned)transport < SLIME_TRANSPORT_MAX && (unsigned)kind < SLIME_KIND_MAX &&
	    !sl_context_check(ctx))
		sl_latency_read(&ctx->latencies.of[transport][kind], out);
}

/* ---- attributes ---- */

static int refuse(const char *what)
{
	sl_error("context", "%s", what);
	return -EINVAL;
}

static int check_rdma(const struct slime_context_attr *a)
{
	if (a->rdma_gid_index < -1 || a->rdma_gid_index > 255)
		return refuse("rdma_gid_index: not in -1 to 255");
	if ((unsigned)a->rdma_pair > SLIME_RDMA_PAIR_NAME)
		return refuse("rdma_pair: not one of position, NUMA, name");
	if (a->rdma_qps < 1 || a->rdma_qps > SL_RDMA_QPS_MAX)
		return refuse("rdma_qps: not in 1 to 8");
	if (a->rdma_timeout < 1 || a->rdma_timeout > 31)
		return refuse("rdma_timeout: not in 1 to 31");
	if (a->rdma_retry_count > 7)
		return refuse("rdma_retry_count: not in 0 to 7");
	if (a->rdma_rnr_retry > 7)
		return refuse("rdma_rnr_retry: not in 0 to 7");
	if (a->rdma_min_rnr_timer > 31)
		return refuse("rdma_min_rnr_timer: not in 0 to 31");
	if (a->rdma_service_level > 15)
		return refuse("rdma_service_level: not in 0 to 15");
	if (a->rdma_traffic_class > 255)
		return refuse("rdma_traffic_class: not in 0 to 255");
	if (a->rdma_hop_limit < 1 || a->rdma_hop_limit > 255)
		return refuse("rdma_hop_limit: not in 1 to 255");
	if (a->rdma_pkey_index > 65535)
		return refuse("rdma_pkey_index: more than 65535");
	if (a->rdma_flow_label >= 1u << 20)
		return refuse("rdma_flow_label: more than 20 bits");
	if (a->rdma_chunk < 4096 || a->rdma_chunk & (a->rdma_chunk - 1))
		return refuse("rdma_chunk: not a power of two from 4096");
	return 0;
}

static int check_attr(const struct slime_context_attr *a)
{
	if ((unsigned)a->polling > SLIME_POLLING_EVENT)
		return refuse("polling: not one of adaptive, busy, event");
	if (a->spin_us > 1000000)
		return refuse("spin_us: more than a second");
	if (a->cpu < -1 || a->cpu >= CPU_SETSIZE)
		return refuse("cpu: not a CPU's number");
	if (a->max_regions < 1 || a->max_regions > 65536)
		return refuse("max_regions: not in 1 to 65536");
	if (a->max_endpoints < 1 || a->max_endpoints > 65536)
		return refuse("max_endpoints: not in 1 to 65536");
	if (a->tcp_port_last && (!a->tcp_port || a->tcp_port_last < a->tcp_port))
		return refuse("tcp_port_last: below tcp_port, or without one");
	if (a->tcp_streams < 1 || a->tcp_streams > 16)
		return refuse("tcp_streams: not in 1 to 16");
	if (a->tcp_user_timeout_ms < 100 || a->tcp_user_timeout_ms > 3600000)
		return refuse("tcp_user_timeout_ms: not in 100 to 3600000");
	if (a->shm_copy_in_submit > UINT32_C(1) << 30)
		return refuse("shm_copy_in_submit: more than 1 GiB");
	if ((unsigned)a->foreign_memory > SLIME_FOREIGN_OFF)
		return refuse("foreign_memory: not one of auto, require, off");
	if (a->shm_users && !sl_auth_users_valid(a->shm_users))
		return refuse("shm_users: not numbers of users with commas between them");
	if (a->rpc_workers > 1024)
		return refuse("rpc_workers: more than 1024");
	return check_rdma(a);
}

static int copy_string(const char **s)
{
	if (!*s)
		return 0;
	*s = strdup(*s);
	return *s ? 0 : -ENOMEM;
}

static void free_attr(struct slime_context_attr *a)
{
	free((void *)(uintptr_t)a->shm_users);
	free((void *)(uintptr_t)a->tcp_bind);
	free((void *)(uintptr_t)a->tcp_advertise);
	free((void *)(uintptr_t)a->rdma_devices);
}

static int copy_attr(struct slime_context_attr *to, const struct slime_context_attr *from)
{
	*to = *from;
	/* All of them, so that free_attr() frees copies only. */
	if (!(copy_string(&to->shm_users) | copy_string(&to->tcp_bind) |
	      copy_string(&to->tcp_advertise) | copy_string(&to->rdma_devices)))
		return 0;
	free_attr(to);
	return -ENOMEM;
}

/* ---- the page that tells a parent from its fork ---- */

static int map_alive(const uint32_t **out)
{
	uint32_t *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -ENOMEM;
	if (madvise(page, sizeof(*page), MADV_WIPEONFORK)) {
		munmap(page, sizeof(*page));
		return -ENOSYS;
	}
	*page = 1;
	*out = page;
	return 0;
}

static void unmap_alive(const uint32_t *page)
{
	munmap((void *)(uintptr_t)page, sizeof(*page));
}

/* ---- transports ---- */

static void destroy_transports(struct slime_context *ctx)
{
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_transport *t = ctx->transports[i];

		if (t)
			t->ops->destroy(t);
		ctx->transports[i] = NULL;
	}
}

static int create_transports(struct slime_context *ctx)
{
	for (size_t i = 0; i < sizeof(all_transports) / sizeof(all_transports[0]); i++) {
		const struct sl_transport_ops *ops = all_transports[i];
		int ret = ops->create(&ctx->env, &ctx->transports[ops->id]);

		if (ret) {
			destroy_transports(ctx);
			return ret;
		}
	}
	return 0;
}

/* ---- life ---- */

/* For lower layers, which do not know the context. */
static void kick(void *arg)
{
	sl_progress_kick(arg);
}

static bool in_pass(void *arg)
{
	return sl_in_pass == arg;
}

static void nudge(void *arg)
{
	sl_progress_nudge(arg);
}

static void tidy(void *arg)
{
	struct slime_context *ctx = arg;
	void (*rpc_tidy)(struct slime_context *) = atomic_load(&ctx->rpc_tidy);

	atomic_fetch_add(&ctx->n_tidying, 1);
	if (rpc_tidy)
		rpc_tidy(ctx);
	atomic_fetch_sub(&ctx->n_tidying, 1);
}

static int expect(void *arg, enum slime_transport transport, uint64_t endpoint,
		  struct sl_expected *out)
{
	struct slime_context *ctx = arg;
	sl_expect_fn *of_endpoints = atomic_load(&ctx->expect);

	*out = (struct sl_expected){ 0 };
	return of_endpoints ? of_endpoints(ctx, transport, endpoint, out) : -ENOENT;
}

static int init_fields(struct slime_context *ctx)
{
	sl_list_init(&ctx->endpoints);
	sl_list_init(&ctx->mems);
	sl_todo_init(&ctx->tasks);
	sl_losses_init(&ctx->losses);
	ctx->rate.bits_s = ctx->attr.max_bandwidth;
	pthread_mutex_init(&ctx->lock, NULL);
	atomic_store(&ctx->next_endpoint, 1);
	ctx->env = (struct sl_transport_env){
		.attr = &ctx->attr,
		.regions = &ctx->regions,
		.poller = &ctx->poller,
		.expect = expect,
		.kick = kick,
		.nudge = nudge,
		.in_pass = in_pass,
		.tidy = tidy,
		.vain_calls = &ctx->progress.vain_calls,
		.slow_poll = &ctx->progress.slow_poll,
		.passes = &ctx->progress.passes,
		.next = &ctx->progress.next,
		.posting = &ctx->progress.posting,
		.poll_all = &ctx->progress.poll_all,
		.arg = ctx,
	};
	if (getrandom(&ctx->id, sizeof(ctx->id), 0) != sizeof(ctx->id))
		return -EIO;
	ctx->env.context = ctx->id;
	return 0;
}

static int init(struct slime_context *ctx, const struct slime_context_attr *attr)
{
	int ret = copy_attr(&ctx->attr, attr);

	if (ret)
		return ret;
	ret = init_fields(ctx);
	if (ret)
		goto free_strings;
	ret = map_alive(&ctx->alive);
	if (ret)
		goto free_strings;
	ret = sl_region_table_init(&ctx->regions, ctx->id, attr->max_regions);
	if (ret)
		goto unmap_alive;
	ret = sl_completions_init(&ctx->completions, kick, ctx);
	if (ret)
		goto fini_regions;
	ret = sl_poller_init(&ctx->poller, attr->manual);
	if (ret)
		goto fini_completions;
	ret = sl_manual_open(ctx);
	if (ret)
		goto fini_poller;
	ret = create_transports(ctx);
	if (ret)
		goto close_fd;
	ret = sl_progress_start(ctx);
	if (ret)
		goto destroy_transports;
	return 0;

destroy_transports:
	destroy_transports(ctx);
close_fd:
	sl_manual_close(ctx);
fini_poller:
	sl_poller_fini(&ctx->poller);
fini_completions:
	sl_completions_fini(&ctx->completions);
fini_regions:
	sl_region_table_fini(&ctx->regions);
unmap_alive:
	unmap_alive(ctx->alive);
free_strings:
	pthread_mutex_destroy(&ctx->lock);
	sl_todo_fini(&ctx->tasks);
	free_attr(&ctx->attr);
	return ret;
}

void slime_context_attr_init(struct slime_context_attr *attr)
{
	*attr = (struct slime_context_attr)SLIME_CONTEXT_ATTR_INIT;
}

int slime_context_create(const struct slime_context_attr *attr, struct slime_context **out)
{
	static const struct slime_context_attr defaults = SLIME_CONTEXT_ATTR_INIT;
	struct slime_context *ctx;
	int ret;

	if (!attr)
		attr = &defaults;
	ret = check_attr(attr);
	if (ret)
		return ret;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	ret = init(ctx, attr);
	if (ret) {
		free(ctx);
		return ret;
	}
	*out = ctx;
	return 0;
}

static bool has_children(struct slime_context *ctx)
{
	bool has;

	pthread_mutex_lock(&ctx->lock);
	has = ctx->n_endpoints || atomic_load(&ctx->completions.n_ops) ||
	      atomic_load(&ctx->n_listeners);
	pthread_mutex_unlock(&ctx->lock);
	return has;
}

static bool has_memory(struct slime_context *ctx)
{
	bool has;

	pthread_mutex_lock(&ctx->lock);
	has = atomic_load(&ctx->n_regions) || !sl_list_empty(&ctx->mems);
	pthread_mutex_unlock(&ctx->lock);
	return has;
}

/* In a child after fork. */
static void forget_parts(struct slime_context *ctx)
{
	if (ctx->rpc_forget)
		ctx->rpc_forget(ctx);
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (ctx->transports[i])
			ctx->transports[i]->ops->forget(ctx->transports[i]);
	}
}

int slime_context_destroy(struct slime_context *ctx)
{
	if (!ctx)
		return 0;
	/* In a fork child the thread is not there, and what the kernel shares is the parent's: only
	 * memory goes. */
	if (sl_context_check(ctx)) {
		forget_parts(ctx);
		goto free_memory;
	}
	if (sl_progress_in_callback())
		return -EDEADLK;
	if (has_children(ctx))
		return -EBUSY;
	/* Its memory and threads come again with the next call, should there be one. */
	if (ctx->rpc_destroy)
		ctx->rpc_destroy(ctx);
	/* Memory that a device still reached when ctx->rpc_destroy() gave up may be free by now;
	 * the threads have ended. */
	if (has_memory(ctx) || atomic_load(&ctx->rpc))
		return -EBUSY;
	sl_progress_stop(ctx);
	sl_losses_fini(ctx);
	destroy_transports(ctx);
	sl_manual_close(ctx);
	sl_poller_fini(&ctx->poller);
	sl_completions_fini(&ctx->completions);
free_memory:
	sl_region_table_fini(&ctx->regions);
	unmap_alive(ctx->alive);
	pthread_mutex_destroy(&ctx->lock);
	sl_todo_fini(&ctx->tasks);
	free_attr(&ctx->attr);
	free(ctx);
	return 0;
}

int slime_context_poll(struct slime_context *ctx)
{
	int ret = sl_context_check(ctx);

	return ret ? ret : sl_progress_poll(ctx);
}

int slime_context_arm(struct slime_context *ctx)
{
	int ret = sl_context_check(ctx);

	return ret ? ret : sl_progress_arm(ctx);
}

int slime_context_fd(struct slime_context *ctx)
{
	int ret = sl_context_check(ctx);

	if (ret)
		return ret;
	return ctx->attr.manual ? ctx->manual_fd : ctx->completions.fd;
}

bool slime_context_next(struct slime_context *ctx, struct slime_event *out)
{
	struct slime_op *op;

	if (sl_context_check(ctx))
		return false;
	while ((op = sl_completions_next(&ctx->completions))) {
		if (op->flags & SL_OP_OF_REQUEST) {
			out->kind = SLIME_EVENT_REQUEST;
			out->request = atomic_load(&ctx->rpc_hand_out)(op);
			if (!out->request)
				continue;
		} else if (op->flags & SL_OP_OF_CALL) {
			out->kind = SLIME_EVENT_CALL;
			out->call = op->arg;
		} else {
			out->kind = SLIME_EVENT_OP;
			out->op = op;
		}
		return true;
	}
	return false;
}

/* ---- ops, as users see them ---- */

int slime_op_create(struct slime_context *ctx, const struct slime_op_attr *attr,
		    struct slime_op **out)
{
	static const struct slime_op_attr defaults;
	struct slime_op *op;
	int ret = sl_context_check(ctx);

	if (ret)
		return ret;
	if (!attr)
		attr = &defaults;
	if (attr->flags & ~(uint32_t)SLIME_OP_QUEUED || (attr->fn && attr->flags & SLIME_OP_QUEUED))
		return -EINVAL;
	op = malloc(sizeof(*op));
	if (!op)
		return -ENOMEM;
	sl_op_init(op, ctx, &ctx->completions, attr->fn, attr->arg);
	op->flags = attr->flags | SL_OP_GUARDED;
	atomic_fetch_add(&ctx->completions.n_ops, 1);
	*out = op;
	return 0;
}

int slime_op_destroy(struct slime_op *op)
{
	if (!op)
		return 0;
	if (!sl_context_check(op->ctx) && !sl_op_is_idle(op))
		return -EBUSY;
	sl_op_goes(op);
	atomic_fetch_sub(&op->completions->n_ops, 1);
	free(op);
	return 0;
}

int slime_op_wait(struct slime_op *op, int64_t timeout_ms)
{
	int ret = sl_context_check(op->ctx);

	if (ret)
		return ret;
	if (sl_op_is_idle(op))
		return 0;
	return sl_progress_wait_op(op->ctx, op, sl_deadline_ns(timeout_ms));
}

bool slime_op_test(struct slime_op *op)
{
	if (sl_op_is_idle(op))
		return true;
	if (sl_context_check(op->ctx))
		return false;
	sl_progress_pass(op->ctx);
	return sl_op_is_idle(op);
}

int slime_op_status(const struct slime_op *op)
{
	return op->status;
}

uint64_t slime_op_bytes(const struct slime_op *op)
{
	return op->bytes;
}

uint32_t slime_op_imm(const struct slime_op *op)
{
	return op->imm;
}

uint64_t slime_op_tag(const struct slime_op *op)
{
	return op->tag;
}

void *slime_op_arg(const struct slime_op *op)
{
	return op->arg;
}
