/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner under requests of any bytes: each is answered once, nothing is read into memory outside
 * of pages, and no page stays taken. The agent, its links and regions are fakes in this file. The
 * input is a row of requests: u8 number of the method, u16 length, bytes. A request gets the right
 * to the tenant, unless NO_RIGHT is set in the number.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pages/src/message.h"
#include <slime/pages.h>

#define METHODS_MAX 16
#define REPLY_MAX   (64 * 1024)
#define SIZE	    (UINT64_C(4) << 20)
#define REQUESTS    64 /* of one input */
#define NO_RIGHT    0x80
#define RIGHT_AT    8 /* in a request */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* ---- an agent whose peers have no links of their own ---- */

struct slime_agent {
	struct slime_rpc_method_attr methods[METHODS_MAX];
	size_t n_methods;
};

struct slime_rpc_request {
	uint8_t *data; /* as long as the request: what is read behind it is seen */
	size_t len;
	uint8_t *reply;
	size_t reply_len;
	unsigned n_answers;
	sem_t answered;
};

struct slime_op {
	slime_op_fn *fn;
	void *arg;
};

struct slime_mem {
	uint8_t *bytes;
	size_t len;
};

static struct slime_agent agent;
static struct slime_mem memory;

struct slime_context *slime_agent_context(const struct slime_agent *a)
{
	(void)a;
	return NULL;
}

int slime_agent_method_add(struct slime_agent *a, const char *name,
			   const struct slime_rpc_method_attr *attr)
{
	(void)name;
	must(a->n_methods < METHODS_MAX);
	a->methods[a->n_methods++] = *attr;
	return 0;
}

int slime_agent_method_remove(struct slime_agent *a, const char *name)
{
	(void)a;
	(void)name;
	return 0;
}

int slime_agent_service_add(struct slime_agent *a, const char *name)
{
	(void)a;
	(void)name;
	return 0;
}

int slime_agent_endpoint_get(struct slime_agent *a, const char *peer, const char *profile,
			     int64_t timeout_ms, struct slime_endpoint **out)
{
	(void)a;
	(void)timeout_ms;
	must(strlen(peer) <= SLIME_AGENT_NAME_MAX && strlen(profile) <= SLIME_AGENT_NAME_MAX);
	*out = (struct slime_endpoint *)(void *)&agent;
	return peer[0] == 'w' ? 0 : -ESHUTDOWN; /* other errors are waited out */
}

void slime_endpoint_info(const struct slime_endpoint *ep, struct slime_endpoint_info *out)
{
	(void)ep;
	*out = (struct slime_endpoint_info){ .state = SLIME_ENDPOINT_CONNECTED };
}

void slime_agent_endpoint_put(struct slime_agent *a, struct slime_endpoint *ep)
{
	(void)a;
	(void)ep;
}

void slime_endpoint_close(struct slime_endpoint *ep)
{
	(void)ep;
}

int slime_agent_region_offer(struct slime_agent *a, const char *name, struct slime_mr *mr,
			     uint32_t access, const char *const *allow, size_t n_allow)
{
	(void)a, (void)name, (void)mr, (void)access, (void)allow, (void)n_allow;
	return 0;
}

int slime_agent_region_withdraw(struct slime_agent *a, const char *name)
{
	(void)a;
	(void)name;
	return 0;
}

/* ---- memory ---- */

int slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
		    struct slime_mem **out)
{
	(void)ctx;
	(void)attr;
	memory = (struct slime_mem){ .bytes = aligned_alloc(4096, len), .len = len };
	*out = &memory;
	return memory.bytes ? 0 : -ENOMEM;
}

void *slime_mem_addr(const struct slime_mem *mem)
{
	return mem->bytes;
}

size_t slime_mem_len(const struct slime_mem *mem)
{
	return mem->len;
}

int slime_mem_destroy(struct slime_mem *mem)
{
	free(mem->bytes);
	return 0;
}

int slime_mr_create_attr(struct slime_context *ctx, void *addr, size_t len,
			 const struct slime_mr_attr *attr, struct slime_mr **out)
{
	(void)ctx, (void)addr, (void)len, (void)attr;
	*out = (struct slime_mr *)(void *)&memory;
	return 0;
}

int slime_mr_export(const struct slime_mr *mr, void *buf, size_t cap)
{
	(void)mr;
	must(cap > 0);
	*(uint8_t *)buf = 1;
	return 1;
}

int slime_mr_destroy(struct slime_mr *mr)
{
	(void)mr;
	return 0;
}

int slime_remote_mr_import(const void *buf, size_t len, struct slime_remote_mr *out)
{
	if (!len || *(const uint8_t *)buf != 1)
		return -EINVAL;
	*out = (struct slime_remote_mr){ .owner = 1, .len = SIZE };
	return 0;
}

/* ---- reading from writers ---- */

int slime_op_create(struct slime_context *ctx, const struct slime_op_attr *attr,
		    struct slime_op **out)
{
	(void)ctx;
	*out = malloc(sizeof(**out));
	must(*out);
	**out = (struct slime_op){ .fn = attr->fn, .arg = attr->arg };
	return 0;
}

int slime_op_destroy(struct slime_op *op)
{
	free(op);
	return 0;
}

bool slime_op_test(struct slime_op *op)
{
	(void)op;
	return true;
}

int slime_op_wait(struct slime_op *op, int64_t timeout_ms)
{
	(void)op;
	(void)timeout_ms;
	return 0;
}

int slime_op_status(const struct slime_op *op)
{
	(void)op;
	return 0;
}

/* A writer's bytes are zeros; what lies outside of its region is refused. */
int slime_read(struct slime_endpoint *ep, const struct slime_xfer *xfers, size_t n, uint32_t flags,
	       struct slime_op *op)
{
	(void)ep;
	(void)flags;
	for (size_t i = 0; i < n; i++) {
		const struct slime_xfer *x = &xfers[i];

		must(x->local_offset <= memory.len && x->len <= memory.len - x->local_offset);
		if (x->remote_offset > x->remote->len || x->len > x->remote->len - x->remote_offset)
			return -ERANGE;
	}
	for (size_t i = 0; i < n; i++)
		memset(memory.bytes + xfers[i].local_offset, 0, xfers[i].len);
	op->fn(op->arg, op);
	return 0;
}

/* ---- requests ---- */

const void *slime_rpc_request_data(const struct slime_rpc_request *req)
{
	return req->data;
}

size_t slime_rpc_request_len(const struct slime_rpc_request *req)
{
	return req->len;
}

void *slime_rpc_reply_buffer(struct slime_rpc_request *req, size_t len)
{
	must(!req->reply);
	if (!len || len > REPLY_MAX)
		return NULL;
	req->reply = malloc(len);
	req->reply_len = len;
	return req->reply;
}

static int answer(struct slime_rpc_request *req)
{
	req->n_answers++;
	sem_post(&req->answered);
	return 0;
}

int slime_rpc_reply_commit(struct slime_rpc_request *req, size_t len)
{
	must(len <= req->reply_len);
	return answer(req);
}

int slime_rpc_reply(struct slime_rpc_request *req, const void *data, size_t len)
{
	(void)data;
	(void)len;
	return answer(req);
}

int slime_rpc_reply_error(struct slime_rpc_request *req, uint32_t code, const char *message)
{
	must(code > 0 && code <= 4095 && message);
	return answer(req);
}

static void give_right(uint8_t *request, size_t len)
{
	struct slime_remote_mr region;
	const uint8_t desc = 1;

	if (len < RIGHT_AT + PAGES_RIGHT_LEN)
		return;
	must(slime_remote_mr_import(&desc, 1, &region) == 0);
	pages_right(&region, request + RIGHT_AT);
}

static void ask(uint8_t number, const uint8_t *data, size_t len)
{
	const struct slime_rpc_method_attr *method =
		&agent.methods[(number & ~NO_RIGHT) % agent.n_methods];
	struct slime_rpc_request req = { .data = malloc(len), .len = len };

	must(req.data || !len);
	if (len)
		memcpy(req.data, data, len);
	if (!(number & NO_RIGHT))
		give_right(req.data, len);
	sem_init(&req.answered, 0, 0);
	method->fn(method->arg, &req);
	while (sem_wait(&req.answered))
		;
	must(req.n_answers == 1);
	sem_destroy(&req.answered);
	free(req.reply);
	free(req.data);
}

static void check(struct slime_pages_owner *owner)
{
	struct slime_pages_stat stat;

	must(slime_pages_owner_stat(owner, NULL, &stat) == 0);
	must(stat.used <= stat.size && stat.bytes <= stat.used && !stat.filling);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const uint32_t classes[] = { 4096 };
	const struct slime_pages_tenant tenant = { .size = SIZE };
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	struct sl_reader r = { .at = data, .left = len };
	struct slime_pages_owner *owner;

	attr.tenants = &tenant;
	attr.n_tenants = 1;
	attr.classes = classes;
	attr.n_classes = 1;
	agent.n_methods = 0;
	must(slime_pages_owner_create(&agent, &attr, &owner) == 0);
	must(slime_pages_owner_start(owner) == 0);
	for (int i = 0; i < REQUESTS && r.left; i++) {
		uint8_t number = sl_read_u8(&r);
		uint16_t n = sl_read_u16(&r);
		const uint8_t *bytes = sl_read_span(&r, n);

		if (!bytes)
			break;
		ask(number, bytes, n);
		check(owner);
	}
	must(slime_pages_owner_destroy(owner) == 0);
	return 0;
}
