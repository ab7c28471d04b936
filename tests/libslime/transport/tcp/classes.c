/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call waits for beside long reads: one server, and two clients of it. All contexts are
 * manual, so that the test decides who makes a pass, and a client that makes none stands still.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <slime/slime.h>

#define assert_ok(expr) assert_int_equal(expr, 0)

#define LINKS	2
#define READS	16
#define LEN	((size_t)1 << 20)
#define MESSAGE 1024
/* Two turns at each end. */
#define WAITED_FOR ((size_t)4 * 512 * 1024)

static size_t n_received;

ssize_t __real_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
	ssize_t len = __real_readv(fd, iov, n);

	if (len > 0)
		n_received += (size_t)len;
	return len;
}

/* A context, its ends of links, and memory that is read, or where it goes. */
struct side {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_mr *mr;
	uint8_t *bytes;
	struct slime_endpoint *eps[2 * LINKS];
	struct slime_op *ops[2 * LINKS]; /* of their connects */
	struct slime_xfer xfer;
	struct slime_op *reads[READS];
};

struct three {
	struct side server, client, still;
	struct slime_remote_mr remote;
	struct slime_call *call;
	uint8_t request[MESSAGE], reply[MESSAGE];
};

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void open_side(struct side *s, unsigned n_links, uint32_t access)
{
	struct slime_context_attr ctx = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	ctx.manual = true;
	assert_ok(slime_context_create(&ctx, &s->ctx));
	assert_ok(slime_rpc_service_create(s->ctx, &s->service));
	method.fn = echo;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_method_add(s->service, "echo", &method));
	s->bytes = calloc(1, LEN);
	assert_ok(slime_mr_create(s->ctx, s->bytes, LEN, access, &s->mr));
	ep.transports[0] = SLIME_TRANSPORT_TCP;
	ep.service = s->service;
	for (unsigned i = 0; i < n_links; i++) {
		assert_ok(slime_endpoint_create(s->ctx, &ep, &s->eps[i]));
		assert_ok(slime_op_create(s->ctx, NULL, &s->ops[i]));
	}
	for (int i = 0; i < READS; i++)
		assert_ok(slime_op_create(s->ctx, NULL, &s->reads[i]));
}

static void poll_both(struct side *a, struct side *b)
{
	assert_true(slime_context_poll(a->ctx) >= 0);
	assert_true(slime_context_poll(b->ctx) >= 0);
}

static void connect_to(struct side *s, unsigned i, struct slime_endpoint *other)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(other, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(s->eps[i], desc, (size_t)len, 60000, s->ops[i]));
}

static void link_ends(struct side *a, unsigned i, struct side *b, unsigned j)
{
	connect_to(a, i, b->eps[j]);
	connect_to(b, j, a->eps[i]);
	while (!slime_op_test(a->ops[i]) || !slime_op_test(b->ops[j]))
		poll_both(a, b);
	assert_ok(slime_op_status(a->ops[i]));
	assert_ok(slime_op_status(b->ops[j]));
}

static int setup(void **state)
{
	struct three *t = calloc(1, sizeof(*t));
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len;

	open_side(&t->server, LINKS + 1, SLIME_ACCESS_REMOTE_READ);
	open_side(&t->client, LINKS, 0);
	open_side(&t->still, 1, 0);
	for (unsigned i = 0; i < LINKS; i++)
		link_ends(&t->server, i, &t->client, i);
	link_ends(&t->server, LINKS, &t->still, 0);
	len = slime_mr_export(t->server.mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &t->remote));
	assert_ok(slime_call_create(t->client.ctx, NULL, &t->call));
	*state = t;
	return 0;
}

static bool is_connected(const struct slime_endpoint *ep)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* Both ends look: otherwise each destroy waits for its peer. */
static void part(struct side *a, struct side *b, unsigned n_links)
{
	for (unsigned i = 0; i < n_links; i++) {
		slime_endpoint_close(b->eps[i]);
		while (is_connected(b->eps[i]))
			poll_both(a, b);
	}
}

static void close_endpoints(struct side *s)
{
	for (int i = 0; i < 2 * LINKS; i++) {
		assert_ok(slime_endpoint_destroy(s->eps[i]));
		assert_ok(slime_op_destroy(s->ops[i]));
	}
	for (int i = 0; i < READS; i++)
		assert_ok(slime_op_destroy(s->reads[i]));
}

static void close_side(struct side *s)
{
	assert_ok(slime_mr_destroy(s->mr));
	assert_ok(slime_rpc_service_destroy(s->service));
	assert_ok(slime_context_destroy(s->ctx));
	free(s->bytes);
}

static int teardown(void **state)
{
	struct three *t = *state;

	assert_ok(slime_call_destroy(t->call));
	part(&t->server, &t->client, LINKS);
	part(&t->server, &t->still, 1);
	close_endpoints(&t->client);
	close_endpoints(&t->still);
	close_endpoints(&t->server);
	close_side(&t->client);
	close_side(&t->still);
	close_side(&t->server);
	free(t);
	return 0;
}

/* All of them go to the same place. */
static void start_reads(struct three *t, struct side *s)
{
	s->xfer = (struct slime_xfer){ .local = s->mr, .remote = &t->remote, .len = LEN };
	for (int i = 0; i < READS; i++)
		assert_ok(slime_read(s->eps[0], &s->xfer, 1, 0, s->reads[i]));
}

static void call(struct three *t, unsigned link)
{
	const struct slime_call_args args = {
		.method = slime_rpc_method_id("echo"),
		.request = t->request,
		.request_len = MESSAGE,
		.reply = t->reply,
		.reply_cap = MESSAGE,
		.timeout_ms = 60000,
	};

	memset(t->request, ++t->request[0], MESSAGE);
	assert_ok(slime_call_start(t->client.eps[link], &args, t->call));
	do
		poll_both(&t->server, &t->client);
	while (!slime_call_test(t->call));
	assert_ok(slime_call_status(t->call));
	assert_memory_equal(t->reply, t->request, MESSAGE);
}

static void call_beside_reads(struct three *t, unsigned link)
{
	start_reads(t, &t->client);
	for (int i = 0; i < 4; i++) {
		n_received = 0;
		call(t, link);
		assert_true(n_received <= WAITED_FOR);
	}
	for (int i = 0; i < READS; i++) {
		while (!slime_op_test(t->client.reads[i]))
			poll_both(&t->server, &t->client);
		assert_ok(slime_op_status(t->client.reads[i]));
	}
}

static void call__beside_long_reads_waits_for_few_bytes_of_them(void **state)
{
	call_beside_reads(*state, 0);
}

static void call__beside_long_reads_of_another_link_waits_for_few_bytes_of_them(void **state)
{
	call_beside_reads(*state, 1);
}

/* It asks for much, and reads nothing of it. */
static void call__beside_a_peer_that_stopped_reading_goes_on(void **state)
{
	struct three *t = *state;

	start_reads(t, &t->still);
	for (int i = 0; i < 200; i++)
		call(t, (unsigned)i % LINKS);
	assert_false(slime_op_test(t->still.reads[READS - 1]));
}

#define IN_THREE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_THREE(call__beside_long_reads_waits_for_few_bytes_of_them),
		IN_THREE(call__beside_long_reads_of_another_link_waits_for_few_bytes_of_them),
		IN_THREE(call__beside_a_peer_that_stopped_reading_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
