/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of agents, and the peers that have them. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "peeragent/lib/agent/agent.h"
#include "nanoctrl/net/loop.h"
#include "tests/peeragent/agents.h"
#include "tests/support/log_lines.h"

/* b, with the region kv full of byte. */
static struct slime_agent *start_with_kv(int byte)
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

/* Read the region over the link to b, and compare: the status of the read. */
static int read_kv(struct slime_agent *a, const struct slime_remote_mr *remote, int byte)
{
	struct slime_context *ctx = slime_agent_context(a);
	struct slime_endpoint *ep = get(a, "b", NULL);
	struct slime_xfer x = { .remote = remote, .len = kv.size };
	struct slime_mem *mem;
	struct slime_mr *mine;
	struct slime_op *op;
	int ret;

	assert_ok(slime_mem_alloc(ctx, kv.size, NULL, &mem));
	assert_ok(slime_mr_create(ctx, slime_mem_addr(mem), kv.size, 0, &mine));
	assert_ok(slime_op_create(ctx, NULL, &op));
	x.local = mine;
	ret = slime_read(ep, &x, 1, 0, op);
	if (!ret) {
		assert_ok(slime_op_wait(op, LONG_MS));
		ret = slime_op_status(op);
	}
	for (size_t i = 0; !ret && i < kv.size; i++)
		assert_int_equal(((unsigned char *)slime_mem_addr(mem))[i], byte);
	slime_agent_endpoint_put(a, ep);
	assert_ok(slime_op_destroy(op));
	assert_ok(slime_mr_destroy(mine));
	assert_ok(slime_mem_destroy(mem));
	return ret;
}

/* a, which has read the region of b by its name. */
static struct slime_agent *start_reader(struct slime_remote_mr *remote, int byte)
{
	struct slime_agent *a = start("a", &to_b, 1);

	assert_ok(slime_agent_region_remote(a, "b", "kv", LONG_MS, remote));
	assert_ok(read_kv(a, remote, byte));
	return a;
}

static void region__of_a_peer_is_read_by_name(void **state)
{
	struct slime_agent *b = start_with_kv(0x5a), *a;
	struct slime_remote_mr remote;

	(void)state;
	a = start_reader(&remote, 0x5a);
	end(a);
	end(b);
}

/* Nothing of the former one is remembered, and what was kept of it reaches nothing. */
static void region__of_a_peer_that_came_again_is_the_new_one(void **state)
{
	struct slime_agent *b = start_with_kv(0x5a), *a;
	struct slime_remote_mr former, remote;

	(void)state;
	a = start_reader(&former, 0x5a);
	end(b);
	assert_int_equal(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote), -ENOENT);
	b = start_with_kv(0x77);
	assert_ok(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote));
	assert_ok(read_kv(a, &remote, 0x77));
	assert_int_not_equal(read_kv(a, &former, 0x5a), 0);
	assert_ok(read_kv(a, &remote, 0x77));
	end(a);
	end(b);
}

/* What takes the former one out of the directory arrives late, and must not take the new one. */
static void region__offered_anew_is_there_after_the_former_is_withdrawn(void **state)
{
	struct slime_agent_region larger = kv;
	struct slime_topology other = { .regions = &larger, .n_regions = 1 };
	struct slime_agent *b = start_with_kv(0x5a);
	struct slime_mr *mr;

	(void)state;
	larger.size = 2 * kv.size;
	fakectrl_hold_withdrawals();
	assert_ok(slime_agent_apply(b, &other));
	while (slime_agent_region_local(b, "kv", &mr) == -EAGAIN)
		poll(NULL, 0, 1);
	assert_int_equal(slime_mr_len(mr), larger.size);
	fakectrl_release_withdrawals();
	assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
	end(b);
}

static void region__that_somebody_else_withdrew_is_published_again(void **state)
{
	struct slime_agent *b = start_with_kv(0x5a);

	(void)state;
	assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
	log_lines_keep();
	for (unsigned i = 1; i <= 2; i++) {
		fakectrl_withdraw_region("b", "kv");
		assert_true(fakectrl_wait_region("b", "kv", true, LONG_MS));
		assert_int_equal(log_lines_with("region kv was withdrawn from the directory"), i);
	}
	log_lines_release();
	end(b);
}

static void peer_find__says_who_is_registered(void **state)
{
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0);

	(void)state;
	assert_string_equal(slime_agent_scope(a), "default");
	assert_ok(slime_agent_peer_find(a, "b", LONG_MS));
	assert_int_equal(slime_agent_peer_find(a, "c", LONG_MS), -ENOENT);
	end(b);
	assert_int_equal(slime_agent_peer_find(a, "b", LONG_MS), -ENOENT);
	fakectrl_go_away();
	assert_int_equal(slime_agent_peer_find(a, "b", 1), -EAGAIN);
	fakectrl_come_back(true);
	end(a);
}

static void peers__come_page_by_page_with_all_that_they_say(void **state)
{
	static const struct slime_label decode = { "role", "decode" };
	struct slime_agent *a = start("a", NULL, 0), *b = start("b", NULL, 0), *c;
	struct slime_agent_attr attr = attr_of("c");
	struct slime_agent_peers *page;

	(void)state;
	attr.topology = (struct slime_topology){ .labels = &decode, .n_labels = 1 };
	assert_ok(slime_agent_create(&attr, &c));
	assert_ok(slime_agent_service_add(c, "echo"));
	assert_ok(slime_agent_start(c));
	assert_ok(slime_agent_wait_ready(c, LONG_MS));
	assert_ok(slime_agent_peers(a, NULL, NULL, LONG_MS, &page));
	assert_int_equal(page->n, 1); /* without a itself */
	assert_string_equal(page->peers[0].name, "b");
	assert_int_equal(page->peers[0].n_labels, 0);
	assert_non_null(page->next);
	{
		char next[64];

		snprintf(next, sizeof(next), "%s", page->next);
		slime_agent_peers_free(page);
		assert_ok(slime_agent_peers(a, NULL, next, LONG_MS, &page));
	}
	assert_int_equal(page->n, 1);
	assert_null(page->next);
	assert_string_equal(page->peers[0].name, "c");
	assert_string_equal(page->peers[0].address, "here");
	assert_int_not_equal(page->peers[0].generation, 0);
	assert_string_equal(page->peers[0].labels[0].key, "role");
	assert_string_equal(page->peers[0].labels[0].value, "decode");
	assert_int_equal(page->peers[0].n_services, 1);
	assert_string_equal(page->peers[0].services[0], "echo");
	slime_agent_peers_free(page);
	assert_ok(slime_agent_peers(a, "role=decode", NULL, LONG_MS, &page));
	assert_int_equal(page->n, 1);
	assert_string_equal(page->peers[0].name, "c");
	slime_agent_peers_free(page);
	assert_ok(slime_agent_peers(a, "role=none", NULL, LONG_MS, &page));
	assert_int_equal(page->n, 0);
	slime_agent_peers_free(page);
	end(c);
	end(b);
	fakectrl_go_away();
	assert_int_equal(slime_agent_peers(a, NULL, NULL, 1, &page), -EAGAIN);
	fakectrl_come_back(true);
	end(a);
}

static void regions__of_a_peer_are_listed(void **state)
{
	struct slime_agent *b = start_with_kv(0x5a), *a = start("a", NULL, 0);
	struct slime_agent_regions *list;

	(void)state;
	assert_ok(slime_agent_regions(a, "b", LONG_MS, &list));
	assert_int_equal(list->n, 1);
	assert_string_equal(list->regions[0].name, "kv");
	assert_int_equal(list->regions[0].size, kv.size);
	assert_int_equal(list->regions[0].access,
			 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE);
	assert_int_not_equal(list->regions[0].generation, 0);
	assert_int_not_equal(list->regions[0].revision, 0);
	slime_agent_regions_free(list);
	assert_ok(slime_agent_regions(b, "a", LONG_MS, &list));
	assert_int_equal(list->n, 0);
	slime_agent_regions_free(list);
	assert_int_equal(slime_agent_regions(a, "c", LONG_MS, &list), -ENOENT);
	assert_int_equal(slime_agent_regions(a, "", LONG_MS, &list), -EINVAL);
	end(a);
	end(b);
}

/* ---- lookups without a session ---- */

struct asker {
	struct slime_agent *agent;
	struct slime_remote_mr remote;
	_Atomic bool answered;
	int ret;
	pthread_t thread;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;

	asker->ret = slime_agent_region_remote(asker->agent, "b", "kv", LONG_MS, &asker->remote);
	asker->answered = true;
	return NULL;
}

struct waiting {
	struct slime_agent *agent;
	bool any;
};

static void look_for_lookups(void *arg)
{
	struct waiting *w = arg;

	w->any = !sl_list_empty(&w->agent->lookups);
}

/* Until its question is with the agent; it must not have been answered. */
static void begin_to_ask(struct asker *asker, struct slime_agent *agent)
{
	struct waiting w = { .agent = agent };

	*asker = (struct asker){ .agent = agent };
	assert_ok(pthread_create(&asker->thread, NULL, ask, asker));
	while (!w.any && !asker->answered)
		loop_call(agent->loop, look_for_lookups, &w);
}

static void region_remote__without_a_session_waits_for_one(void **state)
{
	struct slime_agent *b = start_with_kv(0x5a), *a = start("a", &to_b, 1);
	struct asker asker;

	(void)state;
	assert_connected(a, b, NULL);
	fakectrl_go_away();
	begin_to_ask(&asker, a);
	fakectrl_come_back(true);
	assert_ok(pthread_join(asker.thread, NULL));
	assert_ok(asker.ret);
	assert_ok(read_kv(a, &asker.remote, 0x5a));
	end(a);
	end(b);
}

/* Nobody says when one is. */
static void region_remote__that_finds_no_call_free_asks_again(void **state)
{
	struct slime_agent *b = start_with_kv(0x5a), *a = start("a", &to_b, 1);
	struct slime_remote_mr remote;

	(void)state;
	assert_connected(a, b, NULL);
	fakectrl_fill_calls(1);
	assert_ok(slime_agent_region_remote(a, "b", "kv", -1, &remote));
	assert_ok(read_kv(a, &remote, 0x5a));
	end(a);
	end(b);
}

static bool say_yes_the_third_time(void *arg)
{
	return ++*(unsigned *)arg == 3;
}

static void region_remote__that_is_interrupted_ends_and_can_be_asked_again(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *b = start_with_kv(0x5a), *a;
	struct slime_remote_mr remote;
	unsigned asked = 0;

	(void)state;
	attr.interrupted = say_yes_the_third_time;
	attr.arg = &asked;
	a = start_with(&attr);
	assert_ok(slime_agent_wait_ready(a, LONG_MS));
	fakectrl_go_away();
	assert_int_equal(slime_agent_region_remote(a, "b", "kv", -1, &remote), -EINTR);
	assert_int_equal(asked, 3);
	fakectrl_come_back(true);
	assert_ok(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote));
	end(a);
	end(b);
}

static void region_remote__that_waits_for_a_session_ends_with_the_agent(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct asker asker;

	(void)state;
	fakectrl_go_away();
	begin_to_ask(&asker, a);
	assert_ok(slime_agent_stop(a, LONG_MS));
	assert_ok(pthread_join(asker.thread, NULL));
	assert_int_equal(asker.ret, -ESHUTDOWN);
	end(a);
	fakectrl_come_back(true);
}

static void lookup__of_what_is_no_name_is_invalid(void **state)
{
	static const char *const bad[] = { "", ".", "..", "a b/c" };
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_remote_mr remote;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(slime_agent_peer_find(a, bad[i], LONG_MS), -EINVAL);
		assert_int_equal(slime_agent_region_remote(a, bad[i], "kv", LONG_MS, &remote),
				 -EINVAL);
		assert_int_equal(slime_agent_region_remote(a, "b", bad[i], LONG_MS, &remote),
				 -EINVAL);
	}
	end(a);
}

static void region__unknown_is_not_found(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_remote_mr remote;
	struct slime_mr *mr;

	(void)state;
	assert_int_equal(slime_agent_region_remote(a, "b", "kv", LONG_MS, &remote), -ENOENT);
	assert_int_equal(slime_agent_region_local(a, "kv", &mr), -ENOENT);
	assert_int_equal(slime_agent_region_withdraw(a, "kv"), -ENOENT);
	end(a);
}

/* One of the caller's own. */
static struct slime_mr *make_region(struct slime_agent *a, struct slime_mem **mem)
{
	struct slime_context *ctx = slime_agent_context(a);
	struct slime_mr *mr;

	assert_ok(slime_mem_alloc(ctx, 4096, NULL, mem));
	assert_ok(slime_mr_create(ctx, slime_mem_addr(*mem), 4096, 3, &mr));
	return mr;
}

static void destroy_region(struct slime_mr *mr, struct slime_mem *mem)
{
	assert_ok(slime_mr_destroy(mr));
	assert_ok(slime_mem_destroy(mem));
}

static void region__of_the_caller_is_shown_and_withdrawn(void **state)
{
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_mem *mem;
	struct slime_mr *mr;

	(void)state;
	mr = make_region(a, &mem);
	assert_ok(slime_agent_region_offer(a, "mine", mr, 3, NULL, 0));
	assert_int_equal(slime_agent_region_offer(a, "mine", mr, 3, NULL, 0), -EEXIST);
	assert_true(fakectrl_wait_region("a", "mine", true, LONG_MS));
	assert_ok(slime_agent_region_withdraw(a, "mine"));
	assert_true(fakectrl_wait_region("a", "mine", false, LONG_MS));
	destroy_region(mr, mem);
	end(a);
}

static void regions__are_in_the_order_of_their_names(void **state)
{
	static const char *const names[] = { "b", "a" };
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_agent_regions *list;
	struct slime_mem *mem[2];
	struct slime_mr *mr[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		mr[i] = make_region(a, &mem[i]);
		assert_ok(slime_agent_region_offer(a, names[i], mr[i], 3, NULL, 0));
		assert_true(fakectrl_wait_region("a", names[i], true, LONG_MS));
	}
	assert_ok(slime_agent_regions(a, "a", LONG_MS, &list));
	assert_int_equal(list->n, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(list->regions[i].name[0], "ab"[i]);
		assert_ok(slime_agent_region_withdraw(a, names[i]));
		destroy_region(mr[i], mem[i]);
	}
	slime_agent_regions_free(list);
	end(a);
}

static void offer__to_a_list_that_became_empty_is_refused(void **state)
{
	static const char *const nobody[] = { NULL };
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_mem *mem;
	struct slime_mr *mr;

	(void)state;
	mr = make_region(a, &mem);
	assert_int_equal(slime_agent_region_offer(a, "mine", mr, 3, nobody, 0), -EINVAL);
	assert_int_equal(slime_agent_region_withdraw(a, "mine"), -ENOENT);
	destroy_region(mr, mem);
	end(a);
}

static void apply__of_a_region_with_the_name_of_an_offered_one_is_refused(void **state)
{
	struct slime_topology named = { .regions = &kv, .n_regions = 1 };
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_mem *mem;
	struct slime_mr *mr;

	(void)state;
	mr = make_region(a, &mem);
	assert_ok(slime_agent_region_offer(a, kv.name, mr, 3, NULL, 0));
	log_lines_keep();
	assert_int_equal(slime_agent_apply(a, &named), -EEXIST);
	assert_int_equal(log_lines_with("regions.0.name: kv is offered already"), 1);
	log_lines_release();
	assert_ok(slime_agent_region_withdraw(a, kv.name));
	assert_ok(slime_agent_apply(a, &named));
	destroy_region(mr, mem);
	end(a);
}

static void region__of_the_longest_name_is_offered(void **state)
{
	struct slime_agent_region named = kv;
	struct slime_topology one = { .regions = &named, .n_regions = 1 };
	struct slime_agent *a = start("a", NULL, 0);
	char name[SLIME_AGENT_NAME_MAX + 1];
	struct slime_mr *mr;
	int ret;

	(void)state;
	memset(name, 'n', SLIME_AGENT_NAME_MAX);
	name[SLIME_AGENT_NAME_MAX] = '\0';
	named.name = name;
	assert_ok(slime_agent_apply(a, &one));
	while ((ret = slime_agent_region_local(a, name, &mr)) == -EAGAIN)
		poll(NULL, 0, 1);
	assert_ok(ret);
	assert_true(fakectrl_wait_region("a", name, true, LONG_MS));
	end(a);
}

/* ---- regions that are not wanted any more ---- */

/* The helper waits here. */
static struct {
	bool on;
	sem_t entered, go;
	unsigned n_allocs;
	int ret; /* of the last */
} gate;

int __wrap_slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
			   struct slime_mem **out);
int __real_slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
			   struct slime_mem **out);

int __wrap_slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
			   struct slime_mem **out)
{
	if (!gate.on)
		return __real_slime_mem_alloc(ctx, len, attr, out);
	gate.n_allocs++;
	sem_post(&gate.entered);
	sem_wait(&gate.go);
	gate.ret = __real_slime_mem_alloc(ctx, len, attr, out);
	return gate.ret;
}

static int close_gate(void **state)
{
	gate.on = true;
	gate.n_allocs = 0;
	assert_ok(sem_init(&gate.entered, 0, 0));
	assert_ok(sem_init(&gate.go, 0, 0));
	return reset(state);
}

static int remove_gate(void **state)
{
	(void)state;
	gate.on = false;
	sem_destroy(&gate.entered);
	sem_destroy(&gate.go);
	return 0;
}

/* For as many as there could be. */
static void open_gate(void)
{
	for (int i = 0; i < 3; i++)
		assert_ok(sem_post(&gate.go));
}

static const struct slime_agent_region three[] = {
	{ .name = "r1", .size = 8192, .numa_node = -1, .access = 3 },
	{ .name = "r2", .size = 8192, .numa_node = -1, .access = 3 },
	{ .name = "r3", .size = 8192, .numa_node = -1, .access = 3 },
};

static void destroy__while_regions_wait_allocates_none_of_them(void **state)
{
	struct slime_agent_attr attr = attr_of("a");
	struct slime_agent *a;

	(void)state;
	attr.topology.regions = three;
	attr.topology.n_regions = 3;
	log_lines_keep();
	a = start_with(&attr);
	assert_ok(sem_wait(&gate.entered));
	assert_ok(slime_agent_stop(a, LONG_MS));
	open_gate();
	end(a);
	assert_int_equal(gate.n_allocs, 1);
	assert_int_equal(gate.ret, -ECANCELED);
	assert_int_equal(log_lines_with("region"), 0);
	log_lines_release();
}

static void apply__without_regions_that_wait_allocates_none_of_them(void **state)
{
	struct slime_topology first = { .regions = three, .n_regions = 2 };
	struct slime_topology second = { .regions = three + 2, .n_regions = 1 };
	struct slime_agent *a = start("a", NULL, 0);
	struct slime_mr *mr;
	int ret;

	(void)state;
	assert_ok(slime_agent_apply(a, &first));
	assert_ok(sem_wait(&gate.entered));
	assert_ok(slime_agent_apply(a, &second));
	open_gate();
	while ((ret = slime_agent_region_local(a, "r3", &mr)) == -EAGAIN)
		poll(NULL, 0, 1);
	assert_ok(ret);
	end(a);
	assert_int_equal(gate.n_allocs, 2);
}

/* ---- a region that is in use ---- */

static atomic_uint n_refusals; /* of slime_mr_destroy(), to come */
static atomic_uint n_destroyed;

int __wrap_slime_mr_destroy(struct slime_mr *mr);
int __real_slime_mr_destroy(struct slime_mr *mr);

int __wrap_slime_mr_destroy(struct slime_mr *mr)
{
	int ret = -EBUSY;

	if (atomic_load(&n_refusals)) {
		atomic_fetch_sub(&n_refusals, 1);
	} else {
		ret = __real_slime_mr_destroy(mr);
		atomic_fetch_add(&n_destroyed, !ret);
	}
	return ret;
}

static void apply__without_a_region_in_use_destroys_it_when_it_is_not(void **state)
{
	struct slime_topology empty = { .n_regions = 0 };
	struct slime_agent *b = start_with_kv(1);

	(void)state;
	atomic_store(&n_destroyed, 0);
	atomic_store(&n_refusals, 1);
	log_lines_keep();
	assert_ok(slime_agent_apply(b, &empty));
	while (!atomic_load(&n_destroyed))
		poll(NULL, 0, 1);
	assert_int_equal(log_lines_with("region kv is still in use"), 1);
	assert_int_equal(log_lines_with(""), 1);
	log_lines_release();
	assert_true(fakectrl_wait_region("b", "kv", false, LONG_MS));
	end(b);
}

/* As of a peer that stands still. What stays can still be found: it is no leak. */
static void destroy__with_a_region_in_use_keeps_it_with_one_line(void **state)
{
	struct slime_agent *b = start_with_kv(1);

	(void)state;
	atomic_store(&n_refusals, 1000);
	log_lines_keep();
	end(b);
	assert_int_equal(log_lines_with("region kv: a peer or a device does not let go of it"), 1);
	assert_int_equal(log_lines_with(""), 1);
	log_lines_release();
	atomic_store(&n_refusals, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(region__of_a_peer_is_read_by_name, reset),
		cmocka_unit_test_setup(region__of_a_peer_that_came_again_is_the_new_one, reset),
		cmocka_unit_test_setup(region__offered_anew_is_there_after_the_former_is_withdrawn,
				       reset),
		cmocka_unit_test_setup(region__that_somebody_else_withdrew_is_published_again,
				       reset),
		cmocka_unit_test_setup(lookup__of_what_is_no_name_is_invalid, reset),
		cmocka_unit_test_setup(region__unknown_is_not_found, reset),
		cmocka_unit_test_setup(peer_find__says_who_is_registered, reset),
		cmocka_unit_test_setup(peers__come_page_by_page_with_all_that_they_say, reset),
		cmocka_unit_test_setup(regions__of_a_peer_are_listed, reset),
		cmocka_unit_test_setup(region_remote__without_a_session_waits_for_one, reset),
		cmocka_unit_test_setup(region_remote__that_finds_no_call_free_asks_again, reset),
		cmocka_unit_test_setup(
			region_remote__that_is_interrupted_ends_and_can_be_asked_again, reset),
		cmocka_unit_test_setup(region_remote__that_waits_for_a_session_ends_with_the_agent,
				       reset),
		cmocka_unit_test_setup(region__of_the_caller_is_shown_and_withdrawn, reset),
		cmocka_unit_test_setup(regions__are_in_the_order_of_their_names, reset),
		cmocka_unit_test_setup(offer__to_a_list_that_became_empty_is_refused, reset),
		cmocka_unit_test_setup(
			apply__of_a_region_with_the_name_of_an_offered_one_is_refused, reset),
		cmocka_unit_test_setup(region__of_the_longest_name_is_offered, reset),
		cmocka_unit_test_setup_teardown(destroy__while_regions_wait_allocates_none_of_them,
						close_gate, remove_gate),
		cmocka_unit_test_setup_teardown(
			apply__without_regions_that_wait_allocates_none_of_them, close_gate,
			remove_gate),
		cmocka_unit_test_setup(apply__without_a_region_in_use_destroys_it_when_it_is_not,
				       reset),
		cmocka_unit_test_setup(destroy__with_a_region_in_use_keeps_it_with_one_line, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
