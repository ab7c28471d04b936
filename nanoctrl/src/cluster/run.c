/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/store.h"

/* ---- topologies ---- */

static void drop_parsed(struct run *r)
{
	for (size_t i = 0; r->parsed && i < r->n; i++)
		model_topology_fini(&r->parsed[i]);
	free(r->parsed);
	free(r->topologies);
	r->parsed = NULL;
	r->topologies = NULL;
	r->is_parsed = false;
}

static void drop_texts(char ***texts, size_t n)
{
	for (size_t i = 0; *texts && i < n; i++)
		free((*texts)[i]);
	free(*texts);
	*texts = NULL;
}

static void drop_topologies(struct run *r)
{
	drop_parsed(r);
	drop_texts(&r->docs, r->n);
	drop_texts(&r->reports, r->n);
	free(r->revisions);
	r->revisions = NULL;
	r->n = 0;
}

static char *copy(struct store_text text)
{
	return strndup(text.len ? text.at : "", text.len);
}

int run_take_reports(struct run *r, const struct store_topologies *t)
{
	drop_texts(&r->reports, r->n);
	r->reports = calloc(r->n + 1, sizeof(*r->reports));
	if (!r->reports)
		return -ENOMEM;
	for (size_t i = 0; i < r->n && i < t->n; i++) {
		r->reports[i] = copy(t->list[i].report);
		if (!r->reports[i])
			return -ENOMEM;
	}
	return 0;
}

int run_take(struct run *r, const struct store_topologies *t)
{
	drop_topologies(r);
	r->docs = calloc(t->n + 1, sizeof(*r->docs));
	r->revisions = calloc(t->n + 1, sizeof(*r->revisions));
	if (!r->docs || !r->revisions)
		return -ENOMEM;
	for (; r->n < t->n && r->n < STORE_TOPOLOGIES_MAX; r->n++) {
		r->docs[r->n] = copy(t->list[r->n].doc);
		r->revisions[r->n] = t->list[r->n].revision;
		if (!r->docs[r->n])
			return -ENOMEM;
	}
	return run_take_reports(r, t);
}

static void note_settle(struct run *r, const struct topology *t)
{
	for (size_t i = 0; i < t->n_wishes; i++)
		if (t->wishes[i].kind == WISH_RING && t->wishes[i].settle_ms > r->settle_ms)
			r->settle_ms = t->wishes[i].settle_ms;
}

static int parse_one(struct run *r, size_t i, const char *scope)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(1, 60000);
	struct model_error err;
	uint32_t held_back;
	int ret = model_parse_topology(r->docs[i], strlen(r->docs[i]), &r->parsed[i], &err);

	if (!ret) {
		r->parsed[i].topology.revision = r->revisions[i];
		r->topologies[i] = r->parsed[i].topology;
		note_settle(r, &r->topologies[i]);
		return 0;
	}
	if (ret == -ENOMEM)
		return ret;
	model_note_junk(); /* of a later release, or others damaged it */
	if (sl_log_allow(&limit, &held_back))
		sl_warn("cluster",
			"a topology of scope %s cannot be read, so all links of the scope stay as "
			"they are: %s",
			scope, err.message);
	return -EPROTO;
}

static int parse(struct run *r, const char *scope)
{
	int ret = 0;

	r->settle_ms = 0;
	r->parsed = calloc(r->n + 1, sizeof(*r->parsed));
	r->topologies = calloc(r->n + 1, sizeof(*r->topologies));
	if (!r->parsed || !r->topologies)
		ret = -ENOMEM;
	for (size_t i = 0; i < r->n && !ret; i++)
		ret = parse_one(r, i, scope);
	if (ret)
		drop_parsed(r);
	else
		r->is_parsed = true;
	return ret;
}

/* ---- the expansion ---- */

static bool has_too_many(const struct run *r)
{
	for (size_t i = 0; i < r->expansion.n_topologies; i++)
		if (r->expansion.topologies[i].state == TOPOLOGY_TOO_MANY_LINKS)
			return true;
	return false;
}

/* Links of a topology that comes to too many are read back from the lists. */
static int expand_keeping(struct run *r, struct expanded_link **kept, void **memory)
{
	struct store_wanted *lists = calloc(r->have->n + 1, sizeof(*lists));
	size_t n_kept = 0;
	int ret = lists ? 0 : -ENOMEM;

	expansion_fini(&r->expansion);
	for (size_t i = 0; lists && i < r->have->n; i++)
		lists[i] = (struct store_wanted){
			.agent = r->have->at[i].agent,
			.list = { r->have->at[i].text, strlen(r->have->at[i].text) },
		};
	if (!ret)
		ret = model_wanted_links(lists, r->have->n, r->topologies, r->n, kept, &n_kept,
					 memory);
	if (!ret)
		ret = expand(r->topologies, r->n, r->agents, r->n_agents, *kept, n_kept,
			     &r->expansion);
	free(lists);
	return ret;
}

/* When the place of one that left ends first. */
static void note_next(struct run *r)
{
	r->next_ms = 0;
	for (size_t i = 0; i < r->n_agents; i++) {
		const struct topology_agent *a = &r->agents[i];
		uint64_t left =
			a->gone && a->gone_ms < r->settle_ms ? r->settle_ms - a->gone_ms : 0;

		if (left && (!r->next_ms || left < r->next_ms))
			r->next_ms = left;
	}
}

void run_expand(struct run *r, const char *scope)
{
	struct expanded_link *kept = NULL;
	void *memory = NULL;

	r->result = r->is_parsed ? 0 : parse(r, scope);
	if (!r->result)
		r->result =
			expand(r->topologies, r->n, r->agents, r->n_agents, NULL, 0, &r->expansion);
	if (!r->result && has_too_many(r))
		r->result = expand_keeping(r, &kept, &memory);
	if (!r->result)
		r->result = lists_make(&r->want, &r->expansion, r->agents, r->n ? r->n_agents : 0);
	if (!r->result)
		note_next(r);
	free(r->expansion.links); /* what they point to ends here */
	r->expansion.links = NULL;
	r->expansion.n_links = 0;
	model_links_fini(kept, memory);
}

/* ---- life ---- */

void run_clear(struct run *r)
{
	expansion_fini(&r->expansion);
	lists_fini(&r->want);
	free(r->agents);
	r->agents = NULL;
	r->n_agents = 0;
}

void run_fini(struct run *r)
{
	run_clear(r);
	drop_topologies(r);
}
