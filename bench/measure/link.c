/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/measure/echo.h"
#include "bench/rounds/memory.h"
#include "bench/rounds/pair.h"

#define CONNECT_MS 10000

/* In a context that there is. */
static int create_endpoint(struct link *l, const struct options *o)
{
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	int ret = slime_op_create(l->ctx, NULL, &l->op);

	ep_attr.transports[0] = (enum slime_transport)o->transport;
	ep_attr.service = l->service;
	return ret ? ret : slime_endpoint_create(l->ctx, &ep_attr, &l->ep);
}

static int create(struct link *l, const struct options *o, enum link_side side, bool manual)
{
	struct slime_context_attr ctx_attr = SLIME_CONTEXT_ATTR_INIT;
	int ret;

	ctx_attr.polling = (enum slime_polling)o->polling;
	ctx_attr.foreign_memory = o->foreign ? SLIME_FOREIGN_REQUIRE : SLIME_FOREIGN_OFF;
	ctx_attr.manual = manual;
	ctx_attr.rdma_devices = side == LINK_SERVER ? o->server_device : o->device;
	ctx_attr.rdma_qps = (uint32_t)o->qps;
	ret = slime_context_create(&ctx_attr, &l->ctx);
	if (!ret)
		ret = echo_service_create(l->ctx, &l->service);
	return ret ? ret : create_endpoint(l, o);
}

static int connect_over(struct link *l, int channel)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	ssize_t len = slime_endpoint_export(l->ep, desc, sizeof(desc));
	int ret = len < 0 ? (int)len : pair_tell(channel, desc, (size_t)len);

	if (ret)
		return ret;
	len = pair_hear_some(channel, desc, sizeof(desc));
	if (len <= 0)
		return len ? (int)len : -ECONNRESET;
	ret = slime_endpoint_connect(l->ep, desc, (size_t)len, CONNECT_MS, l->op);
	if (!ret)
		ret = slime_op_wait(l->op, -1);
	return ret ? ret : slime_op_status(l->op);
}

static int open_either(struct link *l, const struct options *o, enum link_side side, bool manual,
		       int channel)
{
	int ret;

	memset(l, 0, sizeof(*l));
	ret = create(l, o, side, manual);
	if (!ret)
		ret = connect_over(l, channel);
	if (ret)
		link_close(l);
	return ret;
}

int link_open(struct link *l, const struct options *o, enum link_side side, int channel)
{
	return open_either(l, o, side, false, channel);
}

int link_open_manual(struct link *l, const struct options *o, enum link_side side, int channel)
{
	return open_either(l, o, side, true, channel);
}

void link_close(struct link *l)
{
	if (slime_endpoint_destroy(l->ep) || slime_rpc_service_destroy(l->service) ||
	    slime_op_destroy(l->op) || slime_context_destroy(l->ctx))
		fprintf(stderr, "slime-measure: something is still in use at the end\n");
}

int link_open_beside(struct link *l, const struct link *first, const struct options *o, int channel)
{
	int ret;

	*l = (struct link){ .ctx = first->ctx, .service = first->service };
	ret = create_endpoint(l, o);
	if (!ret)
		ret = connect_over(l, channel);
	if (ret)
		link_close_beside(l);
	return ret;
}

void link_close_beside(struct link *l)
{
	if (slime_endpoint_destroy(l->ep) || slime_op_destroy(l->op))
		fprintf(stderr, "slime-measure: a link is still in use at the end\n");
}

int space_open(struct space *s, struct link *l, uint64_t len, uint32_t access, bool foreign)
{
	int ret;

	*s = (struct space){ .len = len };
	if (foreign) {
		s->bytes = memory_map(-1, len);
		ret = s->bytes ? 0 : -ENOMEM;
	} else {
		ret = slime_mem_alloc(l->ctx, len, NULL, &s->mem);
		s->bytes = ret ? NULL : slime_mem_addr(s->mem);
	}
	if (!ret)
		ret = slime_mr_create(l->ctx, s->bytes, len, access, &s->mr);
	if (ret)
		space_close(s);
	return ret;
}

void space_close(struct space *s)
{
	bool foreign = s->bytes && !s->mem;

	if (slime_mr_destroy(s->mr) || slime_mem_destroy(s->mem))
		fprintf(stderr, "slime-measure: a region is still in use at the end\n");
	else if (foreign)
		memory_unmap(s->bytes, s->len);
}

int space_tell(const struct space *s, int channel)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(s->mr, desc, sizeof(desc));

	return len < 0 ? len : pair_tell(channel, desc, (size_t)len);
}

int space_hear(struct slime_remote_mr *out, int channel)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	ssize_t len = pair_hear_some(channel, desc, sizeof(desc));

	if (len <= 0)
		return len ? (int)len : -ECONNRESET;
	return slime_remote_mr_import(desc, (size_t)len, out);
}
