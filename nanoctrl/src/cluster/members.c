/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/topology.h"
#include "store/store.h"

/* ---- memory ---- */

static void end_member(struct member *m)
{
	model_labels_fini(m->labels, m->memory);
	free(m->name);
}

static void drop_dirty(struct members *m)
{
	while (m->n_dirty)
		free(m->dirty[--m->n_dirty]);
}

void members_forget(struct members *m)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (m->at[i].gone)
			m->at[kept++] = m->at[i];
		else
			end_member(&m->at[i]);
	}
	m->n = kept;
	m->known = false;
	m->changed = true;
	drop_dirty(m);
}

void members_fini(struct members *m)
{
	for (size_t i = 0; i < m->n; i++)
		end_member(&m->at[i]);
	free(m->at);
	drop_dirty(m);
	*m = (struct members){ .n = 0 };
}

/* ---- one ---- */

static size_t place_of(const struct members *m, const char *name, bool *there)
{
	size_t low = 0, high = m->n;

	*there = false;
	while (low < high && !*there) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(m->at[mid].name, name);

		if (!order) {
			*there = true;
			return mid;
		}
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void drop(struct members *m, size_t i)
{
	end_member(&m->at[i]);
	m->n--;
	memmove(&m->at[i], &m->at[i + 1], (m->n - i) * sizeof(*m->at));
}

void members_remove(struct members *m, const char *name)
{
	bool there;
	size_t i = place_of(m, name, &there);

	if (!there)
		return;
	m->changed = true;
	if (m->at[i].left_ms)
		m->at[i].gone = true;
	else
		drop(m, i);
}

static bool same_labels(const struct member *a, const struct member *b)
{
	if (a->n_labels != b->n_labels)
		return false;
	for (size_t i = 0; i < a->n_labels; i++)
		if (strcmp(a->labels[i].key, b->labels[i].key) != 0 ||
		    strcmp(a->labels[i].value, b->labels[i].value) != 0)
			return false;
	return true;
}

int members_put(struct members *m, const struct store_agent *agent)
{
	struct member new = { .name = strdup(agent->name) };
	size_t room = m->room ? 2 * m->room : 64, i;
	struct member *more;
	bool there;

	if (!new.name ||
	    model_labels(agent->profile.labels, &new.labels, &new.n_labels, &new.memory)) {
		free(new.name);
		return -ENOMEM;
	}
	i = place_of(m, agent->name, &there);
	if (there) {
		m->changed |= m->at[i].gone || !same_labels(&m->at[i], &new);
		end_member(&m->at[i]);
		m->at[i] = new;
		return 0;
	}
	if (m->n == m->room) {
		more = realloc(m->at, room * sizeof(*more));
		if (!more) {
			end_member(&new);
			return -ENOMEM;
		}
		m->at = more;
		m->room = room;
	}
	memmove(&m->at[i + 1], &m->at[i], (m->n - i) * sizeof(new));
	m->at[i] = new;
	m->n++;
	m->changed = true;
	return 0;
}

/* ---- events ---- */

void members_note(struct members *m, const char *name, uint64_t left_ms, bool reading)
{
	bool there;
	size_t at = place_of(m, name, &there);

	if (there)
		m->at[at].left_ms = left_ms;
	for (size_t i = 0; i < m->n_dirty; i++) {
		/* The one that is being read is read once more. */
		if (!strcmp(m->dirty[i], name) && (!reading || i + 1 < m->n_dirty))
			return;
	}
	if (m->n_dirty == MEMBERS_DIRTY_MAX || !m->known) {
		m->known = false;
		return;
	}
	/* In front: the last one may be on its way. */
	memmove(&m->dirty[1], &m->dirty[0], m->n_dirty * sizeof(*m->dirty));
	m->dirty[0] = strdup(name);
	if (m->dirty[0])
		m->n_dirty++;
	else
		m->known = false;
}

void members_pop_dirty(struct members *m)
{
	free(m->dirty[--m->n_dirty]);
}

/* ---- all ---- */

static uint64_t since(uint64_t now_ms, uint64_t left_ms)
{
	return now_ms > left_ms ? now_ms - left_ms : 0;
}

void members_settle(struct members *m, uint64_t now_ms, bool has_rings)
{
	for (size_t i = m->n; i--;)
		if (m->at[i].gone &&
		    (!has_rings || since(now_ms, m->at[i].left_ms) >= TOPOLOGY_SETTLE_MAX_MS))
			drop(m, i);
}

struct topology_agent *members_agents(const struct members *m, uint64_t now_ms)
{
	struct topology_agent *agents = calloc(m->n + 1, sizeof(*agents));

	for (size_t i = 0; agents && i < m->n; i++) {
		const struct member *one = &m->at[i];

		agents[i] = (struct topology_agent){ .name = one->name,
						     .labels = one->labels,
						     .n_labels = one->n_labels,
						     .gone = one->gone };
		if (one->gone)
			agents[i].gone_ms = since(now_ms, one->left_ms);
	}
	return agents;
}
