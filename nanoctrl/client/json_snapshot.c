/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot as agents of DLSlime's NanoCtrl write it: its counters under their names for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/json_member.h"

static const char *const op_words[NC_OP_KINDS] = { "read", "write", "write_with_imm", "imm_recv",
						   "send", "recv",  "call",	      "serve" };

/* Messages show in what was posted only, as with DLSlime's agents. */
static bool is_transfer(int kind)
{
	return kind != NC_OP_SEND && kind != NC_OP_RECV && kind != NC_OP_IMM_RECV;
}

/* Receives of immediates fail with their link only, of which other things tell; nothing of them was
 * lost. */
static uint64_t errors_of(const struct nc_traffic *t)
{
	uint64_t n = 0;

	for (int k = 0; k < NC_OP_KINDS; k++)
		n += k == NC_OP_IMM_RECV ? 0 : t->ops[k].failed;
	return n;
}

static uint64_t pending_of(const struct nc_op_count *c)
{
	uint64_t over = c->completed + c->failed;

	return c->submitted > over ? c->submitted - over : 0;
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)(n & INT64_MAX));
}

/* A member that could not be made is left out; what is left is a snapshot as well. */
static void put(json_t *o, const char *key, uint64_t n)
{
	json_object_set_new(o, key, number(n));
}

/* By DLSlime's name, in bits a second. */
static void put_bandwidth(json_t *o, double gb_s)
{
	json_object_set_new(o, "ewma_bandwidth_bps", json_real(gb_s * 8e9));
}

static void put_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, json_string(text));
}

static void put_as(json_t *o, const char *name, const char *suffix, uint64_t n)
{
	char key[32];

	snprintf(key, sizeof(key), "%s%s", name, suffix);
	put(o, key, n);
}

/* Bytes are counted when an operation ends: those of operations under way are not there yet. */
static void put_bytes(json_t *o, const char *suffix, const struct nc_op_count *c)
{
	put_as(o, "submitted_bytes", suffix, c->bytes + c->failed_bytes);
	put_as(o, "completed_bytes", suffix, c->bytes);
	put_as(o, "failed_bytes", suffix, c->failed_bytes);
}

/* An operation is a post of one work request, though it may take more; one that was refused
 * submitted nothing and is not counted. */
static void put_posts(json_t *o, const char *suffix, const struct nc_op_count *c)
{
	put_as(o, "post_batch", suffix, c->submitted);
	put_as(o, "post_wr", suffix, c->submitted);
	put_as(o, "post_bytes", suffix, c->bytes + c->failed_bytes);
	put_as(o, "post_failures", suffix, 0);
}

static void put_traffic(json_t *o, const struct nc_traffic *t)
{
	struct nc_op_count transfers = { 0 }, all = { 0 };

	for (int k = 0; k < NC_OP_KINDS; k++) {
		struct nc_op_count *sums[] = { &all, is_transfer(k) ? &transfers : NULL };

		for (int i = 0; i < 2 && sums[i]; i++) {
			sums[i]->submitted += t->ops[k].submitted;
			sums[i]->bytes += t->ops[k].bytes;
			sums[i]->failed_bytes += t->ops[k].failed_bytes;
		}
	}
	put(o, "assign_total", transfers.submitted);
	put(o, "batch_total", transfers.submitted);
	put_bytes(o, "_total", &transfers);
	put(o, "pending_ops", t->pending);
	put(o, "error_total", errors_of(t));
	put_posts(o, "_total", &all);
	put(o, "cq_errors_total", errors_of(t));
	put_bandwidth(o, t->bw_gb_s);
}

static json_t *by_op(const struct nc_traffic *t)
{
	json_t *o = json_object();

	for (int k = 0; k < NC_OP_KINDS; k++) {
		const struct nc_op_count *c = &t->ops[k];
		json_t *one = c->submitted ? json_object() : NULL;

		if (!one)
			continue;
		put(one, "assign", c->submitted);
		put(one, "batch", c->submitted);
		put_bytes(one, "", c);
		put(one, "pending", pending_of(c));
		put(one, "errors", c->failed);
		put_posts(one, "", c);
		json_object_set_new(o, op_words[k], one);
	}
	return o;
}

static json_t *nics_of(const struct nc_snapshot *s, struct nc_traffic *sum)
{
	json_t *array = json_array();

	for (size_t i = 0; i < s->n_nics; i++) {
		const struct nc_traffic *t = &s->nics[i].traffic;
		json_t *o = json_object();

		put_text(o, "nic", s->nics[i].name);
		put_text(o, "nic_bdf", "");
		put_traffic(o, t);
		json_object_set_new(o, "by_op", by_op(t));
		json_array_append_new(array, o);
		for (int k = 0; k < NC_OP_KINDS; k++) {
			sum->ops[k].submitted += t->ops[k].submitted;
			sum->ops[k].completed += t->ops[k].completed;
			sum->ops[k].failed += t->ops[k].failed;
			sum->ops[k].bytes += t->ops[k].bytes;
			sum->ops[k].failed_bytes += t->ops[k].failed_bytes;
		}
		sum->pending += t->pending;
		sum->bw_gb_s += t->bw_gb_s;
	}
	return array;
}

static json_t *summary_of(const struct nc_snapshot *s, const struct nc_traffic *sum)
{
	json_t *o = json_object(), *pending = json_object();

	put_traffic(o, sum);
	json_object_del(o, "ewma_bandwidth_bps"); /* stands beside the summary */
	put(o, "user_mr_count", s->n_regions);
	put(o, "user_mr_bytes", s->region_bytes);
	put(o, "sys_mr_count", s->n_sys_regions);
	put(o, "sys_mr_bytes", s->sys_region_bytes);
	put(o, "mr_count", s->n_regions);
	put(o, "mr_bytes", s->region_bytes);
	for (int k = 0; k < NC_OP_KINDS; k++)
		put(pending, op_words[k], pending_of(&sum->ops[k]));
	json_object_set_new(o, "pending_by_op", pending);
	return o;
}

static json_t *rails_of(const struct nc_connection *c)
{
	json_t *array = json_array();

	for (size_t i = 0; i < c->n_rails; i++) {
		const struct nc_rail *r = &c->rails[i];
		json_t *o = json_object();

		put_text(o, "state", r->state);
		put_text(o, "local_nic", r->local_nic);
		put_text(o, "remote_nic", r->remote_nic);
		put(o, "share", r->share);
		put(o, "completed_bytes_total", r->bytes);
		put(o, "failures_total", r->failures);
		put(o, "qps", r->n_qps);
		put(o, "bandwidth", r->bandwidth);
		put_text(o, "error", r->error);
		put_text(o, "why", r->why);
		json_array_append_new(array, o);
	}
	return array;
}

static json_t *connection_of(const struct nc_connection *c, const char *agent)
{
	char id[4 * NC_NAME_MAX];
	json_t *o = json_object();

	snprintf(id, sizeof(id), "%.253s:%.40s->%.253s:%.100s#%.253s", agent, c->local_nic, c->peer,
		 c->remote_nic, c->profile);
	put_text(o, "conn_id", id);
	put_text(o, "peer", c->peer);
	put_text(o, "profile", c->profile);
	put_text(o, "local_nic", c->local_nic);
	put_text(o, "remote_nic", c->remote_nic);
	put_text(o, "state", nc_state_words[c->state]);
	json_object_set_new(o, "connected", json_boolean(c->state == NC_CONNECTED));
	if (c->transport)
		put_text(o, "transport", c->transport);
	put(o, "state_age_ms", c->age_ms);
	put_traffic(o, &c->traffic);
	if (c->n_rails)
		json_object_set_new(o, "rails", rails_of(c));
	return o;
}

static json_t *connections_of(const struct nc_snapshot *s, const char *agent)
{
	json_t *array = json_array();

	for (size_t i = 0; i < s->n_connections; i++)
		json_array_append_new(array, connection_of(&s->connections[i], agent));
	return array;
}

char *nc_json_snapshot(const struct nc_snapshot *s, const char *agent)
{
	struct nc_traffic sum = { .pending = 0 };
	json_t *root = json_object();
	char *text;

	put_text(root, "session_id", s->session_id);
	put_text(root, "host", s->host);
	put(root, "pid", s->pid);
	put(root, "interval_ms", s->interval_ms);
	put(root, "uptime_ms", s->uptime_ms);
	put(root, "rss_bytes", s->rss_bytes);
	json_object_set_new(root, "nics", nics_of(s, &sum));
	put_bandwidth(root, sum.bw_gb_s);
	json_object_set_new(root, "summary", summary_of(s, &sum));
	json_object_set_new(root, "connections", connections_of(s, agent));
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}
