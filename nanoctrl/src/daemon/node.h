/* SPDX-License-Identifier: Apache-2.0 */
/* The name of this host for other hosts. */
#ifndef NANOCTRL_NODE_H
#define NANOCTRL_NODE_H

#include <stdbool.h>
#include <netinet/in.h>

/* The first IPv4 address that is not loopback's, else 127.0.0.1. */
void node_address(char out[INET_ADDRSTRLEN]);

/* Whether a numeric address is one of this host, loopback included. */
bool node_has_address(const char *address);

#endif
