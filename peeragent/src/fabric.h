/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error counters of the RDMA ports of this host, for Prometheus. Devices may be slow, so a
 * thread reads them at intervals, and the loop shows the last values.
 */
#ifndef PEERAGENT_FABRIC_H
#define PEERAGENT_FABRIC_H

#include <stdint.h>

#define FABRIC_INTERVAL_MS 10000

struct evbuffer;
struct fabric;

/*
 * Ask once, and then every interval_ms. sysfs_root NULL means "/sys"; another one serves tests. 0
 * on a host without devices, too; -ENOMEM, -EIO, -EAGAIN.
 */
int fabric_create(const char *sysfs_root, uint32_t interval_ms, struct fabric **out);
void fabric_destroy(struct fabric *fabric);

/* Add the metrics; nothing without devices. From any thread. */
void fabric_print(struct fabric *fabric, struct evbuffer *out);

#endif
