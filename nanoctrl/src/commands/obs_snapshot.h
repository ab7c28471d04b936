/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots as people read them: what an agent says of what it does, ours or one of DLSlime's
 * NanoCtrl. The JSON is foreign: members that are missing or of another type read as nothing.
 */
#ifndef NANOCTRL_OBS_SNAPSHOT_H
#define NANOCTRL_OBS_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "text/json_slice.h"

#define OBS_TEXT 260

enum obs_state { OBS_ALIVE, OBS_STARTING, OBS_STALE, OBS_STOPPED };

extern const char *const obs_state_names[];

enum obs_lease { OBS_LEASE_UNKNOWN, OBS_LEASE_HELD, OBS_LEASE_ENDED };

struct obs_snapshot {
	char *text; /* all of it */
	struct json_slice doc;
	char peer[OBS_TEXT], host[OBS_TEXT];
	bool native; /* of an agent of ours */
	enum obs_lease lease;
	uint64_t pid, age_ms;
	enum obs_state state;
	struct json_slice summary, nics, connections;
};

struct obs_list {
	struct obs_snapshot *list; /* in the order of their names */
	size_t n, room;
	uint64_t now_ms; /* the clock that ages are taken by */
};

/* Takes one from a list's text; what is no snapshot is passed over. lease: of its agent, where the
 * text does not say it itself. -ENOMEM. */
int obs_list_add(struct obs_list *l, const char *text, size_t len, enum obs_lease lease);
/* The list is complete, as of now_ms. An agent of ours is alive while it has its lease, and stale
 * when that has ended; of others, and where the lease is not known, the age of the snapshot
 * decides: beyond stale_ms it is stale. */
void obs_list_finish(struct obs_list *l, uint64_t now_ms, uint64_t stale_ms);
void obs_list_clear(struct obs_list *l);

/* Members of an object. Integers are cut to what fits; a real number that nothing here can be is 0;
 * text is cut to room. */
#define OBS_REAL_MAX 1e30
struct json_slice obs_member(struct json_slice object, const char *name);
uint64_t obs_number(struct json_slice object, const char *name);
double obs_real(struct json_slice object, const char *name);
void obs_text(struct json_slice object, const char *name, char *out, size_t room);

/* "1.5MB" and the like, as DLSlime's NanoCtrl writes them. */
#define OBS_WORD 32
const char *obs_bytes(uint64_t bytes, char out[OBS_WORD]);
const char *obs_age(uint64_t ms, char out[OBS_WORD]);

/* Snapshots say bits a second; people read GB/s, 10^9 bytes a second: "0.15GB/s". */
#define OBS_BITS_PER_GB 8e9
const char *obs_rate(double bps, char out[OBS_WORD]);

#endif
