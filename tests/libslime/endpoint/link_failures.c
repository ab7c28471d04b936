/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out at every place between the creation of two contexts and the end of their link:
 * something says so, and nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <string.h>

#include "support/echo.h"
#include <slime/slime.h>
#include <tests/support/fail_alloc.h>

#define LEN	    100000
#define PATIENCE_MS 60000

struct end {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	struct slime_call *call;
};

/* No other thread calls the library: but for registration over rdma, the n-th allocation is always
 * the same. */
static struct end ends[2];

static int create_context(struct end *e)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.manual = true;
	return slime_context_create(&attr, &e->ctx);
}

static int add_echo(struct end *e)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = test_echo;
	attr.flags = SLIME_RPC_INLINE;
	return slime_rpc_method_add(e->service, "echo", &attr);
}

static int create_endpoint(struct end *e, enum slime_transport transport)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	attr.transports[0] = transport;
	attr.service = e->service;
	return slime_endpoint_create(e->ctx, &attr, &e->ep);
}

static int open_end(struct end *e, enum slime_transport transport)
{
	int ret = create_context(e);

	if (!ret)
		ret = slime_rpc_service_create(e->ctx, &e->service);
	if (!ret)
		ret = add_echo(e);
	if (!ret)
		ret = slime_mem_alloc(e->ctx, LEN, NULL, &e->mem);
	if (!ret)
		ret = slime_mr_create(e->ctx, slime_mem_addr(e->mem), LEN, SLIME_ACCESS_REMOTE_READ,
				      &e->mr);
	if (!ret)
		ret = slime_op_create(e->ctx, NULL, &e->op);
	if (!ret)
		ret = slime_call_create(e->ctx, NULL, &e->call);
	return ret ? ret : create_endpoint(e, transport);
}

static void poll_both(void)
{
	for (int i = 0; i < 2; i++) {
		if (ends[i].ctx)
			assert_true(slime_context_poll(ends[i].ctx) >= 0);
	}
}

static int connect_end(struct end *e, struct end *peer)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(peer->ep, desc, sizeof(desc));

	return len < 0 ? len : slime_endpoint_connect(e->ep, desc, (size_t)len, PATIENCE_MS, e->op);
}

/* The op's status; one that failed ends what the other waits for. */
static int end_op(struct end *e, struct end *other)
{
	while (!slime_op_test(e->op)) {
		if (slime_op_test(other->op) && slime_op_status(other->op))
			slime_endpoint_close(e->ep);
		poll_both();
	}
	return slime_op_status(e->op);
}

static int link_ends(void)
{
	int ret = connect_end(&ends[0], &ends[1]);

	if (!ret)
		ret = connect_end(&ends[1], &ends[0]);
	if (!ret)
		ret = end_op(&ends[0], &ends[1]);
	return ret ? ret : end_op(&ends[1], &ends[0]);
}

static int read_peer(void)
{
	struct slime_xfer x = { .local = ends[0].mr, .len = LEN };
	struct slime_remote_mr remote;
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(ends[1].mr, desc, sizeof(desc));
	int ret;

	assert_true(len > 0);
	assert_int_equal(slime_remote_mr_import(desc, (size_t)len, &remote), 0);
	x.remote = &remote;
	ret = slime_read(ends[0].ep, &x, 1, 0, ends[0].op);
	return ret ? ret : end_op(&ends[0], &ends[0]);
}

static int call_peer(void)
{
	static uint8_t bytes[LEN];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	int ret;

	args.method = slime_rpc_method_id("echo");
	args.request = bytes;
	args.request_len = sizeof(bytes);
	args.reply = bytes;
	args.reply_cap = sizeof(bytes);
	ret = slime_call_start(ends[0].ep, &args, ends[0].call);
	while (!ret && !slime_call_test(ends[0].call))
		poll_both();
	return ret ? ret : slime_call_status(ends[0].call);
}

static bool is_up(const struct end *e)
{
	struct slime_endpoint_info info;

	if (!e->ep)
		return false;
	slime_endpoint_info(e->ep, &info);
	return info.state < SLIME_ENDPOINT_BROKEN;
}

static void close_ends(void)
{
	for (int i = 0; i < 2; i++) {
		if (ends[i].ep)
			slime_endpoint_close(ends[i].ep);
	}
	while (is_up(&ends[0]) || is_up(&ends[1]))
		poll_both();
	for (int i = 0; i < 2; i++) {
		struct end *e = &ends[i];

		assert_int_equal(slime_endpoint_destroy(e->ep), 0);
		assert_int_equal(slime_call_destroy(e->call), 0);
		assert_int_equal(slime_op_destroy(e->op), 0);
		assert_int_equal(slime_mr_destroy(e->mr), 0);
		assert_int_equal(slime_mem_destroy(e->mem), 0);
		assert_int_equal(slime_rpc_service_destroy(e->service), 0);
		assert_int_equal(slime_context_destroy(e->ctx), 0);
	}
	memset(ends, 0, sizeof(ends));
}

/* 0 or how something failed. */
static int try_all(enum slime_transport transport)
{
	int ret = open_end(&ends[0], transport);

	if (!ret)
		ret = open_end(&ends[1], transport);
	if (!ret)
		ret = link_ends();
	if (!ret)
		ret = read_peer();
	if (!ret)
		ret = call_peer();
	close_ends();
	return ret;
}

static unsigned count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void fail_at_each(enum slime_transport transport)
{
	unsigned n_open = count_descriptors();
	bool happened = true;

	for (long n = 1; happened; n++) {
		int ret;

		fail_alloc_at(n);
		ret = try_all(transport);
		happened = fail_alloc_end();
		assert_true(happened || !ret);
		assert_int_equal(count_descriptors(), n_open);
	}
}

static void link__over_shm_without_memory_leaves_nothing_behind(void **state)
{
	(void)state;
	fail_at_each(SLIME_TRANSPORT_SHM);
}

static void link__over_tcp_without_memory_leaves_nothing_behind(void **state)
{
	(void)state;
	fail_at_each(SLIME_TRANSPORT_TCP);
}

static void link__over_rdma_without_memory_leaves_nothing_behind(void **state)
{
	(void)state;
	fail_at_each(SLIME_TRANSPORT_RDMA);
}

/* They are many, and expected. */
static void quiet(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(link__over_shm_without_memory_leaves_nothing_behind),
		cmocka_unit_test(link__over_tcp_without_memory_leaves_nothing_behind),
		cmocka_unit_test(link__over_rdma_without_memory_leaves_nothing_behind),
	};

	slime_log_set(quiet, NULL, SLIME_LOG_ERROR);
	return cmocka_run_group_tests_name("link memory", tests, NULL, NULL);
}
