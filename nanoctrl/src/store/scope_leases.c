/* SPDX-License-Identifier: Apache-2.0 */
#include "store/scope_leases.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>

/* No scope is called so. */
#define OTHERS "(others)"

/* Of equal scopes the same ones are shown each time. */
static bool is_before(const struct scope_held *a, const struct scope_held *b)
{
	return a->held != b->held ? a->held > b->held : strcmp(a->scope, b->scope) < 0;
}

static struct scope_held *last_of(struct scope_leases *s)
{
	struct scope_held *last = &s->most[0];

	for (size_t i = 1; i < s->n; i++)
		if (is_before(last, &s->most[i]))
			last = &s->most[i];
	return last;
}

static struct scope_held *find(struct scope_leases *s, const char *scope)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->most[i].scope, scope))
			return &s->most[i];
	return NULL;
}

void scope_leases_add(struct scope_leases *s, const char *scope, uint64_t held)
{
	struct scope_held one = { .held = held }, *place = find(s, scope);

	if (!held)
		return;
	snprintf(one.scope, sizeof(one.scope), "%s", scope);
	if (!place && s->n < SCOPE_LEASES_MAX)
		place = &s->most[s->n++];
	else if (!place) {
		place = last_of(s);
		s->n_others++;
		s->held_by_others += is_before(&one, place) ? place->held : held;
		if (!is_before(&one, place))
			return;
	}
	*place = one;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct scope_held *)a)->scope, ((const struct scope_held *)b)->scope);
}

void scope_leases_render(const struct scope_leases *s, struct evbuffer *out)
{
	struct scope_leases sorted = *s;

	qsort(sorted.most, sorted.n, sizeof(sorted.most[0]), by_name);
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_scopes Scopes that hold leases, as the last look at "
			    "all scopes found.\n# TYPE nanoctrl_scopes gauge\n"
			    "nanoctrl_scopes %" PRIu64 "\n"
			    "# HELP nanoctrl_scope_leases Leases of a scope: of the %d scopes that "
			    "hold most of them, and of all others together.\n"
			    "# TYPE nanoctrl_scope_leases gauge\n",
			    (uint64_t)s->n + s->n_others, SCOPE_LEASES_MAX);
	for (size_t i = 0; i < sorted.n; i++)
		evbuffer_add_printf(out, "nanoctrl_scope_leases{scope=\"%s\"} %" PRIu64 "\n",
				    sorted.most[i].scope, sorted.most[i].held);
	if (s->n_others)
		evbuffer_add_printf(out,
				    "nanoctrl_scope_leases{scope=\"" OTHERS "\"} %" PRIu64 "\n",
				    s->held_by_others);
}
