/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/store/fake_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>

void fake_store_turn(const struct fake_store *s, unsigned n)
{
	while (n--)
		event_base_loop(loop_base(s->loop), EVLOOP_NONBLOCK);
}

void fake_store_open(struct fake_store *s, const struct store_config *config,
		     fake_answer_fn *answer)
{
	fake_connections_begin(answer);
	assert_int_equal(store_hub_create(config, &s->hub), 0);
	assert_int_equal(loop_create(&s->loop), 0);
	assert_int_equal(store_create(s->hub, s->loop, &s->store), 0);
	fake_store_turn(s, 2);
}

void fake_store_close(struct fake_store *s)
{
	store_destroy(s->store);
	loop_destroy(s->loop);
	store_hub_destroy(s->hub);
}
