/* SPDX-License-Identifier: Apache-2.0 */
/* Others that write to Redis themselves, and what comes of it in the end. */
#ifndef TESTS_NANOCTRL_FOREIGN_FIXTURE_H
#define TESTS_NANOCTRL_FOREIGN_FIXTURE_H

#include "tests/nanoctrl/api/fixture.h"

#include <base/clock.h>

#define GIVE_UP_NS (60 * SL_NS_PER_S)

/* As those of api_fixture.h, once Redis tells what others write. */
int foreign_setup(void **state);
int foreign_setup_as_a_program(void **state);

void write_agent(struct api_fixture *f, const char *key);
void write_entity(struct api_fixture *f, const char *key, const char *type, const char *id);
/* Every connection to Redis is made anew. */
void reconnect(struct api_fixture *f);

/* Whether this is in the last answer, as compact JSON with its members in order. */
bool says(const struct api_fixture *f, const char *text);
/* Whether the text that a command answers with, or the i-th of several, has these words. */
bool redis_says(struct api_fixture *f, const char *command, size_t i, const char *words);

/* Ask until it is so; they fail the test after a minute. */
void until_post(struct api_fixture *f, const char *path, const char *body, const char *text);
void until_redis(struct api_fixture *f, long long n, const char *command);
void until_redis_says(struct api_fixture *f, const char *command, size_t i, const char *words);
void until_true(struct api_fixture *f, const char *script);

#endif
