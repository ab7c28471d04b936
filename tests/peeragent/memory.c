/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of agents that only RDMA devices can have: on demand, and of GPUs; and what agents say of
 * such devices. The devices and the GPU are in memory. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "peeragent/src/devices.h"
#include "tests/fakes/fakecuda.h"
#include "tests/fakes/fakeverbs.h"
#include "tests/peeragent/agents.h"
#include "tests/support/log_lines.h"

#define LEN 8192

static struct fakecuda *cuda;

/* ---- agents ---- */

static struct slime_agent *start_on(struct event_base *base, const char *name, const char *device,
				    const struct slime_agent_region *region,
				    const struct slime_agent_link *link)
{
	struct slime_agent_attr attr = attr_of(name);

	attr.loop = base;
	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	attr.data.rdma_devices = device;
	attr.topology.regions = region;
	attr.topology.n_regions = region != NULL;
	attr.topology.links = link;
	attr.topology.n_links = link != NULL;
	return start_with(&attr);
}

static struct slime_agent *start_by(const char *name, const char *device,
				    const struct slime_agent_region *region,
				    const struct slime_agent_link *link)
{
	return start_on(NULL, name, device, region, link);
}

/* The agent b, with that region, cannot be: with this error, and this line of the log. */
static void assert_refused(const struct slime_agent_region *region, int error, const char *line)
{
	struct slime_agent *b;
	struct slime_mr *mr;

	log_lines_keep();
	b = start_by("b", "fake1", region, NULL);
	assert_int_equal(slime_agent_wait_ready(b, LONG_MS), error);
	assert_int_equal(slime_agent_region_local(b, "kv", &mr), error);
	assert_int_equal(log_lines_with("region kv of 8192 bytes: "), 1);
	assert_int_equal(log_lines_with(line), 1);
	log_lines_release();
	end(b);
}

/* The agent a, its link to b, and what it uses to reach the memory there. */
struct reader {
	struct slime_agent *agent;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	struct slime_remote_mr remote;
	unsigned char *bytes;
};

static void open_reader(struct reader *r)
{
	struct slime_context *ctx;

	r->agent = start_by("a", "fake0", NULL, &to_b);
	ctx = slime_agent_context(r->agent);
	assert_ok(slime_mem_alloc(ctx, LEN, NULL, &r->mem));
	r->bytes = slime_mem_addr(r->mem);
	assert_ok(slime_mr_create(ctx, r->bytes, LEN, 0, &r->mr));
	assert_ok(slime_op_create(ctx, NULL, &r->op));
	r->ep = get(r->agent, "b", NULL);
	assert_ok(slime_agent_region_remote(r->agent, "b", "kv", LONG_MS, &r->remote));
}

static void close_reader(struct reader *r)
{
	slime_agent_endpoint_put(r->agent, r->ep);
	assert_ok(slime_op_destroy(r->op));
	assert_ok(slime_mr_destroy(r->mr));
	assert_ok(slime_mem_destroy(r->mem));
	end(r->agent);
}

static void read_all(struct reader *r)
{
	struct slime_xfer x = { .local = r->mr, .remote = &r->remote, .len = LEN };

	assert_ok(slime_read(r->ep, &x, 1, 0, r->op));
	assert_ok(slime_op_wait(r->op, LONG_MS));
	assert_ok(slime_op_status(r->op));
}

static void write_all(struct reader *r)
{
	struct slime_xfer x = { .local = r->mr, .remote = &r->remote, .len = LEN };

	assert_ok(slime_write(r->ep, &x, 1, 0, r->op));
	assert_ok(slime_op_wait(r->op, LONG_MS));
	assert_ok(slime_op_status(r->op));
}

static int reset_all(void **state)
{
	reset(state);
	fakeverbs_reset();
	if (cuda)
		*cuda = (struct fakecuda){ .left = 1 << 28, .fail_after = -1 };
	return 0;
}

static int check(void **state)
{
	(void)state;
	if (cuda && (cuda->n_allocs || cuda->n_contexts || cuda->n_pushed))
		return -1;
	return fakeverbs_check() ? -1 : 0;
}

/* ---- on demand ---- */

static struct slime_agent_region on_demand(void)
{
	struct slime_agent_region region = kv;

	region.on_demand = true;
	return region;
}

static void on_demand__is_reached_and_locks_nothing(void **state)
{
	struct ibv_odp_caps *caps = &fakeverbs_device(1)->odp_caps;
	struct slime_agent_region region = on_demand();
	struct slime_agent *b;
	struct reader r;

	(void)state;
	caps->general_caps = IBV_ODP_SUPPORT;
	caps->per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	b = start_by("b", "fake1", &region, NULL);
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_ADVISE_MR], 1);
	open_reader(&r);
	memset(r.bytes, 0x5a, LEN);
	write_all(&r);
	memset(r.bytes, 0, LEN);
	read_all(&r);
	assert_int_equal(r.bytes[LEN - 1], 0x5a);
	close_reader(&r);
	end(b);
}

static void on_demand__with_a_device_that_cannot_is_refused(void **state)
{
	struct slime_agent_region region = on_demand();

	(void)state;
	assert_refused(&region, -EOPNOTSUPP,
		       "fake1: region 0 of 8192 bytes cannot be registered: Operation not "
		       "supported: on-demand paging was asked for, and the device has none");
}

static void on_demand__without_a_device_is_refused(void **state)
{
	struct slime_agent_region region = on_demand();

	(void)state;
	fakeverbs_device(1)->name[0] = '\0';
	assert_refused(&region, -ENODEV, "on_demand is for RDMA devices, which cannot have it");
}

/* ---- GPUs ---- */

static struct slime_agent_region of_gpu(const char *pci)
{
	struct slime_agent_region region = kv;

	region.gpu = pci;
	return region;
}

/* Where a driver is installed, there may be a GPU as well. */
static void gpu__without_the_driver_is_refused(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	(void)state;
	if (!library)
		assert_refused(&region, -ENOTSUP,
			       "the driver of NVIDIA's GPUs is not installed: libcuda");
	else
		dlclose(library);
}

/* From here on there is one, for the agent, too. */
static int load_driver(void **state)
{
	if (!cuda) {
		void *library = dlopen(FAKECUDA, RTLD_NOW | RTLD_LOCAL);

		cuda = library ? dlsym(library, "fakecuda") : NULL;
	}
	return cuda ? reset_all(state) : -1;
}

static void assert_gpu_is_reached(void)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);
	struct slime_agent *b = start_by("b", "fake1", &region, NULL);
	struct reader r;

	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	open_reader(&r);
	memset(r.bytes, 0x11, LEN);
	read_all(&r);
	assert_int_equal(r.bytes[LEN - 1], 0);
	memset(r.bytes, 0x22, LEN);
	write_all(&r);
	assert_memory_equal(cuda->bytes, r.bytes, LEN);
	close_reader(&r);
	end(b);
}

static void gpu__by_its_dmabuf_is_zeroed_read_and_written(void **state)
{
	(void)state;
	cuda->has_dmabuf = true;
	fakeverbs_device(1)->dmabuf_errno = 0;
	assert_gpu_is_reached();
}

static void gpu__by_its_address_is_zeroed_read_and_written(void **state)
{
	(void)state;
	cuda->on_alloc = fakeverbs_add_device_memory;
	fakeverbs_device(1)->has_peer_memory = true;
	assert_gpu_is_reached();
	fakeverbs_add_device_memory(NULL, 0, NULL);
}

static void gpu__without_peer_memory_names_what_is_missing(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);

	(void)state;
	cuda->on_alloc = fakeverbs_add_device_memory;
	assert_refused(&region, -EFAULT,
		       "memory of a device takes peer memory or a dmabuf: nvidia-peermem is");
	fakeverbs_add_device_memory(NULL, 0, NULL);
}

static void gpu__whose_dmabuf_nobody_knows_names_what_is_missing(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);

	(void)state;
	cuda->has_dmabuf = true;
	fakeverbs_device(1)->dmabuf_errno = EOPNOTSUPP;
	assert_refused(&region, -EOPNOTSUPP, "a dmabuf takes Linux 5.12");
}

static void gpu__whose_registering_times_out_is_an_error_of_its_own(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);

	(void)state;
	cuda->has_dmabuf = true;
	fakeverbs_device(1)->dmabuf_errno = ETIMEDOUT;
	assert_refused(&region, -EIO, "which cannot have it: Connection timed out");
}

static void gpu__without_an_rdma_device_is_refused(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);

	(void)state;
	fakeverbs_device(1)->name[0] = '\0';
	assert_refused(&region, -ENODEV, "memory of a GPU is for RDMA devices");
}

static void gpu__that_is_not_there_is_refused(void **state)
{
	struct slime_agent_region region = of_gpu("0000:99:00.0");

	(void)state;
	assert_refused(&region, -ENODEV,
		       "CUDA, 0000:99:00.0: no CUDA-capable device is detected (100)");
}

static void gpu__without_so_much_memory_is_refused(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);

	(void)state;
	cuda->left = LEN;
	assert_refused(&region, -ENOMEM, "CUDA, allocating: out of memory (2)");
}

static void gpu__whose_driver_fails_leaves_nothing(void **state)
{
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);
	int n = 0;

	(void)state;
	for (;; n++) {
		struct slime_agent *b;

		assert_int_equal(load_driver(NULL), 0);
		cuda->fail_after = n;
		cuda->has_dmabuf = true;
		fakeverbs_device(1)->dmabuf_errno = 0;
		log_lines_keep();
		b = start_by("b", "fake1", &region, NULL);
		if (!slime_agent_wait_ready(b, LONG_MS)) {
			cuda->fail_after = -1;
			end(b);
			break;
		}
		assert_int_equal(log_lines_with("region kv of 8192 bytes: CUDA, "), 1);
		end(b);
		assert_int_equal(cuda->n_allocs + cuda->n_contexts + cuda->n_pushed, 0);
	}
	log_lines_release();
	assert_int_equal(n, 6);
}

/* ---- while the helper allocates ---- */

static sem_t may_go_on;

static void wait_in_alloc(void *addr, size_t len, void *bytes)
{
	(void)addr;
	(void)len;
	(void)bytes;
	sem_wait(&may_go_on);
}

static void hold_alloc(void)
{
	assert_ok(sem_init(&may_go_on, 0, 0));
	cuda->has_dmabuf = true;
	cuda->on_alloc = wait_in_alloc;
	fakeverbs_device(1)->dmabuf_errno = 0;
}

static void apply__other_readers_while_it_is_allocated_are_taken_then(void **state)
{
	static const char *const first[] = { "name=a" }, *const second[] = { "name=a", "name=c" };
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);
	struct slime_topology want = { .regions = &region, .n_regions = 1 };
	struct slime_agent *b;
	struct reader r;

	(void)state;
	hold_alloc();
	log_lines_keep();
	b = start_by("b", "fake1", &region, NULL);
	region.allow = first;
	region.n_allow = 1;
	assert_ok(slime_agent_apply(b, &want));
	region.allow = second;
	region.n_allow = 2;
	assert_ok(slime_agent_apply(b, &want));
	assert_ok(sem_post(&may_go_on));
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_int_equal(log_lines_with("region kv was offered to every agent"), 1);
	log_lines_release();
	open_reader(&r);
	read_all(&r);
	close_reader(&r);
	end(b);
}

/* On a loop of the caller, which runs only inside the agent's functions: what the helper did is
 * looked at when it has ended. */
static void destroy__while_a_withdrawn_region_is_allocated_leaves_nothing(void **state)
{
	static const struct slime_topology nothing = { .n_regions = 0 };
	struct slime_agent_region region = of_gpu(FAKECUDA_PCI);
	struct event_base *base = event_base_new();
	struct slime_agent *b;

	(void)state;
	assert_non_null(base);
	hold_alloc();
	b = start_on(base, "b", "fake1", &region, NULL);
	assert_ok(slime_agent_apply(b, &nothing));
	assert_ok(slime_agent_stop(b, LONG_MS));
	assert_ok(sem_post(&may_go_on));
	end(b);
	event_base_free(base);
}

/* ---- events ---- */

static bool says(const struct slime_agent *agent, const char *words)
{
	struct evbuffer *out = evbuffer_new();
	bool found;

	assert_non_null(out);
	devices_print(slime_agent_context(agent), out);
	evbuffer_add(out, "", 1);
	found = strstr((const char *)evbuffer_pullup(out, -1), words);
	evbuffer_free(out);
	return found;
}

static void metrics__count_what_devices_tell(void **state)
{
	struct slime_agent_region region = kv;
	struct slime_agent *b = start_by("b", "fake1", &region, NULL);
	struct reader r;

	(void)state;
	assert_false(says(b, "slime_rdma_events_total"));
	open_reader(&r);
	assert_true(says(b,
			 "# TYPE slime_rdma_events_total counter\n"
			 "slime_rdma_events_total{device=\"fake1:1\",kind=\"port active\"} 0\n"));
	fakeverbs_raise(1, IBV_EVENT_GID_CHANGE, 1);
	while (!says(b, "{device=\"fake1:1\",kind=\"address change\"} 1\n"))
		sched_yield();
	assert_true(says(r.agent, "{device=\"fake0:1\",kind=\"address change\"} 0\n"));
	close_reader(&r);
	end(b);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, reset_all, check)
#define GPU(fn)	 cmocka_unit_test_setup_teardown(fn, load_driver, check)
	const struct CMUnitTest tests[] = {
		CASE(on_demand__is_reached_and_locks_nothing),
		CASE(on_demand__with_a_device_that_cannot_is_refused),
		CASE(on_demand__without_a_device_is_refused),
		CASE(gpu__without_the_driver_is_refused),
		GPU(gpu__by_its_dmabuf_is_zeroed_read_and_written),
		GPU(gpu__by_its_address_is_zeroed_read_and_written),
		GPU(gpu__without_peer_memory_names_what_is_missing),
		GPU(gpu__whose_dmabuf_nobody_knows_names_what_is_missing),
		GPU(gpu__whose_registering_times_out_is_an_error_of_its_own),
		GPU(gpu__without_an_rdma_device_is_refused),
		GPU(gpu__that_is_not_there_is_refused),
		GPU(gpu__without_so_much_memory_is_refused),
		GPU(gpu__whose_driver_fails_leaves_nothing),
		GPU(apply__other_readers_while_it_is_allocated_are_taken_then),
		GPU(destroy__while_a_withdrawn_region_is_allocated_leaves_nothing),
		CASE(metrics__count_what_devices_tell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
