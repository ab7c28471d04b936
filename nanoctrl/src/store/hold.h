/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times in which no lease may end, since agents could not send heartbeats, or perhaps could
 * not. All replicas' loops share them through the hub. Any thread.
 */
#ifndef NANOCTRL_STORE_HOLD_H
#define NANOCTRL_STORE_HOLD_H

#include <stdint.h>

struct store_hub;

/* Agents could not send heartbeats until now. why is for the log. */
void hold_begin(struct store_hub *hub, const char *why);

/* Redis refused a call that may be a heartbeat, or could not be asked. */
void hold_refused(struct store_hub *hub);

/* The time, of sl_clock_ns(), at which ms have passed since the last of both; 0: there was none. */
uint64_t hold_end_ns(struct store_hub *hub, uint32_t ms);

/* Until then no lease ends: hold_end_ns() with the TTL of leases. */
uint64_t hold_lease_end_ns(struct store_hub *hub);

#endif
