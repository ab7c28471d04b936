/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/links_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "text/json_text.h"

void links_json_text(const char *before, const char *name, const char *text)
{
	char word[6 * LINKS_STORY];

	json_text(word, sizeof(word), text);
	printf("%s\"%s\":%s", before, name, word);
}

void links_json_members(const struct links_end *e)
{
	links_json_text("", "agent", e->agent);
	links_json_text(",", "peer", e->peer);
	links_json_text(",", "profile", e->profile);
	links_json_text(",", "state", e->state);
	links_json_text(",", "transport", e->transport);
	printf(",\"age_ms\":%" PRIu64, e->age_ms);
	links_json_text(",", "cause", e->cause);
	links_json_text(",", "src_peer", e->agent);
	links_json_text(",", "local_nic", e->local);
	links_json_text(",", "remote_nic", e->remote);
	printf(",\"connected\":%s", links_end_is_connected(e) ? "true" : "false");
	if (e->conn_id.at)
		printf(",\"conn_id\":%.*s", (int)e->conn_id.len, e->conn_id.at);
	if (e->counted)
		printf(",\"completed_bytes_total\":%" PRIu64 ",\"pending_ops\":%" PRIu64
		       ",\"error_total\":%" PRIu64 ",\"ewma_bandwidth_bps\":%.1f,\"bw_gb_s\":%.9g",
		       e->bytes, e->pending, e->errors, e->bps, e->bps / OBS_BITS_PER_GB);
	if (e->rails.at)
		printf(",\"rails\":%.*s", (int)e->rails.len, e->rails.at);
}
