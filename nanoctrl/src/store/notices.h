/* SPDX-License-Identifier: Apache-2.0 */
/* The connection on which Redis reports events of scopes, of the first loop. */
#ifndef NANOCTRL_STORE_NOTICES_H
#define NANOCTRL_STORE_NOTICES_H

struct notices;
struct store;

int notices_create(struct store *store, struct notices **out);
void notices_destroy(struct notices *notices);
/* Now and then: subscribe again where Redis refused to. */
void notices_look(struct notices *notices);
/* The store's connection is up: a node that the data have left may have left the cluster, and then
 * hears nothing. */
void notices_keep_up(struct notices *notices);

#endif
