/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a request: which owner each item has, the parts of a round, and what came of them.
 */
#ifndef PAGES_ROUND_H
#define PAGES_ROUND_H

#include "pages/src/request.h"

/* Begin the round of what is not done. true: it has ended already. */
bool round_launch(struct slime_pages_request *req);

/* Of parts: one less is under way. The last one ends the round. */
void round_part_ended(struct slime_pages_request *req);

/* To other threads than that of their callbacks, calls and ops are pending until these returned. */
bool round_have_callbacks_returned(const struct slime_pages_request *req);

/* The parts of a round have arrived, so that this waits for no peer. */
int round_wait_for_callbacks(struct slime_pages_request *req);

/* The parts of a round have arrived, and their callbacks returned: judge, begin the next round, or
 * end the request. */
void round_advance(struct slime_pages_request *req);

/* Whether the request's callback runs on this thread, and has not begun or destroyed it. */
bool round_is_in_callback(const struct slime_pages_request *req);
/* The callback begins or destroys it. */
void round_leave_callback(struct slime_pages_request *req);

#endif
