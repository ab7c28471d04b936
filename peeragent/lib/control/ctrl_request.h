/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the agent that wait for their answers, and its goodbye behind them. */
#ifndef AGENT_CTRL_REQUEST_H
#define AGENT_CTRL_REQUEST_H

#include <event2/util.h>

struct ctrl;

/* Timer: send the goodbye, although requests before it have no answer yet. */
void ctrl_on_patience(evutil_socket_t fd, short what, void *arg);

/* Forget the requests that are under way; nothing is called back. */
void ctrl_drop_requests(struct ctrl *ctrl);

#endif
