/* SPDX-License-Identifier: Apache-2.0 */
/* The port of 127.0.0.1 at which the private Redis listens for agents of DLSlime, of a hub. */
#ifndef NANOCTRL_COMPAT_PRIVATE_PORT_H
#define NANOCTRL_COMPAT_PRIVATE_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "store/store.h"

struct private_port {
	_Atomic unsigned open; /* where it listens; 0: nowhere yet */
	bool ours;	       /* Redis is the private one */
	unsigned port;	       /* where it will listen; 0: nowhere */
	_Atomic bool kept;     /* a client may know it: it is in the file, or set by the operator */
	int file_fd;	       /* the file that keeps it, or -1 */
	_Atomic int held_fd;   /* a socket that keeps others from taking it meanwhile, or -1 */
};

void private_port_init(struct private_port *port);
void private_port_fini(struct private_port *port);

/* Before the loops run: Redis is private, so that others reach it only where it listens for them:
 * on this port, or nowhere for 0. */
void private_port_set(struct store_hub *hub, unsigned port);

/* After that: the port is the one in file, else one that is free now; file has it from the first
 * use on. Negative errno. */
int private_port_keep(struct store_hub *hub, const char *file);

/* Have the private Redis listen on the port, which it keeps for ever. fn may come at once: 0,
 * -ENOTSUP when it cannot now (logged), or as in store.h. */
void private_port_open(struct store *store, store_done_fn *fn, void *arg);

#endif
