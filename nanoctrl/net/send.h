/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of a socket's bufferevent that is written at once. By itself a bufferevent asks the poller
 * first whether the socket takes anything, which it nearly always does: two changes of what is
 * polled and a turn of the loop for each reply. So EV_WRITE of such a bufferevent is disabled, and
 * enabled by send_now() only while something is left.
 */
#ifndef NANOCTRL_SEND_H
#define NANOCTRL_SEND_H

#include <stdbool.h>

struct bufferevent;

/* From now on what is added to the output waits for send_now(). */
void send_begin(struct bufferevent *bev);

/*
 * Write what the socket takes. True when nothing is left; else the bufferevent goes on by itself,
 * with its time-out, and its write callback, which calls send_begin() again, comes at the end. An
 * error shows as the bufferevent's own, later.
 */
bool send_now(struct bufferevent *bev);

#endif
