/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of an owner that answers anything: no page is returned that the owner does not have,
 * each item has a status, and nothing outside of the region is read. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages/src/message.h"
#include "tests/peeragent/agents.h"
#include <slime/pages.h>

#define REGION_LEN (UINT64_C(1) << 20)
#define PAGE_LEN   4096
#define N_PAGES	   24
#define REPLY_MAX  (8 + N_PAGES * PAGES_PLACE_LEN + 32)
#define ROUNDS	   400

/* The owner: an agent with the region and the methods of one, and answers of its own. */
struct liar {
	struct slime_agent *agent;
	struct slime_mem *mem;
	struct slime_mr *mr;
	_Atomic uint64_t seed, n_answers;
};

static uint64_t next(struct liar *l)
{
	uint64_t x = atomic_load(&l->seed);

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	atomic_store(&l->seed, x);
	return x;
}

/* Near the borders of the region, of 32 and of 64 bits, or anywhere. */
static uint64_t hostile_number(struct liar *l)
{
	static const uint64_t borders[] = { 0,		PAGE_LEN,	   REGION_LEN - PAGE_LEN,
					    REGION_LEN, UINT64_C(1) << 32, UINT64_MAX };
	uint64_t x = next(l);

	if (x % 4 == 0)
		return next(l);
	return borders[x / 4 % 6] + next(l) % 5 - 2;
}

static void write_place(struct liar *l, uint8_t *to)
{
	static const uint32_t lens[] = { 0, 1, PAGE_LEN, PAGE_LEN + 1, REGION_LEN, UINT32_MAX };
	const struct pages_found found = {
		.place = { .page = hostile_number(l),
			   .header = hostile_number(l),
			   .generation = hostile_number(l),
			   .len = lens[next(l) % 6] },
		.status = next(l) % 4 ? 0 : (int)next(l),
	};

	pages_found_write(to, &found);
}

/* As long as the answer should be, in three of four cases; and what a look-up finds, or anything.
 */
static void lie(void *arg, struct slime_rpc_request *req)
{
	struct liar *l = arg;
	uint8_t reply[REPLY_MAX];
	size_t len = next(l) % 4 ? 8 + N_PAGES * PAGES_PLACE_LEN : next(l) % sizeof(reply);

	atomic_fetch_add(&l->n_answers, 1);
	for (size_t i = 0; i < sizeof(reply); i++)
		reply[i] = next(l) % 3 ? (uint8_t)next(l) : 0;
	for (size_t at = 8; at + PAGES_PLACE_LEN <= sizeof(reply); at += PAGES_PLACE_LEN)
		write_place(l, reply + at);
	if (next(l) % 16 == 0)
		slime_rpc_reply_error(req, (uint32_t)next(l), "no");
	else
		slime_rpc_reply(req, reply, len);
}

/* Statuses around 0, and now and then one that is no errno. */
static void lie_in_statuses(void *arg, struct slime_rpc_request *req)
{
	struct liar *l = arg;
	uint8_t reply[N_PAGES * sizeof(uint32_t)];

	atomic_fetch_add(&l->n_answers, 1);
	for (size_t i = 0; i < N_PAGES; i++)
		sl_put_le32(reply + i * sizeof(uint32_t), (uint32_t)(next(l) % 5 - 3));
	if (next(l) % 2)
		sl_put_le32(reply + next(l) % N_PAGES * sizeof(uint32_t), (uint32_t)next(l));
	slime_rpc_reply(req, reply, next(l) % 8 ? sizeof(reply) : next(l) % sizeof(reply));
}

static void start_liar(struct liar *l)
{
	static const struct {
		const char *name;
		slime_rpc_fn *fn;
	} methods[] = {
		{ PAGES_LOOKUP, lie },
		{ PAGES_EXISTS, lie },
		{ PAGES_PUT, lie_in_statuses },
		{ PAGES_DELETE, lie_in_statuses },
		{ PAGES_PIN, lie_in_statuses },
		{ PAGES_UNPIN, lie_in_statuses },
		{ PAGES_TOUCH, lie },
		{ PAGES_CLEAR, lie },
		{ PAGES_STAT, lie },
	};
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;
	struct slime_agent_attr attr = attr_of("owner");

	*l = (struct liar){ .seed = 88172645463325252 };
	method.arg = l;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_agent_create(&attr, &l->agent));
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		method.fn = methods[i].fn;
		assert_ok(slime_agent_method_add(l->agent, methods[i].name, &method));
	}
	assert_ok(slime_agent_start(l->agent));
	assert_ok(slime_agent_wait_ready(l->agent, LONG_MS));
	assert_ok(slime_mem_alloc(slime_agent_context(l->agent), REGION_LEN, NULL, &l->mem));
	assert_ok(slime_mr_create(slime_agent_context(l->agent), slime_mem_addr(l->mem), REGION_LEN,
				  SLIME_ACCESS_REMOTE_READ, &l->mr));
	assert_ok(slime_agent_region_offer(l->agent, "pages.default", l->mr,
					   SLIME_ACCESS_REMOTE_READ, NULL, 0));
}

static void end_liar(struct liar *l)
{
	int ret;

	assert_ok(slime_agent_stop(l->agent, LONG_MS));
	do
		ret = slime_mr_destroy(l->mr);
	while (ret == -EBUSY);
	assert_ok(ret);
	assert_ok(slime_mem_destroy(l->mem));
	assert_ok(slime_agent_destroy(l->agent));
}

struct reader {
	struct slime_agent *agent;
	struct slime_pages *pages;
	struct slime_pages_request *req;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_pages_item items[N_PAGES];
	struct slime_pages_buf bufs[N_PAGES];
	char keys[N_PAGES][16];
};

static void start_reader(struct reader *r, enum slime_pages_verify verify)
{
	static const char *const owners[] = { "owner" };
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct slime_context *ctx;

	memset(r, 0, sizeof(*r));
	r->agent = start("reader", NULL, 0);
	ctx = slime_agent_context(r->agent);
	attr.owners = owners;
	attr.n_owners = 1;
	attr.refresh_ms = 20;
	attr.dir_cache_ttl_ms = 0;
	attr.verify = verify;
	assert_ok(slime_pages_create(r->agent, &attr, &r->pages));
	assert_ok(slime_pages_wait_ready(r->pages, 1, LONG_MS));
	assert_ok(slime_pages_request_create(r->pages, NULL, &r->req));
	assert_ok(slime_mem_alloc(ctx, N_PAGES * PAGE_LEN, NULL, &r->mem));
	assert_ok(slime_mr_create(ctx, slime_mem_addr(r->mem), N_PAGES * PAGE_LEN,
				  SLIME_ACCESS_REMOTE_READ, &r->mr));
	for (unsigned i = 0; i < N_PAGES; i++) {
		snprintf(r->keys[i], sizeof(r->keys[i]), "key-%u", i);
		r->bufs[i] = (struct slime_pages_buf){ r->mr, i * PAGE_LEN, PAGE_LEN };
		r->items[i] = (struct slime_pages_item){ .key = r->keys[i],
							 .key_len = strlen(r->keys[i]),
							 .bufs = &r->bufs[i],
							 .n_bufs = 1 };
	}
}

static void end_reader(struct reader *r)
{
	assert_ok(slime_pages_request_destroy(r->req));
	assert_ok(slime_pages_destroy(r->pages));
	assert_ok(slime_agent_stop(r->agent, LONG_MS));
	assert_ok(slime_mr_destroy(r->mr));
	assert_ok(slime_mem_destroy(r->mem));
	assert_ok(slime_agent_destroy(r->agent));
}

static int ask(struct reader *r, int kind, struct slime_pages_stat *stat)
{
	switch (kind) {
	case 0:
		return slime_pages_get(r->req, r->items, N_PAGES);
	case 1:
		return slime_pages_exists(r->req, r->items, N_PAGES);
	case 2:
		return slime_pages_delete(r->req, r->items, N_PAGES);
	case 3:
		return slime_pages_pin(r->req, r->items, N_PAGES, 1000);
	case 4:
		return slime_pages_stat(r->req, stat);
	case 5:
		return slime_pages_clear(r->req);
	default:
		return slime_pages_put(r->req, r->items, N_PAGES, 0);
	}
}

static void check_round(struct reader *r, int kind)
{
	struct slime_pages_stat stat;

	/* One that refused us with an errno of a broken link is reached anew. */
	assert_ok(slime_pages_wait_ready(r->pages, 1, LONG_MS));
	for (unsigned i = 0; i < N_PAGES; i++)
		r->items[i].status = 1;
	assert_ok(ask(r, kind, &stat));
	assert_ok(slime_pages_wait(r->req, LONG_MS));
	for (unsigned i = 0; i < N_PAGES && kind != 4 && kind != 5; i++) {
		assert_true(r->items[i].status <= 0);
		assert_true(kind || r->items[i].status);
	}
}

static void check_all(enum slime_pages_verify verify)
{
	struct slime_pages_counters counters;
	struct reader r;
	struct liar l;

	start_liar(&l);
	start_reader(&r, verify);
	for (int i = 0; i < ROUNDS; i++)
		check_round(&r, i % 2 ? i / 2 % 7 : 0);
	assert_true(atomic_load(&l.n_answers) > ROUNDS / 2);
	slime_pages_counters(r.pages, &counters);
	assert_true(counters.rejected > ROUNDS / 10); /* places that lay in the region were read */
	assert_int_equal(counters.hits, 0);
	end_reader(&r);
	end_liar(&l);
}

static void requests__to_an_owner_that_answers_anything_return_no_page(void **state)
{
	(void)state;
	check_all(SLIME_PAGES_VERIFY_ALWAYS);
}

static void
requests__without_checksums_to_an_owner_that_answers_anything_return_no_page(void **state)
{
	(void)state;
	check_all(SLIME_PAGES_VERIFY_NEVER);
}

#define CASE(f) cmocka_unit_test_setup(f, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(requests__to_an_owner_that_answers_anything_return_no_page),
		CASE(requests__without_checksums_to_an_owner_that_answers_anything_return_no_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
