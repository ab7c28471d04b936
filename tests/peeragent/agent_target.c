/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers and messages by names: they follow the link and the directory. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <slime/target.h>

#include "tests/peeragent/agents.h"

/* b, with the region kv full of byte. */
static struct slime_agent *start_b(int byte)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *b;
	struct slime_mr *mr;

	attr.topology.regions = &kv;
	attr.topology.n_regions = 1;
	b = start_with(&attr);
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_ok(slime_agent_region_local(b, "kv", &mr));
	memset(slime_mr_addr(mr), byte, kv.size);
	assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
	return b;
}

static struct slime_target *target_of(struct slime_agent *agent, const char *peer,
				      const char *region)
{
	struct slime_target *target = NULL;

	assert_ok(slime_agent_target_get(agent, peer, region, &target));
	return target;
}

/* Memory of an agent, and an op for it. */
struct json_path {
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
	unsigned char *bytes;
};

static struct json_path place_of(struct slime_agent *agent)
{
	struct slime_context *ctx = slime_agent_context(agent);
	struct json_path p;

	assert_ok(slime_mem_alloc(ctx, kv.size, NULL, &p.mem));
	p.bytes = slime_mem_addr(p.mem);
	assert_ok(slime_mr_create(ctx, p.bytes, kv.size, SLIME_ACCESS_REMOTE_READ, &p.mr));
	assert_ok(slime_op_create(ctx, NULL, &p.op));
	return p;
}

static void end_place(struct json_path *p)
{
	assert_ok(slime_op_destroy(p->op));
	assert_ok(slime_mr_destroy(p->mr));
	assert_ok(slime_mem_destroy(p->mem));
}

static int result(struct json_path *p, int ret)
{
	if (ret)
		return ret;
	assert_ok(slime_op_wait(p->op, LONG_MS));
	return slime_op_status(p->op);
}

static int read_into(struct json_path *p, struct slime_target *target)
{
	struct slime_xfer x = { .local = p->mr, .len = kv.size };

	return result(p, slime_target_read(target, &x, 1, 0, p->op));
}

static int write_from(struct json_path *p, struct slime_target *target)
{
	struct slime_xfer x = { .local = p->mr, .len = kv.size };

	return result(p, slime_target_write(target, &x, 1, 0, p->op));
}

static void assert_reads(struct json_path *p, struct slime_target *target, int byte)
{
	memset(p->bytes, 0, kv.size);
	assert_ok(read_into(p, target));
	for (size_t i = 0; i < kv.size; i++)
		assert_int_equal(p->bytes[i], byte);
}

static void target__reads_and_writes_by_names(void **state)
{
	struct slime_agent *b = start_b(0x5a), *a = start("a", &to_b, 1);
	struct slime_target *t = target_of(a, "b", "kv");
	struct json_path p = place_of(a);

	(void)state;
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0x5a);
	memset(p.bytes, 0x77, kv.size);
	assert_ok(write_from(&p, t));
	assert_reads(&p, t, 0x77);
	slime_agent_target_put(t);
	slime_agent_target_put(NULL);
	end_place(&p);
	end(a);
	end(b);
}

/* What a peer receives through a target of its own. */
static void target__sends_receives_and_carries_immediates(void **state)
{
	struct slime_agent *b = start_b(0), *a = start("a", &to_b, 1);
	struct slime_target *to = target_of(a, "b/default", "kv"), *from = target_of(b, "a", NULL);
	struct json_path mine = place_of(a), theirs = place_of(b);
	struct slime_xfer x = { .local = mine.mr, .len = 8 };

	(void)state;
	assert_ok(slime_agent_target_wait(to, LONG_MS));
	assert_ok(slime_agent_target_wait(from, LONG_MS));
	assert_ok(slime_target_recv(from, theirs.mr, 0, 100, 7, SLIME_TAG_ALL, theirs.op));
	memset(mine.bytes, 0x11, 100);
	assert_ok(result(&mine, slime_target_send(to, mine.mr, 0, 100, 7, mine.op)));
	assert_ok(result(&theirs, 0));
	assert_int_equal(slime_op_bytes(theirs.op), 100);
	assert_memory_equal(theirs.bytes, mine.bytes, 100);
	assert_ok(slime_target_imm_recv(from, theirs.op));
	assert_ok(result(&mine, slime_target_write_imm(to, &x, 1, 0, 42, mine.op)));
	assert_ok(result(&theirs, 0));
	assert_int_equal(slime_op_imm(theirs.op), 42);
	assert_ok(slime_target_recv(from, theirs.mr, 0, 100, 7, SLIME_TAG_ALL, theirs.op));
	assert_ok(slime_target_recv_cancel(from, theirs.op));
	assert_int_equal(result(&theirs, 0), -ECANCELED);
	assert_int_equal(slime_target_read(from, &x, 1, 0, mine.op), -EINVAL);
	slime_agent_target_put(to);
	slime_agent_target_put(from);
	end_place(&mine);
	end_place(&theirs);
	end(a);
	end(b);
}

static void target__survives_a_new_process_of_the_peer(void **state)
{
	struct slime_agent *b = start_b(0x5a), *a = start("a", &to_b, 1);
	struct slime_target *t = target_of(a, "b", "kv");
	struct json_path p = place_of(a);

	(void)state;
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0x5a);
	end(b);
	while (read_into(&p, t) != -ENOTCONN)
		poll(NULL, 0, 1);
	assert_int_equal(slime_agent_target_wait(t, 0), -ENOTCONN);
	b = start_b(0x77);
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0x77);
	slime_agent_target_put(t);
	end_place(&p);
	end(a);
	end(b);
}

/* The link is made anew, and the region is the one that is known. */
static void target__survives_a_reconnect_without_nanoctrl(void **state)
{
	struct slime_agent *b = start_b(0x5a), *a = start("a", &to_b, 1);
	struct slime_target *t = target_of(a, "b", "kv");
	struct json_path p = place_of(a);
	struct slime_endpoint *ep;

	(void)state;
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	fakectrl_fill_calls(UINT32_MAX); /* no lookup from here on */
	ep = get(b, "a", NULL);
	slime_endpoint_close(ep);
	slime_agent_endpoint_put(b, ep);
	while (n_connects(a) < 2)
		poll(NULL, 0, 1);
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0x5a);
	slime_agent_target_put(t);
	end_place(&p);
	end(a);
	end(b);
}

static void apply_regions(struct slime_agent *b, const struct slime_agent_region *regions, size_t n)
{
	struct slime_topology topology = { .regions = regions, .n_regions = n };

	assert_ok(slime_agent_apply(b, &topology));
}

static void target__of_a_region_that_is_offered_anew_reaches_the_new_one(void **state)
{
	struct slime_agent *b = start_b(0x5a), *a = start("a", &to_b, 1);
	struct slime_agent_region larger = kv;
	struct slime_target *t = target_of(a, "b", "kv");
	struct json_path p = place_of(a);
	int ret;

	(void)state;
	larger.size = 2 * kv.size;
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0x5a);
	apply_regions(b, &larger, 1);
	do {
		ret = read_into(&p, t);
		/* That it is gone is said of ops that were under way, and once nanoctrl was asked.
		 */
		assert_true(!ret || ret == -EAGAIN || ret == -ESTALE || ret == -ENOENT);
	} while (ret || p.bytes[0]);
	assert_reads(&p, t, 0);
	slime_agent_target_put(t);
	end_place(&p);
	end(a);
	end(b);
}

/* A region of b's program is destroyed before it is out of the directory. */
static void target__of_a_region_that_is_gone_says_so_after_a_lookup(void **state)
{
	struct slime_agent *b = start("b", NULL, 0), *a = start("a", &to_b, 1);
	struct json_path p = place_of(a), theirs = place_of(b);
	uint32_t access = SLIME_ACCESS_REMOTE_READ;
	struct slime_target *t;

	(void)state;
	assert_ok(slime_agent_region_offer(b, "own", theirs.mr, access, NULL, 0));
	assert_true(fakectrl_wait_region("b", "own", true, LONG_MS));
	t = target_of(a, "b", "own");
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0);
	assert_ok(slime_mr_destroy(theirs.mr));
	/* An op that was under way may say so first. */
	while (slime_agent_target_wait(t, 0) != -ESTALE)
		assert_int_not_equal(read_into(&p, t), 0);
	assert_int_equal(read_into(&p, t), -ESTALE);
	assert_ok(slime_agent_region_withdraw(b, "own"));
	assert_true(fakectrl_wait_region("b", "own", false, LONG_MS));
	while (slime_agent_target_wait(t, 0) != -ENOENT)
		poll(NULL, 0, 1);
	assert_int_equal(read_into(&p, t), -ENOENT);
	assert_ok(
		slime_mr_create(slime_agent_context(b), theirs.bytes, kv.size, access, &theirs.mr));
	assert_ok(slime_agent_region_offer(b, "own", theirs.mr, access, NULL, 0));
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0);
	slime_agent_target_put(t);
	end_place(&p);
	assert_ok(slime_agent_region_withdraw(b, "own"));
	end_place(&theirs);
	end(a);
	end(b);
}

static void target__of_nothing_says_what_is_missing(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b;
	struct slime_target *t = target_of(a, "b", "kv"), *other;
	struct json_path p = place_of(a);

	(void)state;
	assert_int_equal(slime_agent_target_wait(t, 1), -ENOTCONN);
	assert_int_equal(read_into(&p, t), -ENOTCONN);
	b = start_b(0x5a);
	assert_ok(slime_agent_link_add(a, &to_b));
	assert_ok(slime_agent_target_wait(t, LONG_MS));
	assert_reads(&p, t, 0x5a);
	other = target_of(a, "b", "other");
	while (read_into(&p, other) != -ENOENT)
		poll(NULL, 0, 1);
	assert_int_equal(slime_agent_target_wait(other, 1), -ENOENT);
	/* An agent with targets stays. */
	slime_agent_target_put(t);
	end_place(&p);
	assert_int_equal(slime_agent_destroy(a), -EBUSY);
	assert_int_equal(slime_agent_target_wait(other, LONG_MS), -ESHUTDOWN);
	assert_int_equal(slime_agent_target_get(a, "b", "kv", &t), -ESHUTDOWN);
	slime_agent_target_put(other);
	end(a);
	end(b);
}

static void target_get__of_what_is_no_name_is_invalid(void **state)
{
	static const char *const bad[] = { "", ".", "/", "b/", "/p", "b/p/q", "a b" };
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_agent_attr attr = attr_of("c");
	struct slime_target *t;
	struct slime_agent *c;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(slime_agent_target_get(a, bad[i], "kv", &t), -EINVAL);
	assert_int_equal(slime_agent_target_get(a, "b", "k v", &t), -EINVAL);
	assert_ok(slime_agent_create(&attr, &c));
	assert_int_equal(slime_agent_target_get(c, "b", "kv", &t), -ENOTCONN);
	end(c);
	end(a);
}

/* ---- threads ---- */

struct reader {
	struct slime_agent *agent;
	struct slime_target *target;
	_Atomic bool stop;
	_Atomic uint64_t n_read;
	pthread_t thread;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	struct json_path p = place_of(r->agent);

	while (!r->stop) {
		if (read_into(&p, r->target))
			sched_yield();
		else
			r->n_read++;
	}
	end_place(&p);
	return NULL;
}

static void wait_for_reads(struct reader *r)
{
	uint64_t before = r->n_read;

	while (r->n_read < before + 10)
		poll(NULL, 0, 1);
}

/* Threads read while the link and the region change under them. */
static void target__of_threads_follows_every_change(void **state)
{
	struct slime_agent *b = start_b(0x5a), *a = start("a", &to_b, 1);
	struct slime_target *t = target_of(a, "b", "kv");
	struct slime_agent_region larger = kv;
	struct reader readers[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		readers[i] = (struct reader){ .agent = a, .target = t };
		assert_ok(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]));
	}
	for (int round = 0; round < 5; round++) {
		wait_for_reads(&readers[0]);
		larger.size = kv.size * (2 + (uint64_t)round % 2);
		apply_regions(b, &larger, 1);
		wait_for_reads(&readers[1]);
		end(b);
		b = start_b(round);
	}
	wait_for_reads(&readers[0]);
	for (int i = 0; i < 2; i++) {
		readers[i].stop = true;
		assert_ok(pthread_join(readers[i].thread, NULL));
	}
	slime_agent_target_put(t);
	end(a);
	end(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(target__reads_and_writes_by_names, reset),
		cmocka_unit_test_setup(target__sends_receives_and_carries_immediates, reset),
		cmocka_unit_test_setup(target__survives_a_new_process_of_the_peer, reset),
		cmocka_unit_test_setup(target__survives_a_reconnect_without_nanoctrl, reset),
		cmocka_unit_test_setup(target__of_a_region_that_is_offered_anew_reaches_the_new_one,
				       reset),
		cmocka_unit_test_setup(target__of_a_region_that_is_gone_says_so_after_a_lookup,
				       reset),
		cmocka_unit_test_setup(target__of_nothing_says_what_is_missing, reset),
		cmocka_unit_test_setup(target_get__of_what_is_no_name_is_invalid, reset),
		cmocka_unit_test_setup(target__of_threads_follows_every_change, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
