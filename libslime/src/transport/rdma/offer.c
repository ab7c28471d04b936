/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/list.h"
#include "base/wire.h"
#include "base/port_name.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/slot.h"
#include "src/transport/rdma/tidy.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

#define FEW_RECEIVES 4 /* of a queue pair that carries no messages */

/* ---- memory ---- */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Messages go over the first queue pair of a rail; of which one is known with the peer's rails. */
static uint32_t n_receives_of(unsigned qp)
{
	return qp == 0 ? RDMA_RECEIVES : FEW_RECEIVES;
}

static uint32_t n_frames_of(unsigned qp)
{
	return qp == 0 ? RDMA_SENDS : 1;
}

static size_t page_len(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Receives and frames of a rail. */
static size_t rail_len(const struct rdma_offer *o)
{
	size_t n = 0;

	for (unsigned i = 0; i < o->n_qps; i++)
		n += n_receives_of(i) + n_frames_of(i);
	return round_up(n * RDMA_FRAME_PITCH, page_len());
}

/* Each part begins at a page: devices register whole pages, and the peer writes only its own. */
static int map_memory(struct rdma_offer *o)
{
	size_t slots = round_up(RDMA_SLOTS_LEN, page_len());

	o->memory_len = 2 * slots + o->n_rails * rail_len(o);
	o->memory = mmap(NULL, o->memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (o->memory == MAP_FAILED) {
		o->memory = NULL;
		return -ENOMEM;
	}
	/* A fork must not move the parent's pages away from under the device. */
	if (madvise(o->memory, o->memory_len, MADV_DONTFORK))
		return -errno;
	o->in_slots = o->memory;
	o->out_slots = o->memory + slots;
	for (unsigned r = 0; r < o->n_rails; r++)
		o->rails[r].memory = o->memory + 2 * slots + r * rail_len(o);
	return 0;
}

static int reg_mr(struct ibv_pd *pd, uint8_t *at, size_t len, int access, struct ibv_mr **out)
{
	*out = ibv_reg_mr(pd, at, len, access);
	return *out ? 0 : errno ? -errno : -EIO;
}

static int register_memory(struct rdma_offer *o, struct rdma_rail *rail)
{
	struct ibv_pd *pd = o->domain->pds[rail->nic->index];
	size_t slots = (size_t)(o->out_slots - o->in_slots);
	int ret;

	/* Its device failed since it was chosen. */
	if (!pd)
		return -ENODEV;
	ret = reg_mr(pd, o->in_slots, slots, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		     &rail->in);
	if (!ret)
		ret = reg_mr(pd, o->out_slots, slots, 0, &rail->out);
	if (!ret)
		ret = reg_mr(pd, rail->memory, rail_len(o), IBV_ACCESS_LOCAL_WRITE, &rail->own);
	return ret;
}

/* ---- rails ---- */

void rdma_rail_describe(struct rdma_rail *rail)
{
	const struct rdma_nic *nic = rail->nic;
	struct rdma_rail_address *a = &rail->local;

	rail->gid_index = (uint8_t)nic->gid.index;
	memcpy(rail->gid_why, nic->gid_why, sizeof(rail->gid_why));
	a->link_layer = (uint8_t)nic->link_layer;
	a->grh_required = nic->grh_required;
	a->port = nic->port;
	a->mtu = (uint8_t)nic->mtu;
	a->max_rd_atomic = nic->max_rd_atomic;
	a->max_dest_rd_atomic = nic->max_dest_rd_atomic;
	a->position = (uint8_t)nic->index;
	a->numa_node = (int16_t)nic->device.numa_node;
	a->lid = nic->lid;
	a->mbps = nic->mbps;
	memcpy(a->gid, nic->gid.raw, sizeof(a->gid));
	memcpy(a->device, nic->device.name, strnlen(nic->device.name, sizeof(a->device)));
}

static bool has_gid(const struct sl_port *port, const struct rdma_rail *rail)
{
	for (size_t i = 0; i < port->n_gids; i++) {
		if (port->gids[i].index == rail->gid_index &&
		    !memcmp(port->gids[i].raw, rail->local.gid, sizeof(rail->local.gid)))
			return true;
	}
	return false;
}

bool rdma_rail_has_changed(const struct rdma_rail *rail, char *why, size_t cap)
{
	const char *device = rail->nic->device.name;
	struct sl_device_why said;
	struct sl_port port;
	bool changed = true;

	if (sl_port_init(&port, &rail->nic->device, rail->nic->port, &said)) {
		snprintf(why, cap, "%.40s: %.180s", device, said.text);
		return true;
	}
	if (sl_port_check(&port, &said))
		snprintf(why, cap, "%.40s: %.180s", device, said.text);
	else if (!has_gid(&port, rail))
		snprintf(why, cap, "%.40s: the link's address, GID index %u, is gone", device,
			 rail->gid_index);
	else
		changed = false;
	sl_port_fini(&port);
	return changed;
}

static bool has_rail(const struct rdma_offer *o, const struct rdma_nic *nic)
{
	for (unsigned i = 0; i < o->n_rails; i++) {
		if (o->rails[i].nic == nic)
			return true;
	}
	return false;
}

/* The ports of that name (NULL: all) which can be used now. Whether there is one at all. Under
 * setup_lock. */
static bool add_rails(struct rdma_offer *o, const struct sl_port_name *name)
{
	unsigned n_nics = atomic_load(&o->t->n_nics);
	bool found = false;

	for (unsigned i = 0; i < n_nics; i++) {
		struct rdma_nic *nic = o->t->nics[i];

		if (name &&
		    !sl_port_name_is(name, nic->device.name, sizeof(nic->device.name), nic->port))
			continue;
		found = true;
		if (nic->left_out || has_rail(o, nic))
			continue;
		o->rails[o->n_rails].nic = nic;
		rdma_rail_describe(&o->rails[o->n_rails++]);
	}
	return found;
}

/* Those that the endpoint names, in that order; without names all. Under setup_lock. */
static int choose_rails(struct rdma_offer *o, const char *list, struct sl_why *why)
{
	struct sl_port_name names[RDMA_RAILS_MAX];
	size_t n = 0;

	if (!list)
		add_rails(o, NULL);
	else if (sl_port_names_parse(list, names, RDMA_RAILS_MAX, &n))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (add_rails(o, &names[i]))
			continue;
		snprintf(why->text, sizeof(why->text),
			 names[i].port ? "%.63s:%u is not among the RDMA devices of this process"
				       : "%.63s is not among the RDMA devices of this process",
			 names[i].device, names[i].port);
		return -ENODEV;
	}
	if (o->n_rails)
		return 0;
	snprintf(why->text, sizeof(why->text),
		 "none of the ports that this link names is up: %.160s", list);
	return -ENETDOWN;
}

static int make_qps(struct rdma_offer *o, unsigned r)
{
	struct rdma_rail *rail = &o->rails[r];
	uint8_t *at = rail->memory;

	for (unsigned i = 0; i < o->n_qps; i++) {
		struct rdma_qp *q;
		int ret = rdma_qp_create(rail->nic, o->domain->pds[rail->nic->index],
					 n_receives_of(i), &q);

		if (ret)
			return ret;
		rail->qps[i] = q;
		q->n_frames = n_frames_of(i);
		q->lkey = rail->own->lkey;
		q->slots_lkey = rail->out->lkey;
		q->receives = at;
		q->frames = at + (size_t)q->n_receives * RDMA_FRAME_PITCH;
		at = q->frames + (size_t)q->n_frames * RDMA_FRAME_PITCH;
		rail->local.qps[i] = (struct rdma_qp_address){ q->ibv->qp_num, q->psn };
	}
	return 0;
}

static void say_unregistered(const struct rdma_nic *nic, int ret, struct sl_why *why)
{
	snprintf(why->text, sizeof(why->text),
		 "%.40s: memory of the link cannot be registered: %s%s", nic->device.name,
		 strerror(-ret),
		 ret == -ENOMEM ? " (is the limit of locked memory, ulimit -l, large enough?)"
				: "");
}

/* A device that has no more of them says so in the words of one that has no memory. What some have
 * of them is locked memory. */
static void say_no_qp(const struct rdma_nic *nic, int ret, struct sl_why *why)
{
	char hint[96] = "";

	if (ret == -ENOMEM)
		snprintf(
			hint, sizeof(hint),
			" (of %d for all; is the limit of locked memory, ulimit -l, large enough?)",
			nic->device.attr.orig_attr.max_qp);
	snprintf(why->text, sizeof(why->text), "%.32s: no queue pair: %.40s%s", nic->device.name,
		 strerror(-ret), hint);
}

static int make_rails(struct rdma_offer *o, struct sl_why *why)
{
	for (unsigned r = 0; r < o->n_rails; r++) {
		int ret = register_memory(o, &o->rails[r]);

		if (ret) {
			say_unregistered(o->rails[r].nic, ret, why);
			return ret;
		}
		o->rails[r].local.slots_key = o->rails[r].in->rkey;
		ret = make_qps(o, r);
		if (ret) {
			say_no_qp(o->rails[r].nic, ret, why);
			return ret;
		}
	}
	return 0;
}

/* The peer's ports that the endpoint names: its creation checked the list. */
static void name_ports(struct rdma_candidate *c, const char *list)
{
	struct sl_port_name names[RDMA_RAILS_MAX];
	size_t n;

	if (!list || sl_port_names_parse(list, names, RDMA_RAILS_MAX, &n))
		return;
	c->n_named = (unsigned)n;
	for (size_t i = 0; i < n; i++) {
		memcpy(c->named[i].device, names[i].device,
		       strnlen(names[i].device, sizeof(c->named[i].device)));
		c->named[i].port = names[i].port;
	}
}

static void write_bytes(struct rdma_offer *o, const struct slime_endpoint_attr *attr)
{
	struct sl_writer w = { .at = o->bytes, .room = sizeof(o->bytes) };
	struct rdma_candidate c = {
		.n_rails = o->n_rails,
		.n_qps = o->n_qps,
		.features = RDMA_FEATURES,
		.pair = o->t->base.env->attr->rdma_pair,
		.slots = (uintptr_t)o->in_slots,
		.min_bandwidth = attr->rdma_min_bandwidth,
		.most_rails = attr->rdma_rails ? attr->rdma_rails : RDMA_RAILS_MAX,
	};

	name_ports(&c, attr->rdma_peer_devices);
	for (unsigned r = 0; r < o->n_rails; r++)
		c.rails[r] = o->rails[r].local;
	rdma_candidate_write(&c, &w);
	o->len = sizeof(o->bytes) - w.room;
}

/* ---- life ---- */

void rdma_offer_close(struct rdma_offer *o)
{
	for (unsigned r = 0; r < o->n_rails; r++) {
		for (unsigned i = 0; i < RDMA_QPS_MAX; i++) {
			if (o->rails[r].qps[i])
				rdma_qp_close(o->rails[r].qps[i]);
		}
		rdma_nic_deregister(o->rails[r].nic, &o->rails[r].in);
		rdma_nic_deregister(o->rails[r].nic, &o->rails[r].out);
		rdma_nic_deregister(o->rails[r].nic, &o->rails[r].own);
	}
	if (o->domain && o->domain->isolated)
		rdma_domain_close(o->domain);
}

void rdma_offer_free(struct rdma_offer *o)
{
	pthread_mutex_lock(&o->t->lock);
	sl_list_remove(&o->link);
	pthread_mutex_unlock(&o->t->lock);
	for (unsigned r = 0; r < o->n_rails; r++) {
		for (unsigned i = 0; i < RDMA_QPS_MAX; i++) {
			if (o->rails[r].qps[i])
				rdma_qp_free(o->rails[r].qps[i]);
		}
	}
	if (o->memory)
		munmap(o->memory, o->memory_len);
	if (o->domain && o->domain->isolated)
		rdma_domain_free(o->domain);
	free(o);
}

void rdma_offer_forget(struct rdma_offer *o)
{
	for (unsigned r = 0; r < o->n_rails; r++) {
		for (unsigned i = 0; i < RDMA_QPS_MAX; i++) {
			if (o->rails[r].qps[i])
				free(o->rails[r].qps[i]->sent);
			free(o->rails[r].qps[i]);
		}
	}
	free(o);
}

static int choose_domain(struct rdma_offer *o, bool isolated)
{
	if (isolated)
		return rdma_domain_create(o->t, true, &o->domain);
	o->domain = o->t->shared;
	return 0;
}

static void work_drop(struct rdma_job *job)
{
	rdma_offer_close(SL_CONTAINER_OF(job, struct rdma_offer, job));
}

static void done_drop(struct rdma_job *job)
{
	struct rdma_transport *t = job->t;

	rdma_offer_free(SL_CONTAINER_OF(job, struct rdma_offer, job));
	rdma_tidy(t);
}

void rdma_offer_drop(struct rdma_offer *o)
{
	rdma_job_start(o->t, &o->job, work_drop, done_drop);
}

int rdma_offer_create(struct rdma_transport *t, const struct slime_endpoint_attr *attr,
		      struct rdma_offer **out, struct sl_why *why)
{
	struct rdma_offer *o = calloc(1, sizeof(*o));
	int ret = o ? 0 : -ENOMEM;

	snprintf(why->text, sizeof(why->text), "no memory for a link");
	if (ret)
		return ret;
	o->t = t;
	o->n_qps = attr->rdma_qps ? attr->rdma_qps : t->base.env->attr->rdma_qps;
	ret = choose_rails(o, attr->rdma_devices, why);
	if (ret) {
		free(o);
		return ret;
	}
	pthread_mutex_lock(&t->lock);
	sl_list_append(&t->offers, &o->link);
	pthread_mutex_unlock(&t->lock);
	ret = choose_domain(o, attr->isolated);
	if (ret)
		snprintf(why->text, sizeof(why->text), "no protection domain: %s", strerror(-ret));
	else
		ret = map_memory(o);
	if (!ret)
		ret = make_rails(o, why);
	if (!ret) {
		write_bytes(o, attr);
		*out = o;
		return 0;
	}
	/* Not here: the token's holder may have an event of a queue pair that stays. */
	rdma_offer_drop(o);
	return ret;
}
