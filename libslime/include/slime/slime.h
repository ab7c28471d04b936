/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libslime: memory moved between processes and machines, and calls between them.
 *
 *	context   progress, its thread, the transports            slime/context.h
 *	mr        memory that peers may reach; remote memory      slime/mr.h
 *	op        the future of one operation                     slime/op.h
 *	endpoint  the local end of a link to one peer             slime/endpoint.h
 *	listener  endpoints for peers that dial it                slime/listener.h
 *	xfer      read, write, write_imm over a link              slime/xfer.h
 *	msg       send and receive with tags                      slime/msg.h
 *	rpc       calls by method name                            slime/rpc.h
 *	topo      what the host has: NUMA nodes, RDMA devices     slime/topo.h
 *	rnr       counters of trouble that RDMA ports keep        slime/rnr.h
 *
 * Functions return 0 or a negative errno unless they say otherwise. Every function may be called by
 * any thread unless it says otherwise; one that is inside of a call must not be cancelled
 * (pthread_cancel()). After fork() the child has no use of what it inherited: every call answers
 * -EPERM, and destroy functions only free memory.
 */
#ifndef SLIME_SLIME_H
#define SLIME_SLIME_H

#include <slime/context.h>
#include <slime/endpoint.h>
#include <slime/export.h>
#include <slime/listener.h>
#include <slime/log.h>
#include <slime/mr.h>
#include <slime/msg.h>
#include <slime/op.h>
#include <slime/rnr.h>
#include <slime/rpc.h>
#include <slime/stats.h>
#include <slime/topo.h>
#include <slime/version.h>
#include <slime/xfer.h>

#endif
