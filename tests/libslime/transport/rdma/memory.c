/* SPDX-License-Identifier: Apache-2.0 */
/* Who reaches which memory over rdma, and what devices are asked to do for it. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN 65536

static struct rdma_pair pair;

static void open_pair(bool isolated)
{
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	pair.a.isolated = pair.b.isolated = isolated;
	assert_ok(rdma_pair_connect(&pair));
}

/* Of restricted regions, which have memory of their own. */
static uint8_t own[LEN / 2];

/* A region of b's, in its second half or there. */
struct shown {
	struct slime_mr *mr;
	struct slime_remote_mr remote;
	int ret;
	_Atomic bool destroyed;
};

static struct shown show(uint32_t access, bool restricted)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct shown s;
	int len;

	attr.access = access;
	attr.restricted = restricted;
	assert_ok(slime_mr_create_attr(pair.b.ctx, restricted ? own : pair.b.bytes + LEN / 2,
				       LEN / 2, &attr, &s.mr));
	len = slime_mr_export(s.mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &s.remote));
	return s;
}

static void *destroy_it(void *arg)
{
	struct shown *s = arg;

	s->ret = slime_mr_destroy(s->mr);
	atomic_store(&s->destroyed, true);
	return NULL;
}

/* The peer is asked to let go of it, and answers meanwhile. */
static void take_back(struct shown *s)
{
	pthread_t thread;

	atomic_store(&s->destroyed, false);
	assert_ok(pthread_create(&thread, NULL, destroy_it, s));
	while (!atomic_load(&s->destroyed))
		slime_context_poll(pair.a.ctx);
	assert_ok(pthread_join(thread, NULL));
	assert_ok(s->ret);
}

static int write_to(const struct slime_remote_mr *remote, struct slime_endpoint *ep)
{
	struct slime_xfer x = { .local = pair.a.mr, .remote = remote, .len = 4096 };

	memset(pair.a.bytes, 0x5a, 4096);
	assert_ok(slime_write(ep, &x, 1, 0, pair.a.op));
	return rdma_wait(&pair, pair.a.op);
}

#define ALL_ACCESS (SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE)

static void restricted__region_is_reached_over_an_isolated_link(void **state)
{
	struct shown s;

	(void)state;
	open_pair(true);
	s = show(ALL_ACCESS, true);
	assert_ok(write_to(&s.remote, pair.a.ep));
	assert_memory_equal(own, pair.a.bytes, 4096);
	take_back(&s);
	assert_int_equal(write_to(&pair.b.remote, pair.a.ep), 0);
}

static void restricted__region_is_refused_over_a_link_that_shares_its_domain(void **state)
{
	struct shown s;

	(void)state;
	open_pair(false);
	s = show(ALL_ACCESS, true);
	assert_int_equal(write_to(&s.remote, pair.a.ep), -EACCES);
	/* The link lives. */
	assert_ok(write_to(&pair.b.remote, pair.a.ep));
	take_back(&s);
}

/* What one that waits is answered is not for the others, which ask for themselves. */
static void refused__region_is_asked_for_by_each_that_waits_for_it(void **state)
{
	struct slime_op *ops[3];
	struct slime_xfer x;
	struct shown s;

	(void)state;
	open_pair(false);
	s = show(ALL_ACCESS, true);
	x = (struct slime_xfer){ .local = pair.a.mr, .remote = &s.remote, .len = 64 };
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &ops[i]));
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, ops[i]));
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rdma_wait(&pair, ops[i]), -EACCES);
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_ok(write_to(&pair.b.remote, pair.a.ep));
	take_back(&s);
}

/* Its region is known; that of the write before it, over the same bytes, has to be asked for. */
static void fence__holds_behind_a_write_whose_key_is_asked_for(void **state)
{
	struct slime_xfer first, second;
	struct slime_op *op;
	struct shown s;

	(void)state;
	open_pair(false);
	assert_ok(write_to(&pair.b.remote, pair.a.ep));
	assert_ok(slime_op_create(pair.a.ctx, NULL, &op));
	s = show(ALL_ACCESS, false);
	memset(pair.a.bytes, 1, 64);
	memset(pair.a.bytes + 64, 2, 64);
	first = (struct slime_xfer){ .local = pair.a.mr, .remote = &s.remote, .len = 64 };
	second = rdma_a_and_b(&pair, 64, LEN / 2, 64);
	assert_ok(slime_write(pair.a.ep, &first, 1, 0, op));
	assert_ok(slime_write(pair.a.ep, &second, 1, SLIME_FENCE, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_ok(rdma_wait(&pair, op));
	assert_memory_equal(pair.b.bytes + LEN / 2, pair.a.bytes + 64, 64);
	assert_ok(slime_op_destroy(op));
	take_back(&s);
}

/* ---- a peer that cheats ---- */

static struct rdma_conn *conn_of(struct slime_endpoint *ep)
{
	return rdma_endpoint_conn(ep);
}

/* What the peer of ep's end knows of that region. */
static struct rdma_key *key_of(struct slime_endpoint *ep, const struct slime_remote_mr *r)
{
	struct rdma_key *k = conn_of(ep)->keys[r->id % RDMA_BUCKETS];

	while (k && k->generation != r->generation)
		k = k->next;
	assert_non_null(k);
	return k;
}

/* A second link of the pair; a.ep and b.ep are the new one's. */
static struct rdma_pair link_again(void)
{
	struct rdma_pair first = pair;

	pair.a.ep = pair.b.ep = NULL;
	assert_ok(rdma_pair_connect(&pair));
	return first;
}

static void close_first(struct rdma_pair *first)
{
	slime_endpoint_close(first->a.ep);
	slime_endpoint_close(first->b.ep);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(first->a.ep));
	assert_ok(slime_endpoint_destroy(first->b.ep));
}

/* The second link's end writes with the key that the first one's was given. */
static int write_with_the_key_of(struct rdma_pair *first, struct shown *s)
{
	struct rdma_key *known;

	assert_ok(write_to(&s->remote, first->a.ep));
	/* One that it may use itself, forged. */
	assert_ok(write_to(&pair.b.remote, pair.a.ep));
	known = key_of(pair.a.ep, &pair.b.remote);
	known->addr = s->remote.addr;
	known->rkeys[0] = key_of(first->a.ep, &s->remote)->rkeys[0];
	memset(pair.b.bytes, 0, LEN);
	memset(own, 0, sizeof(own));
	return write_to(&pair.b.remote, pair.a.ep);
}

static void restricted__region_is_out_of_reach_for_a_guessed_key(void **state)
{
	struct rdma_pair first;
	struct shown s;

	(void)state;
	open_pair(true);
	s = show(ALL_ACCESS, true);
	first = link_again();
	assert_int_equal(write_with_the_key_of(&first, &s), -EREMOTEIO);
	for (size_t i = 0; i < LEN / 2; i++)
		assert_int_equal(own[i], 0);
	close_first(&first);
	take_back(&s);
}

/* That the one above would notice: where the domain is shared a guessed key is as good. */
static void open__region_is_reached_with_a_guessed_key(void **state)
{
	struct rdma_pair first;
	struct shown s;

	(void)state;
	open_pair(false);
	s = show(ALL_ACCESS, false);
	first = link_again();
	assert_int_equal(write_with_the_key_of(&first, &s), 0);
	assert_int_equal(pair.b.bytes[LEN / 2], 0x5a);
	close_first(&first);
	take_back(&s);
}

/* Used by its owner over a link, it is no more than memory to that link's domain. */
static void restricted__region_of_own_work_grants_nothing(void **state)
{
	struct slime_xfer x = { .remote = &pair.a.remote, .len = 4096 };
	struct rdma_key *known;
	struct rdma_mr *mr;
	struct shown s;

	(void)state;
	open_pair(true);
	s = show(ALL_ACCESS, true);
	x.local = s.mr;
	assert_ok(slime_write(pair.b.ep, &x, 1, 0, pair.b.op));
	assert_ok(rdma_wait(&pair, pair.b.op));
	mr = atomic_load(&conn_of(pair.b.ep)->offer->domain->mrs[2 * s.remote.id]);
	assert_non_null(mr);
	assert_ok(write_to(&pair.b.remote, pair.a.ep));
	known = key_of(pair.a.ep, &pair.b.remote);
	known->addr = s.remote.addr;
	known->rkeys[0] = mr->parts[0]->rkey;
	assert_int_equal(write_to(&pair.b.remote, pair.a.ep), -EREMOTEIO);
	take_back(&s);
}

static void region__is_registered_with_the_rights_that_it_grants(void **state)
{
	struct slime_xfer x = { .local = NULL, .len = 4096 };
	struct shown s;

	(void)state;
	open_pair(false);
	s = show(SLIME_ACCESS_REMOTE_READ, false);
	x.local = pair.a.mr;
	x.remote = &s.remote;
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	/* The peer believes that it may write. */
	s.remote.access = ALL_ACCESS;
	key_of(pair.a.ep, &s.remote)->access = ALL_ACCESS;
	assert_int_equal(write_to(&s.remote, pair.a.ep), -EREMOTEIO);
	take_back(&s);
}

/* The other way round. */
static void region__that_is_for_writing_cannot_be_read(void **state)
{
	struct slime_xfer x = { .local = NULL, .len = 4096 };
	struct shown s;

	(void)state;
	open_pair(false);
	s = show(SLIME_ACCESS_REMOTE_WRITE, false);
	assert_ok(write_to(&s.remote, pair.a.ep));
	s.remote.access = ALL_ACCESS;
	key_of(pair.a.ep, &s.remote)->access = ALL_ACCESS;
	x.local = pair.a.mr;
	x.remote = &s.remote;
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -EREMOTEIO);
	take_back(&s);
}

/* Each of another region: of one that is stale nothing more is asked. */
static void open__with_wrong_secrets_is_stale_and_the_third_ends_the_link(void **state)
{
	struct slime_endpoint_info info;
	struct shown s[SL_WRONG_SECRETS];

	(void)state;
	log_lines_keep();
	open_pair(false);
	for (unsigned i = 0; i < SL_WRONG_SECRETS; i++) {
		s[i] = show(ALL_ACCESS, false);
		s[i].remote.secret[i % 2] ^= UINT64_C(1) << i * 20;
		assert_int_equal(write_to(&s[i].remote, pair.a.ep),
				 i + 1 < SL_WRONG_SECRETS ? -ESTALE : -ECONNRESET);
	}
	slime_endpoint_info(pair.b.ep, &info);
	assert_int_equal(info.cause, -EPROTO);
	assert_int_equal(log_lines_with("wrong secrets"), 1);
	log_lines_release();
	/* The peer, which has no key, is not waited for. */
	for (unsigned i = 0; i < SL_WRONG_SECRETS; i++)
		assert_ok(slime_mr_destroy(s[i].mr));
}

static void close__while_regions_are_registered_waits_for_that(void **state)
{
	struct slime_xfer x;

	for (int i = 0; i < 20; i++) {
		rdma_pair_reset(state);
		open_pair(true);
		x = rdma_a_and_b(&pair, 0, 0, LEN);
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
		for (int k = 0; k < i; k++)
			rdma_poll(&pair);
		slime_endpoint_close(i % 2 ? pair.a.ep : pair.b.ep);
		(void)rdma_wait(&pair, pair.a.op);
		assert_int_equal(rdma_pair_end(state), 0);
		memset(&pair, 0, sizeof(pair));
	}
}

/* ---- chunks ---- */

#define CHUNK	 4096
#define N_CHUNKS (LEN / CHUNK)

static void open_chunked(uint64_t chunk, size_t len)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_chunk = chunk;
	assert_ok(rdma_pair_open(&pair, &attr, len));
	fakeverbs_reset_counts();
}

static int move(bool write, uint64_t a_offset, uint64_t b_offset, uint64_t len)
{
	struct slime_xfer x = rdma_a_and_b(&pair, a_offset, b_offset, len);

	if (write)
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	else
		assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	return rdma_wait(&pair, pair.a.op);
}

static void chunked__region_is_written_and_read_across_its_borders(void **state)
{
	static const uint64_t offsets[] = { 0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK - 7 };
	const size_t n = sizeof(offsets) / sizeof(offsets[0]);

	(void)state;
	open_chunked(CHUNK, LEN);
	rdma_fill(pair.a.bytes, LEN, 1);
	assert_ok(move(true, 0, 0, LEN));
	assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_REG_MR], 2 * N_CHUNKS);
	for (size_t i = 0; i < n * n; i++) {
		uint64_t a = offsets[i % n], b = offsets[i / n];

		rdma_fill(pair.b.bytes, LEN, 3 + (unsigned)i);
		assert_ok(move(false, a, b, LEN / 2));
		assert_memory_equal(pair.a.bytes + a, pair.b.bytes + b, LEN / 2);
	}
}

static void chunked__few_bytes_cross_a_border_at_one_end(void **state)
{
	(void)state;
	open_chunked(CHUNK, LEN);
	assert_ok(move(true, 0, 0, LEN));
	for (uint64_t other = CHUNK; other < 3 * CHUNK; other += CHUNK) {
		rdma_fill(pair.b.bytes, LEN, (unsigned)other);
		assert_ok(move(false, CHUNK - 32, other, 64));
		assert_memory_equal(pair.a.bytes + CHUNK - 32, pair.b.bytes + other, 64);
		assert_ok(move(false, other, CHUNK - 32, 64));
		assert_memory_equal(pair.a.bytes + other, pair.b.bytes + CHUNK - 32, 64);
	}
}

/* Its first and last chunk are shorter. */
static void chunked__region_may_begin_anywhere(void **state)
{
	struct slime_xfer x = { .local_offset = 5, .len = 3 * CHUNK };
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr remote;
	struct slime_mr *mr;
	int len;

	(void)state;
	open_chunked(CHUNK, LEN);
	assert_ok(slime_mr_create(pair.b.ctx, pair.b.bytes + 1000, 5 * CHUNK, ALL_ACCESS, &mr));
	len = slime_mr_export(mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &remote));
	x.local = pair.a.mr;
	x.remote = &remote;
	x.remote_offset = 2 * CHUNK;
	rdma_fill(pair.a.bytes, LEN, 9);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_memory_equal(pair.b.bytes + 1000 + 2 * CHUNK, pair.a.bytes + 5, 3 * CHUNK);
	slime_endpoint_close(pair.a.ep);
	rdma_settle(&pair);
	assert_ok(slime_mr_destroy(mr));
}

static void chunked__keys_are_asked_for_as_they_are_needed(void **state)
{
	const struct rdma_key *k;

	(void)state;
	open_chunked(CHUNK, LEN);
	assert_ok(move(true, 0, 5 * CHUNK, 64));
	k = key_of(pair.a.ep, &pair.b.remote);
	assert_int_equal(k->n_chunks, N_CHUNKS);
	assert_int_equal(k->known, 1u << 5);
	assert_ok(move(true, 0, 7 * CHUNK - 32, 64));
	assert_int_equal(k->known, 1u << 5 | 1u << 6 | 1u << 7);
}

/* Its owner's word counts: far behind the end there is no chunk to look for. */
static void chunked__region_is_not_left_where_its_descriptor_says_more(void **state)
{
	struct slime_remote_mr longer;
	struct slime_xfer x;

	(void)state;
	open_chunked(CHUNK, LEN);
	assert_ok(rdma_read_now(&pair, 64, 1));
	longer = pair.b.remote;
	longer.len = UINT64_C(1) << 40;
	x = (struct slime_xfer){
		.local = pair.a.mr,
		.remote = &longer,
		.remote_offset = UINT64_C(1) << 39,
		.len = 8,
	};
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ERANGE);
	assert_ok(rdma_read_now(&pair, 64, 2));
}

/* The peer asks for a chunk, and is answered that the region is withdrawn before it is told so. */
static void chunked__region_is_withdrawn_while_a_chunk_is_asked_for(void **state)
{
	struct slime_xfer x;
	struct shown s;

	(void)state;
	open_chunked(CHUNK, LEN);
	s = show(ALL_ACCESS, false);
	assert_ok(write_to(&s.remote, pair.a.ep));
	x = (struct slime_xfer){
		.local = pair.a.mr, .remote = &s.remote, .remote_offset = CHUNK, .len = CHUNK
	};
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	take_back(&s);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ESTALE);
	/* The link lives. */
	assert_ok(move(true, 0, 0, LEN));
}

static void chunks__are_no_more_than_64(void **state)
{
	const size_t len = 128 * (size_t)CHUNK;
	unsigned n;

	(void)state;
	open_chunked(CHUNK, len);
	rdma_fill(pair.a.bytes, len, 4);
	assert_ok(move(true, 0, 0, len));
	assert_memory_equal(pair.a.bytes, pair.b.bytes, len);
	n = key_of(pair.a.ep, &pair.b.remote)->n_chunks;
	assert_true(n <= RDMA_CHUNKS_MAX && n > RDMA_CHUNKS_MAX / 4);
}

static void region__longer_than_the_device_takes_is_divided(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_mr_size = fakeverbs_device(1)->max_mr_size = 2000000;
	assert_ok(rdma_pair_open(&pair, NULL, 4 << 20));
	rdma_fill(pair.a.bytes, 4 << 20, 4);
	assert_ok(move(true, 0, 0, 4 << 20));
	assert_memory_equal(pair.a.bytes, pair.b.bytes, 4 << 20);
}

static void region__that_would_be_too_many_chunks_is_refused(void **state)
{
	(void)state;
	open_pair(false);
	/* Its links were made before: their memory is longer than that. */
	conn_of(pair.a.ep)->t->nics[0]->device.attr.orig_attr.max_mr_size = 512;
	assert_int_equal(move(true, 0, 0, 64), -EFBIG);
}

/* The one that fails is of either end. */
static void chunked__registration_that_fails_leaves_nothing(void **state)
{
	for (unsigned n = 1; n <= 2 * N_CHUNKS; n++) {
		int ret;

		rdma_pair_reset(state);
		open_chunked(CHUNK, LEN);
		fakeverbs_fail_call_of(FAKEVERBS_REG_MR, n, ENOMEM);
		ret = move(true, 0, 0, LEN);
		assert_true(ret == -ENOMEM || ret == -EREMOTEIO);
		assert_true(fakeverbs_failed());
		/* Whoever asks next tries again. */
		rdma_fill(pair.a.bytes, LEN, n);
		assert_ok(move(true, 0, 0, LEN));
		assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
		if (n < 2 * N_CHUNKS)
			assert_int_equal(rdma_pair_end(state), 0);
	}
}

static void register__takes_the_region_before_its_first_use(void **state)
{
	struct slime_mr_progress progress;
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_chunk = CHUNK;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	slime_mr_progress(pair.a.mr, &progress);
	assert_int_equal(progress.total, 0);
	assert_ok(slime_mr_register(pair.a.mr, 10000));
	slime_mr_progress(pair.a.mr, &progress);
	assert_int_equal(progress.registered, LEN);
	assert_int_equal(progress.total, LEN);
	assert_int_equal(progress.chunks, N_CHUNKS);
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_REG_MR], N_CHUNKS);
	/* It is used as it is. */
	assert_ok(slime_mr_register(pair.a.mr, 0));
	assert_ok(slime_mr_register(pair.b.mr, 10000));
	assert_ok(rdma_pair_connect(&pair));
	fakeverbs_reset_counts();
	assert_ok(move(true, 0, 0, LEN));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_REG_MR], 0);
}

static void register__that_fails_has_registered_nothing(void **state)
{
	struct slime_mr_progress progress;
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_chunk = CHUNK;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	fakeverbs_fail_call_of(FAKEVERBS_REG_MR, N_CHUNKS, ENOMEM);
	assert_int_equal(slime_mr_register(pair.a.mr, 10000), -ENOMEM);
	slime_mr_progress(pair.a.mr, &progress);
	assert_int_equal(progress.registered, 0);
}

/* The links of the pair keep the devices open, the dead one with them. */
static void progress__comes_to_its_total_without_a_device_that_died(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_mr_progress progress;

	(void)state;
	(void)fakeverbs_device(2);
	attr.rdma_devices = "fake0,fake1;fake2";
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	fakeverbs_kill_device(1);
	rdma_settle(&pair);
	assert_ok(slime_mr_register(pair.a.mr, 10000));
	slime_mr_progress(pair.a.mr, &progress);
	assert_int_equal(progress.registered, LEN);
	assert_int_equal(progress.total, LEN);
}

static void register__that_fails_says_why(void **state)
{
	fakeverbs_device(0)->max_pinned = LEN / 2;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	log_lines_keep();
	assert_int_equal(slime_mr_register(pair.a.mr, 10000), -ENOMEM);
	assert_int_equal(log_lines_with("is the limit of locked memory, ulimit -l, large enough?"),
			 1);
	log_lines_release();
	rdma_pair_close(&pair);
	rdma_pair_reset(state);
	fakeverbs_device(0)->name[0] = '\0';
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	assert_int_equal(slime_mr_register(pair.a.mr, 10000), -ENODEV);
}

#define CASE(fn) cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(restricted__region_is_reached_over_an_isolated_link),
		CASE(restricted__region_is_refused_over_a_link_that_shares_its_domain),
		CASE(refused__region_is_asked_for_by_each_that_waits_for_it),
		CASE(fence__holds_behind_a_write_whose_key_is_asked_for),
		CASE(restricted__region_is_out_of_reach_for_a_guessed_key),
		CASE(open__region_is_reached_with_a_guessed_key),
		CASE(restricted__region_of_own_work_grants_nothing),
		CASE(region__is_registered_with_the_rights_that_it_grants),
		CASE(region__that_is_for_writing_cannot_be_read),
		CASE(open__with_wrong_secrets_is_stale_and_the_third_ends_the_link),
		CASE(chunked__region_is_written_and_read_across_its_borders),
		CASE(chunked__few_bytes_cross_a_border_at_one_end),
		CASE(chunked__region_may_begin_anywhere),
		CASE(chunked__keys_are_asked_for_as_they_are_needed),
		CASE(chunked__region_is_not_left_where_its_descriptor_says_more),
		CASE(chunked__region_is_withdrawn_while_a_chunk_is_asked_for),
		CASE(chunks__are_no_more_than_64),
		CASE(region__longer_than_the_device_takes_is_divided),
		CASE(region__that_would_be_too_many_chunks_is_refused),
		CASE(chunked__registration_that_fails_leaves_nothing),
		CASE(register__takes_the_region_before_its_first_use),
		CASE(register__that_fails_has_registered_nothing),
		CASE(progress__comes_to_its_total_without_a_device_that_died),
		CASE(register__that_fails_says_why),
		CASE(close__while_regions_are_registered_waits_for_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
