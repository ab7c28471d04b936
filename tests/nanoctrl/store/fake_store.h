/* SPDX-License-Identifier: Apache-2.0 */
/* A store and its loop over connections without a socket. */
#ifndef TESTS_NANOCTRL_FAKE_STORE_H
#define TESTS_NANOCTRL_FAKE_STORE_H

#include "tests/nanoctrl/store/fake_connection.h"
#include "nanoctrl/net/loop.h"
#include "store/redis_store.h"

struct fake_store {
	struct store_hub *hub;
	struct loop *loop;
	struct store *store;
};

/* Its connections are up when this returns; what it would learn by itself is of no interest. */
void fake_store_open(struct fake_store *s, const struct store_config *config,
		     fake_answer_fn *answer);
void fake_store_close(struct fake_store *s);

/* What is due now, n times. */
void fake_store_turn(const struct fake_store *s, unsigned n);

#endif
