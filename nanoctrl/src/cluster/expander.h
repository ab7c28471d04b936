/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes links of topologies: on the first loop of every replica it follows the scopes that have
 * topologies, and expands them when one is applied or an agent comes, changes or goes, and every
 * 5 s. Of several replicas that do so at once one is faster; the others look again.
 */
#ifndef NANOCTRL_EXPANDER_H
#define NANOCTRL_EXPANDER_H

struct expander;
struct loop;
struct store;

/* Before the loop runs. -ENOMEM. */
int expander_create(struct store *store, struct loop *loop, struct expander **out);

/* Before the store is destroyed, which ends the rest of it. */
void expander_destroy(struct expander *e);

#endif
