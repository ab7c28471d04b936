/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer has of ours when its connection ends: fenced until it lets go or is gone. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "tests/libslime/transport/shm/raw.h"
#include "src/endpoint/endpoint.h"
#include "src/transport/shm/shm.h"
#include "src/memory/mem.h"
#include "src/core/region.h"
#include "support/fail_alloc.h"

static void give(struct raw_shm *r, const struct slime_mr *mr)
{
	struct shm_packet map = raw_shm_map(mr);
	struct shm_packet said;

	raw_shm_say(r, &map);
	said = raw_shm_hear(r);
	assert_int_equal(said.kind, SHM_MAPPED);
	assert_ok(said.status);
}

/* The peer has our region. */
static void give_region(struct raw_shm *r)
{
	give(r, r->mr);
}

/* The region is fenced; once the peer is dead it is not. */
static void assert_fenced_until_death(struct raw_shm *r)
{
	assert_int_equal(slime_mr_destroy(r->mr), -EBUSY);
	raw_shm_kill(r);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

static void region__of_a_peer_that_broke_the_protocol_stays_fenced(void **state)
{
	struct sl_msg junk = { .kind = SL_MSG_KINDS };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	raw_shm_post(r, &junk);
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	assert_fenced_until_death(r);
}

static void region__stays_fenced_when_there_is_no_memory(void **state)
{
	struct sl_msg junk = { .kind = SL_MSG_KINDS };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	fail_alloc_at(1);
	raw_shm_post(r, &junk);
	(void)fail_alloc_end();
	raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	assert_fenced_until_death(r);
}

static void region__of_a_link_we_closed_is_free_once_the_peer_says_so(void **state)
{
	struct shm_packet done = { .kind = SHM_BYE_DONE };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	slime_endpoint_close(r->ep);
	assert_int_equal(raw_shm_hear(r).kind, SHM_BYE);
	assert_int_equal(slime_mr_destroy(r->mr), -EBUSY);
	raw_shm_say(r, &done);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

static void region__of_a_link_that_broke_is_free_once_the_peer_says_that_it_ended(void **state)
{
	struct shm_packet ended = { .kind = SHM_ENDED };
	struct sl_msg junk = { .kind = SL_MSG_KINDS };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	raw_shm_post(r, &junk);
	assert_int_equal(raw_shm_hear(r).kind, SHM_ENDED);
	assert_int_equal(slime_mr_destroy(r->mr), -EBUSY);
	raw_shm_say(r, &ended);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

static void region__of_a_link_that_the_peer_ended_is_free_at_once(void **state)
{
	struct shm_packet ended = { .kind = SHM_ENDED };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	raw_shm_say(r, &ended);
	assert_int_equal(raw_shm_hear(r).kind, SHM_ENDED);
	raw_shm_assert_broken(r, -ECONNRESET, "the peer ended the link");
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

static void region__of_a_peer_that_closed_is_free_at_once(void **state)
{
	struct shm_packet bye = { .kind = SHM_BYE };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	raw_shm_say(r, &bye);
	assert_int_equal(raw_shm_hear(r).kind, SHM_BYE_DONE);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

/* It let go of it before it was asked: that may be of a former one with the same id. */
static void region__is_not_free_because_the_peer_said_so_unasked(void **state)
{
	struct shm_packet gone = { .kind = SHM_WITHDRAWN };
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	gone.id = r->remote.id;
	gone.a = r->remote.generation;
	raw_shm_say(r, &gone);
	assert_int_equal(slime_mr_destroy(r->mr), -EBUSY);
	assert_int_equal(raw_shm_hear(r).kind, SHM_WITHDRAW);
	raw_shm_say(r, &gone);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

/* No more packets go to the peer until it reads some. */
static void fill_socket(struct raw_shm *r)
{
	struct shm_packet p = { .kind = SHM_WITHDRAW };
	const struct shm_conn *c = (struct shm_conn *)atomic_load(&r->ep->conn);
	int ret;

	do
		ret = shm_channel_send(c->sock.fd, &p);
	while (!ret);
	assert_int_equal(ret, -EAGAIN);
}

#define MANY 30

static void give_many(struct raw_shm *r, struct slime_mr **mrs)
{
	for (int i = 0; i < MANY; i++) {
		assert_ok(
			slime_mr_create(r->ctx, r->bytes, 4096, SLIME_ACCESS_REMOTE_READ, &mrs[i]));
		give(r, mrs[i]);
	}
}

static void destroy_many(struct slime_mr **mrs, int ret)
{
	for (int i = 0; i < MANY; i++)
		assert_int_equal(slime_mr_destroy(mrs[i]), ret);
}

static void regions__of_a_peer_that_stands_still_wait_for_it_once(void **state)
{
	struct raw_shm *r = *state;
	struct slime_mr *mrs[MANY];
	uint64_t begin;

	raw_shm_link(r);
	give_many(r, mrs);
	begin = sl_clock_ms();
	destroy_many(mrs, -EBUSY);
	assert_in_range(sl_clock_ms() - begin, RAW_SHM_TIMEOUT_MS, MANY * RAW_SHM_TIMEOUT_MS / 2);
	raw_shm_kill(r);
	destroy_many(mrs, 0);
}

static void regions__of_a_link_closed_at_a_peer_that_stands_still_wait_for_it_once(void **state)
{
	struct raw_shm *r = *state;
	struct slime_mr *mrs[MANY];
	uint64_t begin;

	raw_shm_link(r);
	give_many(r, mrs);
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	begin = sl_clock_ms();
	destroy_many(mrs, -EBUSY);
	assert_true(sl_clock_ms() - begin < MANY * RAW_SHM_TIMEOUT_MS / 2);
	raw_shm_kill(r);
	destroy_many(mrs, 0);
}

/* It stood still for a while, and then answers: its next answer has the same time. */
static void region__of_a_peer_that_went_on_waits_for_it_again(void **state)
{
	struct shm_packet gone = { .kind = SHM_WITHDRAWN };
	struct raw_shm *r = *state;
	struct slime_mr *mrs[MANY];
	uint64_t begin;

	raw_shm_link(r);
	give_many(r, mrs);
	assert_int_equal(slime_mr_destroy(mrs[0]), -EBUSY);
	gone.id = mrs[0]->region->id;
	gone.a = mrs[0]->region->generation;
	raw_shm_say(r, &gone);
	assert_ok(slime_mr_destroy(mrs[0]));
	begin = sl_clock_ms();
	assert_int_equal(slime_mr_destroy(mrs[1]), -EBUSY);
	assert_true(sl_clock_ms() - begin >= RAW_SHM_TIMEOUT_MS - 1);
	raw_shm_kill(r);
	for (int i = 1; i < MANY; i++)
		assert_ok(slime_mr_destroy(mrs[i]));
}

/* A peer that answers for this region alone, as one does that uses the others. */
struct answerer {
	int sock;
	uint32_t id;
};

static void *answer(void *arg)
{
	struct answerer *a = arg;
	struct pollfd heard = { .fd = a->sock, .events = POLLIN };
	struct shm_packet p = { 0 };

	while (p.kind != SHM_WITHDRAW || p.id != a->id)
		if (shm_channel_recv(a->sock, &p) == -EAGAIN)
			poll(&heard, 1, PATIENCE_MS);
	p.kind = SHM_WITHDRAWN;
	assert_ok(shm_channel_send(a->sock, &p));
	return NULL;
}

/* For which it is silent longer than one is that answers at all. */
static void region__beside_one_that_the_peer_uses_for_long_is_destroyed(void **state)
{
	struct raw_shm *r = *state;
	struct slime_mr *mrs[MANY];
	struct answerer a;
	pthread_t thread;

	raw_shm_link(r);
	give_many(r, mrs);
	assert_int_equal(slime_mr_destroy(mrs[0]), -EBUSY);
	for (int i = 1; i < 3; i++) {
		a = (struct answerer){ r->sock, mrs[i]->region->id };
		assert_ok(pthread_create(&thread, NULL, answer, &a));
		assert_ok(slime_mr_destroy(mrs[i]));
		assert_ok(pthread_join(thread, NULL));
		/* It is silent again. */
		assert_int_equal(slime_mr_destroy(mrs[0]), -EBUSY);
	}
	raw_shm_kill(r);
	assert_ok(slime_mr_destroy(mrs[0]));
	for (int i = 3; i < MANY; i++)
		assert_ok(slime_mr_destroy(mrs[i]));
}

/* What was asked of it did not go out, so that it owes nothing: its next answer has all its time.
 */
static void region__of_a_peer_that_was_not_asked_waits_for_it(void **state)
{
	struct raw_shm *r = *state;
	struct slime_mr *mrs[MANY];
	struct shm_packet p;
	uint64_t begin;

	raw_shm_link(r);
	give_many(r, mrs);
	fill_socket(r);
	assert_int_equal(slime_mr_destroy(mrs[0]), -EBUSY);
	while (shm_channel_recv(r->sock, &p) == 0)
		continue;
	begin = sl_clock_ms();
	assert_int_equal(slime_mr_destroy(mrs[1]), -EBUSY);
	assert_true(sl_clock_ms() - begin >= RAW_SHM_TIMEOUT_MS - 1);
	raw_shm_kill(r);
	destroy_many(mrs, 0);
}

/* There is no room for our goodbye, and the socket stays for what the peer says. */
static void link__closed_while_the_peer_stands_still_ends_there_when_it_goes_on(void **state)
{
	struct shm_packet bye = { .kind = SHM_BYE };
	struct raw_shm *r = *state;
	struct shm_packet p;
	int ret;

	raw_shm_link(r);
	give_region(r);
	fill_socket(r);
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	assert_true(r->ended);

	do
		ret = shm_channel_recv(r->sock, &p);
	while (!ret);
	assert_int_equal(ret, -ECONNRESET);
	assert_int_equal(slime_mr_destroy(r->mr), -EBUSY);
	raw_shm_say(r, &bye);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

/* What is never used again is given back while the peer has it: its id comes again. */
static void region__with_the_id_of_one_that_a_stopped_peer_has_is_destroyed(void **state)
{
	struct raw_shm *r = *state;

	raw_shm_link(r);
	give_region(r);
	slime_endpoint_close(r->ep);
	assert_int_equal(raw_shm_hear(r).kind, SHM_BYE);
	assert_true(sl_mr_abandon(r->mr));
	assert_ok(slime_mr_create(r->ctx, r->bytes, RAW_SHM_LEN, 0, &r->mr));
	assert_int_equal(r->mr->region->id, r->remote.id);
	assert_ok(slime_mr_destroy(r->mr));
	r->mr = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(region__of_a_peer_that_broke_the_protocol_stays_fenced),
		IN_RAW_SHM(region__stays_fenced_when_there_is_no_memory),
		IN_RAW_SHM(region__of_a_link_we_closed_is_free_once_the_peer_says_so),
		IN_RAW_SHM(region__of_a_link_that_broke_is_free_once_the_peer_says_that_it_ended),
		IN_RAW_SHM(region__of_a_link_that_the_peer_ended_is_free_at_once),
		IN_RAW_SHM(region__of_a_peer_that_closed_is_free_at_once),
		IN_RAW_SHM(regions__of_a_peer_that_stands_still_wait_for_it_once),
		IN_RAW_SHM(regions__of_a_link_closed_at_a_peer_that_stands_still_wait_for_it_once),
		IN_RAW_SHM(region__of_a_peer_that_went_on_waits_for_it_again),
		IN_RAW_SHM(region__beside_one_that_the_peer_uses_for_long_is_destroyed),
		IN_RAW_SHM(region__of_a_peer_that_was_not_asked_waits_for_it),
		IN_RAW_SHM(region__is_not_free_because_the_peer_said_so_unasked),
		IN_RAW_SHM(link__closed_while_the_peer_stands_still_ends_there_when_it_goes_on),
		IN_RAW_SHM(region__with_the_id_of_one_that_a_stopped_peer_has_is_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
