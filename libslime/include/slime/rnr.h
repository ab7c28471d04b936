/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of RDMA ports that tell of trouble which no completion shows: a receiver that was not
 * ready, packets sent again, congestion. Devices repair most of it by themselves, and then it is
 * only slow; these counters say that, and why.
 *
 * A monitor is used by one thread at a time. It reads sysfs, where no permission is needed; a
 * device may take a command for it, so that it belongs on no hot path.
 */
#ifndef SLIME_RNR_H
#define SLIME_RNR_H

#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

enum slime_rnr_kind {
	SLIME_RNR_NOT_READY,  /* a receiver had no buffer posted */
	SLIME_RNR_RETRANSMIT, /* packets were lost, or came late or in another order */
	SLIME_RNR_CONGESTION, /* the fabric told senders to slow down, or dropped */
	SLIME_RNR_ERROR,      /* what ends queue pairs */
	SLIME_RNR_LINK,	      /* the link itself */
	SLIME_RNR_KINDS,
};

/* "not ready", "retransmit", "congestion", "error", "link". */
SLIME_API const char *slime_rnr_kind_name(enum slime_rnr_kind kind);

struct slime_rnr_counter {
	const char *device;
	uint32_t port;
	const char *name;    /* as the driver calls it */
	const char *meaning; /* in a few words */
	enum slime_rnr_kind kind;
	uint64_t value; /* as the device counts it */
	uint64_t added; /* between the last two samples */
	uint64_t total; /* since the first sample */
};

struct slime_rnr_monitor;

/*
 * Create a monitor and take its first sample. sysfs_root NULL means "/sys"; another one serves
 * tests. A host without devices has no counters, and that is no error.
 *   -ENOMEM   -EIO  sysfs cannot be read
 */
SLIME_API SLIME_CHECKED int slime_rnr_monitor_create(const char *sysfs_root,
						     struct slime_rnr_monitor **out);
SLIME_API void slime_rnr_monitor_destroy(struct slime_rnr_monitor *monitor);

/*
 * Read all counters again. A new counter starts from its present value, with total 0; a counter
 * that has gone is not listed any more. A counter that went back, because its driver was loaded
 * again, has added its present value. After an error the last sample stays valid.
 *   -ENOMEM   -EIO
 */
SLIME_API SLIME_CHECKED int slime_rnr_monitor_sample(struct slime_rnr_monitor *monitor);

/*
 * The counters of the last sample, those that the devices have, by device, port and kind. They are
 * the monitor's, until the next sample.
 */
SLIME_API const struct slime_rnr_counter *const *
slime_rnr_monitor_counters(const struct slime_rnr_monitor *monitor, size_t *n);

SLIME_END_DECLS

#endif
