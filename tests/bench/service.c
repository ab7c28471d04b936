/* SPDX-License-Identifier: Apache-2.0 */
/* The bench service of an agent of this process, beside a control plane in memory. */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "bench/load/pattern.h"
#include "bench/service/job.h"
#include "tests/peeragent/agents.h"
#include <slime/plugin.h>

static bool cancels_while_filling;
static unsigned n_fills;
static int allocated; /* what the last allocation said */

int __wrap_slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
			   struct slime_mem **out);
int __real_slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
			   struct slime_mem **out);

int __wrap_slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
			   struct slime_mem **out)
{
	allocated = __real_slime_mem_alloc(ctx, len, attr, out);
	return allocated;
}

void __wrap_load_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset);
void __real_load_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset);

void __wrap_load_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset)
{
	n_fills++;
	if (cancels_while_filling)
		slime_plugin.cancel();
	__real_load_pattern_fill(to, len, seed, offset);
}

/* With a region of this size. */
static int init(struct slime_agent *agent, const char *size, void **state)
{
	const struct slime_plugin_option option = { "size", size };

	n_fills = 0;
	return slime_plugin.init(agent, &option, 1, state);
}

/* ---- who asks ---- */

struct ask {
	const char *method;
	const char *agent;
	const char *profile;
};

static size_t write_ask(const struct ask *q, uint8_t *out, size_t cap)
{
	struct sl_writer w = { .at = out, .room = cap };

	sl_write_u16(&w, (uint16_t)strlen(q->agent));
	sl_write_bytes(&w, q->agent, strlen(q->agent));
	sl_write_u16(&w, (uint16_t)strlen(q->profile));
	sl_write_bytes(&w, q->profile, strlen(q->profile));
	sl_write_u32(&w, 0);
	assert_false(w.failed);
	return cap - w.room;
}

/* How the call ends. */
static int ask(struct slime_agent *a, struct slime_endpoint *ep, const struct ask *q)
{
	uint8_t request[64], reply[8];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	int ret;

	args.method = slime_rpc_method_id(q->method);
	args.request = request;
	args.request_len = write_ask(q, request, sizeof(request));
	args.reply = reply;
	args.reply_cap = sizeof(reply);
	assert_ok(slime_call_create(slime_agent_context(a), NULL, &call));
	assert_ok(slime_call_start(ep, &args, call));
	assert_ok(slime_call_wait(call, -1));
	ret = slime_call_status(call);
	assert_ok(slime_call_destroy(call));
	return ret;
}

/* Whoever calls says which link it is about: another's immediates are not to be taken from it, nor
 * its link closed. */
static void drain__of_a_link_that_is_not_the_bench_s_is_refused(void **state)
{
	static const char *const methods[] = { BENCH_METHOD_CLAIM, BENCH_METHOD_DRAIN,
					       BENCH_METHOD_DRAINED };
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a, *b;
	struct slime_endpoint *ep;
	void *service;

	(void)state;
	assert_ok(slime_agent_create(&attr, &b));
	assert_ok(init(b, "4KiB", &service));
	assert_ok(slime_agent_start(b));
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_ok(slime_plugin.start(service));
	a = start("a", &to_b, 1);
	ep = get(a, "b", NULL);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		const struct ask q = { methods[i], "a", "default" };

		assert_int_equal(ask(a, ep, &q), -EREMOTEIO);
	}
	slime_agent_endpoint_put(a, ep);
	end(a);
	slime_plugin.stop(service);
	assert_ok(slime_agent_stop(b, LONG_MS));
	slime_plugin.fini(service);
	end(b);
}

/* ---- regions that nobody waits for ---- */

static void init__that_is_cancelled_while_it_fills_ends(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *b;
	void *service;

	(void)state;
	assert_ok(slime_agent_create(&attr, &b));
	cancels_while_filling = true;
	assert_int_equal(init(b, "128MiB", &service), -ECANCELED);
	cancels_while_filling = false;
	assert_int_equal(n_fills, 1);
	assert_ok(allocated);
	end(b);
}

static void init__that_is_cancelled_before_it_allocates_ends(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *b;
	void *service;

	(void)state;
	assert_ok(slime_agent_create(&attr, &b));
	slime_plugin.cancel();
	assert_int_equal(init(b, "4KiB", &service), -ECANCELED);
	assert_int_equal(allocated, -ECANCELED);
	assert_int_equal(n_fills, 0);
	end(b);
}

int main(void)
{
	/* One process prepares the service once: what was cancelled stays so, and comes last. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(drain__of_a_link_that_is_not_the_bench_s_is_refused, reset),
		cmocka_unit_test_setup(init__that_is_cancelled_while_it_fills_ends, reset),
		cmocka_unit_test_setup(init__that_is_cancelled_before_it_allocates_ends, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
