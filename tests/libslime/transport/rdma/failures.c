/* SPDX-License-Identifier: Apache-2.0 */
/* Each call of libibverbs fails in its turn: what was asked for is done, or it is said that it is
 * not; nothing hangs, nothing is left. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/echo.h"

#define LEN    20000
#define CHUNK  32768 /* of a region: that of each end is longer */
#define REGION 40000 /* and so is one that is withdrawn */

static void fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(seed + i * 7);
}

static bool is_filled(const uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != (uint8_t)(seed + i * 7))
			return false;
	return true;
}

/* ---- what is tried: 0, or how it failed ---- */

static int try_write(struct rdma_pair *p)
{
	struct slime_xfer x = rdma_a_and_b(p, 0, LEN, LEN);
	int ret;

	fill(p->a.bytes, LEN, 1);
	ret = slime_write(p->a.ep, &x, 1, 0, p->a.op);
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	if (!ret)
		assert_true(is_filled(p->b.bytes + LEN, LEN, 1));
	return ret;
}

static int try_read(struct rdma_pair *p)
{
	struct slime_xfer x = rdma_a_and_b(p, 2 * LEN, 0, LEN);
	int ret;

	fill(p->b.bytes, LEN, 2);
	ret = slime_read(p->a.ep, &x, 1, 0, p->a.op);
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	if (!ret)
		assert_true(is_filled(p->a.bytes + 2 * LEN, LEN, 2));
	return ret;
}

static int try_imm(struct rdma_pair *p)
{
	struct slime_xfer x = rdma_a_and_b(p, 0, 0, 8);
	int ret = slime_imm_recv(p->b.ep, p->b.op);

	if (ret)
		return ret;
	ret = slime_write_imm(p->a.ep, &x, 1, 0, 4711, p->a.op);
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	/* The receive of a link that lives waits for ever, and that of one that does not has
	 * failed. */
	if (ret)
		slime_endpoint_close(p->b.ep);
	if (!rdma_wait(p, p->b.op))
		assert_int_equal(slime_op_imm(p->b.op), 4711);
	return ret ? ret : slime_op_status(p->b.op);
}

static int try_message(struct rdma_pair *p, uint64_t len)
{
	int sent, received = slime_recv(p->b.ep, p->b.mr, 0, len, 1, SLIME_TAG_ALL, p->b.op);

	if (received)
		return received;
	fill(p->a.bytes, len, 3);
	sent = slime_send(p->a.ep, p->a.mr, 0, len, 1, p->a.op);
	if (sent)
		slime_endpoint_close(p->b.ep);
	received = rdma_wait(p, p->b.op);
	if (received)
		slime_endpoint_close(p->a.ep);
	else
		assert_true(is_filled(p->b.bytes, len, 3));
	return sent ? sent : rdma_wait(p, p->a.op);
}

static int try_call(struct rdma_pair *p, uint64_t len)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	int ret;

	args.method = slime_rpc_method_id("echo");
	args.request = p->a.bytes;
	args.reply = p->a.bytes + LEN;
	args.request_len = args.reply_cap = len;
	fill(p->a.bytes, len, 4);
	assert_ok(slime_call_create(p->a.ctx, NULL, &call));
	ret = slime_call_start(p->a.ep, &args, call);
	while (!ret && !slime_call_test(call))
		rdma_poll(p);
	if (!ret)
		ret = slime_call_status(call);
	if (!ret)
		assert_true(is_filled(p->a.bytes + LEN, len, 4));
	assert_ok(slime_call_destroy(call));
	return ret;
}

/* ---- a region that is withdrawn ---- */

static int try_read_of(struct rdma_pair *p, const struct slime_remote_mr *r)
{
	struct slime_xfer x = { .local = p->a.mr, .remote = r, .len = REGION };
	int ret = slime_read(p->a.ep, &x, 1, 0, p->a.op);

	return ret ? ret : rdma_wait(p, p->a.op);
}

static _Atomic bool taken_back;

static void *take_back(void *mr)
{
	int ret;

	/* It waits for the peer. */
	while ((ret = slime_mr_destroy(mr)) == -EBUSY)
		;
	atomic_store(&taken_back, true);
	return ret ? mr : NULL;
}

static void withdraw(struct rdma_pair *p, struct slime_mr *mr)
{
	pthread_t thread;
	void *left;

	atomic_store(&taken_back, false);
	assert_ok(pthread_create(&thread, NULL, take_back, mr));
	while (!atomic_load(&taken_back))
		rdma_poll(p);
	assert_ok(pthread_join(thread, &left));
	assert_null(left);
}

/* b's at addr, or of its dmabuf; filled before. */
static int try_region(struct rdma_pair *p, void *addr, const struct slime_mr_attr *attr)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr r;
	struct slime_mr *mr;
	int ret, len;

	assert_ok(slime_mr_create_attr(p->b.ctx, addr, REGION, attr, &mr));
	len = slime_mr_export(mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &r));
	memset(p->a.bytes, 0, REGION);
	ret = try_read_of(p, &r);
	if (!ret)
		assert_true(is_filled(p->a.bytes, REGION, 5));
	withdraw(p, mr);
	if (ret)
		return ret;
	ret = try_read_of(p, &r);
	assert_int_not_equal(ret, 0);
	return ret == -ESTALE ? 0 : ret;
}

/* Longer than a chunk, or paged on demand, or of another device. */
static int try_regions(struct rdma_pair *p)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	int ret;

	attr.access = SLIME_ACCESS_REMOTE_READ;
	fill(p->b.bytes, REGION, 5);
	ret = try_region(p, p->b.bytes, &attr);
	if (ret)
		return ret;
	attr.on_demand = true;
	ret = try_region(p, p->b.bytes, &attr);
	if (ret)
		return ret;
	attr.on_demand = false;
	attr.device_memory = true;
	attr.dmabuf_fd = memfd_create("dmabuf", MFD_CLOEXEC);
	assert_true(attr.dmabuf_fd >= 0);
	assert_int_equal(write(attr.dmabuf_fd, p->b.bytes, REGION), REGION);
	ret = try_region(p, NULL, &attr);
	assert_ok(close(attr.dmabuf_fd));
	return ret;
}

static int try_all(struct rdma_pair *p)
{
	int ret = try_write(p);

	if (!ret)
		ret = try_read(p);
	if (!ret)
		ret = try_imm(p);
	if (!ret)
		ret = try_message(p, 100);
	if (!ret)
		ret = try_message(p, LEN);
	if (!ret)
		ret = try_call(p, 100);
	if (!ret)
		ret = try_call(p, LEN);
	return ret ? ret : try_regions(p);
}

/* ---- with each call failing ---- */

static const struct slime_context_attr *quick(void)
{
	static struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	attr.rdma_chunk = CHUNK;
	attr.tcp_user_timeout_ms =
		200; /* a quarter of it until an idle end looks whether its peer is there */
	return &attr;
}

static int offer_echo(struct rdma_end *e)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = test_echo;
	attr.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_service_create(e->ctx, &e->service));
	return slime_rpc_method_add(e->service, "echo", &attr);
}

/* b's device has what regions ask for. */
static void offer_paging_and_dmabufs(void)
{
	struct fakeverbs_device *d = fakeverbs_device(1);

	d->odp_caps.general_caps = IBV_ODP_SUPPORT;
	d->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	d->dmabuf_errno = 0;
}

/* b answers calls. */
static int open_pair(struct rdma_pair *p)
{
	int ret;

	offer_paging_and_dmabufs();
	ret = rdma_pair_create(p, quick(), 4 * LEN);
	if (!ret)
		ret = offer_echo(&p->b);
	return ret ? ret : rdma_pair_connect(p);
}

static void close_pair(struct rdma_pair *p)
{
	rdma_pair_destroy_endpoints(p);
	if (p->b.service)
		assert_ok(slime_rpc_service_destroy(p->b.service));
	rdma_pair_close(p);
}

static void links__with_each_call_failing_say_so_and_leave_nothing(void **state)
{
	unsigned n = 1;
	bool failed = true;

	(void)state;
	for (; failed; n++) {
		struct rdma_pair p;
		int ret;

		fakeverbs_fail_call(n, EIO);
		ret = open_pair(&p);
		if (!ret)
			ret = try_all(&p);
		close_pair(&p);
		failed = fakeverbs_failed();
		if (!failed)
			assert_ok(ret);
		if (fakeverbs_check())
			fail_msg("call %u, %s", n, fakeverbs_call_name(fakeverbs_failed_call()));
	}
	assert_true(n > 200);
}

/* What such a poll took is lost, whatever it was: nobody waits for it. */
static void links__with_a_poll_failing_say_so_and_leave_nothing(void **state)
{
	unsigned n = 1;
	bool failed = true;

	(void)state;
	for (; failed; n += 1 + n / 8) {
		struct rdma_pair p;
		int ret;

		fakeverbs_fail_call_of(FAKEVERBS_POLL_CQ, n, EIO);
		ret = open_pair(&p);
		if (!ret)
			ret = try_all(&p);
		failed = fakeverbs_failed();
		if (!failed)
			assert_ok(ret);
		close_pair(&p);
		if (fakeverbs_check())
			fail_msg("poll %u", n);
	}
}

/* An event that cannot be read is tried again. */
static void links__with_calls_failing_of_one_kind(void **state)
{
	static const enum fakeverbs_call kinds[] = { FAKEVERBS_GET_CQ_EVENT,
						     FAKEVERBS_GET_ASYNC_EVENT };

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct rdma_pair p;

		fakeverbs_fail_call_of(kinds[k], 20, EIO);
		assert_ok(open_pair(&p));
		assert_ok(try_all(&p));
		close_pair(&p);
		fakeverbs_failed();
		assert_int_equal(fakeverbs_check(), 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(links__with_each_call_failing_say_so_and_leave_nothing,
				       rdma_pair_reset),
		cmocka_unit_test_setup(links__with_a_poll_failing_say_so_and_leave_nothing,
				       rdma_pair_reset),
		cmocka_unit_test_setup(links__with_calls_failing_of_one_kind, rdma_pair_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
