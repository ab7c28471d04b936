/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is not ordinary, over rdma: pages that are not locked, memory that is read-only, and
 * memory of other devices. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN 65536

static struct rdma_pair pair;

static void offer_paging(unsigned device)
{
	struct ibv_odp_caps *caps = &fakeverbs_device(device)->odp_caps;

	caps->general_caps = IBV_ODP_SUPPORT;
	caps->per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
}

static struct slime_mr *region_of_a(void *addr, const struct slime_mr_attr *attr)
{
	struct slime_mr *mr;

	assert_ok(slime_mr_create_attr(pair.a.ctx, addr, LEN, attr, &mr));
	return mr;
}

static int write_from(struct slime_mr *mr, uint64_t len)
{
	struct slime_xfer x = { .local = mr, .remote = &pair.b.remote, .len = len };

	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	return rdma_wait(&pair, pair.a.op);
}

static void on_demand__region_locks_no_memory(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	offer_paging(0);
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	fakeverbs_device(0)->max_pinned = 0;
	attr.on_demand = true;
	mr = region_of_a(pair.a.bytes, &attr);
	rdma_fill(pair.a.bytes, LEN, 6);
	fakeverbs_reset_counts();
	assert_ok(write_from(mr, LEN));
	assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_ADVISE_MR], 1);
	assert_ok(slime_mr_destroy(mr));
}

static void on_demand__that_the_device_lacks_is_said(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	attr.on_demand = true;
	mr = region_of_a(pair.a.bytes, &attr);
	log_lines_keep();
	assert_int_equal(write_from(mr, LEN), -EOPNOTSUPP);
	assert_int_equal(log_lines_with("on-demand paging was asked for, and the device has none"),
			 1);
	log_lines_release();
	assert_ok(slime_mr_destroy(mr));
}

static uint8_t timer_of(struct slime_endpoint *ep)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_ok(ibv_query_qp(rdma_endpoint_conn(ep)->qps[0]->ibv, &attr, IBV_QP_MIN_RNR_TIMER,
			       &init));
	return attr.min_rnr_timer;
}

static void on_demand__makes_peers_wait_longer_for_a_page(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	attr.on_demand = true;
	mr = region_of_a(pair.a.bytes, &attr);
	assert_ok(rdma_pair_connect(&pair));
	assert_int_equal(timer_of(pair.a.ep), 20);
	assert_int_equal(timer_of(pair.b.ep), 12);
	assert_ok(slime_mr_destroy(mr));
}

/* Addresses that no CPU may touch, and where a device finds their bytes. */
struct gpu {
	void *addr;
	uint8_t backing[LEN];
};

static struct gpu gpu;

static void add_gpu(void)
{
	gpu.addr = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(gpu.addr, MAP_FAILED);
	rdma_fill(gpu.backing, LEN, 11);
	fakeverbs_add_device_memory(gpu.addr, LEN, gpu.backing);
}

static void remove_gpu(void)
{
	fakeverbs_add_device_memory(NULL, 0, NULL);
	assert_ok(munmap(gpu.addr, LEN));
}

static void device_memory__is_read_and_written_by_devices_alone(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	fakeverbs_device(0)->has_peer_memory = true;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	add_gpu();
	attr.device_memory = true;
	attr.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE;
	mr = region_of_a(gpu.addr, &attr);
	/* So few bytes that others would go inline. */
	assert_ok(write_from(mr, 16));
	assert_memory_equal(pair.b.bytes, gpu.backing, 16);
	assert_ok(write_from(mr, LEN));
	assert_memory_equal(pair.b.bytes, gpu.backing, LEN);
	/* A message would be copied. */
	assert_int_equal(slime_send(pair.a.ep, mr, 0, 16, 1, pair.a.op), -EOPNOTSUPP);
	assert_int_equal(slime_recv(pair.a.ep, mr, 0, 16, 1, SLIME_TAG_ALL, pair.a.op),
			 -EOPNOTSUPP);
	assert_ok(slime_mr_destroy(mr));
	remove_gpu();
}

static void device_memory__without_peer_memory_names_what_is_missing(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	add_gpu();
	attr.device_memory = true;
	mr = region_of_a(gpu.addr, &attr);
	log_lines_keep();
	assert_int_equal(write_from(mr, LEN), -EFAULT);
	assert_int_equal(log_lines_with("takes peer memory or a dmabuf: nvidia-peermem is"), 1);
	log_lines_release();
	assert_ok(slime_mr_destroy(mr));
	remove_gpu();
}

static int dmabuf(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, 2 * LEN));
	rdma_fill(gpu.backing, LEN, 21);
	assert_int_equal(pwrite(fd, gpu.backing, LEN, LEN / 2 + 100), LEN);
	return fd;
}

static void dmabuf__is_registered_from_its_offset(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	fakeverbs_device(0)->dmabuf_errno = 0;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	attr.device_memory = true;
	attr.dmabuf_fd = dmabuf();
	attr.dmabuf_offset = LEN / 2 + 100;
	mr = region_of_a(NULL, &attr);
	assert_ok(close(attr.dmabuf_fd));
	assert_ok(write_from(mr, LEN));
	assert_memory_equal(pair.b.bytes, gpu.backing, LEN);
	assert_ok(slime_mr_destroy(mr));
}

/* What a peer knows of a dmabuf without an address is enough to reach each byte of it. */
static void dmabuf__is_written_by_the_peer(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	uint8_t desc[SLIME_MR_DESC_MAX], got[LEN];
	struct slime_remote_mr remote;
	struct slime_xfer x = { .remote = &remote, .len = LEN };
	struct slime_mr *mr;
	int len;

	(void)state;
	fakeverbs_device(1)->dmabuf_errno = 0;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	attr.device_memory = true;
	attr.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE;
	attr.dmabuf_fd = dmabuf();
	assert_ok(slime_mr_create_attr(pair.b.ctx, NULL, LEN, &attr, &mr));
	len = slime_mr_export(mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &remote));
	x.local = pair.a.mr;
	rdma_fill(pair.a.bytes, LEN, 33);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(pread(attr.dmabuf_fd, got, LEN, 0), LEN);
	assert_memory_equal(got, pair.a.bytes, LEN);
	slime_endpoint_close(pair.a.ep);
	rdma_settle(&pair);
	assert_ok(slime_mr_destroy(mr));
	assert_ok(close(attr.dmabuf_fd));
}

static void dmabuf__that_nobody_knows_names_what_is_missing(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	fakeverbs_device(0)->dmabuf_errno = EOPNOTSUPP;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	attr.device_memory = true;
	attr.dmabuf_fd = dmabuf();
	mr = region_of_a(NULL, &attr);
	log_lines_keep();
	assert_int_equal(write_from(mr, LEN), -EOPNOTSUPP);
	assert_int_equal(log_lines_with("a dmabuf takes Linux 5.12"), 1);
	log_lines_release();
	assert_ok(slime_mr_destroy(mr));
	assert_ok(close(attr.dmabuf_fd));
}

/* Then its address will do, where the peer memory of its driver knows it. */
static void dmabuf__that_nobody_knows_is_registered_by_its_address(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	fakeverbs_device(0)->dmabuf_errno = EOPNOTSUPP;
	fakeverbs_device(0)->has_peer_memory = true;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	attr.device_memory = true;
	attr.dmabuf_fd = dmabuf();
	add_gpu();
	mr = region_of_a(gpu.addr, &attr);
	assert_ok(write_from(mr, LEN));
	assert_memory_equal(pair.b.bytes, gpu.backing, LEN);
	assert_ok(slime_mr_destroy(mr));
	assert_ok(close(attr.dmabuf_fd));
	remove_gpu();
}

static void dmabuf__that_is_malformed_is_refused(void **state)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	attr.dmabuf_fd = 0;
	assert_int_equal(slime_mr_create_attr(pair.a.ctx, NULL, LEN, &attr, &mr), -EINVAL);
	attr.device_memory = true;
	attr.dmabuf_offset = 100;
	assert_int_equal(slime_mr_create_attr(pair.a.ctx, (void *)4096, LEN, &attr, &mr), -EINVAL);
	attr.dmabuf_offset = UINT64_MAX;
	assert_int_equal(slime_mr_create_attr(pair.a.ctx, NULL, LEN, &attr, &mr), -EINVAL);
	attr.dmabuf_offset = 0;
	attr.dmabuf_fd = 1 << 20;
	assert_int_equal(slime_mr_create_attr(pair.a.ctx, NULL, LEN, &attr, &mr), -EBADF);
	attr.dmabuf_fd = -1;
	assert_int_equal(slime_mr_create_attr(pair.a.ctx, NULL, LEN, &attr, &mr), -EINVAL);
	attr.on_demand = true;
	assert_int_equal(slime_mr_create_attr(pair.a.ctx, pair.a.bytes, LEN, &attr, &mr), -EINVAL);
}

/* ---- read-only memory ---- */

static uint8_t *map(void)
{
	uint8_t *bytes =
		mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(bytes, MAP_FAILED);
	rdma_fill(bytes, LEN, 17);
	return bytes;
}

/* A region of a's that is so from at on. */
static struct slime_mr *read_only_from(uint8_t *bytes, size_t at)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;

	attr.access = SLIME_ACCESS_REMOTE_READ;
	assert_ok(mprotect(bytes + at, LEN - at, PROT_READ));
	return region_of_a(bytes, &attr);
}

static void destroy_map(struct slime_mr *mr, uint8_t *bytes)
{
	slime_endpoint_close(pair.a.ep);
	rdma_settle(&pair);
	assert_ok(slime_mr_destroy(mr));
	assert_ok(munmap(bytes, LEN));
}

static int read_into(struct slime_mr *mr, uint64_t offset, uint64_t len)
{
	struct slime_xfer x = {
		.local = mr, .remote = &pair.b.remote, .local_offset = offset, .len = len
	};

	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	return rdma_wait(&pair, pair.a.op);
}

static void assert_link_lives(void)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_CONNECTED);
	assert_ok(rdma_read_now(&pair, LEN, 3));
	rdma_exchange_a_message(&pair);
}

/* Also as the first that is done with it, when it has to be registered. */
static void read__into_read_only_memory_fails_alone(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	uint8_t *bytes = map();
	struct slime_mr *mr;
	uint64_t n_posted;

	(void)state;
	attr.tcp_user_timeout_ms = 3600 * 1000; /* no probes, which would be counted */
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_read_now(&pair, LEN, 2));
	mr = read_only_from(bytes, 0);
	n_posted = fakeverbs_counts().send_wrs;
	log_lines_keep();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(read_into(mr, 0, i ? 64 : LEN), -EFAULT);
	assert_int_equal(
		log_lines_with("of 65536 bytes cannot be read into: its memory is read-only"), 1);
	log_lines_release();
	assert_int_equal(fakeverbs_counts().send_wrs, n_posted);
	assert_link_lives();
	destroy_map(mr, bytes);
}

static void read_only__memory_is_written_from_and_read_by_the_peer(void **state)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr remote;
	struct slime_xfer x = { .remote = &remote, .len = LEN };
	uint8_t *bytes = map();
	struct slime_mr *mr;
	int len;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	mr = read_only_from(bytes, 0);
	assert_ok(write_from(mr, LEN));
	assert_memory_equal(pair.b.bytes, bytes, LEN);
	memset(pair.b.bytes, 0, LEN);
	len = slime_mr_export(mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &remote));
	x.local = pair.b.mr;
	assert_ok(slime_read(pair.b.ep, &x, 1, 0, pair.b.op));
	assert_ok(rdma_wait(&pair, pair.b.op));
	assert_memory_equal(pair.b.bytes, bytes, LEN);
	destroy_map(mr, bytes);
}

/* Of several chunks one is: what may be done with the region does not go by the place in it. */
static void read__into_a_region_that_is_read_only_in_part_fails_alone(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_xfer xfers[2];
	uint8_t *bytes = map();
	struct slime_mr *mr;

	(void)state;
	attr.rdma_chunk = LEN / 4;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	mr = read_only_from(bytes, LEN / 2);
	assert_int_equal(read_into(mr, 0, 64), -EFAULT);
	assert_ok(write_from(mr, LEN));
	/* Behind a piece that is as it should be. */
	xfers[0] = xfers[1] = rdma_a_and_b(&pair, 0, 0, 64);
	xfers[1].local = mr;
	assert_ok(slime_read(pair.a.ep, xfers, 2, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -EFAULT);
	assert_link_lives();
	destroy_map(mr, bytes);
}

/* A message so long is read. */
static void recv__of_a_long_message_into_read_only_memory_fails_alone(void **state)
{
	const uint64_t len = 2 * SLIME_SEND_EAGER;
	uint8_t *bytes = map();
	struct slime_mr *mr;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	mr = read_only_from(bytes, 0);
	assert_ok(slime_recv(pair.a.ep, mr, 0, len, 1, SLIME_TAG_ALL, pair.a.op));
	assert_ok(slime_send(pair.b.ep, pair.b.mr, 0, len, 1, pair.b.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -EFAULT);
	assert_int_equal(rdma_wait(&pair, pair.b.op), -EREMOTEIO);
	assert_link_lives();
	destroy_map(mr, bytes);
}

#define CASE(fn) cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(on_demand__region_locks_no_memory),
		CASE(on_demand__that_the_device_lacks_is_said),
		CASE(on_demand__makes_peers_wait_longer_for_a_page),
		CASE(device_memory__is_read_and_written_by_devices_alone),
		CASE(device_memory__without_peer_memory_names_what_is_missing),
		CASE(dmabuf__is_registered_from_its_offset),
		CASE(dmabuf__is_written_by_the_peer),
		CASE(dmabuf__that_nobody_knows_names_what_is_missing),
		CASE(dmabuf__that_nobody_knows_is_registered_by_its_address),
		CASE(dmabuf__that_is_malformed_is_refused),
		CASE(read__into_read_only_memory_fails_alone),
		CASE(read_only__memory_is_written_from_and_read_by_the_peer),
		CASE(read__into_a_region_that_is_read_only_in_part_fails_alone),
		CASE(recv__of_a_long_message_into_read_only_memory_fails_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
