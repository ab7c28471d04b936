/* SPDX-License-Identifier: Apache-2.0 */
/* A name server that takes questions and says nothing: the only one that this process knows, of
 * whatever /etc/resolv.conf and /etc/hosts say. */
#ifndef TESTS_SUPPORT_NAME_SERVER_H
#define TESTS_SUPPORT_NAME_SERVER_H

#include <stdbool.h>

/* Before the loops that are to ask it. */
void name_server_start(void);
void name_server_stop(void);

/* Whether a question has come; it is taken. */
bool name_server_is_asked(void);

#endif
