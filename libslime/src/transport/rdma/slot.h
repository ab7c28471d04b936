/* SPDX-License-Identifier: Apache-2.0 */
/* Where the slots of a direction lie: each behind the frame of its message. */
#ifndef SL_RDMA_SLOT_H
#define SL_RDMA_SLOT_H

#include <stdint.h>

#include "src/transport/rdma/wire.h"
#include "src/transport/transport.h"

#define RDMA_N_SLOTS   (SL_SEND_SLOTS + 2 * SL_CALL_SLOTS)
#define RDMA_SLOTS_LEN (SL_SLOTS_LEN + RDMA_N_SLOTS * RDMA_FRAME_PITCH)

#define RDMA_SMALL_PITCH (SL_SLOT_SMALL + RDMA_FRAME_PITCH)
#define RDMA_LARGE_PITCH (SL_SLOT_LARGE + RDMA_FRAME_PITCH)
#define RDMA_SEND_AREA	 (SL_SEND_SLOTS * RDMA_SMALL_PITCH)
#define RDMA_CALL_AREA                            \
	(SL_CALL_SLOTS_SMALL * RDMA_SMALL_PITCH + \
	 (SL_CALL_SLOTS - SL_CALL_SLOTS_SMALL) * RDMA_LARGE_PITCH)

_Static_assert(RDMA_SEND_AREA + 2 * RDMA_CALL_AREA == RDMA_SLOTS_LEN,
	       "areas are all slots and their frames");
_Static_assert(SL_SEND_SLOTS <= SL_CALL_SLOTS_SMALL, "slots of sends are small");

/* Where a slot's frame lies among the slots of a direction; its payload follows at the pitch. */
static inline uint32_t rdma_slot_offset(enum sl_area area, unsigned slot)
{
	static const uint32_t begins[SL_AREAS] = {
		[SL_AREA_REQUEST] = RDMA_SEND_AREA,
		[SL_AREA_REPLY] = RDMA_SEND_AREA + RDMA_CALL_AREA,
	};

	if (slot < SL_CALL_SLOTS_SMALL)
		return begins[area] + slot * RDMA_SMALL_PITCH;
	return begins[area] + SL_CALL_SLOTS_SMALL * RDMA_SMALL_PITCH +
	       (slot - SL_CALL_SLOTS_SMALL) * RDMA_LARGE_PITCH;
}

#endif
