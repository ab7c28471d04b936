/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peer.h"

enum slime_transport fixture_transport;
const char *fixture_rails; /* rdma: NULL is the default, as is 0 of n_qps */
static uint32_t n_qps;
static uint32_t fewer = 1;

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The number behind name in a file; UINT64_MAX when there is none. */
static uint64_t number_in(const char *file, const char *name)
{
	FILE *f = fopen(file, "re");
	unsigned long long n, found = UINT64_MAX;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name)) &&
		    sscanf(line + strlen(name), "%llu", &n) == 1)
			found = n;
	}
	if (f)
		fclose(f);
	return found;
}

void need_memory(uint64_t bytes)
{
	uint64_t kib = number_in("/proc/meminfo", "MemAvailable:"), there = kib * 1024;
	uint64_t v2 = number_in("/sys/fs/cgroup/memory.max", "");
	uint64_t v1 = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");

	if (kib == UINT64_MAX)
		there = UINT64_MAX;
	there = v1 < there ? v1 : there;
	there = v2 < there ? v2 : there;
	if (there >= bytes)
		return;
	print_message("skipped: %llu MiB of memory are needed, and %llu there\n",
		      (unsigned long long)bytes >> 20, (unsigned long long)there >> 20);
	skip();
}

int until_not_again(int (*try)(void *arg), void *arg)
{
	uint64_t end = now_ms() + PATIENCE_MS;
	int ret;

	while ((ret = try(arg)) == -EAGAIN && now_ms() < end)
		sched_yield();
	return ret;
}

/* ---- bytes ---- */

uint64_t next_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The eight bytes of the pattern that begin at 8 * word. */
static uint64_t pattern_word(uint64_t seed, uint64_t word)
{
	uint64_t x = seed * UINT64_C(0xd6e8feb86659fd93) + word;

	return next_random(&x);
}

/* A whole word is one store and one comparison: a call for each of eight bytes is what most of the
 * tests' time went into. */
void pattern_fill(void *at, size_t len, uint64_t seed, uint64_t i)
{
	uint8_t *to = at;

	while (len) {
		uint64_t word = pattern_word(seed, i / 8);
		size_t skip = i % 8;
		size_t n = 8 - skip < len ? 8 - skip : len;

		if (n == 8)
			memcpy(to, &word, 8);
		else
			memcpy(to, (uint8_t *)&word + skip, n);
		to += n;
		i += n;
		len -= n;
	}
}

static bool same_bytes(const uint8_t *at, const uint8_t *word, size_t n)
{
	uint64_t there, wanted;

	if (n < 8)
		return !memcmp(at, word, n);
	memcpy(&there, at, 8);
	memcpy(&wanted, word, 8);
	return there == wanted;
}

bool pattern_matches(const void *at, size_t len, uint64_t seed, uint64_t i)
{
	const uint8_t *from = at;

	while (len) {
		uint64_t word = pattern_word(seed, i / 8);
		size_t skip = i % 8;
		size_t n = 8 - skip < len ? 8 - skip : len;

		if (!same_bytes(from, (uint8_t *)&word + skip, n)) {
			print_message("pattern %llu broken in the word at byte %llu\n",
				      (unsigned long long)seed, (unsigned long long)i);
			return false;
		}
		from += n;
		i += n;
		len -= n;
	}
	return true;
}

/* ---- ends ---- */

static void on_state(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		     int cause)
{
	struct end *e = arg;

	(void)ep;
	pthread_mutex_lock(&e->lock);
	e->seen[state] = true;
	e->cause = cause;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void end_await(struct end *e, enum slime_endpoint_state state)
{
	struct timespec until;
	bool seen;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	pthread_mutex_lock(&e->lock);
	while (!e->seen[state] && !ret)
		ret = pthread_cond_timedwait(&e->changed, &e->lock, &until);
	seen = e->seen[state];
	pthread_mutex_unlock(&e->lock);
	if (!seen)
		fail_msg("never %s", slime_endpoint_state_name(state));
}

struct slime_remote_mr remote_of(const struct slime_mr *mr)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr remote;
	int len = slime_mr_export(mr, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &remote));
	return remote;
}

struct slime_mr *end_mr(struct end *e, void *addr, size_t len, uint32_t access)
{
	struct slime_mr *mr;

	assert_ok(slime_mr_create(e->ctx, addr, len, access, &mr));
	return mr;
}

void end_create(struct end *e, const struct pair_attr *attr)
{
	struct slime_context_attr ctx_attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_mem_attr mem = SLIME_MEM_ATTR_INIT;

	/* The same on every machine. */
	mem.huge = SLIME_HUGE_OFF;
	ctx_attr.polling = attr->polling;
	ctx_attr.foreign_memory = attr->foreign_memory;
	ctx_attr.manual = attr->manual_a;
	ctx_attr.max_bandwidth = attr->context_max_bandwidth;
	ctx_attr.rdma_devices = attr->rails ? attr->rails : fixture_rails;
	if (n_qps)
		ctx_attr.rdma_qps = n_qps;
	assert_ok(slime_context_create(&ctx_attr, &e->ctx));
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	e->op = op_new(e->ctx);
	if (!attr->len)
		return;
	assert_ok(slime_mem_alloc(e->ctx, attr->len, &mem, &e->mem));
	e->bytes = slime_mem_addr(e->mem);
	e->mr = end_mr(e, e->bytes, attr->len, attr->access);
	e->remote = remote_of(e->mr);
}

void end_create_endpoint(struct end *e, const struct pair_attr *attr)
{
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;

	ep_attr.transports[0] = fixture_transport;
	ep_attr.on_state = on_state;
	ep_attr.arg = e;
	ep_attr.service = e->service;
	ep_attr.max_bandwidth = attr->max_bandwidth;
	if (attr->max_pending_ops)
		ep_attr.max_pending_ops = attr->max_pending_ops;
	memset(e->seen, 0, sizeof(e->seen));
	assert_ok(slime_endpoint_create(e->ctx, &ep_attr, &e->ep));
}

static int destroy_mr(void *mr)
{
	int ret = slime_mr_destroy(mr);

	return ret == -EBUSY ? -EAGAIN : ret;
}

void end_destroy(struct end *e)
{
	if (!e->ctx)
		return;
	assert_ok(slime_endpoint_destroy(e->ep));
	assert_ok(slime_rpc_service_destroy(e->service));
	assert_ok(until_not_again(destroy_mr, e->mr));
	assert_ok(slime_mem_destroy(e->mem));
	assert_ok(slime_op_destroy(e->op));
	assert_ok(slime_context_destroy(e->ctx));
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	memset(e, 0, sizeof(*e));
}

/* ---- pairs ---- */

struct pair *pair_create(const struct pair_attr *attr)
{
	const struct pair_attr defaults = PAIR_ATTR_INIT;
	struct pair_attr plain = attr ? *attr : defaults;
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	end_create(&p->a, &plain);
	plain.manual_a = false;
	end_create(&p->b, &plain);
	return p;
}

void pair_create_endpoints(struct pair *p, const struct pair_attr *attr)
{
	const struct pair_attr defaults = PAIR_ATTR_INIT;

	end_create_endpoint(&p->a, attr ? attr : &defaults);
	end_create_endpoint(&p->b, attr ? attr : &defaults);
}

static void start_connect(struct end *from, const struct end *to)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(to->ep, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(from->ep, desc, (size_t)len, PATIENCE_MS, from->op));
}

void pair_connect(struct pair *p)
{
	start_connect(&p->a, &p->b);
	start_connect(&p->b, &p->a);
	op_end_ok(p->a.op);
	op_end_ok(p->b.op);
}

struct pair *pair_open(const struct pair_attr *attr)
{
	struct pair *p = pair_create(attr);

	pair_create_endpoints(p, attr);
	pair_connect(p);
	return p;
}

/* Both ends' links end before the regions that the other reaches through them. */
void pair_close(struct pair *p)
{
	if (!p)
		return;
	assert_ok(slime_endpoint_destroy(p->a.ep));
	p->a.ep = NULL;
	assert_ok(slime_endpoint_destroy(p->b.ep));
	p->b.ep = NULL;
	end_destroy(&p->a);
	end_destroy(&p->b);
	free(p);
}

int pair_setup(void **state)
{
	*state = pair_open(NULL);
	return 0;
}

int pair_teardown(void **state)
{
	pair_close(*state);
	return 0;
}

/* ---- operations ---- */

struct slime_op *op_new(struct slime_context *ctx)
{
	struct slime_op *op;

	assert_ok(slime_op_create(ctx, NULL, &op));
	return op;
}

int op_end(struct slime_op *op)
{
	assert_ok(slime_op_wait(op, PATIENCE_MS));
	return slime_op_status(op);
}

void op_end_ok(struct slime_op *op)
{
	assert_ok(op_end(op));
}

struct slime_xfer a_and_b(struct pair *p, uint64_t a_offset, uint64_t b_offset, uint64_t len)
{
	return (struct slime_xfer){
		.local = p->a.mr,
		.remote = &p->b.remote,
		.local_offset = a_offset,
		.remote_offset = b_offset,
		.len = len,
	};
}

int read_now(struct pair *p, const struct slime_xfer *x)
{
	int ret = slime_read(p->a.ep, x, 1, 0, p->a.op);

	return ret ? ret : op_end(p->a.op);
}

int write_now(struct pair *p, const struct slime_xfer *x)
{
	int ret = slime_write(p->a.ep, x, 1, 0, p->a.op);

	return ret ? ret : op_end(p->a.op);
}

/* ---- programs ---- */

uint64_t rounds(uint64_t n)
{
	return n > fewer ? n / fewer : 1;
}

size_t large(size_t n)
{
	return (size_t)rounds(n);
}

/* What links of the pairs use: RAILS, a list of devices, and so many queue pairs on each; and by
 * what the rounds are divided. */
static bool take_rdma_options(int argc, char **argv)
{
	for (int i = 0; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rails"))
			fixture_rails = argv[i + 1];
		else if (!strcmp(argv[i], "--qps"))
			n_qps = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--fewer"))
			fewer = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else
			return false;
	}
	return argc % 2 == 0 && fewer;
}

int fixture_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n)
{
	if (argc >= 3)
		fixture_transport = slime_transport_by_name(argv[2]);
	if (argc >= 4 && !strcmp(argv[1], "--peer") && take_rdma_options(argc - 4, argv + 4))
		return peer_main(atoi(argv[3]));
	if (argc < 3 || strcmp(argv[1], "--transport") ||
	    fixture_transport == SLIME_TRANSPORT_NONE || !take_rdma_options(argc - 3, argv + 3)) {
		fprintf(stderr,
			"usage: %s --transport NAME [--rails DEVICE,...] [--qps N] [--fewer N]\n",
			argv[0]);
		return 2;
	}
	return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}
