/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that is written from docs/wire.md alone and does not use the library: it holds the key of
 * its link, greets as it should, and then sends what it likes. So it begins messages in orders, and
 * with values, that the library never has.
 */
#ifndef STRESS_RAW_H
#define STRESS_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "tests/stress/dice.h"
#include <slime/slime.h>

#define RAW_CALLS	72
#define RAW_SENDS	64
#define RAW_IMMS	128
#define RAW_MSG_LEN	56
#define RAW_SLOT_LARGE	16384
#define RAW_DESC_LEN	64 /* of a region */
#define RAW_ANSWERS	64
#define RAW_PATIENCE_MS 1000 /* for a step of the beginning of a link */

struct raw_msg {
	uint8_t head[RAW_MSG_LEN];
	uint8_t payload[RAW_SLOT_LARGE];
	uint32_t len; /* of the payload; the head may say another one */
};

struct raw_place {
	bool taken, cancelled;
	uint64_t id;
};

struct raw {
	struct dice dice;
	uint32_t one_in; /* values is a wrong one; 0: none is */
	enum slime_transport transport;
	bool initiator;
	uint64_t self[2], peer[2]; /* context and endpoint */
	uint8_t secret[32], peer_secret[32], key[32];
	uint8_t address[64]; /* what the peer's candidate says */
	size_t address_len;
	int listener;
	struct slime_remote_mr theirs; /* a region of the peer */
	uint8_t own[RAW_DESC_LEN];     /* the descriptor of one of ours */
	uint8_t memory[65536];	       /* its bytes */

	/* of messages: what is on the way, and what is to be answered */
	struct raw_place calls[RAW_CALLS], sends[RAW_SENDS];
	uint64_t n_calls, n_imms, n_taken, n_taken_here;
	struct raw_msg answers[RAW_ANSWERS];
	unsigned n_answers;
	_Atomic uint64_t *n_messages; /* and frames and packets that were sent */
};

/* Ids, secrets and an address of its own. */
void raw_init(struct raw *r, enum slime_transport transport, uint64_t seed);
/* Its endpoint's descriptor; returns the length. */
size_t raw_write_endpoint(struct raw *r, uint8_t *desc);
/* Take the peer's; false: it has no address here. */
bool raw_read_endpoint(struct raw *r, const uint8_t *desc, size_t len);

/* Greet over a socket, in the role that the ids give; false: it was refused or ended. An acceptor
 * learns which stream it is. */
bool raw_greet(struct raw *r, int fd, uint16_t *stream);
/* A socket to the peer, or from it; -1. */
int raw_connect(struct raw *r);

/* A value of a field, which is replaced by another one now and then. */
uint64_t raw_field(struct raw *r, uint64_t value);
bool raw_is_odd(struct raw *r);

/* A message and its payload: an answer that is due, or another. false: there is no room for one. */
bool raw_message(struct raw *r, bool answer, struct raw_msg *m);
/* The peer's. */
void raw_heard(struct raw *r, const uint8_t head[RAW_MSG_LEN]);

/* All of the life of such a peer, until the link ends. */
void raw_tcp_live(struct raw *r);
void raw_shm_live(struct raw *r);

#endif
