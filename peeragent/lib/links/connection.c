/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOT_JOINED 1

static void report(struct connection *c, enum connection_state state, int cause, const char *text)
{
	c->state = state;
	c->fn(c->arg, c, state, cause, text);
}

static void come_up(struct connection *c, enum slime_transport transport)
{
	c->transport = transport;
	report(c, CONNECTION_UP, 0, "");
}

/* Something changed: look what it is now. A connection can have come up and broken since. */
static void on_changed(void *arg)
{
	struct connection *c = arg;
	struct slime_endpoint_info info;
	int joined = atomic_load(&c->joined);

	if (!c->fn || c->state == CONNECTION_DOWN)
		return;
	slime_endpoint_info(c->ep, &info);
	if (c->state == CONNECTION_OPENING && joined < 0)
		report(c, CONNECTION_DOWN, joined,
		       info.cause_text[0] ? info.cause_text : strerror(-joined));
	else if (info.state == SLIME_ENDPOINT_BROKEN)
		report(c, CONNECTION_DOWN, info.cause ? info.cause : -ECONNRESET, info.cause_text);
	else if (info.state == SLIME_ENDPOINT_CLOSED)
		report(c, CONNECTION_DOWN, -ECONNRESET, CONNECTION_CLOSED);
	else if (c->state == CONNECTION_OPENING && joined == 0)
		come_up(c, info.transport);
}

/* On the progress thread. */
static void on_state(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		     int cause)
{
	struct connection *c = arg;

	(void)ep;
	(void)state;
	(void)cause;
	loop_post(c->set->loop, &c->changed);
}

/* On the progress thread. */
static void on_joined(void *arg, struct slime_op *op)
{
	struct connection *c = arg;

	atomic_store(&c->joined, slime_op_status(op));
	loop_post(c->set->loop, &c->changed);
}

int connection_create(struct connections *set, const char *name,
		      const enum slime_transport *transports, const struct slime_agent_link *link,
		      connection_fn *fn, void *arg, struct connection **out)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_op_attr op_attr = { .fn = on_joined };
	struct connection *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->set = set;
	c->fn = fn;
	c->arg = arg;
	sl_list_init(&c->memory);
	atomic_init(&c->joined, NOT_JOINED);
	loop_task_init(&c->changed, on_changed, c);
	op_attr.arg = c;
	ret = slime_op_create(set->ctx, &op_attr, &c->op);
	if (ret)
		goto free_connection;
	attr.name = name;
	memcpy(attr.transports, transports, sizeof(attr.transports));
	attr.on_state = on_state;
	attr.quiet = true; /* one of many tries, perhaps */
	attr.arg = c;
	attr.service = set->service;
	attr.isolated = *set->isolated;
	if (link) {
		attr.rdma_qps = link->qps;
		attr.rdma_rails = link->rails;
		attr.rdma_devices = link->devices;
		attr.rdma_peer_devices = link->peer_devices;
		attr.rdma_min_bandwidth = link->min_bandwidth;
		attr.max_bandwidth = link->max_bandwidth;
	}
	ret = slime_endpoint_create(set->ctx, &attr, &c->ep);
	if (ret)
		goto destroy_op;
	sl_list_append(&set->all, &c->node);
	*out = c;
	return 0;

destroy_op:
	slime_op_destroy(c->op);
free_connection:
	free(c);
	return ret;
}

int connection_join(struct connection *c, const void *desc, size_t len, uint32_t timeout_ms)
{
	return slime_endpoint_connect(c->ep, desc, len, timeout_ms, c->op);
}

/* On the helper: waits for the end of the connection. */
static void destroy_endpoint(void *arg)
{
	struct connection *c = arg;

	slime_endpoint_destroy(c->ep);
	/* It has ended; its callback may run still. */
	if (slime_op_wait(c->op, -1) == 0)
		slime_op_destroy(c->op);
}

/* No callback can come any more, and those that came have run. */
static void on_destroyed(void *arg)
{
	struct connection *c = arg;
	struct connections *set = c->set;
	struct sl_list *node;

	while ((node = sl_list_pop(&c->memory))) {
		struct connection_memory *memory =
			SL_CONTAINER_OF(node, struct connection_memory, node);

		memory->free(memory);
	}
	sl_list_remove(&c->node);
	free(c);
	if (sl_list_empty(&set->all) && set->on_empty)
		set->on_empty(set->arg);
}

static void destroy_if_unused(struct connection *c)
{
	if (!c->fn && !c->n_holds)
		helper_submit(c->set->helper, &c->destroy, destroy_endpoint, on_destroyed, c);
}

void connection_hold(struct connection *c)
{
	c->n_holds++;
}

void connection_release(struct connection *c)
{
	c->n_holds--;
	destroy_if_unused(c);
}

void connection_keep(struct connection *c, struct connection_memory *memory)
{
	sl_list_append(&c->memory, &memory->node);
}

void connection_retire(struct connection *c)
{
	c->fn = NULL;
	slime_endpoint_close(c->ep);
	destroy_if_unused(c);
}

struct connection *connection_of(struct connections *set, const struct slime_endpoint *ep)
{
	struct sl_list *e;

	sl_list_for_each (e, &set->all) {
		struct connection *c = SL_CONTAINER_OF(e, struct connection, node);

		if (c->ep == ep && c->n_holds)
			return c;
	}
	return NULL;
}
