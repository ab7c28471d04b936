/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the routes of DLSlime's NanoCtrl begin with and look at. */
#ifndef TESTS_NANOCTRL_COMPAT_FIXTURE_H
#define TESTS_NANOCTRL_COMPAT_FIXTURE_H

#include "tests/nanoctrl/api/fixture.h"

/* The last answer, as compact JSON with its members in order. */
void assert_answer(const struct api_fixture *f, const char *json);
/* What a key is: with the command GET a string, with LIST the first of a list, else this field of a
 * hash. */
void assert_value(struct api_fixture *f, const char *command, const char *key, const char *value);

/* Agents a and a:b with a region each; a is to connect to p, and q to a. */
void set_up_pair(struct api_fixture *f);

#endif
