/* SPDX-License-Identifier: Apache-2.0 */
/* Users of an agent hear of the end of its peers, and why. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/peeragent/agents.h"

static struct slime_agent_watch *watch(struct slime_agent *agent)
{
	struct slime_agent_watch *w = NULL;

	assert_ok(slime_agent_watch_create(agent, NULL, NULL, &w));
	return w;
}

/* The next event, which comes. */
static struct slime_peer_end next(struct slime_agent_watch *w)
{
	struct pollfd fd = { .fd = slime_agent_watch_fd(w), .events = POLLIN };
	struct slime_peer_end end;

	assert_int_equal(poll(&fd, 1, LONG_MS), 1);
	assert_ok(slime_agent_watch_next(w, &end));
	return end;
}

static void assert_none(struct slime_agent_watch *w)
{
	struct pollfd fd = { .fd = slime_agent_watch_fd(w), .events = POLLIN };
	struct slime_peer_end end;

	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(slime_agent_watch_next(w, &end), -EAGAIN);
}

static void watch__of_a_peer_that_leaves_says_so_once(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct slime_agent_watch *w = watch(a), *other = watch(a);
	struct slime_peer_end end_;

	(void)state;
	assert_connected(a, b, NULL);
	assert_none(w);
	end(b);
	end_ = next(w);
	assert_string_equal(end_.peer, "b");
	assert_int_equal(end_.reason, SLIME_PEER_LEFT);
	assert_int_equal(end_.silent_ms, 0);
	assert_int_equal(end_.n_lost, 0);
	assert_int_equal(next(other).reason, SLIME_PEER_LEFT);
	assert_true(fakectrl_wait_link("a", "b", "default", SLIME_LINK_CONNECTING, LONG_MS));
	assert_none(w);
	slime_agent_watch_destroy(w);
	slime_agent_watch_destroy(other);
	slime_agent_watch_destroy(NULL);
	end(a);
}

/* Of a peer that stands still: its link stays. */
static void watch__of_a_lease_that_ends_says_expired_and_the_link_stays(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct slime_agent_watch *w = watch(a);
	struct slime_peer_end end_;

	(void)state;
	assert_connected(a, b, NULL);
	fakectrl_cut_off("b");
	end_ = next(w);
	assert_int_equal(end_.reason, SLIME_PEER_EXPIRED);
	assert_int_equal(end_.silent_ms, FAKE_LEASE_MS);
	assert_int_equal(n_connects(a), 1);
	slime_agent_endpoint_put(a, get(a, "b", NULL));
	fakectrl_come_back(true);
	assert_connected(a, b, NULL);
	assert_none(w);
	slime_agent_watch_destroy(w);
	end(b);
	end(a);
}

static void watch__of_a_newer_process_says_superseded(void **state)
{
	struct slime_agent_attr attr = attr_of("b");
	struct slime_agent *a = start("a", &to_b, 1), *b, *newer;
	struct slime_agent_watch *w = watch(a);
	char folder[] = "/tmp/slime-watch-XXXXXX", command[64];
	enum slime_peer_end_reason reason;

	(void)state;
	assert_non_null(mkdtemp(folder));
	attr.state_dir = folder;
	b = start_with(&attr);
	assert_ok(slime_agent_wait_ready(b, LONG_MS));
	assert_connected(a, b, NULL);
	newer = start_with(&attr);
	assert_ok(slime_agent_wait_ready(newer, LONG_MS));
	/* The former one says goodbye, or the newer one is seen first. */
	reason = next(w).reason;
	assert_true(reason == SLIME_PEER_SUPERSEDED || reason == SLIME_PEER_LEFT);
	slime_agent_watch_destroy(w);
	end(newer);
	end(b);
	end(a);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_ok(system(command));
}

/* ---- a function ---- */

struct heard {
	sem_t sem;
	struct slime_agent_watch *watch;
	enum slime_peer_end_reason reason;
	pthread_t thread;
};

static void on_end(void *arg, struct slime_agent *agent, const struct slime_peer_end *end_)
{
	struct heard *h = arg;

	(void)agent;
	h->reason = end_->reason;
	h->thread = pthread_self();
	/* It may end itself here. */
	slime_agent_watch_destroy(h->watch);
	sem_post(&h->sem);
}

static void watch__with_a_function_is_called_on_the_loop_and_may_end_there(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct slime_peer_end end_;
	struct heard h;

	(void)state;
	assert_ok(sem_init(&h.sem, 0, 0));
	assert_connected(a, b, NULL);
	assert_ok(slime_agent_watch_create(a, on_end, &h, &h.watch));
	assert_int_equal(slime_agent_watch_fd(h.watch), -ENOTSUP);
	assert_int_equal(slime_agent_watch_next(h.watch, &end_), -ENOTSUP);
	end(b);
	sem_wait(&h.sem);
	assert_int_equal(h.reason, SLIME_PEER_LEFT);
	assert_false(pthread_equal(h.thread, pthread_self()));
	sem_destroy(&h.sem);
	end(a);
}

static void watch__that_nobody_reads_keeps_the_newest_and_counts_the_rest(void **state)
{
	struct slime_agent *a = start("a", &to_b, 1), *b = start("b", NULL, 0);
	struct slime_agent_watch *w = watch(a), *reader = watch(a);
	struct slime_peer_end end_;
	unsigned n = 0;

	(void)state;
	assert_connected(a, b, NULL);
	for (unsigned i = 0; i < 260; i++) {
		fakectrl_expire("b");
		assert_int_equal(next(reader).reason, SLIME_PEER_EXPIRED);
	}
	assert_int_equal(slime_agent_watch_next(w, &end_), 0);
	assert_int_equal(end_.n_lost, 4);
	while (!slime_agent_watch_next(w, &end_))
		n += 1 + end_.n_lost;
	assert_int_equal(n, 255);
	slime_agent_watch_destroy(w);
	slime_agent_watch_destroy(reader);
	end(b);
	end(a);
}

static void peer_end_name__has_a_word_for_each(void **state)
{
	(void)state;
	assert_string_equal(slime_peer_end_name(SLIME_PEER_LEFT), "left");
	assert_string_equal(slime_peer_end_name(SLIME_PEER_EXPIRED), "expired");
	assert_string_equal(slime_peer_end_name(SLIME_PEER_RESET), "reset");
	assert_string_equal(slime_peer_end_name(SLIME_PEER_SUPERSEDED), "superseded");
	assert_string_equal(slime_peer_end_name((enum slime_peer_end_reason)9), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(watch__of_a_peer_that_leaves_says_so_once, reset),
		cmocka_unit_test_setup(watch__of_a_lease_that_ends_says_expired_and_the_link_stays,
				       reset),
		cmocka_unit_test_setup(watch__of_a_newer_process_says_superseded, reset),
		cmocka_unit_test_setup(
			watch__with_a_function_is_called_on_the_loop_and_may_end_there, reset),
		cmocka_unit_test_setup(
			watch__that_nobody_reads_keeps_the_newest_and_counts_the_rest, reset),
		cmocka_unit_test(peer_end_name__has_a_word_for_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
