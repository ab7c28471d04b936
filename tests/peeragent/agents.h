/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of one process, with real shared-memory links, beside a control plane in memory: what
 * their tests have in common. What does not go as it should fails the test. */
#ifndef TEST_PEERAGENT_AGENTS_H
#define TEST_PEERAGENT_AGENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fakes/fakectrl.h"
#include <slime/agent.h>

/* Far more than anything here takes. */
#define LONG_MS 60000

#define assert_ok(expr) assert_int_equal((expr), 0)

extern const struct slime_agent_link to_a, to_b;
extern const struct slime_agent_region kv;

struct slime_agent_attr attr_of(const char *name);

/* Started, perhaps not ready yet; or started with these links and ready. */
struct slime_agent *start_with(const struct slime_agent_attr *attr);
struct slime_agent *start(const char *name, const struct slime_agent_link *links, size_t n);
void end(struct slime_agent *agent);

/* The endpoint of a link that comes up. */
struct slime_endpoint *get(struct slime_agent *agent, const char *peer, const char *profile);
/* Both have their endpoint, and both have said so to nanoctrl. */
void assert_connected(struct slime_agent *a, struct slime_agent *b, const char *profile);
/* How often the agent's only link was made. */
uint32_t n_connects(struct slime_agent *agent);

/* The setup of each test: nobody is registered. */
int reset(void **state);

#endif
