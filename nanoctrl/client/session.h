/* SPDX-License-Identifier: Apache-2.0 */
/* The session of a client: a WebSocket to one of its servers. The user's part is in
 * nanoctrl_client.h. */
#ifndef NC_SESSION_H
#define NC_SESSION_H

struct nc_session;

/* NULL does nothing. */
void nc_session_destroy(struct nc_session *session);

/* Connects again, at once. The last thing that its caller does. */
void nc_session_restart(struct nc_session *session, const char *cause);

#endif
