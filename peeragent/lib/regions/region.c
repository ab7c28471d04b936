/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/regions/region.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/log.h"
#include "peeragent/lib/regions/memory.h"
#include "peeragent/lib/plan/topology.h"

#define WITHDRAW_RETRY_MS 1000

struct region {
	struct sl_list node;
	struct regions *set;
	struct slime_topology *topology; /* a copy of the spec: its only region */
	struct slime_topology *later;	 /* the next one, until the helper has read that one */
	const struct slime_agent_region *spec;
	bool shown;	 /* the caller's own */
	bool restricted; /* some peers may reach it, since it is there */
	enum region_state state;
	bool busy;	      /* the job is under way, or will be */
	atomic_bool unwanted; /* the helper need not go on allocating */
	int error;
	struct memory memory;
	struct memory_why why; /* with error */
	struct publication entry;
	struct job job;
	struct event *retry;
	uint8_t desc[SLIME_MR_DESC_MAX];
	size_t desc_len;
};

void regions_init(struct regions *set)
{
	sl_list_init(&set->all);
}

static struct region *find(const struct regions *set, const char *name)
{
	struct sl_list *e;

	sl_list_for_each (e, &set->all) {
		struct region *r = SL_CONTAINER_OF(e, struct region, node);

		if (r->state != REGION_WITHDRAWING && !strcmp(r->spec->name, name))
			return r;
	}
	return NULL;
}

/* ---- the entry in the directory ---- */

static void on_sent(void *arg, int result)
{
	struct region *r = arg;

	publication_sent(r->set->publisher, &r->entry, result);
}

static int send_entry(struct publication *p)
{
	struct region *r = SL_CONTAINER_OF(p, struct region, entry);
	struct ctrl_region entry = {
		.name = r->spec->name,
		.revision = p->content,
		.size = r->spec->size,
		.access = r->spec->access,
		.allow = r->spec->allow,
		.n_allow = r->spec->n_allow,
		.descriptor = r->desc,
		.len = r->desc_len,
	};

	if (r->state == REGION_WITHDRAWING)
		return ctrl_delete_region(r->set->ctrl, r->spec->name, p->content, on_sent, r);
	return ctrl_put_region(r->set->ctrl, &entry, on_sent, r);
}

static void destroy_if_over(struct region *r);

static void entry_settled(struct publication *p, int result)
{
	struct region *r = SL_CONTAINER_OF(p, struct region, entry);

	if (r->state == REGION_WITHDRAWING)
		destroy_if_over(r);
	else if (result)
		sl_error("agent", "region %s is not in the directory: %s", r->spec->name,
			 strerror(-result));
}

static const struct publication_ops entry_ops = { send_entry, entry_settled };

/* ---- life ---- */

static int copy_spec(const struct slime_agent_region *spec, struct slime_topology **out)
{
	struct slime_topology one = { .regions = spec, .n_regions = 1 };

	return topology_copy(&one, out);
}

static bool is_restricted(const struct slime_agent_region *spec)
{
	return spec->access && spec->n_allow;
}

static int create(struct regions *set, const struct slime_agent_region *spec, struct region **out)
{
	struct region *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return -ENOMEM;
	ret = copy_spec(spec, &r->topology);
	if (ret) {
		free(r);
		return ret;
	}
	r->spec = &r->topology->regions[0];
	r->set = set;
	r->restricted = is_restricted(r->spec);
	set->any_restricted |= r->restricted;
	publication_init(&r->entry, &entry_ops);
	sl_list_append(&set->all, &r->node);
	*out = r;
	return 0;
}

static void destroy(struct region *r)
{
	publication_fini(&r->entry);
	sl_list_remove(&r->node);
	if (r->retry)
		event_free(r->retry);
	free(r->topology);
	free(r->later);
	free(r);
}

static void adopt(struct region *r, struct slime_topology *copy)
{
	free(r->topology);
	r->topology = copy;
	r->spec = &copy->regions[0];
	if (is_restricted(r->spec) && !r->restricted)
		sl_warn("agent",
			"region %s was offered to every agent: over rdma those that allow leaves out "
			"are kept out when it is offered anew",
			r->spec->name);
}

static int offer(struct region *r)
{
	int len = slime_mr_export(r->memory.mr, r->desc, sizeof(r->desc));

	if (len < 0)
		return len;
	r->desc_len = (size_t)len;
	r->state = REGION_OFFERED;
	if (r->spec->access)
		publication_change(r->set->publisher, &r->entry);
	return 0;
}

/* On the helper. */
static void allocate(void *arg)
{
	struct region *r = arg;

	r->error = memory_create(r->set->ctx, r->spec, r->restricted, &r->unwanted, &r->memory,
				 &r->why);
}

static void fail(struct region *r)
{
	r->state = REGION_FAILED;
	sl_error("agent", "region %s of %llu bytes: %s", r->spec->name,
		 (unsigned long long)r->spec->size, r->why.text);
}

static void begin_release(struct region *r);

static void on_allocated(void *arg)
{
	struct region *r = arg;

	r->busy = false;
	if (r->state == REGION_WITHDRAWING) {
		begin_release(r);
		return;
	}
	if (r->error == -ECANCELED) {
		r->error = -ESHUTDOWN;
		r->state = REGION_FAILED;
		return;
	}
	if (r->later) {
		adopt(r, r->later);
		r->later = NULL;
	}
	if (!r->error) {
		r->error = offer(r);
		snprintf(r->why.text, sizeof(r->why.text), "%s", strerror(-r->error));
	}
	if (r->error)
		fail(r);
	else
		sl_info("agent", "region %s: %llu bytes%s", r->spec->name,
			(unsigned long long)r->spec->size,
			r->spec->gpu	     ? " of a GPU"
			: r->spec->on_demand ? " on demand"
					     : "");
	r->set->on_change(r->set->arg);
}

/* On the helper: waits for the peers that read or write it. */
static void release(void *arg)
{
	struct region *r = arg;

	r->error = memory_destroy(&r->memory);
}

static void on_released(void *arg);

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct region *r = arg;

	(void)fd;
	(void)what;
	if (r->set->helper)
		helper_submit(r->set->helper, &r->job, release, on_released, r);
}

static void release_again(struct region *r)
{
	struct timeval tv = { .tv_sec = WITHDRAW_RETRY_MS / 1000,
			      .tv_usec = WITHDRAW_RETRY_MS % 1000 * 1000 };

	if (!r->retry) {
		sl_warn("agent", "region %s is still in use: %s; it stays until it is not",
			r->spec->name, strerror(-r->error));
		r->retry = evtimer_new(r->set->base, on_retry, r);
	}
	if (!r->retry || evtimer_add(r->retry, &tv))
		sl_error("agent", "region %s stays: no memory", r->spec->name);
}

/* The entry has gone from the directory, too; without a session it waits for the next one. */
static void destroy_if_over(struct region *r)
{
	struct regions *set = r->set;

	if (r->busy || r->memory.mr || !publication_is_settled(&r->entry))
		return;
	destroy(r);
	set->on_change(set->arg);
}

static void on_released(void *arg)
{
	struct region *r = arg;

	if (r->error) {
		release_again(r);
		return;
	}
	r->busy = false;
	destroy_if_over(r);
}

static void begin_release(struct region *r)
{
	if (r->shown)
		r->memory.mr = NULL;
	if (r->memory.mr && r->set->helper) {
		r->busy = true;
		helper_submit(r->set->helper, &r->job, release, on_released, r);
	}
	destroy_if_over(r);
}

static void begin_withdraw(struct region *r)
{
	r->state = REGION_WITHDRAWING;
	atomic_store(&r->unwanted, true);
	if (r->entry.content)
		publication_change(r->set->publisher, &r->entry);
	if (!r->busy)
		begin_release(r);
}

/* ---- what others call ---- */

int region_allocate(struct regions *set, const struct slime_agent_region *spec)
{
	struct region *r;
	int ret = create(set, spec, &r);

	if (ret)
		return ret;
	r->state = REGION_ALLOCATING;
	r->busy = true;
	helper_submit(set->helper, &r->job, allocate, on_allocated, r);
	return 0;
}

int region_show(struct regions *set, const char *name, struct slime_mr *mr, uint32_t access,
		const char *const *allow, size_t n_allow)
{
	struct slime_agent_region spec = {
		.name = name,
		.size = slime_mr_len(mr),
		.access = access,
		.allow = allow,
		.n_allow = n_allow,
	};
	struct region *r;
	int ret;

	if (find(set, name))
		return -EEXIST;
	ret = create(set, &spec, &r);
	if (ret)
		return ret;
	r->shown = true;
	r->memory.mr = mr;
	ret = offer(r);
	if (ret)
		destroy(r);
	return ret;
}

bool region_is_shown(const struct regions *set, const char *name)
{
	const struct region *r = find(set, name);

	return r && r->shown;
}

int region_allow(struct regions *set, const struct slime_agent_region *spec)
{
	struct region *r = find(set, spec->name);
	struct slime_topology *copy;
	int ret;

	if (!r)
		return -ENOENT;
	ret = copy_spec(spec, &copy);
	if (ret)
		return ret;
	if (r->busy) {
		free(r->later);
		r->later = copy;
		return 0;
	}
	adopt(r, copy);
	if (r->state == REGION_OFFERED && r->spec->access)
		publication_change(set->publisher, &r->entry);
	return 0;
}

int region_withdraw(struct regions *set, const char *name, bool shown)
{
	struct region *r = find(set, name);

	if (!r || r->shown != shown)
		return -ENOENT;
	begin_withdraw(r);
	return 0;
}

void regions_gone(struct regions *set, const char *name, uint64_t revision)
{
	struct region *r = find(set, name);

	/* A withdrawal of our own is older than the region that we publish now. */
	if (!r || !r->entry.content || revision < r->entry.content)
		return;
	sl_warn("agent",
		"region %s was withdrawn from the directory, and not by us: published again", name);
	publication_outdo(set->publisher, &r->entry, revision);
}

void regions_cancel(struct regions *set)
{
	struct sl_list *e;

	sl_list_for_each (e, &set->all)
		atomic_store(&SL_CONTAINER_OF(e, struct region, node)->unwanted, true);
}

void regions_close(struct regions *set)
{
	set->helper = NULL;
}

void regions_fini(struct regions *set)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &set->all) {
		struct region *r = SL_CONTAINER_OF(e, struct region, node);

		if (r->memory.mr && !r->shown)
			release(r);
		if (r->memory.mr && !r->shown) {
			set->any_kept = true;
			sl_warn("agent",
				"region %s: a peer or a device does not let go of it: its memory "
				"stays as long as this process",
				r->spec->name);
		}
		destroy(r);
	}
}

int region_find(const struct regions *set, const char *name, struct slime_mr **out)
{
	const struct region *r = find(set, name);

	if (!r)
		return -ENOENT;
	if (r->state == REGION_ALLOCATING)
		return -EAGAIN;
	if (r->state == REGION_FAILED)
		return r->error;
	*out = r->memory.mr;
	return 0;
}

int regions_status(const struct regions *set)
{
	struct sl_list *e;
	int status = 0;

	sl_list_for_each (e, &set->all) {
		const struct region *r = SL_CONTAINER_OF(e, struct region, node);

		if (r->state == REGION_FAILED)
			return r->error;
		if (r->state == REGION_ALLOCATING)
			status = -EAGAIN;
	}
	return status;
}

void regions_count(const struct regions *set, uint64_t *n, uint64_t *bytes, uint64_t *n_sys,
		   uint64_t *sys_bytes)
{
	struct sl_list *e;

	*n = *bytes = *n_sys = *sys_bytes = 0;
	sl_list_for_each (e, &set->all) {
		const struct region *r = SL_CONTAINER_OF(e, struct region, node);
		bool sys = !strncmp(r->spec->name, "sys.", 4);

		if (r->busy || !r->memory.mr)
			continue;
		*(sys ? n_sys : n) += 1;
		*(sys ? sys_bytes : bytes) += slime_mr_len(r->memory.mr);
	}
}
