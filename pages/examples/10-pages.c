/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 10: pages of a KV cache.
 *
 * Carol puts the pages of a prompt at the owners of the scope, asks how long a prefix of another
 * prompt is there, and gets it. An owner is a peeragent with the service "pages":
 *
 *	cc -o 10-pages 10-pages.c $(pkg-config --cflags --libs slime-pages)
 *	nanoctrl start
 *	peeragent --config 10-pages.yaml &
 *	./10-pages http://127.0.0.1:3000
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slime/pages.h>

#define TIMEOUT_MS 20000
#define PAGE_LEN   65536
#define N	   4

/* End this process with a line that names the call unless it returned 0 or more. */
#define TRY(call) must(#call, call)

static int must(const char *call, int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s: %s\n", call, strerror(-ret));
	exit(1);
}

/* One batch, and the memory that its pages come from or go to. */
struct batch {
	struct slime_pages_request *req;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_pages_buf bufs[N];
	struct slime_pages_item items[N];
};

static char *page(struct batch *b, int i)
{
	return (char *)slime_mem_addr(b->mem) + i * PAGE_LEN;
}

static void create_batch(struct batch *b, struct slime_context *ctx, struct slime_pages *pages)
{
	TRY(slime_pages_request_create(pages, NULL, &b->req));
	TRY(slime_mem_alloc(ctx, N * PAGE_LEN, NULL, &b->mem));
	/* Owners read a put from here; over rdma a get arrives here without a copy. */
	TRY(slime_mr_create(ctx, slime_mem_addr(b->mem), N * PAGE_LEN, SLIME_ACCESS_REMOTE_READ,
			    &b->mr));
}

static void destroy_batch(struct batch *b)
{
	TRY(slime_pages_request_destroy(b->req));
	TRY(slime_mr_destroy(b->mr));
	TRY(slime_mem_destroy(b->mem));
}

/* The key of a page is what its bytes depend on: here the text up to and with the page. */
static void set_keys(struct batch *b, const char *const keys[N])
{
	for (int i = 0; i < N; i++) {
		b->bufs[i] = (struct slime_pages_buf){ .mr = b->mr,
						       .offset = (uint64_t)i * PAGE_LEN,
						       .len = PAGE_LEN };
		b->items[i] = (struct slime_pages_item){
			.key = keys[i], .key_len = strlen(keys[i]), .bufs = &b->bufs[i], .n_bufs = 1
		};
	}
}

/* Owners that come one after the other are used at once, and one that dies is a miss. */
static void put(struct batch *b)
{
	static const char *const prompt[N] = { "the", "the cat", "the cat sat", "the cat sat on" };

	set_keys(b, prompt);
	for (int i = 0; i < N; i++)
		memset(page(b, i), 'a' + i, PAGE_LEN);
	TRY(slime_pages_put(b->req, b->items, N, SLIME_PAGES_REPLACE));
	TRY(slime_pages_wait(b->req, TIMEOUT_MS));
	for (int i = 0; i < N; i++)
		TRY(b->items[i].status); /* each page has a status of its own */
	printf("carol: put %d pages\n", N);
}

static void get_prefix(struct batch *b)
{
	static const char *const prompt[N] = { "the", "the cat", "the cat ran", "the cat ran to" };
	size_t n;

	set_keys(b, prompt);
	TRY(slime_pages_exists(b->req, b->items, N));
	TRY(slime_pages_wait(b->req, TIMEOUT_MS));
	n = slime_pages_prefix(b->req);
	printf("carol: a prefix of %zu pages is there\n", n);

	/* It is a cache: a page may be gone by now, and is a miss then, never other bytes. */
	memset(page(b, 0), 0, N * PAGE_LEN);
	TRY(slime_pages_get(b->req, b->items, n));
	TRY(slime_pages_wait(b->req, TIMEOUT_MS));
	for (size_t i = 0; i < n; i++)
		printf("carol: \"%s\" is %u bytes of %c\n", prompt[i], b->items[i].len,
		       b->items[i].status ? '?' : *page(b, (int)i));
}

int main(int argc, char **argv)
{
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	struct slime_pages *pages;
	struct slime_agent *agent;
	struct batch b;

	if (argc != 2) {
		fprintf(stderr, "usage: %s http://HOST:PORT, where nanoctrl is\n", argv[0]);
		return 2;
	}
	attr.name = "carol";
	attr.scope = "lessons";
	attr.urls = (const char *const *)&argv[1];
	attr.n_urls = 1;
	TRY(slime_agent_create(&attr, &agent));
	TRY(slime_agent_start(agent));
	TRY(slime_pages_create(agent, NULL, &pages));
	TRY(slime_pages_wait_ready(pages, 1, TIMEOUT_MS));

	create_batch(&b, slime_agent_context(agent), pages);
	put(&b);
	get_prefix(&b);
	destroy_batch(&b);

	TRY(slime_pages_destroy(pages));
	TRY(slime_agent_destroy(agent));
	return 0;
}
