/* SPDX-License-Identifier: Apache-2.0 */
/* libevent's own messages, as of a name server that does not answer, are lines of our log. */
#ifndef NC_EVENT_LOG_H
#define NC_EVENT_LOG_H

/* For the whole process, from the first call on: libevent has one place for them. Any thread. */
void nc_event_log_take(void);

#endif
