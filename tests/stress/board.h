/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a run share: the round that each side is in, descriptors, and what each
 * area of memory that peers reach is expected to hold. It is anonymous shared memory, and outlives
 * a process that is killed.
 */
#ifndef STRESS_BOARD_H
#define STRESS_BOARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <slime/slime.h>

#include "tests/stress/image.h"

#define N_NODES	 3
#define N_LINKS	 4
#define N_AREAS	 2 /* one that stays for a round, one that comes and goes */
#define AREA_LEN (1024 * 1024)
#define N_PLACES 8 /* at the end of an area: each for one immediate at a time */
#define PLACE	 (16 * 1024)
#define AREA_ANY (AREA_LEN - N_PLACES * PLACE) /* what comes before them */
#define N_NOTES	 1024			       /* messages and immediates of a round, at most */

/* What the sender of a message or immediate says of it before it leaves. */
struct note {
	uint64_t seed;
	uint32_t len;
	uint32_t fenced_len; /* immediates: an earlier write to the first half of the place */
	uint64_t fenced_seed;
	uint32_t place; /* immediates */
};

/* Memory of one side of a link; its peer alone writes it. */
struct area {
	pthread_mutex_t lock;	      /* of all of it, and of the bytes that are known */
	uint32_t version;	      /* odd: withdrawn */
	_Atomic uint32_t withdrawing; /* the last version that was, or is being, withdrawn */
	uint32_t desc_len;
	uint8_t desc[SLIME_MR_DESC_MAX];
	uint8_t expect[AREA_LEN], known[AREA_LEN];
};

struct board_side {
	_Atomic uint64_t round; /* what follows is of this one */
	_Atomic uint32_t incarnation;
	_Atomic uint64_t leaving;   /* the round that it ends, or lets end, without order */
	_Atomic uint64_t ended;	    /* the last whose endpoint it has destroyed */
	_Atomic uint64_t drained;   /* the last in which it submits no more */
	_Atomic uint64_t satisfied; /* the last of which it got all it was to get */
	_Atomic uint32_t n_notes; /* below, of both kinds: it orders them for a thread sanitizer */
	_Atomic uint32_t n_sent, n_imms;
	_Atomic uint32_t n_too_long;	    /* of its receives */
	_Atomic bool place_taken[N_PLACES]; /* by an immediate to this side */
	int desc_len;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct note sent[N_NOTES], imms[N_NOTES];
	struct area areas[N_AREAS];
};

struct board_link {
	int node[2];
	struct board_side side[2];
};

struct board_node {
	_Atomic uint32_t incarnation; /* raised once the one before has died */
	_Atomic uint32_t doom;	      /* raised before it is killed */
};

struct options {
	enum slime_transport transport;
	uint64_t seed;
	int seconds;
	bool threads;	     /* all nodes in this process, and nothing is killed */
	const char *devices; /* rdma */
	const char *without; /* words, comma separated: what not to do */
	int links;
};

struct board {
	struct options options;
	_Atomic bool finish;
	_Atomic bool failed; /* a process has, and said so */
	_Atomic uint64_t n_ops, n_rounds, n_connected, n_kills, n_stops;
	struct board_node nodes[N_NODES];
	struct board_link links[N_LINKS];
};

struct board *board_create(const struct options *options);

/* Whether a part of the work is switched on. */
bool board_does(const struct board *board, const char *word);

/* Also after a process died that held it. */
void area_lock(struct area *area);
void area_unlock(struct area *area);

#endif
