/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets of regions. A request is answered only behind the secret of each region that it names,
 * and streams do not wait for each other: so the end that asks shows it once on each stream, in
 * front of the first request there, and the end that answers needs it once for the link.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/transport/tcp/tcp.h"

#define THERE_MAX 65536 /* ids that are remembered: no owner has more */

int tcp_secret_take(struct tcp_conn *c, uint32_t id, uint64_t generation, const uint64_t secret[2])
{
	struct sl_region_table *t = c->t->transport.env->regions;
	int ret = sl_region_check_secret(t, id, generation, secret);

	/* One that is not there may have been withdrawn while this was on its way. */
	if (ret == -EACCES)
		return ++c->n_wrong_secrets < SL_WRONG_SECRETS ? 0 : -EPROTO;
	if (ret)
		return 0;
	if (!c->shown)
		c->shown = calloc(t->n, sizeof(*c->shown));
	if (!c->shown)
		return -ENOMEM;
	c->shown[id] = generation;
	return 0;
}

/* The note of that id; NULL: none can be kept, and each request shows the secret again. */
static struct tcp_shown *note_of(struct tcp_conn *c, uint32_t id)
{
	uint32_t n = c->n_shown_there ? c->n_shown_there : 16;
	struct tcp_shown *more;

	if (id < c->n_shown_there)
		return &c->shown_there[id];
	if (id >= THERE_MAX)
		return NULL;
	while (n <= id)
		n *= 2;
	more = realloc(c->shown_there, n * sizeof(*more));
	if (!more)
		return NULL;
	memset(more + c->n_shown_there, 0, (n - c->n_shown_there) * sizeof(*more));
	c->shown_there = more;
	c->n_shown_there = n;
	return &more[id];
}

bool tcp_secret_is_due(struct tcp_conn *c, const struct slime_remote_mr *r, unsigned stream)
{
	uint32_t bit = UINT32_C(1) << stream;
	struct tcp_shown *note;

	/* It was lent to this link alone. */
	if (!(r->secret[0] | r->secret[1]))
		return false;
	note = note_of(c, r->id);
	if (!note)
		return true;
	if (note->generation != r->generation)
		*note = (struct tcp_shown){ .generation = r->generation };
	if (note->streams & bit)
		return false;
	note->streams |= bit;
	return true;
}
