/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of the store that a test runs itself, over a real Redis. */
#ifndef TESTS_NANOCTRL_SCRIPT_FIXTURE_H
#define TESTS_NANOCTRL_SCRIPT_FIXTURE_H

#include <hiredis/hiredis.h>
#include <tests/support/redis.h>
#include "store/script.h"

struct script_fixture {
	struct test_redis redis;
	redisContext *c;
};

int script_setup(void **state);
int script_teardown(void **state);

/* Run a script with these arguments behind the number of events, "|" between them; it answers
 * STORE_OK. The caller frees the answer. */
redisReply *script_run(struct script_fixture *f, const struct script *script, const char *prefix,
		       const char *args);

/* The same; what the answer has behind how much was skipped: a text, or the digits of a number. */
const char *script_run_for(struct script_fixture *f, const struct script *script,
			   const char *prefix, const char *args);

#endif
