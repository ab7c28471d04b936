/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "peeragent/lib/links/links.h"
#include "peeragent/lib/links/peer.h"

void links_tell_end(const struct links *set, const struct peer *peer,
		    enum slime_peer_end_reason reason, uint32_t silent_ms, const char *text)
{
	struct slime_peer_end end = { .reason = reason, .silent_ms = silent_ms };

	snprintf(end.peer, sizeof(end.peer), "%s", peer->name);
	snprintf(end.text, sizeof(end.text), "%.255s", text);
	set->on_peer_end(set->arg, &end);
}
