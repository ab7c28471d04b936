/* SPDX-License-Identifier: Apache-2.0 */
/* Owners, readers and writers in one process, with real links, beside a control plane in memory. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/peeragent/agents.h"
#include "tests/support/log_lines.h"
#include <slime/pages.h>

#define PAGE_LEN 65536
#define N_PAGES	 64 /* of a writer's memory */

static const uint32_t classes[] = { 4096, PAGE_LEN };

struct owner {
	struct slime_agent *agent;
	struct slime_pages_owner *pages;
};

static void start_owner(struct owner *o, const char *name, const struct slime_pages_tenant *tenants,
			size_t n)
{
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	struct slime_agent_attr agent = attr_of(name);

	agent.data.rpc_workers = 2;
	attr.tenants = tenants;
	attr.n_tenants = n;
	attr.classes = classes;
	attr.n_classes = 2;
	assert_ok(slime_agent_create(&agent, &o->agent));
	assert_ok(slime_pages_owner_create(o->agent, &attr, &o->pages));
	assert_ok(slime_agent_start(o->agent));
	assert_ok(slime_agent_wait_ready(o->agent, LONG_MS));
	assert_ok(slime_pages_owner_start(o->pages));
}

static void end_owner(struct owner *o)
{
	int ret;

	slime_pages_owner_stop(o->pages);
	assert_ok(slime_agent_stop(o->agent, LONG_MS));
	do
		ret = slime_pages_owner_destroy(o->pages);
	while (ret == -EBUSY);
	assert_ok(ret);
	assert_ok(slime_agent_destroy(o->agent));
}

static const struct slime_pages_tenant tenant = { .size = 16 << 20 };

/* A reader and writer, with memory for pages. */
struct user {
	struct slime_agent *agent;
	struct slime_pages *pages;
	struct slime_pages_request *req;
	struct slime_mem *mem;
	struct slime_mr *mr;
	uint8_t *bytes;
};

/* Of an agent that is ready. */
static void open_user(struct user *u, struct slime_agent *agent, struct slime_pages_attr *attr)
{
	struct slime_context *ctx = slime_agent_context(agent);

	u->agent = agent;
	assert_ok(slime_pages_create(u->agent, attr, &u->pages));
	assert_ok(slime_pages_request_create(u->pages, NULL, &u->req));
	assert_ok(slime_mem_alloc(ctx, N_PAGES * PAGE_LEN, NULL, &u->mem));
	u->bytes = slime_mem_addr(u->mem);
	assert_ok(slime_mr_create(ctx, u->bytes, N_PAGES * PAGE_LEN, SLIME_ACCESS_REMOTE_READ,
				  &u->mr));
}

static void start_user_with(struct user *u, const char *name, struct slime_pages_attr *attr)
{
	open_user(u, start(name, NULL, 0), attr);
}

static void start_user(struct user *u, const char *name, const char *const *owners, size_t n)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;

	attr.owners = owners;
	attr.n_owners = n;
	attr.refresh_ms = 50;
	start_user_with(u, name, &attr);
	assert_ok(slime_pages_wait_ready(u->pages, (unsigned)n, LONG_MS));
}

static void end_user(struct user *u)
{
	int ret;

	assert_ok(slime_pages_request_destroy(u->req));
	assert_ok(slime_pages_destroy(u->pages));
	assert_ok(slime_agent_stop(u->agent, LONG_MS));
	do
		ret = slime_mr_destroy(u->mr);
	while (ret == -EBUSY);
	assert_ok(ret);
	assert_ok(slime_mem_destroy(u->mem));
	assert_ok(slime_agent_destroy(u->agent));
}

/* Items of the keys first, first + 1, ...: item i has the page i of the user's memory. */
struct batch {
	struct slime_pages_item items[N_PAGES];
	struct slime_pages_buf bufs[N_PAGES];
	char keys[N_PAGES][64];
	size_t n;
};

static void make_batch(struct user *u, struct batch *b, unsigned first, size_t n)
{
	b->n = n;
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(b->keys[i], sizeof(b->keys[i]),
				   "a-key-that-is-rather-long-as-keys-of-engines-are/%u",
				   first + (unsigned)i);

		b->bufs[i] = (struct slime_pages_buf){ .mr = u->mr,
						       .offset = i * PAGE_LEN,
						       .len = PAGE_LEN };
		b->items[i] = (struct slime_pages_item){
			.key = b->keys[i], .key_len = (size_t)len, .bufs = &b->bufs[i], .n_bufs = 1
		};
	}
}

static void fill(struct user *u, struct batch *b, unsigned first)
{
	for (size_t i = 0; i < b->n; i++)
		memset(u->bytes + i * PAGE_LEN, (int)(first + i), PAGE_LEN);
}

static void wait_for(struct user *u)
{
	assert_ok(slime_pages_wait(u->req, LONG_MS));
}

static void put(struct user *u, struct batch *b, uint32_t flags)
{
	assert_ok(slime_pages_put(u->req, b->items, b->n, flags));
	wait_for(u);
}

static void put_all(struct user *u, unsigned first, size_t n)
{
	struct batch b;

	make_batch(u, &b, first, n);
	fill(u, &b, first);
	put(u, &b, 0);
	for (size_t i = 0; i < n; i++)
		assert_ok(b.items[i].status);
	assert_int_equal(slime_pages_prefix(u->req), n);
}

/* How many of the pages there are; each has its bytes. */
static unsigned get_pages(struct user *u, unsigned first, size_t n)
{
	unsigned hits = 0;
	struct batch b;

	make_batch(u, &b, first, n);
	memset(u->bytes, 0xee, n * PAGE_LEN);
	assert_ok(slime_pages_get(u->req, b.items, b.n));
	wait_for(u);
	for (size_t i = 0; i < n; i++) {
		if (b.items[i].status) {
			assert_int_equal(b.items[i].status, -ENOENT);
			continue;
		}
		hits++;
		assert_int_equal(b.items[i].len, PAGE_LEN);
		for (size_t k = 0; k < PAGE_LEN; k++)
			assert_int_equal(u->bytes[i * PAGE_LEN + k], (uint8_t)(first + i));
	}
	return hits;
}

static const char *const one_owner[] = { "owner" };
static const char *const two_owners[] = { "owner", "other" };

static void get__returns_what_was_put(void **state)
{
	struct slime_pages_counters c;
	struct owner o;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	assert_int_equal(get_pages(&u, 0, 8), 0);
	put_all(&u, 0, 32);
	assert_int_equal(get_pages(&u, 0, 40), 32);
	assert_int_equal(get_pages(&u, 0, 32), 32);
	slime_pages_counters(u.pages, &c);
	assert_int_equal(c.hits, 64);
	assert_int_equal(c.misses, 16);
	assert_int_equal(c.cached, 32);
	assert_int_equal(c.rejected, 0);
	end_user(&u);
	end_owner(&o);
}

static void exists_and_delete__say_what_is_there(void **state)
{
	struct owner o;
	struct batch b;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	put_all(&u, 0, 5);
	put_all(&u, 6, 2);
	make_batch(&u, &b, 0, 8);
	assert_ok(slime_pages_exists(u.req, b.items, 8));
	wait_for(&u);
	assert_int_equal(slime_pages_prefix(u.req), 5);
	for (int i = 0; i < 8; i++)
		assert_int_equal(b.items[i].status, i == 5 ? -ENOENT : 0);
	assert_ok(slime_pages_delete(u.req, b.items, 2));
	wait_for(&u);
	assert_int_equal(slime_pages_prefix(u.req), 2);
	assert_int_equal(get_pages(&u, 0, 8), 5);
	assert_ok(slime_pages_clear(u.req));
	wait_for(&u);
	assert_int_equal(get_pages(&u, 0, 8), 0);
	end_user(&u);
	end_owner(&o);
}

static void put__of_a_key_that_is_there_is_refused_unless_it_replaces(void **state)
{
	struct owner o;
	struct batch b;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	put_all(&u, 0, 2);
	make_batch(&u, &b, 0, 3);
	fill(&u, &b, 100);
	put(&u, &b, 0);
	assert_int_equal(b.items[0].status, -EEXIST);
	assert_int_equal(b.items[1].status, -EEXIST);
	assert_ok(b.items[2].status);
	assert_int_equal(get_pages(&u, 0, 2), 2);
	fill(&u, &b, 0);
	put(&u, &b, SLIME_PAGES_REPLACE);
	assert_int_equal(slime_pages_prefix(u.req), 3);
	assert_int_equal(get_pages(&u, 0, 3), 3);
	end_user(&u);
	end_owner(&o);
}

/* The reader's places are of pages that another writer has replaced meanwhile. */
static void get__by_an_old_place_finds_the_new_page(void **state)
{
	struct slime_pages_counters c;
	struct user reader, writer;
	struct owner o;
	struct batch b;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&reader, "reader", one_owner, 1);
	start_user(&writer, "writer", one_owner, 1);
	make_batch(&writer, &b, 0, 4);
	fill(&writer, &b, 77);
	put(&writer, &b, 0);
	make_batch(&reader, &b, 0, 4);
	assert_ok(slime_pages_get(reader.req, b.items, 4));
	wait_for(&reader);
	assert_int_equal(slime_pages_prefix(reader.req), 4);
	make_batch(&writer, &b, 0, 4);
	fill(&writer, &b, 0);
	put(&writer, &b, SLIME_PAGES_REPLACE);
	assert_int_equal(get_pages(&reader, 0, 4), 4);
	slime_pages_counters(reader.pages, &c);
	assert_int_equal(c.rejected, 4);
	end_user(&writer);
	end_user(&reader);
	end_owner(&o);
}

static void get__checks_headers_after_the_bytes_where_no_checksum_is_wanted(void **state)
{
	struct owner o;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	for (int verify = SLIME_PAGES_VERIFY_SAMPLE; verify <= SLIME_PAGES_VERIFY_NEVER; verify++) {
		struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
		unsigned first = (unsigned)verify * 100;
		struct batch b;
		struct user u;

		attr.owners = one_owner;
		attr.n_owners = 1;
		attr.verify = (enum slime_pages_verify)verify;
		attr.refresh_ms = 50;
		start_user_with(&u, verify == SLIME_PAGES_VERIFY_SAMPLE ? "sampler" : "never",
				&attr);
		assert_ok(slime_pages_wait_ready(u.pages, 1, LONG_MS));
		put_all(&u, first, 32);
		assert_int_equal(get_pages(&u, first, 33), 32);
		make_batch(&u, &b, first, 1);
		assert_ok(slime_pages_delete(u.req, b.items, 1));
		wait_for(&u);
		/* Its place is known still. */
		assert_int_equal(get_pages(&u, first, 32), 31);
		end_user(&u);
	}
	end_owner(&o);
}

static void pages__of_several_bufs_and_lengths_arrive_in_order(void **state)
{
	struct slime_pages_buf bufs[3];
	struct slime_pages_item item = { .key = "k", .key_len = 1, .bufs = bufs, .n_bufs = 3 };
	struct owner o;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	bufs[0] = (struct slime_pages_buf){ u.mr, 5000, 1000 };
	bufs[1] = (struct slime_pages_buf){ u.mr, 0, 1 };
	bufs[2] = (struct slime_pages_buf){ u.mr, 9000, 300 };
	memset(u.bytes + 5000, 1, 1000);
	memset(u.bytes, 2, 1);
	memset(u.bytes + 9000, 3, 300);
	assert_ok(slime_pages_put(u.req, &item, 1, 0));
	wait_for(&u);
	assert_ok(item.status);
	bufs[0] = (struct slime_pages_buf){ u.mr, 20000, 500 };
	bufs[1] = (struct slime_pages_buf){ u.mr, 30000, 600 };
	bufs[2] = (struct slime_pages_buf){ u.mr, 40000, 1000 };
	assert_ok(slime_pages_get(u.req, &item, 1));
	wait_for(&u);
	assert_ok(item.status);
	assert_int_equal(item.len, 1301);
	for (int i = 0; i < 500; i++)
		assert_int_equal(u.bytes[20000 + i], 1);
	for (int i = 0; i < 500; i++)
		assert_int_equal(u.bytes[30000 + i], 1);
	assert_int_equal(u.bytes[30500], 2);
	assert_int_equal(u.bytes[30501], 3);
	assert_int_equal(u.bytes[40200], 3);
	item.n_bufs = 1;
	assert_ok(slime_pages_get(u.req, &item, 1));
	wait_for(&u);
	assert_int_equal(item.status, -EMSGSIZE);
	assert_int_equal(item.len, 1301);
	end_user(&u);
	end_owner(&o);
}

static void requests__with_bad_items_say_so_for_each(void **state)
{
	struct slime_pages_item items[2] = { { .key = "", .key_len = 0 },
					     { .key = "none", .key_len = 4 } };
	struct slime_pages_buf buf;
	struct owner o;
	struct user u;
	struct batch b;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	assert_ok(slime_pages_get(u.req, items, 2));
	wait_for(&u);
	assert_int_equal(items[0].status, -EINVAL);
	assert_int_equal(items[1].status, -ENOENT);
	buf = (struct slime_pages_buf){ u.mr, 0, PAGE_LEN + 1 };
	items[1].bufs = &buf;
	items[1].n_bufs = 1;
	assert_ok(slime_pages_put(u.req, items, 2, 0));
	wait_for(&u);
	assert_int_equal(items[0].status, -EINVAL);
	assert_int_equal(items[1].status, -EMSGSIZE);
	buf.offset = N_PAGES * PAGE_LEN;
	assert_int_equal(slime_pages_put(u.req, items, 2, 0), -EINVAL);
	assert_ok(slime_pages_get(u.req, NULL, 0));
	wait_for(&u);
	make_batch(&u, &b, 0, 1);
	assert_ok(slime_pages_pin(u.req, b.items, 1, 1000));
	wait_for(&u);
	assert_int_equal(b.items[0].status, -ENOENT);
	end_user(&u);
	end_owner(&o);
}

/* A store of 254 pages gets 640; what was pinned is there still. */
static void put__into_a_full_owner_evicts_but_what_is_pinned(void **state)
{
	struct slime_pages_stat stat;
	struct owner o;
	struct user u;
	struct batch b;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	put_all(&u, 0, 16);
	make_batch(&u, &b, 0, 16);
	assert_ok(slime_pages_pin(u.req, b.items, 16, LONG_MS));
	wait_for(&u);
	assert_int_equal(slime_pages_prefix(u.req), 16);
	for (unsigned i = 1; i <= 10; i++)
		put_all(&u, i * N_PAGES, N_PAGES);
	assert_int_equal(get_pages(&u, 0, 16), 16);
	assert_ok(slime_pages_owner_stat(o.pages, NULL, &stat));
	assert_true(stat.evicted > 300);
	assert_int_equal(stat.pinned, 16);
	assert_ok(slime_pages_unpin(u.req, b.items, 16));
	wait_for(&u);
	assert_int_equal(slime_pages_prefix(u.req), 16);
	assert_int_equal(slime_pages_owner_stat(o.pages, "none", &stat), -ENOENT);
	end_user(&u);
	end_owner(&o);
}

/* A page is put at the first of them, and both orders come up. */
static void owners__of_a_key_come_in_the_order_in_which_they_have_it(void **state)
{
	struct slime_pages_owner_info of[3];
	struct owner first, second;
	unsigned n_first = 0;
	struct user u;

	(void)state;
	start_owner(&first, "owner", &tenant, 1);
	start_owner(&second, "other", &tenant, 1);
	start_user(&u, "user", two_owners, 2);
	assert_int_equal(slime_pages_owners(u.pages, NULL, 0, of, 1), 2);
	assert_string_equal(of[0].name, "other");
	assert_int_equal(of[0].error, 0);
	assert_int_equal(of[0].transport, SLIME_TRANSPORT_SHM);
	assert_int_equal(of[0].size, tenant.size);
	put_all(&u, 0, N_PAGES);
	for (unsigned i = 0; i < N_PAGES; i++) {
		struct slime_pages_stat before, after;
		struct batch b;
		bool at_first;

		make_batch(&u, &b, i, 1);
		assert_int_equal(
			slime_pages_owners(u.pages, b.items[0].key, b.items[0].key_len, of, 3), 2);
		at_first = !strcmp(of[0].name, "owner");
		n_first += at_first;
		assert_ok(slime_pages_owner_stat(at_first ? first.pages : second.pages, NULL,
						 &before));
		assert_ok(slime_pages_delete(u.req, b.items, 1));
		wait_for(&u);
		assert_ok(slime_pages_owner_stat(at_first ? first.pages : second.pages, NULL,
						 &after));
		assert_int_equal(after.deleted, before.deleted + 1);
	}
	assert_in_range(n_first, 1, N_PAGES - 1);
	end_owner(&second);
	end_user(&u);
	end_owner(&first);
}

static void keys__are_spread_and_those_of_a_dead_owner_are_misses_at_once(void **state)
{
	struct slime_pages_stat stat[2], sums;
	struct owner o[2];
	struct user u;
	unsigned left;

	(void)state;
	start_owner(&o[0], "owner", &tenant, 1);
	start_owner(&o[1], "other", &tenant, 1);
	start_user(&u, "user", two_owners, 2);
	put_all(&u, 0, N_PAGES);
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_pages_owner_stat(o[i].pages, NULL, &stat[i]));
		assert_true(stat[i].pages > N_PAGES / 5);
	}
	assert_int_equal(get_pages(&u, 0, N_PAGES), N_PAGES);
	assert_ok(slime_pages_stat(u.req, &sums));
	wait_for(&u);
	assert_int_equal(sums.owners, 2);
	assert_int_equal(sums.pages, N_PAGES);
	assert_int_equal(sums.bytes, stat[0].bytes + stat[1].bytes);
	assert_int_equal(sums.put, N_PAGES);
	end_owner(&o[1]);
	left = get_pages(&u, 0, N_PAGES);
	assert_int_equal(left, stat[0].pages);
	/* Its keys belong to the one that is left. */
	for (unsigned i = 0; i < N_PAGES; i++) {
		struct batch b;

		make_batch(&u, &b, i, 1);
		fill(&u, &b, i);
		put(&u, &b, 0);
	}
	assert_int_equal(get_pages(&u, 0, N_PAGES), N_PAGES);
	end_user(&u);
	end_owner(&o[0]);
}

/* Keys move to an owner that comes, and a get that misses there asks where they were before. */
static void delete__reaches_the_owner_that_had_the_key_before(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct owner o[2];
	struct batch b;
	struct user u;

	(void)state;
	start_owner(&o[0], "owner", &tenant, 1);
	attr.owners = two_owners;
	attr.n_owners = 2;
	attr.refresh_ms = 50;
	start_user_with(&u, "user", &attr);
	assert_ok(slime_pages_wait_ready(u.pages, 1, LONG_MS));
	put_all(&u, 0, N_PAGES);
	start_owner(&o[1], "other", &tenant, 1);
	assert_ok(slime_pages_wait_ready(u.pages, 2, LONG_MS));
	assert_int_equal(get_pages(&u, 0, N_PAGES), N_PAGES);
	make_batch(&u, &b, 0, N_PAGES);
	assert_ok(slime_pages_delete(u.req, b.items, N_PAGES));
	wait_for(&u);
	assert_int_equal(slime_pages_prefix(u.req), N_PAGES);
	assert_int_equal(get_pages(&u, 0, N_PAGES), 0);
	end_user(&u);
	end_owner(&o[1]);
	end_owner(&o[0]);
}

static void replicas__of_a_page_outlive_one_owner(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct owner o[2];
	struct user u;

	(void)state;
	start_owner(&o[0], "owner", &tenant, 1);
	start_owner(&o[1], "other", &tenant, 1);
	attr.owners = two_owners;
	attr.n_owners = 2;
	attr.replicas = 2;
	attr.refresh_ms = 50;
	start_user_with(&u, "user", &attr);
	assert_ok(slime_pages_wait_ready(u.pages, 2, LONG_MS));
	put_all(&u, 0, 32);
	end_owner(&o[0]);
	assert_int_equal(get_pages(&u, 0, 32), 32);
	end_user(&u);
	end_owner(&o[1]);
}

static void put__without_an_owner_is_not_connected_and_get_a_miss(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct batch b;
	struct user u;

	(void)state;
	attr.owners = one_owner;
	attr.n_owners = 1;
	start_user_with(&u, "user", &attr);
	make_batch(&u, &b, 0, 2);
	put(&u, &b, 0);
	assert_int_equal(b.items[0].status, -ENOTCONN);
	assert_int_equal(get_pages(&u, 0, 2), 0);
	assert_int_equal(slime_pages_wait_ready(u.pages, 1, 20), -ETIMEDOUT);
	end_user(&u);
}

/* Who may use a tenant is nanoctrl's to say: tests/e2e/pages.sh. */
/* The owner keeps the endpoint of a writer, which this one is not any more. */
static void put__of_a_writer_that_came_back_uses_its_new_link(void **state)
{
	struct owner owner;
	struct user u;

	(void)state;
	start_owner(&owner, "owner", &tenant, 1);
	for (unsigned life = 0; life < 3; life++) {
		start_user(&u, "writer", one_owner, 1);
		put_all(&u, life * N_PAGES, N_PAGES);
		end_user(&u);
	}
	end_owner(&owner);
}

static void tenants__have_keys_and_memory_of_their_own(void **state)
{
	const struct slime_pages_tenant tenants[] = {
		{ .size = 8 << 20 },
		{ .name = "mine", .size = 8 << 20 },
	};
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct slime_pages_stat stat;
	struct user mine, other;
	struct owner o;

	(void)state;
	start_owner(&o, "owner", tenants, 2);
	attr.owners = one_owner;
	attr.n_owners = 1;
	attr.tenant = "mine";
	attr.refresh_ms = 50;
	start_user_with(&mine, "mine", &attr);
	assert_ok(slime_pages_wait_ready(mine.pages, 1, LONG_MS));
	start_user(&other, "other", one_owner, 1);
	put_all(&mine, 0, 4);
	assert_int_equal(get_pages(&mine, 0, 4), 4);
	assert_int_equal(get_pages(&other, 0, 4), 0);
	put_all(&other, 0, N_PAGES);
	put_all(&other, N_PAGES, N_PAGES);
	put_all(&other, 2 * N_PAGES, N_PAGES);
	assert_ok(slime_pages_owner_stat(o.pages, "mine", &stat));
	assert_int_equal(stat.pages, 4);
	assert_int_equal(get_pages(&mine, 0, 4), 4);
	end_user(&other);
	end_user(&mine);
	end_owner(&o);
}

struct ended {
	sem_t sem;
	int status;
	struct batch batch;
	unsigned again; /* how often the callback begins the request anew */
};

static void on_ended(void *arg, struct slime_pages_request *req)
{
	struct ended *e = arg;

	e->status = e->batch.items[0].status;
	if (e->again && e->again-- && !slime_pages_get(req, e->batch.items, e->batch.n))
		return;
	if (!e->status)
		assert_ok(slime_pages_request_destroy(req));
	sem_post(&e->sem);
}

static void callback__may_begin_the_request_again_and_destroy_it(void **state)
{
	struct ended e = { .again = 20 };
	struct slime_pages_request_attr attr = { .fn = on_ended, .arg = &e };
	struct slime_pages_request *req;
	struct owner o;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	put_all(&u, 0, 4);
	assert_ok(sem_init(&e.sem, 0, 0));
	assert_ok(slime_pages_request_create(u.pages, &attr, &req));
	make_batch(&u, &e.batch, 0, 4);
	assert_ok(slime_pages_get(req, e.batch.items, 4));
	while (sem_wait(&e.sem))
		;
	assert_ok(e.status);
	assert_int_equal(e.again, 0);
	end_user(&u);
	end_owner(&o);
}

/* Another thread's callback may run still when the answer is there. */
static void request__destroyed_as_soon_as_a_test_says_that_it_ended_leaves_nothing(void **state)
{
	struct slime_pages_item item = { .key = "none", .key_len = 4 };
	struct slime_pages_request *req;
	struct owner o;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	for (int i = 0; i < 5000; i++) {
		assert_ok(slime_pages_request_create(u.pages, NULL, &req));
		assert_ok(slime_pages_get(req, &item, 1));
		while (!slime_pages_test(req))
			;
		assert_int_equal(item.status, -ENOENT);
		assert_ok(slime_pages_request_destroy(req));
	}
	end_user(&u);
	end_owner(&o);
}

#ifndef __SANITIZE_THREAD__ /* one thread reads what another writes, which is the point */

/* Several keys of each page of the user's memory: a put of them takes milliseconds. */
#define KEYS_OF_A_PAGE 3

struct long_batch {
	struct batch part[KEYS_OF_A_PAGE];
	struct slime_pages_item items[KEYS_OF_A_PAGE * N_PAGES];
};

static void make_long_batch(struct user *u, struct long_batch *b)
{
	for (unsigned k = 0; k < KEYS_OF_A_PAGE; k++) {
		make_batch(u, &b->part[k], k * 1000, N_PAGES);
		memcpy(&b->items[k * N_PAGES], b->part[k].items, sizeof(b->part[k].items));
	}
}

static void assert_no_mixed_page(struct user *u, struct long_batch *b)
{
	for (unsigned n = 0; n < KEYS_OF_A_PAGE; n++) {
		make_batch(u, &b->part[n], n * 1000, N_PAGES);
		assert_ok(slime_pages_get(u->req, b->part[n].items, N_PAGES));
		wait_for(u);
		for (size_t i = 0; i < N_PAGES; i++)
			for (size_t k = 0; !b->part[n].items[i].status && k < PAGE_LEN; k += 64)
				assert_int_equal(u->bytes[i * PAGE_LEN + k], i);
	}
}

/* The memory is the writer's again when its put ended, even when the owner still reads from it. */
static void put__whose_time_is_over_leaves_no_page_with_bytes_of_later(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct long_batch *b = malloc(sizeof(*b));
	struct user hasty, u;
	struct owner o;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	attr.owners = one_owner;
	attr.n_owners = 1;
	attr.timeout_ms = 1;
	start_user_with(&hasty, "hasty", &attr);
	assert_ok(slime_pages_wait_ready(hasty.pages, 1, LONG_MS));
	for (int round = 0; round < 50; round++) {
		make_long_batch(&hasty, b);
		fill(&hasty, &b->part[0], 0);
		assert_ok(slime_pages_put(hasty.req, b->items, KEYS_OF_A_PAGE * N_PAGES,
					  SLIME_PAGES_REPLACE));
		wait_for(&hasty);
		memset(hasty.bytes, 0xdd, N_PAGES * PAGE_LEN);
		assert_no_mixed_page(&u, b);
	}
	end_user(&hasty);
	assert_no_mixed_page(&u, b);
	free(b);
	end_user(&u);
	end_owner(&o);
}

#endif

/* While an owner runs this method, nothing else of its context runs. */
struct stand {
	sem_t begun, ends;
};

static void stand_still(void *arg, struct slime_rpc_request *req)
{
	struct stand *stand = arg;

	sem_post(&stand->begun);
	sem_wait(&stand->ends);
	slime_rpc_reply(req, NULL, 0);
}

/* An owner as start_owner() starts it, with that method. */
static void start_owner_that_may_stand(struct owner *o, const char *name, struct stand *stand)
{
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;
	struct slime_agent_attr agent = attr_of(name);

	agent.data.tcp_bind = "127.0.0.1";
	agent.transports[0] = SLIME_TRANSPORT_SHM;
	agent.transports[1] = SLIME_TRANSPORT_TCP;
	assert_ok(sem_init(&stand->begun, 0, 0));
	assert_ok(sem_init(&stand->ends, 0, 0));
	method.fn = stand_still;
	method.arg = stand;
	method.flags = SLIME_RPC_INLINE;
	attr.tenants = &tenant;
	attr.n_tenants = 1;
	attr.classes = classes;
	attr.n_classes = 2;
	assert_ok(slime_agent_create(&agent, &o->agent));
	assert_ok(slime_agent_method_add(o->agent, "stand", &method));
	assert_ok(slime_pages_owner_create(o->agent, &attr, &o->pages));
	assert_ok(slime_agent_start(o->agent));
	assert_ok(slime_agent_wait_ready(o->agent, LONG_MS));
	assert_ok(slime_pages_owner_start(o->pages));
}

static void begin_to_stand(struct slime_agent *other, struct stand *stand, struct slime_call *call)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_endpoint *ep = get(other, "owner", "default");

	args.method = slime_rpc_method_id("stand");
	assert_ok(slime_call_start(ep, &args, call));
	sem_wait(&stand->begun);
	slime_agent_endpoint_put(other, ep);
}

/* An owner, its user, whose link is tcp, and an agent at whose wish the owner stands still. */
struct still {
	struct owner o;
	struct user u;
	struct stand stand;
	struct slime_agent *other;
	struct slime_call *call;
};

static void start_still(struct still *s, uint32_t timeout_ms)
{
	const struct slime_agent_link link = { .to = "owner", .profile = "default" };
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct slime_agent_attr user = attr_of("user");
	struct slime_agent *agent;

	start_owner_that_may_stand(&s->o, "owner", &s->stand);
	s->other = start("third", &link, 1);
	assert_ok(slime_call_create(slime_agent_context(s->other), NULL, &s->call));
	user.transports[0] = SLIME_TRANSPORT_TCP;
	user.data.tcp_bind = "127.0.0.1";
	agent = start_with(&user);
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	attr.owners = one_owner;
	attr.n_owners = 1;
	attr.refresh_ms = 20;
	attr.timeout_ms = timeout_ms;
	attr.dir_cache_ttl_ms = LONG_MS;
	open_user(&s->u, agent, &attr);
	assert_ok(slime_pages_wait_ready(s->u.pages, 1, LONG_MS));
}

static void end_still(struct still *s)
{
	sem_post(&s->stand.ends);
	assert_ok(slime_call_wait(s->call, LONG_MS));
	assert_ok(slime_call_destroy(s->call));
	end(s->other);
	end_user(&s->u);
	end_owner(&s->o);
}

static void put__to_an_owner_that_stands_still_times_out(void **state)
{
	struct still s;
	struct batch b;

	(void)state;
	start_still(&s, 20);
	begin_to_stand(s.other, &s.stand, s.call);
	make_batch(&s.u, &b, 0, 2);
	log_lines_keep();
	put(&s.u, &b, 0);
	assert_int_equal(log_lines_with("its link is closed"), 1);
	log_lines_release();
	assert_int_equal(b.items[0].status, -ETIMEDOUT);
	assert_int_equal(b.items[1].status, -ETIMEDOUT);
	end_still(&s);
}

/* Their places are known: they are read over tcp, which takes an owner that goes on. */
static void get__of_pages_of_an_owner_that_stands_still_is_a_miss(void **state)
{
	struct still s;

	(void)state;
	start_still(&s, 2000);
	put_all(&s.u, 0, 2);
	assert_int_equal(get_pages(&s.u, 0, 2), 2);
	begin_to_stand(s.other, &s.stand, s.call);
	assert_int_equal(get_pages(&s.u, 0, 2), 0);
	end_still(&s);
}

/* The link to one of two owners breaks while both are asked: the owner stands still, so that the
 * batch is under way then. */
static void batch__that_loses_an_owner_in_its_middle_succeeds_at_the_other(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct slime_pages_stat at_other;
	struct slime_endpoint *ep;
	struct slime_agent *third;
	struct slime_call *call;
	struct owner o[2];
	struct stand stand;
	unsigned hits = 0;
	struct batch b;
	struct user u;

	(void)state;
	start_owner_that_may_stand(&o[0], "owner", &stand);
	start_owner(&o[1], "other", &tenant, 1);
	third = start("third", &(struct slime_agent_link){ .to = "owner", .profile = "default" },
		      1);
	assert_ok(slime_call_create(slime_agent_context(third), NULL, &call));
	attr.owners = two_owners;
	attr.n_owners = 2;
	attr.dir_cache_ttl_ms = 0;
	attr.refresh_ms = 50;
	start_user_with(&u, "user", &attr);
	assert_ok(slime_pages_wait_ready(u.pages, 2, LONG_MS));
	put_all(&u, 0, N_PAGES);
	assert_ok(slime_pages_owner_stat(o[1].pages, NULL, &at_other));
	make_batch(&u, &b, 0, N_PAGES);
	begin_to_stand(third, &stand, call);
	assert_ok(slime_pages_get(u.req, b.items, N_PAGES));
	assert_int_equal(slime_pages_wait(u.req, 20), -ETIMEDOUT);
	ep = get(u.agent, "owner", "default");
	slime_endpoint_close(ep);
	slime_agent_endpoint_put(u.agent, ep);
	wait_for(&u);
	for (unsigned i = 0; i < N_PAGES; i++) {
		hits += !b.items[i].status;
		assert_true(!b.items[i].status || b.items[i].status == -ENOENT);
		for (size_t k = 0; !b.items[i].status && k < PAGE_LEN; k++)
			assert_int_equal(u.bytes[i * PAGE_LEN + k], (uint8_t)i);
	}
	assert_int_equal(hits, at_other.pages);
	assert_in_range(hits, 1, N_PAGES - 1);
	sem_post(&stand.ends);
	assert_ok(slime_call_wait(call, LONG_MS));
	assert_ok(slime_call_destroy(call));
	end(third);
	end_user(&u);
	end_owner(&o[1]);
	end_owner(&o[0]);
}

/* Nothing is known of their places: those whose nearest replica stands still are asked for at the
 * other one. */
static void get__of_pages_of_which_one_replica_stands_still_finds_the_other(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct slime_agent_attr reader = attr_of("reader");
	struct slime_agent *agent;
	struct stand unused;
	struct owner other;
	struct still s;
	struct user u;

	(void)state;
	start_still(&s, LONG_MS);
	start_owner_that_may_stand(&other, "other", &unused);
	reader.transports[0] = SLIME_TRANSPORT_TCP;
	reader.data.tcp_bind = "127.0.0.1";
	attr.owners = two_owners;
	attr.n_owners = 2;
	attr.replicas = 2;
	attr.refresh_ms = 20;
	attr.timeout_ms = 2000;
	attr.dir_cache_ttl_ms = 0;
	agent = start_with(&reader);
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	open_user(&u, agent, &attr);
	assert_ok(slime_pages_wait_ready(u.pages, 2, LONG_MS));
	put_all(&u, 0, 32);
	begin_to_stand(s.other, &s.stand, s.call);
	assert_int_equal(get_pages(&u, 0, 32), 32);
	sem_post(&s.stand.ends);
	assert_ok(slime_call_wait(s.call, LONG_MS));
	end_user(&u);
	end_owner(&other);
	end_still(&s);
}

/* The owner that stands still was there before the other one, which has no such page. */
static void get__of_a_page_that_the_former_owner_is_silent_about_is_a_miss(void **state)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
	struct slime_agent_attr reader = attr_of("reader");
	struct slime_pages_owner_info of[2];
	struct slime_agent *agent;
	struct stand unused;
	struct owner other;
	struct batch b;
	struct still s;
	struct user u;

	(void)state;
	start_still(&s, LONG_MS);
	reader.transports[0] = SLIME_TRANSPORT_TCP;
	reader.data.tcp_bind = "127.0.0.1";
	attr.owners = two_owners;
	attr.n_owners = 2;
	attr.refresh_ms = 20;
	attr.timeout_ms = 1000;
	agent = start_with(&reader);
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	open_user(&u, agent, &attr);
	assert_ok(slime_pages_wait_ready(u.pages, 1, LONG_MS));
	start_owner_that_may_stand(&other, "other", &unused);
	assert_ok(slime_pages_wait_ready(u.pages, 2, LONG_MS));
	for (unsigned key = 0, n = 0; !n || strcmp(of[0].name, "other") != 0; key++) {
		make_batch(&u, &b, key, 1);
		n = (unsigned)slime_pages_owners(u.pages, b.items[0].key, b.items[0].key_len, of,
						 2);
	}
	begin_to_stand(s.other, &s.stand, s.call);
	assert_ok(slime_pages_get(u.req, b.items, 1));
	wait_for(&u);
	assert_int_equal(b.items[0].status, -ENOENT);
	sem_post(&s.stand.ends);
	assert_ok(slime_call_wait(s.call, LONG_MS));
	end_user(&u);
	end_owner(&other);
	end_still(&s);
}

static void own_method(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, NULL, 0);
}

/* The name of its last method is taken. */
static void owner_create__that_is_refused_leaves_no_method(void **state)
{
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;
	struct slime_agent_attr agent = attr_of("owner");
	struct slime_pages_owner *pages = NULL;
	struct slime_agent *owner;

	(void)state;
	method.fn = own_method;
	attr.tenants = &tenant;
	attr.n_tenants = 1;
	attr.classes = classes;
	attr.n_classes = 2;
	assert_ok(slime_agent_create(&agent, &owner));
	assert_ok(slime_agent_method_add(owner, "pages.stat", &method));
	assert_int_equal(slime_pages_owner_create(owner, &attr, &pages), -EEXIST);
	assert_int_equal(slime_agent_method_remove(owner, "pages.lookup"), -ENOENT);
	assert_ok(slime_agent_method_remove(owner, "pages.stat"));
	assert_ok(slime_agent_destroy(owner));
}

/* Before its agent was started: the agent may get another one. */
static void owner_destroy__before_the_agent_starts_takes_its_methods_back(void **state)
{
	struct slime_pages_owner_attr attr = SLIME_PAGES_OWNER_ATTR_INIT;
	struct slime_agent_attr agent = attr_of("owner");
	struct slime_pages_owner *pages;
	struct slime_agent *owner;

	(void)state;
	attr.tenants = &tenant;
	attr.n_tenants = 1;
	attr.classes = classes;
	attr.n_classes = 2;
	assert_ok(slime_agent_create(&agent, &owner));
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_pages_owner_create(owner, &attr, &pages));
		assert_ok(slime_pages_owner_destroy(pages));
	}
	assert_ok(slime_agent_destroy(owner));
}

static void put__from_more_regions_than_one_message_has_room_for_puts_all(void **state)
{
	enum { N = 40 };
	struct slime_mr *mr[N];
	struct owner o;
	struct batch b;
	struct user u;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	start_user(&u, "user", one_owner, 1);
	make_batch(&u, &b, 0, N);
	fill(&u, &b, 0);
	for (size_t i = 0; i < N; i++) {
		assert_ok(slime_mr_create(slime_agent_context(u.agent), u.bytes + i * PAGE_LEN,
					  PAGE_LEN, SLIME_ACCESS_REMOTE_READ, &mr[i]));
		b.bufs[i] = (struct slime_pages_buf){ .mr = mr[i], .len = PAGE_LEN };
	}
	put(&u, &b, 0);
	assert_int_equal(slime_pages_prefix(u.req), N);
	for (size_t i = 0; i < N; i++)
		assert_ok(slime_mr_destroy(mr[i]));
	assert_int_equal(get_pages(&u, 0, N), N);
	end_user(&u);
	end_owner(&o);
}

#ifndef __SANITIZE_THREAD__

/* ---- pages that change while they are read ---- */

struct racer {
	struct user *u;
	_Atomic bool stop;
	unsigned hits;
};

/* Every word of a page is the key's number above, and a version that all words share. */
static void *rewrite(void *arg)
{
	struct racer *r = arg;
	uint32_t version = 0;
	struct batch b;

	while (!atomic_load(&r->stop)) {
		make_batch(r->u, &b, 0, 8);
		version++;
		for (uint32_t i = 0; i < 8; i++)
			for (size_t k = 0; k < PAGE_LEN / 8; k++)
				((uint64_t *)(void *)r->u->bytes)[i * PAGE_LEN / 8 + k] =
					(uint64_t)(i + 1) << 32 | version;
		put(r->u, &b, SLIME_PAGES_REPLACE);
	}
	return NULL;
}

static void read_pages(struct racer *r, int rounds)
{
	struct batch b;

	for (int n = 0; n < rounds; n++) {
		make_batch(r->u, &b, 0, 8);
		assert_ok(slime_pages_get(r->u->req, b.items, 8));
		wait_for(r->u);
		for (uint32_t i = 0; i < 8; i++) {
			const uint64_t *words = (uint64_t *)(void *)r->u->bytes + i * PAGE_LEN / 8;

			if (b.items[i].status)
				continue;
			r->hits++;
			assert_int_equal(words[0] >> 32, i + 1);
			for (size_t k = 1; k < PAGE_LEN / 8; k++)
				assert_int_equal(words[k], words[0]);
		}
	}
}

static void get__of_pages_that_are_rewritten_never_returns_torn_bytes(void **state)
{
	struct owner o;

	(void)state;
	start_owner(&o, "owner", &tenant, 1);
	for (int verify = 0; verify <= SLIME_PAGES_VERIFY_NEVER; verify++) {
		struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
		struct racer reads = { 0 }, writes = { 0 };
		struct user reader, writer;
		pthread_t thread;

		attr.owners = one_owner;
		attr.n_owners = 1;
		/* A sampled checksum is the same protocol as none. */
		attr.verify = (enum slime_pages_verify)verify;
		start_user_with(&reader, "reader", &attr);
		start_user_with(&writer, "writer", &attr);
		assert_ok(slime_pages_wait_ready(reader.pages, 1, LONG_MS));
		assert_ok(slime_pages_wait_ready(writer.pages, 1, LONG_MS));
		reads.u = &reader;
		writes.u = &writer;
		assert_ok(pthread_create(&thread, NULL, rewrite, &writes));
		while (!reads.hits)
			read_pages(&reads, 1);
		read_pages(&reads, 200);
		atomic_store(&writes.stop, true);
		assert_ok(pthread_join(thread, NULL));
		end_user(&writer);
		end_user(&reader);
	}
	end_owner(&o);
}

#endif

#define CASE(f) cmocka_unit_test_setup(f, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(get__returns_what_was_put),
		CASE(exists_and_delete__say_what_is_there),
		CASE(put__of_a_key_that_is_there_is_refused_unless_it_replaces),
		CASE(get__by_an_old_place_finds_the_new_page),
		CASE(get__checks_headers_after_the_bytes_where_no_checksum_is_wanted),
		CASE(pages__of_several_bufs_and_lengths_arrive_in_order),
		CASE(requests__with_bad_items_say_so_for_each),
		CASE(put__into_a_full_owner_evicts_but_what_is_pinned),
		CASE(owners__of_a_key_come_in_the_order_in_which_they_have_it),
		CASE(keys__are_spread_and_those_of_a_dead_owner_are_misses_at_once),
		CASE(delete__reaches_the_owner_that_had_the_key_before),
		CASE(replicas__of_a_page_outlive_one_owner),
		CASE(put__without_an_owner_is_not_connected_and_get_a_miss),
		CASE(put__of_a_writer_that_came_back_uses_its_new_link),
		CASE(tenants__have_keys_and_memory_of_their_own),
		CASE(callback__may_begin_the_request_again_and_destroy_it),
		CASE(request__destroyed_as_soon_as_a_test_says_that_it_ended_leaves_nothing),
#ifndef __SANITIZE_THREAD__
		CASE(put__whose_time_is_over_leaves_no_page_with_bytes_of_later),
		CASE(get__of_pages_that_are_rewritten_never_returns_torn_bytes),
#endif
		CASE(put__from_more_regions_than_one_message_has_room_for_puts_all),
		CASE(put__to_an_owner_that_stands_still_times_out),
		CASE(get__of_pages_of_an_owner_that_stands_still_is_a_miss),
		CASE(batch__that_loses_an_owner_in_its_middle_succeeds_at_the_other),
		CASE(get__of_pages_of_which_one_replica_stands_still_finds_the_other),
		CASE(get__of_a_page_that_the_former_owner_is_silent_about_is_a_miss),
		CASE(owner_create__that_is_refused_leaves_no_method),
		CASE(owner_destroy__before_the_agent_starts_takes_its_methods_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
