/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/links_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/out.h"
#include "text/json_text.h"

void links_json_text(struct out *o, const char *before, const char *name, const char *text)
{
	char word[6 * LINKS_CAUSE];

	json_text(word, sizeof(word), text);
	out_words(o, before);
	out_words(o, "\"");
	out_words(o, name);
	out_words(o, "\":");
	out_words(o, word);
}

void links_json_number(struct out *o, const char *name, uint64_t n)
{
	char word[64];

	snprintf(word, sizeof(word), ",\"%s\":%" PRIu64, name, n);
	out_words(o, word);
}

static void add_counts(struct out *o, const struct links_end *e)
{
	char word[128];

	links_json_number(o, "completed_bytes_total", e->bytes);
	links_json_number(o, "pending_ops", e->pending);
	links_json_number(o, "error_total", e->errors);
	snprintf(word, sizeof(word), ",\"ewma_bandwidth_bps\":%.1f,\"bw_gb_s\":%.9g", e->bps,
		 e->bps / OBS_BITS_PER_GB);
	out_words(o, word);
}

static void add_slice(struct out *o, const char *before, struct json_slice s)
{
	if (!s.at)
		return;
	out_words(o, before);
	out_bytes(o, s.at, s.len);
}

void links_json_members(struct out *o, const struct links_end *e)
{
	links_json_text(o, "", "agent", e->agent);
	links_json_text(o, ",", "peer", e->peer);
	links_json_text(o, ",", "profile", e->profile);
	links_json_text(o, ",", "state", e->state);
	links_json_text(o, ",", "transport", e->transport);
	links_json_number(o, "age_ms", e->age_ms);
	links_json_text(o, ",", "cause", e->cause);
	links_json_text(o, ",", "source", e->source);
	links_json_text(o, ",", "topology", e->topology);
	links_json_number(o, "topology_revision", e->topology_revision);
	links_json_text(o, ",", "src_peer", e->agent);
	links_json_text(o, ",", "local_nic", e->local);
	links_json_text(o, ",", "remote_nic", e->remote);
	out_words(o, links_end_is_connected(e) ? ",\"connected\":true" : ",\"connected\":false");
	add_slice(o, ",\"conn_id\":", e->conn_id);
	if (e->counted)
		add_counts(o, e);
	add_slice(o, ",\"rails\":", e->rails);
}

int links_json_print(struct out *o)
{
	char *text = out_finish(o);
	int ret = text ? 0 : -ENOMEM;

	if (text && fputs(text, stdout) < 0)
		ret = -EIO;
	free(text);
	return ret;
}
