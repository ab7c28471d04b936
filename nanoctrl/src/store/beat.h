/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats of one turn of the loop, which go out together. */
#ifndef NANOCTRL_STORE_BEAT_H
#define NANOCTRL_STORE_BEAT_H

struct store;

/* Send them; or end them, as no connection is left. */
void store_flush_beats(struct store *store);
void store_fail_beats(struct store *store);

#endif
