/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer sends of itself over rdma: the candidate in its descriptor, and frames. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/desc.h"
#include "src/transport/rdma/wire.h"
#include <slime/topo.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Names go into log lines. */
static void check_name(const char name[RDMA_NAME_LEN])
{
	for (size_t i = 0; i < RDMA_NAME_LEN && name[i]; i++)
		must(name[i] > ' ' && name[i] <= '~');
}

/* What was accepted is within its bounds, and reads the same again. */
static void read_candidate(const uint8_t *data, size_t len)
{
	uint8_t bytes[SL_CANDIDATE_MAX];
	struct sl_writer w = { .at = bytes, .room = sizeof(bytes) };
	struct rdma_candidate c, again;

	if (rdma_candidate_read(&c, data, len))
		return;
	must(c.n_rails && c.n_rails <= RDMA_RAILS_MAX && c.n_qps && c.n_qps <= RDMA_QPS_MAX);
	for (unsigned i = 0; i < c.n_rails; i++)
		check_name(c.rails[i].device);
	rdma_candidate_write(&c, &w);
	must(!w.failed && sizeof(bytes) - w.room == len);
	must(rdma_candidate_read(&again, bytes, len) == 0);
	must(!memcmp(&again, &c, sizeof(c)));
}

/* A port and a queue pair of a rail: refused, or within its bounds, and the same again. */
static void read_rail(const struct sl_msg *m)
{
	const struct rdma_rail_address before = { .link_layer = SLIME_LINK_ETHERNET };
	struct rdma_rail_address a = before, again = before;
	struct sl_msg said = { .kind = RDMA_RAIL };

	if (rdma_rail_read(&a, 2, m)) {
		must(!memcmp(&a, &before, sizeof(a)));
		return;
	}
	must(m->flags < 2 && a.port && a.mtu >= 1 && a.mtu <= 5);
	rdma_rail_write(&a, m->flags, &said);
	must(!rdma_rail_read(&again, 2, &said) && !memcmp(&a, &again, sizeof(a)));
}

static void read_frame(const uint8_t *data, size_t len)
{
	uint8_t again[RDMA_FRAME_LEN];
	struct sl_msg m;

	if (len < RDMA_FRAME_LEN)
		return;
	rdma_frame_read(&m, data);
	rdma_frame_write(&m, again);
	must(!memcmp(again, data, sizeof(again)));
	read_rail(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	read_candidate(data, len);
	read_frame(data, len);
	return 0;
}
