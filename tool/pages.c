/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/table.h"
#include "tool/guest.h"
#include <slime/pages.h>

#define OWNERS_MAX 256
#define REFRESH_MS 50

/* An owner, and what it says itself. */
struct owner {
	struct slime_pages_owner_info info;
	struct slime_pages_stat stat;
	int answer; /* 0, or why there is no stat */
	int has;    /* 0: it has the key; -ENOENT; else why it does not say */
};

struct explained {
	const struct options *o;
	struct slime_agent *agent;
	const char *key; /* NULL: none */
	struct owner all[OWNERS_MAX];
	size_t n;
};

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "slime: pages: %s: %s\n", what, why);
	return EXIT_FAILURE;
}

/* ---- asking ---- */

static int open_pages(struct explained *x, const char *const *owners, struct slime_pages **out)
{
	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;

	attr.tenant = x->o->tenant;
	attr.replicas = (uint32_t)x->o->replicas;
	attr.refresh_ms = REFRESH_MS;
	attr.timeout_ms = (uint32_t)x->o->timeout_ms;
	attr.dir_cache_ttl_ms = 0;
	attr.owners = owners;
	attr.n_owners = owners ? 1 : 0;
	return slime_pages_create(x->agent, &attr, out);
}

/* Every owner of the scope, in the order of the key. As long as one is missing, the others may come
 * meanwhile: those that offer the service have the time of --timeout to be reached. */
static int list_owners(struct explained *x)
{
	static struct slime_pages_owner_info infos[OWNERS_MAX];
	char names[OWNERS_MAX][SLIME_AGENT_NAME_MAX + 1];
	struct slime_pages *pages;
	int n = slime_agent_providers(x->agent, SLIME_PAGES_SERVICE, names, OWNERS_MAX,
				      x->o->timeout_ms);
	int ret = n < 0 ? n : open_pages(x, NULL, &pages);

	if (ret)
		return ret;
	if (n) /* one that cannot be reached is in the list, with the reason */
		(void)!slime_pages_wait_ready(pages, (unsigned)n, x->o->timeout_ms);
	x->n = slime_pages_owners(pages, x->key, x->key ? strlen(x->key) : 0, infos, OWNERS_MAX);
	if (x->n > OWNERS_MAX)
		x->n = OWNERS_MAX;
	for (size_t i = 0; i < x->n; i++)
		x->all[i].info = infos[i];
	return slime_pages_destroy(pages);
}

static int wait_for(struct slime_pages_request *req, int began)
{
	return began ? began : slime_pages_wait(req, -1);
}

/* A reader that knows this owner alone. */
static int ask_owner(struct explained *x, struct owner *owner)
{
	const char *const names[] = { owner->info.name };
	struct slime_pages_item item = { .key = x->key, .key_len = x->key ? strlen(x->key) : 0 };
	struct slime_pages_request *req = NULL;
	struct slime_pages *pages;
	int ret = open_pages(x, names, &pages);

	if (ret)
		return ret;
	ret = slime_pages_request_create(pages, NULL, &req);
	if (!ret)
		ret = slime_pages_wait_ready(pages, 1, x->o->timeout_ms);
	if (!ret)
		ret = wait_for(req, slime_pages_stat(req, &owner->stat));
	if (!ret && !owner->stat.owners)
		ret = -ETIMEDOUT; /* it did not answer */
	if (!ret && x->key) {
		ret = wait_for(req, slime_pages_exists(req, &item, 1));
		owner->has = item.status;
	}
	(void)slime_pages_request_destroy(req);
	(void)slime_pages_destroy(pages);
	return ret;
}

/* ---- printing ---- */

static const char *error_text(int error)
{
	switch (error) {
	case -EACCES:
		return "it does not let this agent use the tenant";
	case -ENOENT:
		return "it has no such tenant";
	case -ENOTCONN:
	case -EAGAIN:
	case -ETIMEDOUT:
		return "it cannot be reached, or does not answer";
	default:
		return strerror(-error);
	}
}

static const struct cli_column columns[] = {
	{ "OWNER", "owner", false },	 { "OVER", "over", false },
	{ "MIB", "mib", true },		 { "USED %", "used_percent", true },
	{ "PAGES", "pages", true },	 { "PINNED", "pinned", true },
	{ "FOUND", "found", true },	 { "MISSED", "missed", true },
	{ "EVICTED", "evicted", true },	 { "REFUSED", "refused", true },
	{ "THE KEY", "the_key", false },
};

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static const char *has_text(const struct owner *owner)
{
	return owner->answer || (owner->has && owner->has != -ENOENT) ? "?"
	       : owner->has					      ? "no"
								      : "yes";
}

static void print_owner(struct cli_table *t, const struct explained *x, const struct owner *owner)
{
	const struct slime_pages_stat *s = &owner->stat;
	const uint64_t counts[] = {
		s->pages, s->pinned, s->found, s->missed, s->evicted, s->refused
	};
	bool known = !owner->answer;

	cli_table_cell(t, "%s", owner->info.name);
	cli_table_cell(t, "%s", known ? slime_transport_name(owner->info.transport) : "-");
	if (known) {
		cli_table_cell(t, "%.1f", (double)s->size / (1 << 20));
		cli_table_cell(t, "%.1f", s->size ? 100.0 * (double)s->used / (double)s->size : 0);
	} else {
		cli_table_cell(t, "-");
		cli_table_cell(t, "-");
	}
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (known)
			cli_table_cell(t, "%" PRIu64, counts[i]);
		else
			cli_table_cell(t, "-");
	}
	if (x->key)
		cli_table_cell(t, "%s", has_text(owner));
}

static int print_owners(const struct explained *x, FILE *to)
{
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, x->key ? N_COLUMNS : N_COLUMNS - 1);

	if (ret)
		return ret;
	for (size_t i = 0; i < x->n; i++)
		print_owner(t, x, &x->all[i]);
	ret = cli_table_print(t, cli_table_style_of_locale(), to);
	cli_table_destroy(t);
	for (size_t i = 0; i < x->n; i++)
		if (x->all[i].answer)
			fprintf(to, "%s: %s\n", x->all[i].info.name, error_text(x->all[i].answer));
	return ret;
}

static const struct owner *holder_of(const struct explained *x, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (!x->all[i].answer && !x->all[i].has)
			return &x->all[i];
	return NULL;
}

/* Why a get hits or misses. Returns whether it hits. */
static bool print_key(const struct explained *x, FILE *to)
{
	size_t replicas = (size_t)x->o->replicas < x->n ? (size_t)x->o->replicas : x->n;
	const struct owner *first = &x->all[0];
	const struct owner *holder = holder_of(x, 0, replicas), *other;
	uint64_t evicted = 0;

	fprintf(to, "Its owner is %s.\n", first->info.name);
	if (holder) {
		fprintf(to, "A get of it hits: %s has it.\n", holder->info.name);
		return true;
	}
	other = holder_of(x, replicas, x->n);
	if (other) {
		fprintf(to,
			"A get of it misses: %s has it, and is not its owner any more, since owners came "
			"or left. For half a minute after that, readers ask its former owner, too.\n",
			other->info.name);
		return false;
	}
	for (size_t i = 0; i < x->n; i++)
		evicted += x->all[i].answer ? 0 : x->all[i].stat.evicted;
	if (first->answer)
		fprintf(to, "A get of it misses: its owner does not say whether it has it.\n");
	else if (evicted)
		fprintf(to,
			"A get of it misses: no owner has it. It was not put, or was deleted, or is among "
			"the %" PRIu64 " pages that were evicted, or its owner ended.\n",
			evicted);
	else
		fprintf(to,
			"A get of it misses: no owner has it. It was not put, or was deleted, or "
			"its owner ended; nothing was evicted.\n");
	return false;
}

static int explain(struct explained *x, FILE *to)
{
	bool reached = false;
	int ret = list_owners(x);

	if (ret)
		return fail(x->o->scope, strerror(-ret));
	if (!x->n) {
		fprintf(to, "No agent of scope %s offers pages.\n", x->o->scope);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < x->n; i++) {
		struct owner *owner = &x->all[i];

		owner->answer = owner->info.error ? owner->info.error : ask_owner(x, owner);
		reached |= !owner->answer;
	}
	fprintf(to, "Tenant %s, scope %s, owners: %zu%s\n", x->o->tenant, x->o->scope, x->n,
		x->key ? ", in the order in which they are to have the key" : "");
	ret = print_owners(x, to);
	if (ret)
		return fail("table", strerror(-ret));
	if (!reached) {
		fprintf(to, "No owner can be reached: each get misses, and each put fails.\n");
		return EXIT_FAILURE;
	}
	return !x->key || print_key(x, to) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int pages_explain(const struct options *o, const char *key, FILE *to)
{
	struct explained *x = calloc(1, sizeof(*x));
	char why[GUEST_WHY_MAX];
	int status;

	if (!x)
		return fail("memory", strerror(ENOMEM));
	x->o = o;
	x->key = key;
	if (guest_open(o, &x->agent, why)) {
		free(x);
		return fail(o->scope, why);
	}
	status = explain(x, to);
	(void)slime_agent_stop(x->agent, o->timeout_ms);
	slime_agent_destroy(x->agent);
	free(x);
	return status;
}
