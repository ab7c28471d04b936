/* SPDX-License-Identifier: Apache-2.0 */
/* Whether whoever has our name lives: by numbers alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "peeragent/lib/control/holder.h"

#define TTL_MS	 15000
#define AT_MS	 1795236700000
#define NOW_NS	 (1000 * SL_NS_PER_S)
#define LEFT_MS	 9000
#define MARGIN_S 5

/* What the server says of a lease that ends at due_ms after AT_MS, when it looks at ms after it. */
static struct nc_holder seen(int64_t due_ms, int64_t ms)
{
	int64_t left_ms = due_ms - ms;

	return (struct nc_holder){ .incarnation = "i1",
				   .address = "10.0.0.1",
				   .registered_at_ms = AT_MS - 60000,
				   .at_ms = AT_MS + (uint64_t)ms,
				   .lease_left_ms = left_ms,
				   .ttl_ms = TTL_MS,
				   .wait_ms = left_ms > 0 ? (uint32_t)left_ms : 0 };
}

static enum holder_verdict look(struct holder *h, struct nc_holder what, int64_t ms)
{
	return holder_look(h, &what, NOW_NS + (uint64_t)ms * SL_NS_PER_MS);
}

static int setup(void **state)
{
	static struct holder h;

	h = (struct holder){ .waiting = false };
	*state = &h;
	return 0;
}

static void look__at_a_lease_that_is_not_renewed_waits_for_its_end(void **state)
{
	struct holder *h = *state;

	assert_int_equal(look(h, seen(LEFT_MS, 0), 0), HOLDER_SEEN);
	assert_int_equal(h->until_ns, NOW_NS + LEFT_MS * SL_NS_PER_MS + MARGIN_S * SL_NS_PER_S);
	assert_int_equal(look(h, seen(LEFT_MS, 1000), 1000), HOLDER_WAIT);
	assert_int_equal(look(h, seen(LEFT_MS, 13999), 13999), HOLDER_WAIT);
	assert_int_equal(look(h, seen(LEFT_MS, 14001), 14001), HOLDER_STAYS);
}

static void look__at_a_lease_that_was_renewed_since_finds_life(void **state)
{
	struct holder *h = *state;

	assert_int_equal(look(h, seen(LEFT_MS, 0), 0), HOLDER_SEEN);
	/* A beat that was under way when its sender died. */
	assert_int_equal(look(h, seen(TTL_MS + 900, 1500), 1500), HOLDER_WAIT);
	assert_int_equal(look(h, seen(TTL_MS + 1100, 1500), 1500), HOLDER_LIVES);
}

static void look__at_a_lease_cut_short_is_no_sign_of_life(void **state)
{
	struct holder *h = *state;

	assert_int_equal(look(h, seen(TTL_MS, 0), 0), HOLDER_SEEN);
	assert_int_equal(look(h, seen(2000, 1500), 1500), HOLDER_WAIT);
}

static void look__while_the_server_ends_no_lease_waits_on(void **state)
{
	struct holder *h = *state;
	struct nc_holder held = seen(LEFT_MS, 8000);

	assert_int_equal(look(h, seen(LEFT_MS, 0), 0), HOLDER_SEEN);
	held.wait_ms = 12000;
	assert_int_equal(look(h, held, 8000), HOLDER_WAIT);
	assert_int_equal(look(h, seen(LEFT_MS, 20000), 20000), HOLDER_WAIT);
	assert_int_equal(look(h, seen(LEFT_MS, 25001), 25001), HOLDER_STAYS);
}

static void look__after_something_else_begins_anew(void **state)
{
	struct holder *h = *state;

	assert_int_equal(look(h, seen(LEFT_MS, 0), 0), HOLDER_SEEN);
	holder_forget(h);
	assert_int_equal(look(h, seen(60000, 50000), 50000), HOLDER_SEEN);
}

static void look__without_a_word_about_the_holder_does_not_wait(void **state)
{
	assert_int_equal(look(*state, (struct nc_holder){ .at_ms = 0 }, 0), HOLDER_LIVES);
}

static void describe__says_who_and_since_when(void **state)
{
	struct nc_holder h = seen(0, 0);
	char text[256];

	(void)state;
	holder_describe(&h, text, sizeof(text));
	assert_string_equal(text,
			    "incarnation i1 at 10.0.0.1 has it since 2026-11-21 04:50:40 UTC");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(look__at_a_lease_that_is_not_renewed_waits_for_its_end,
				       setup),
		cmocka_unit_test_setup(look__at_a_lease_that_was_renewed_since_finds_life, setup),
		cmocka_unit_test_setup(look__at_a_lease_cut_short_is_no_sign_of_life, setup),
		cmocka_unit_test_setup(look__while_the_server_ends_no_lease_waits_on, setup),
		cmocka_unit_test_setup(look__after_something_else_begins_anew, setup),
		cmocka_unit_test_setup(look__without_a_word_about_the_holder_does_not_wait, setup),
		cmocka_unit_test(describe__says_who_and_since_when),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
