/* SPDX-License-Identifier: Apache-2.0 */
/* The bench service of an agent of this process, beside a control plane in memory. */
#include <errno.h>

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
		cmocka_unit_test_setup(init__that_is_cancelled_while_it_fills_ends, reset),
		cmocka_unit_test_setup(init__that_is_cancelled_before_it_allocates_ends, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
