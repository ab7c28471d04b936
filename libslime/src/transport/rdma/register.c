/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/register.h"

#define ADVISE_STEP (UINT64_C(1) << 30) /* a list entry counts 32 bits */

static int access_of(const struct rdma_mr *mr)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (mr->access & SLIME_ACCESS_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (mr->access & SLIME_ACCESS_REMOTE_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (mr->on_demand)
		access |= IBV_ACCESS_ON_DEMAND;
	return access;
}

/* Reads and writes of both sides are what regions are for. */
static bool has_paging(const struct rdma_nic *nic)
{
	const struct ibv_odp_caps *caps = &nic->device.attr.odp_caps;
	uint32_t needed = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;

	return caps->general_caps & IBV_ODP_SUPPORT &&
	       (caps->per_transport_caps.rc_odp_caps & needed) == needed;
}

/* The pages that are there need not fault one by one. It is advice: what it comes to does not
 * matter. */
static void advise(struct ibv_mr *ibv, const uint8_t *at, uint64_t len)
{
	for (uint64_t done = 0; done < len; done += ADVISE_STEP) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)at + done,
			.length = (uint32_t)(len - done < ADVISE_STEP ? len - done : ADVISE_STEP),
			.lkey = ibv->lkey,
		};

		(void)ibv_advise_mr(ibv->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1);
	}
}

static struct ibv_mr *register_host(struct ibv_pd *pd, const struct rdma_mr *mr, uint8_t *at,
				    uint64_t len, bool *read_only)
{
	int access = access_of(mr);
	struct ibv_mr *ibv = ibv_reg_mr(pd, at, len, access);

	/* Memory that cannot be written to can still be read. */
	*read_only = !ibv && errno == EFAULT && !(mr->access & SLIME_ACCESS_REMOTE_WRITE);
	if (*read_only)
		ibv = ibv_reg_mr(pd, at, len, access & ~IBV_ACCESS_LOCAL_WRITE);
	return ibv;
}

static bool is_unknown(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == ENOTTY || err == EPROTONOSUPPORT;
}

/* By its dmabuf where there is one, and the kernel and the device know what that is; else by its
 * address. */
static struct ibv_mr *register_device(struct ibv_pd *pd, const struct rdma_mr *mr, uint8_t *at,
				      uint64_t len)
{
	int access = access_of(mr);
	struct ibv_mr *ibv;

	if (mr->dmabuf_fd < 0)
		return ibv_reg_mr(pd, at, len, access);
	ibv = ibv_reg_dmabuf_mr(pd, mr->dmabuf_offset + (uint64_t)(at - mr->base), len,
				(uintptr_t)at, mr->dmabuf_fd, access);
	if (!ibv && is_unknown(errno) && mr->has_address) {
		int err = errno;

		ibv = ibv_reg_mr(pd, at, len, access);
		errno = err;
	}
	return ibv;
}

struct ibv_mr *rdma_register(const struct rdma_nic *nic, struct ibv_pd *pd,
			     const struct rdma_mr *mr, uint8_t *at, uint64_t len, bool *read_only)
{
	struct ibv_mr *ibv;

	*read_only = false;
	errno = EOPNOTSUPP;
	if (mr->on_demand && !has_paging(nic))
		return NULL;
	errno = 0;
	if (mr->is_device)
		ibv = register_device(pd, mr, at, len);
	else
		ibv = register_host(pd, mr, at, len, read_only);
	if (ibv && mr->on_demand)
		advise(ibv, at, len);
	return ibv;
}

static const char *peer_memory(void)
{
	return access("/sys/module/nvidia_peermem", F_OK)
		       ? "nvidia-peermem is not loaded"
		       : "nvidia-peermem is loaded and does not know the address";
}

void rdma_register_why(const struct rdma_mr *mr, int err, char *out, size_t cap)
{
	const char *hint = "";
	const char *more = "";

	if (mr->on_demand && err == EOPNOTSUPP) {
		hint = "on-demand paging was asked for, and the device has none for reads and "
		       "writes of reliable connections";
	} else if (mr->dmabuf_fd >= 0 && is_unknown(err)) {
		hint = "a dmabuf takes Linux 5.12 and a driver of the adapter that knows it; "
		       "without it, ";
		more = peer_memory();
	} else if (mr->dmabuf_fd >= 0 && err != ENOMEM) {
		hint = "is that a dmabuf of its exporter, and as long?";
	} else if (mr->is_device && err == EFAULT) {
		hint = "memory of a device takes peer memory or a dmabuf: ";
		more = peer_memory();
	} else if (err == EFAULT) {
		hint = "memory of a device has to be made known as such";
	} else if (err == ENOMEM && !mr->is_device) {
		hint = "is the limit of locked memory, ulimit -l, large enough?";
	}
	snprintf(out, cap, "%s%s%s%s", strerror(err), *hint ? ": " : "", hint, more);
}
