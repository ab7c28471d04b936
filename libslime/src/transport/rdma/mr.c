/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/register.h"
#include "src/transport/rdma/tidy.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

static uint32_t access_for(const struct sl_region *r, enum rdma_mr_use use)
{
	return use == RDMA_MR_SHOWN || !r->restricted ? r->access : 0;
}

static struct rdma_mr *load(_Atomic(struct rdma_mr *) *place)
{
	return atomic_load_explicit(place, memory_order_acquire);
}

static unsigned n_parts(const struct rdma_mr *mr)
{
	return mr->domain->n_nics * mr->n_chunks;
}

/* ---- chunks ---- */

static uint64_t max_part(const struct rdma_domain *d)
{
	uint64_t max = UINT64_MAX;

	for (unsigned i = 0; i < d->n_nics; i++) {
		uint64_t of_nic = d->t->nics[i]->device.attr.orig_attr.max_mr_size;

		if (of_nic < max)
			max = of_nic;
	}
	return max;
}

static uint64_t chunks_of(const struct rdma_mr *mr, unsigned shift)
{
	uint64_t base = (uintptr_t)mr->base;

	return ((base + mr->len - 1) >> shift) - (base >> shift) + 1;
}

/* As small as was asked for, as long as they are not too many: several threads register them. A
 * dmabuf is mapped as a whole for each piece, so that pieces of it save nothing. */
static int choose_chunks(struct rdma_mr *mr)
{
	uint64_t max = max_part(mr->domain);
	uint64_t wish = mr->domain->t->base.env->attr->rdma_chunk;
	unsigned shift = 0;

	mr->shift = RDMA_ONE_CHUNK;
	mr->n_chunks = 1;
	if (mr->len <= max && (mr->len <= wish || mr->dmabuf_fd >= 0))
		return 0;
	while (UINT64_C(2) << shift <= wish && UINT64_C(2) << shift <= max)
		shift++;
	while (chunks_of(mr, shift) > RDMA_CHUNKS_MAX)
		shift++;
	if (UINT64_C(1) << shift > max)
		return -EFBIG;
	mr->shift = shift;
	mr->n_chunks = (unsigned)chunks_of(mr, shift);
	return 0;
}

static int make_parts(struct rdma_mr *mr)
{
	int ret = choose_chunks(mr);

	if (ret)
		return ret;
	mr->parts = mr->few;
	if (mr->n_chunks > 1)
		mr->parts = calloc(n_parts(mr), sizeof(*mr->parts));
	return mr->parts ? 0 : -ENOMEM;
}

static void free_parts(struct rdma_mr *mr)
{
	if (mr->parts != mr->few)
		free(mr->parts);
	mr->parts = NULL;
}

void rdma_mr_free(struct rdma_mr *mr)
{
	if (mr)
		free_parts(mr);
	free(mr);
}

/* ---- on a worker ---- */

void rdma_mr_deregister(struct rdma_mr *mr)
{
	for (unsigned i = 0; mr->parts && i < n_parts(mr); i++)
		rdma_nic_deregister(mr->domain->t->nics[i / mr->n_chunks], &mr->parts[i]);
	free_parts(mr);
}

/* The first counts. */
static void fail(struct rdma_mr *mr, unsigned nic, int err)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&mr->status, &none, -err))
		mr->failed_nic = nic;
}

static void register_part(struct rdma_mr *mr, unsigned i)
{
	unsigned nic = i / mr->n_chunks;
	uint64_t at = (uintptr_t)mr->base;
	uint64_t end = at + mr->len;
	uint64_t chunk = (at >> mr->shift) + i % mr->n_chunks;
	bool read_only;

	if (chunk << mr->shift > at)
		at = chunk << mr->shift;
	if ((chunk + 1) << mr->shift < end)
		end = (chunk + 1) << mr->shift;
	if (!mr->domain->pds[nic] || atomic_load(&mr->domain->t->nics[nic]->dead)) {
		atomic_fetch_add(&mr->n_left_out, end - at);
		return;
	}
	mr->parts[i] = rdma_register(mr->domain->t->nics[nic], mr->domain->pds[nic], mr,
				     mr->base + (at - (uintptr_t)mr->base), end - at, &read_only);
	if (read_only)
		atomic_store(&mr->read_only, true);
	if (mr->parts[i])
		atomic_fetch_add(&mr->n_registered, end - at);
	else
		fail(mr, nic, errno ? errno : EIO);
}

/* Takes one part after the other, as others do. */
static void work_register(struct rdma_job *job)
{
	struct rdma_mr *mr = SL_CONTAINER_OF(job, struct rdma_run, job)->mr;
	unsigned i;

	while (!atomic_load(&mr->status) && (i = atomic_fetch_add(&mr->next, 1)) < n_parts(mr))
		register_part(mr, i);
	/* The last one clears up. */
	if (atomic_fetch_sub(&mr->n_at_it, 1) == 1 && atomic_load(&mr->status)) {
		rdma_mr_deregister(mr);
		atomic_store(&mr->n_registered, 0);
	}
}

static void work_let_go(struct rdma_job *job)
{
	rdma_mr_deregister(SL_CONTAINER_OF(job, struct rdma_run, job)->mr);
}

/* ---- when it is done ---- */

static void say_why(const struct rdma_mr *mr)
{
	char why[256];

	rdma_register_why(mr, -atomic_load(&mr->status), why, sizeof(why));
	sl_error("rdma", "%s: region %u of %llu bytes cannot be registered: %s",
		 mr->domain->t->nics[mr->failed_nic]->device.name, mr->id,
		 (unsigned long long)mr->len, why);
}

static enum rdma_mr_state outcome(const struct rdma_mr *mr)
{
	if (!mr->wanted)
		return RDMA_MR_NONE;
	if (atomic_load(&mr->status))
		return RDMA_MR_FAILED;
	return atomic_load(&mr->read_only) ? RDMA_MR_SOURCE : RDMA_MR_READY;
}

/* [token], or no other thread has it: under mr_lock. */
static void end_job(struct rdma_mr *mr)
{
	atomic_store_explicit(&mr->state, outcome(mr), memory_order_release);
	atomic_fetch_sub(&mr->domain->n_busy, 1);
}

/* Those that may wait for it: connections, and the thread that destroys it. [token] */
static void call_all(struct rdma_transport *t)
{
	struct sl_list *e;

	sl_list_for_each (e, &t->conns)
		rdma_conn_call(SL_CONTAINER_OF(e, struct rdma_conn, link));
	rdma_tidy(t);
}

/* Under mr_lock. */
static void start(struct rdma_mr *mr, unsigned n, void (*work)(struct rdma_job *),
		  void (*done)(struct rdma_job *))
{
	mr->n_runs = n;
	atomic_store(&mr->n_at_it, n);
	for (unsigned i = 0; i < n; i++) {
		mr->runs[i].mr = mr;
		rdma_registration_start(mr->domain->t, &mr->runs[i].job, work, done);
	}
}

static void done_register(struct rdma_job *job);

/* Under mr_lock. */
static void start_to_register(struct rdma_mr *mr)
{
	unsigned n_threads = mr->domain->t->registrars.n_threads;
	int ret = make_parts(mr);

	atomic_store(&mr->next, 0);
	atomic_store(&mr->n_registered, 0);
	atomic_store(&mr->n_left_out, 0);
	atomic_store(&mr->status, 0);
	atomic_store(&mr->read_only, false);
	mr->was_refused = false;
	if (ret) {
		fail(mr, 0, -ret);
		say_why(mr);
		end_job(mr);
		return;
	}
	start(mr, n_parts(mr) < n_threads ? n_parts(mr) : n_threads, work_register, done_register);
}

/* [token] */
static void done_register(struct rdma_job *job)
{
	struct rdma_mr *mr = SL_CONTAINER_OF(job, struct rdma_run, job)->mr;
	bool again;

	if (--mr->n_runs)
		return;
	again = atomic_load(&mr->status) && rdma_nic_is_gone(mr->domain->t->nics[mr->failed_nic]);
	if (atomic_load(&mr->status) && !again)
		say_why(mr);
	pthread_mutex_lock(&job->t->mr_lock);
	/* The others can have it all the same. */
	if (again)
		start_to_register(mr);
	else
		end_job(mr);
	pthread_mutex_unlock(&job->t->mr_lock);
	call_all(job->t);
}

/* [token] */
static void done_let_go(struct rdma_job *job)
{
	struct rdma_mr *mr = SL_CONTAINER_OF(job, struct rdma_run, job)->mr;

	pthread_mutex_lock(&job->t->mr_lock);
	if (mr->wanted)
		start_to_register(mr);
	else
		end_job(mr);
	pthread_mutex_unlock(&job->t->mr_lock);
	call_all(job->t);
}

/* ---- asking for it ---- */

/* Under mr_lock. */
static void begin(struct rdma_mr *mr, bool wanted)
{
	mr->wanted = wanted;
	atomic_fetch_add(&mr->domain->n_busy, 1);
	atomic_store(&mr->state, RDMA_MR_BUSY);
	/* The rest of an earlier region of that number goes first. */
	if (mr->parts)
		start(mr, 1, work_let_go, done_let_go);
	else
		start_to_register(mr);
}

/* Under mr_lock. */
static void begin_to_register(struct rdma_mr *mr, const struct sl_region *r, uint32_t access)
{
	/* Before anything of it changes: a thread that takes it for ready may read it this moment.
	 * The generation comes last, so that no thread takes the state of another region for this
	 * one's. */
	atomic_store_explicit(&mr->state, RDMA_MR_BUSY, memory_order_relaxed);
	mr->id = r->id;
	mr->base = r->base;
	mr->len = r->len;
	mr->access = access;
	mr->on_demand = r->on_demand;
	mr->is_device = r->kind == SL_REGION_DEVICE;
	mr->has_address = r->has_address;
	mr->dmabuf_fd = r->dmabuf_fd;
	mr->dmabuf_offset = r->dmabuf_offset;
	atomic_store(&mr->domain->t->base.env->regions->slots[r->id].pinned, true);
	atomic_store_explicit(&mr->generation, r->generation, memory_order_release);
	begin(mr, true);
}

static struct rdma_mr *create(struct rdma_domain *d, _Atomic(struct rdma_mr *) *place)
{
	struct rdma_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->domain = d;
	atomic_store_explicit(place, mr, memory_order_release);
	return mr;
}

/* Under mr_lock: the next thread that asks tries again. */
static int take_failure(struct rdma_mr *mr)
{
	atomic_store(&mr->state, RDMA_MR_NONE);
	return atomic_load(&mr->status);
}

/* Under mr_lock: a device that wrote there would end its queue pair, and the link. */
static int refuse(struct rdma_mr *mr)
{
	if (!mr->was_refused)
		sl_error("rdma",
			 "region %u of %llu bytes cannot be read into: its memory is read-only",
			 mr->id, (unsigned long long)mr->len);
	mr->was_refused = true;
	return -EFAULT;
}

/* Under mr_lock. out NULL: a failure stays for each user of the region. */
static int look(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use,
		uint32_t need, struct rdma_mr **out)
{
	_Atomic(struct rdma_mr *) *place = rdma_mr_place(d, r, use);
	struct rdma_mr *mr = load(place);
	uint32_t state;

	if (!mr)
		mr = create(d, place);
	if (!mr)
		return -ENOMEM;
	state = atomic_load(&mr->state);
	if (state != RDMA_MR_BUSY &&
	    (state == RDMA_MR_NONE || atomic_load(&mr->generation) != r->generation)) {
		begin_to_register(mr, r, access_for(r, use));
		state = atomic_load(&mr->state);
	}
	if (state == RDMA_MR_FAILED && out)
		return take_failure(mr);
	if (!(state & RDMA_MR_READY))
		return -EINPROGRESS;
	if (!(state & need))
		return refuse(mr);
	if (out)
		*out = mr;
	return 0;
}

int rdma_mr_get(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use,
		uint32_t need, struct rdma_mr **out)
{
	struct rdma_mr *mr = rdma_mr_at_hand(d, r, use, need);
	int ret;

	if (mr) {
		*out = mr;
		return 0;
	}
	pthread_mutex_lock(&d->t->mr_lock);
	ret = look(d, r, use, need, out);
	pthread_mutex_unlock(&d->t->mr_lock);
	return ret;
}

void rdma_mr_begin(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use)
{
	if (rdma_mr_at_hand(d, r, use, RDMA_MR_SOURCE))
		return;
	pthread_mutex_lock(&d->t->mr_lock);
	(void)look(d, r, use, RDMA_MR_SOURCE, NULL);
	pthread_mutex_unlock(&d->t->mr_lock);
}

void rdma_mr_progress(struct rdma_domain *d, const struct sl_region *r,
		      struct slime_mr_progress *out)
{
	struct rdma_mr *mr = load(rdma_mr_place(d, r, RDMA_MR_OURS));

	pthread_mutex_lock(&d->t->mr_lock);
	if (mr && mr->wanted && atomic_load(&mr->generation) == r->generation) {
		out->registered = atomic_load(&mr->n_registered);
		out->total = mr->len * d->n_nics - atomic_load(&mr->n_left_out);
		out->chunks = mr->n_chunks;
	}
	pthread_mutex_unlock(&d->t->mr_lock);
}

/* ---- letting go ---- */

/* Under mr_lock: whether it is gone already. */
static bool let_go(struct rdma_mr *mr)
{
	uint32_t state = mr ? atomic_load(&mr->state) : RDMA_MR_NONE;

	/* When its domain is being closed that lets go of it. */
	if (state & RDMA_MR_READY && !mr->domain->closing)
		begin(mr, false);
	return !(state & RDMA_MR_READY) && state != RDMA_MR_BUSY;
}

bool rdma_mr_release(struct rdma_transport *t, const struct sl_region *r)
{
	bool gone = true;
	struct sl_list *e;

	pthread_mutex_lock(&t->mr_lock);
	sl_list_for_each (e, &t->domains) {
		struct rdma_domain *d = SL_CONTAINER_OF(e, struct rdma_domain, link);

		for (unsigned i = 0; i < 2; i++)
			gone = let_go(load(&d->mrs[2 * r->id + i])) && gone;
	}
	pthread_mutex_unlock(&t->mr_lock);
	return gone;
}
