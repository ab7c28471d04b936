/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 5: calls by name.
 *
 * Bob offers methods, Alice calls them. One is short and runs where messages arrive; one runs on a
 * worker, and how long its bytes are makes no difference; one answers later, from another place;
 * and one fails, with a code and a message of its own.
 */
#include "lesson.h"

#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PAGE_LEN (3u << 20)

/* ---- bob ---- */

/* Inline handlers are quick: everything else of this context waits for them. */
static void add(void *arg, struct slime_rpc_request *req)
{
	int64_t numbers[2];
	int64_t sum;

	(void)arg;
	if (slime_rpc_request_len(req) != sizeof(numbers)) {
		slime_rpc_reply_error(req, 1, "two numbers, please");
		return;
	}
	memcpy(numbers, slime_rpc_request_data(req), sizeof(numbers));
	sum = numbers[0] + numbers[1];
	slime_rpc_reply(req, &sum, sizeof(sum));
}

/* A worker may take its time. It writes the reply where it is sent from: no copy of 3 MiB. */
static void read_page(void *arg, struct slime_rpc_request *req)
{
	char *page = slime_rpc_reply_buffer(req, PAGE_LEN);

	(void)arg;
	if (!page) {
		slime_rpc_reply_error(req, 2, "no room for a page");
		return;
	}
	memset(page, 'p', PAGE_LEN);
	slime_rpc_reply_commit(req, PAGE_LEN);
}

struct desk {
	sem_t occupied;
	struct slime_rpc_request *request;
};

/* A handler need not answer before it returns. This one leaves that to bob himself. */
static void wait_for_news(void *arg, struct slime_rpc_request *req)
{
	struct desk *desk = arg;

	desk->request = req;
	sem_post(&desk->occupied);
}

static void offer(struct slime_rpc_service *service, const char *name, slime_rpc_fn *fn, void *arg,
		  uint32_t flags)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.arg = arg;
	attr.flags = flags;
	TRY(slime_rpc_method_add(service, name, &attr));
}

static void bob(int channel)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_rpc_service *service;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	struct desk desk;
	char byte;

	TRY(sem_init(&desk.occupied, 0, 0) ? -errno : 0);
	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	/* The methods first, then the endpoint that offers them. */
	TRY(slime_rpc_service_create(ctx, &service));
	offer(service, "add", add, NULL, SLIME_RPC_INLINE);
	offer(service, "read_page", read_page, NULL, 0);
	offer(service, "wait_for_news", wait_for_news, &desk, SLIME_RPC_INLINE);
	attr.service = service;
	TRY(slime_endpoint_create(ctx, &attr, &ep));
	connect_over(channel, ep, op);

	/* The context's threads serve by themselves. Here is only what is answered later. */
	while (sem_wait(&desk.occupied))
		; /* a signal */
	TRY(slime_rpc_reply(desk.request, "it rains", sizeof("it rains")));

	hear(channel, &byte, sizeof(byte));
	TRY(slime_endpoint_destroy(ep));
	TRY(slime_rpc_service_destroy(service));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
	sem_destroy(&desk.occupied);
}

/* ---- alice ---- */

static void call_add(struct slime_endpoint *ep, struct slime_call *call)
{
	int64_t numbers[2] = { 40, 2 };
	int64_t sum = 0;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	const char *message;

	args.method = slime_rpc_method_id("add");
	args.request = numbers;
	args.request_len = sizeof(numbers);
	args.reply = &sum;
	args.reply_cap = sizeof(sum);
	TRY(slime_call_start(ep, &args, call));
	TRY(slime_call_wait(call, -1));
	TRY(slime_call_status(call));
	printf("alice: 40 + 2 is %lld\n", (long long)sum);

	/* The same call again, with half of what the method wants. */
	args.request_len = sizeof(numbers[0]);
	TRY(slime_call_start(ep, &args, call));
	TRY(slime_call_wait(call, -1));
	if (slime_call_status(call) != -EREMOTEIO || slime_call_error(call, &message) != 1)
		TRY(-EBADMSG);
	printf("alice: bob says \"%s\"\n", message);
}

/* Two calls under way at once: a long reply, and one that comes when it comes. */
static void call_others(struct slime_endpoint *ep, struct slime_call *page, struct slime_call *news)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	char weather[64];
	const char *bytes;

	args.method = slime_rpc_method_id("wait_for_news");
	args.reply = weather;
	args.reply_cap = sizeof(weather);
	args.timeout_ms = 10000;
	TRY(slime_call_start(ep, &args, news));

	args.method = slime_rpc_method_id("read_page");
	/* Without room of ours the call keeps the reply until it is released. */
	args.reply = NULL;
	args.reply_cap = PAGE_LEN;
	TRY(slime_call_start(ep, &args, page));
	TRY(slime_call_wait(page, -1));
	TRY(slime_call_status(page));
	bytes = slime_call_reply_data(page);
	if (slime_call_reply_len(page) != PAGE_LEN || bytes[PAGE_LEN - 1] != 'p')
		TRY(-EBADMSG);
	printf("alice: a page of %zu bytes\n", slime_call_reply_len(page));
	slime_call_release(page);

	TRY(slime_call_wait(news, -1));
	TRY(slime_call_status(news));
	printf("alice: the news is that %s\n", weather);
}

static void alice(int channel)
{
	struct slime_call *call, *other;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;

	TRY(slime_context_create(NULL, &ctx));
	TRY(slime_op_create(ctx, NULL, &op));
	TRY(slime_call_create(ctx, NULL, &call));
	TRY(slime_call_create(ctx, NULL, &other));
	TRY(slime_endpoint_create(ctx, NULL, &ep));
	connect_over(channel, ep, op);

	call_add(ep, call);
	call_others(ep, call, other);

	tell(channel, "x", 1);
	TRY(slime_endpoint_destroy(ep));
	TRY(slime_call_destroy(call));
	TRY(slime_call_destroy(other));
	TRY(slime_op_destroy(op));
	TRY(slime_context_destroy(ctx));
}

int main(void)
{
	return lesson(alice, bob);
}
