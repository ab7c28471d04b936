/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the fake begin and end with; afterwards nothing is left and nothing was wrong.
 */
#ifndef TEST_FAKEVERBS_FIXTURE_H
#define TEST_FAKEVERBS_FIXTURE_H

#include "tests/fakes/fakeverbs.h"
#include "tests/fakes/fakeverbs/pair.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

int fixture_begin(void **state);
int fixture_end(void **state);

/* *state is a pair. */
int fixture_open_pair(void **state);
int fixture_close_pair(void **state);

/* The same while time stands still and requests take 10 us each way. */
int fixture_open_still_pair(void **state);

#define ALONE(fn)   cmocka_unit_test_setup_teardown(fn, fixture_begin, fixture_end)
#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, fixture_open_pair, fixture_close_pair)
#define IN_STILL_PAIR(fn) \
	cmocka_unit_test_setup_teardown(fn, fixture_open_still_pair, fixture_close_pair)

#endif
