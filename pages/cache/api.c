/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors are {"error": TEXT} with 400 or 404 where DLSlimeCache's are, and 400 where its own server
 * breaks the connection. As there, Content-Type does not matter.
 */
#include "cache/api.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>

#include "api/server.h"
#include "cache/directory.h"
#include "cache/order.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/route.h"
#include "text/json_text.h"

static struct directory *directory_of(const struct request *rq)
{
	return request_store(rq)->directory;
}

/* ---- answers ---- */

static void refuse(struct request *rq, int status, const char *text)
{
	char quoted[2 * ORDER_WHY_MAX], json[2 * ORDER_WHY_MAX + 16];
	int n;

	json_text(quoted, sizeof(quoted), text);
	n = snprintf(json, sizeof(json), "{\"error\":%s}", quoted);
	reply_json(rq, status, json, (size_t)n);
}

/* The buffer's text, and the end of the buffer. */
static void reply_buffer(struct request *rq, struct evbuffer *out)
{
	const char *text = out ? (const char *)evbuffer_pullup(out, -1) : NULL;

	if (text)
		reply_json(rq, 200, text, evbuffer_get_length(out));
	else
		refuse(rq, 503, "no memory for the answer");
	if (out)
		evbuffer_free(out);
}

static void reply_manifest(struct request *rq, const struct directory_manifest *m)
{
	char peer[6 * DIRECTORY_PEER_MAX + 3];
	struct evbuffer *out = evbuffer_new();

	if (!out) {
		refuse(rq, 503, "no memory for the answer");
		return;
	}
	json_text(peer, sizeof(peer), m->peer);
	evbuffer_add_printf(out,
			    "{\"peer_agent_id\":%s,\"version\":%" PRIu64 ",\"total_bytes\":%" PRIu64
			    ",\"slab_ids\":[",
			    peer, m->version, m->total_bytes);
	for (size_t i = 0; m->slabs && i < m->n_pieces; i++)
		evbuffer_add_printf(out, "%s%" PRIu32, i ? "," : "", m->slabs[i]);
	evbuffer_add_printf(out, "],\"assignments\":[");
	for (size_t i = 0; i < m->n_pieces; i++) {
		const struct directory_piece *p = &m->pieces[i];

		evbuffer_add_printf(out,
				    "%s{\"mr_key\":%" PRIu64 ",\"remote_mr_key\":%" PRIu64
				    ",\"target_offset\":%" PRIu64 ",\"source_offset\":%" PRIu64
				    ",\"length\":%" PRIu64 "}",
				    i ? "," : "", p->mr_key, p->remote_mr_key, p->target_offset,
				    p->source_offset, p->length);
	}
	evbuffer_add_printf(out, "]}");
	reply_buffer(rq, out);
}

/* ---- handlers ---- */

/* False: replied. */
static bool read_order(struct request *rq, enum order_kind kind, struct order *out)
{
	char why[ORDER_WHY_MAX];
	size_t len;
	const char *text = request_body(rq, &len);
	int ret = order_read(text, len, kind, out, why);

	if (ret)
		refuse(rq, ret == -ENOMEM ? 503 : 400,
		       ret == -ENOMEM ? "no memory for the request" : why);
	return !ret;
}

static void refuse_store(struct request *rq, int ret)
{
	if (ret == -EINVAL)
		refuse(rq, 400, "peer_agent_id must not be empty");
	else if (ret == -E2BIG)
		refuse(rq, 400, "assignments: more than 65536 slabs in one manifest");
	else if (ret == -ENOSPC)
		refuse(rq, 400, "not enough preallocated cache slabs");
	else
		refuse(rq, 503, strerror(-ret));
}

static void store(struct request *rq)
{
	const struct directory_manifest *m;
	struct order o;
	int ret;

	if (!read_order(rq, ORDER_STORE, &o))
		return;
	ret = directory_store(directory_of(rq), o.peer, o.list, o.n, &m);
	if (ret)
		refuse_store(rq, ret);
	else
		reply_manifest(rq, m);
	order_fini(&o);
}

static void query(struct request *rq)
{
	const struct directory_manifest *m;
	struct order o;

	if (!read_order(rq, ORDER_ONE, &o))
		return;
	m = directory_query(directory_of(rq), o.peer, o.version);
	if (m)
		reply_manifest(rq, m);
	else
		refuse(rq, 404, "assignment manifest not found");
	order_fini(&o);
}

static void delete (struct request *rq)
{
	static const char *const answers[] = { "{\"deleted\":false}", "{\"deleted\":true}" };
	struct order o;
	const char *answer;

	if (!read_order(rq, ORDER_ONE, &o))
		return;
	answer = answers[directory_delete(directory_of(rq), o.peer, o.version)];
	reply_json(rq, 200, answer, strlen(answer));
	order_fini(&o);
}

static void stats(struct request *rq)
{
	struct directory_stats s;
	char json[512];
	int n;

	directory_stats(directory_of(rq), &s);
	n = snprintf(json, sizeof(json),
		     "{\"slab_size\":%" PRIu64 ",\"memory_size\":%" PRIu64 ",\"num_slabs\":%" PRIu64
		     ",\"used_slabs\":%" PRIu64 ",\"free_slabs\":%" PRIu64
		     ",\"num_assignment_peers\":%" PRIu64 ",\"num_assignment_entries\":%" PRIu64
		     ",\"num_assignments\":%" PRIu64 ",\"assignment_bytes\":%" PRIu64 "}",
		     s.slab_size, s.memory_size, s.n_slabs, s.used, s.free, s.n_peers, s.n_entries,
		     s.n_pieces, s.bytes);
	reply_json(rq, 200, json, (size_t)n);
}

static void metrics(struct request *rq)
{
	struct directory_stats s;
	char text[2048];
	int n;

	directory_stats(directory_of(rq), &s);
	n = snprintf(text, sizeof(text),
		     "# HELP slime_cache_slabs Slabs of the logical memory.\n"
		     "# TYPE slime_cache_slabs gauge\n"
		     "slime_cache_slabs %" PRIu64 "\n"
		     "# HELP slime_cache_used_slabs Slabs that manifests have; without memory, "
		     "pieces.\n"
		     "# TYPE slime_cache_used_slabs gauge\n"
		     "slime_cache_used_slabs %" PRIu64 "\n"
		     "# HELP slime_cache_manifests Manifests that are stored.\n"
		     "# TYPE slime_cache_manifests gauge\n"
		     "slime_cache_manifests %" PRIu64 "\n"
		     "# HELP slime_cache_peers Agents that have manifests.\n"
		     "# TYPE slime_cache_peers gauge\n"
		     "slime_cache_peers %" PRIu64 "\n"
		     "# HELP slime_cache_assigned_bytes Bytes that manifests speak of.\n"
		     "# TYPE slime_cache_assigned_bytes gauge\n"
		     "slime_cache_assigned_bytes %" PRIu64 "\n",
		     s.n_slabs, s.used, s.n_entries, s.n_peers, s.bytes);
	reply_text(rq, 200, text, (size_t)n);
}

/* Pages of ours are for agents of ours; no agent of DLSlime's can read them. */
static void peer_agent(struct request *rq)
{
	refuse(rq, 503, "slime-cache keeps the directory only: it has no PeerAgent and no memory");
}

/* "ok" is DLSlimeCache's, the rest is what commands recognise their own server by. */
static void health(struct request *rq)
{
	char json[256];
	int n = snprintf(json, sizeof(json),
			 "{\"ok\":true,\"product\":\"slime-cache\",\"version\":\"%s\",\"pid\":%ld}",
			 SLIME_VERSION, (long)getpid());

	reply_json(rq, 200, json, (size_t)n);
}

const struct route cache_routes[] = {
	{ HTTP_GET, "/healthz", health },	 { HTTP_GET, "/readyz", api_readyz },
	{ HTTP_GET, "/metrics", metrics },	 { HTTP_GET, "/stats", stats },
	{ HTTP_GET, "/peer-agent", peer_agent }, { HTTP_POST, "/store", store },
	{ HTTP_POST, "/query", query },		 { HTTP_POST, "/delete", delete },
};

const size_t n_cache_routes = sizeof(cache_routes) / sizeof(*cache_routes);
