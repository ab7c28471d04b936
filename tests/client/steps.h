/* SPDX-License-Identifier: Apache-2.0 */
/* What a fake server does with a request, and scripts of that. */
#ifndef TEST_CLIENT_STEPS_H
#define TEST_CLIENT_STEPS_H

#include <stddef.h>

#include "client/fake.h"

/* One step: what it does with the next request. */
typedef void step_fn(struct fake_conn *conn, const char *request);

#define script(...)               \
	(step_fn *const[])        \
	{                         \
		__VA_ARGS__, NULL \
	}

/* 503, and not when to come again. */
step_fn reply_busy;
/* 408: as to a request that did not arrive in time. */
step_fn reply_late;
/* A reset. */
step_fn abort_it;
step_fn say_nothing;

#endif
