/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/directory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct peer {
	char *name;
	uint64_t n_entries;
};

struct directory {
	uint64_t slab_size, memory_size, n_slabs;
	uint32_t *free; /* a stack, the next one last */
	uint64_t n_free;
	uint64_t version; /* of the last manifest */
	void *manifests;  /* trees of tsearch(3), by version and by name */
	void *peers;
	uint64_t n_peers, n_entries, n_pieces, bytes;
};

static int compare_versions(const void *a, const void *b)
{
	uint64_t va = ((const struct directory_manifest *)a)->version;
	uint64_t vb = ((const struct directory_manifest *)b)->version;

	return (va > vb) - (va < vb);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct peer *)a)->name, ((const struct peer *)b)->name);
}

static void free_manifest(void *manifest)
{
	struct directory_manifest *m = manifest;

	if (!m)
		return;
	free(m->peer);
	free(m->slabs);
	free(m->pieces);
	free(m);
}

static void free_peer(void *peer)
{
	free(((struct peer *)peer)->name);
	free(peer);
}

int directory_create(uint64_t slab_size, uint64_t memory_size, struct directory **out)
{
	struct directory *d;

	if (slab_size < DIRECTORY_SLAB_MIN || slab_size > DIRECTORY_SLAB_MAX ||
	    memory_size % slab_size || memory_size / slab_size > DIRECTORY_SLABS_MAX)
		return -EINVAL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->slab_size = slab_size;
	d->memory_size = memory_size;
	d->n_slabs = d->n_free = memory_size / slab_size;
	d->free = calloc(d->n_slabs + 1, sizeof(*d->free));
	if (!d->free) {
		free(d);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < d->n_slabs; i++)
		d->free[i] = (uint32_t)(d->n_slabs - 1 - i);
	*out = d;
	return 0;
}

void directory_destroy(struct directory *d)
{
	if (!d)
		return;
	tdestroy(d->manifests, free_manifest);
	tdestroy(d->peers, free_peer);
	free(d->free);
	free(d);
}

/* ---- storing ---- */

static uint64_t pieces_of(const struct directory *d, uint64_t length)
{
	return length ? (length - 1) / d->slab_size + 1 : 1;
}

/* How many pieces the list is cut into, or a negative errno. */
static int64_t count_pieces(const struct directory *d, const struct directory_piece *list, size_t n)
{
	uint64_t left = DIRECTORY_STORE_MAX;

	for (size_t i = 0; i < n; i++) {
		uint64_t pieces = pieces_of(d, list[i].length);

		if (pieces > left)
			return -E2BIG;
		left -= pieces;
	}
	return (int64_t)(DIRECTORY_STORE_MAX - left);
}

static bool has_room(const struct directory *d, uint64_t n_pieces)
{
	if (d->n_entries >= DIRECTORY_ENTRIES_MAX)
		return false;
	return n_pieces <= (d->memory_size ? d->n_free : DIRECTORY_ENTRIES_MAX - d->n_pieces);
}

static struct directory_manifest *make_manifest(const struct directory *d, const char *peer,
						size_t n_pieces)
{
	struct directory_manifest *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->peer = strdup(peer);
	m->pieces = calloc(n_pieces + 1, sizeof(*m->pieces));
	m->slabs = d->memory_size ? calloc(n_pieces + 1, sizeof(*m->slabs)) : NULL;
	if (m->peer && m->pieces && (m->slabs || !d->memory_size))
		return m;
	free_manifest(m);
	return NULL;
}

/* The peer of this name, which is made when there is none; NULL without memory. */
static struct peer *take_peer(struct directory *d, const char *name)
{
	struct peer *made = calloc(1, sizeof(*made));
	struct peer **found;

	if (made)
		made->name = strdup(name);
	found = made && made->name ? tsearch(made, &d->peers, compare_names) : NULL;
	if (found && *found == made) {
		d->n_peers++;
	} else if (made) {
		free_peer(made);
	}
	return found ? *found : NULL;
}

static void drop_peer(struct directory *d, struct peer *peer)
{
	if (peer->n_entries)
		return;
	tdelete(peer, &d->peers, compare_names);
	free_peer(peer);
	d->n_peers--;
}

static void add_pieces(struct directory *d, struct directory_manifest *m,
		       const struct directory_piece *from)
{
	uint64_t n = pieces_of(d, from->length);

	for (uint64_t i = 0; i < n; i++) {
		struct directory_piece *piece = &m->pieces[m->n_pieces];
		uint64_t at = i * d->slab_size;

		*piece = *from;
		piece->target_offset += at;
		piece->source_offset += at;
		piece->length = i + 1 < n ? d->slab_size : from->length - at;
		if (m->slabs) {
			uint32_t slab = d->free[--d->n_free];

			m->slabs[m->n_pieces] = slab;
			piece->source_offset = slab * d->slab_size;
		}
		m->n_pieces++;
	}
	m->total_bytes += from->length;
}

int directory_store(struct directory *d, const char *peer, const struct directory_piece *list,
		    size_t n, const struct directory_manifest **out)
{
	int64_t n_pieces = count_pieces(d, list, n);
	struct directory_manifest *m;
	struct peer *owner;

	if (!*peer || strlen(peer) > DIRECTORY_PEER_MAX)
		return -EINVAL;
	if (n_pieces < 0)
		return (int)n_pieces;
	if (!has_room(d, (uint64_t)n_pieces))
		return -ENOSPC;
	m = make_manifest(d, peer, (size_t)n_pieces);
	owner = m ? take_peer(d, peer) : NULL;
	if (m)
		m->version = d->version + 1;
	if (!owner || !tsearch(m, &d->manifests, compare_versions)) {
		if (owner)
			drop_peer(d, owner);
		free_manifest(m);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		add_pieces(d, m, &list[i]);
	d->version++;
	d->n_entries++;
	d->n_pieces += m->n_pieces;
	d->bytes += m->total_bytes;
	owner->n_entries++;
	*out = m;
	return 0;
}

/* ---- the others ---- */

static struct directory_manifest *find(const struct directory *d, const char *peer,
				       uint64_t version)
{
	const struct directory_manifest key = { .version = version };
	struct directory_manifest **found = tfind(&key, &d->manifests, compare_versions);

	return found && !strcmp((*found)->peer, peer) ? *found : NULL;
}

const struct directory_manifest *directory_query(const struct directory *d, const char *peer,
						 uint64_t version)
{
	return find(d, peer, version);
}

bool directory_delete(struct directory *d, const char *peer, uint64_t version)
{
	struct directory_manifest *m = find(d, peer, version);
	struct peer **owner, key;

	if (!m)
		return false;
	key.name = m->peer;
	owner = tfind(&key, &d->peers, compare_names);
	(*owner)->n_entries--;
	drop_peer(d, *owner);
	for (size_t i = 0; m->slabs && i < m->n_pieces; i++)
		d->free[d->n_free++] = m->slabs[i];
	d->n_entries--;
	d->n_pieces -= m->n_pieces;
	d->bytes -= m->total_bytes;
	tdelete(m, &d->manifests, compare_versions);
	free_manifest(m);
	return true;
}

void directory_stats(const struct directory *d, struct directory_stats *out)
{
	*out = (struct directory_stats){ .slab_size = d->slab_size,
					 .memory_size = d->memory_size,
					 .n_slabs = d->n_slabs,
					 .used = d->memory_size ? d->n_slabs - d->n_free
								: d->n_pieces,
					 .free = d->n_free,
					 .n_peers = d->n_peers,
					 .n_entries = d->n_entries,
					 .n_pieces = d->n_pieces,
					 .bytes = d->bytes };
}
