/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket of a shm connection, from the first packet after the greeting on: the first byte
 * says whether the peer is the initiator (1) and whether foreign memory is allowed
 * (2), what follows are packets with descriptors, as
 * fuzz_shm_peer.h has them.
 */
#include <string.h>

#include "tests/libslime/transport/shm/fuzz_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_peer *p;
	size_t n;

	if (!size)
		return 0;
	p = fuzz_peer_begin(data[0] & 1, data[0] & 2);
	data++;
	size--;
	while ((n = fuzz_peer_say(p, data, size))) {
		data += n;
		size -= n;
	}
	fuzz_peer_end(p);
	/* It was not told where the memory is to be used. */
	for (size_t i = 0; i < FUZZ_PEER_LEN; i++)
		fuzz_must(p->bytes[i] == 0x5a);
	return 0;
}
