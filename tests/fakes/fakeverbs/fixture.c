/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakeverbs/fixture.h"

int fixture_begin(void **state)
{
	(void)state;
	fakeverbs_reset();
	return 0;
}

int fixture_end(void **state)
{
	(void)state;
	return fakeverbs_check() ? -1 : 0;
}

int fixture_open_pair(void **state)
{
	fixture_begin(state);
	*state = pair_open(NULL);
	return 0;
}

int fixture_close_pair(void **state)
{
	pair_close(*state);
	return fixture_end(state);
}

int fixture_open_still_pair(void **state)
{
	fixture_open_pair(state);
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(10 * US, 10 * US, 1);
	return 0;
}
