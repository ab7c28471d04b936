/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON bodies and what they mean: docs/http-api.md in code. Parsing checks everything that does not
 * need the store; texts in a parsed struct belong to it until its fini. Writers return a malloc()ed
 * string, NULL when there is no memory. Junk that the store holds is left out and counted.
 */
#ifndef NANOCTRL_MODEL_H
#define NANOCTRL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "store/store.h"

struct evbuffer;
struct store_snapshots;

/* Where memory of JSON documents comes from, before there is one: malloc and free in a program. It
 * ends, with a line in the log, where a document is read and there is none for a string of it. */
void model_memory(void *(*get)(size_t), void (*give_back)(void *));

/* Why a body was refused. */
struct model_error {
	int status; /* 400 or 422, 500 without memory */
	const char *code;
	char field[80]; /* "" when it is the whole body */
	char message[200];
};

struct model_agent {
	void *root; /* the JSON document */
	char *texts[4];
	const char *incarnation; /* of a registration */
	const char *owner_key;	 /* of a registration */
	bool again;		 /* "previous" is there */
	uint64_t revision;	 /* of an update */
	struct store_profile profile;
};

/* 0, or -EINVAL with *err, or -ENOMEM with *err. */
int model_parse_registration(const char *body, size_t len, struct model_agent *out,
			     struct model_error *err);
int model_parse_update(const char *body, size_t len, struct model_agent *out,
		       struct model_error *err);
void model_agent_fini(struct model_agent *m);

/* A region, a link report, or an offer: what is public as doc, what is not as blob. */
struct model_object {
	void *root;
	char *text;
	uint64_t revision; /* of an offer: the connection epoch */
	const char *peer_incarnation;
	struct store_text doc;
	struct store_text blob;
};

int model_parse_region(const char *body, size_t len, struct model_object *out,
		       struct model_error *err);
int model_parse_link(const char *body, size_t len, struct model_object *out,
		     struct model_error *err);
int model_parse_offer(const char *body, size_t len, struct model_object *out,
		      struct model_error *err);
void model_object_fini(struct model_object *m);

/* A beat, over HTTP (possibly without a body) or as a session's message. cursor is zero when none.
 */
int model_parse_heartbeat(const char *body, size_t len, struct store_cursor *cursor,
			  struct model_error *err);
int model_parse_message(const char *text, size_t len, struct store_cursor *cursor,
			struct model_error *err);

/* The snapshot of an agent: which part of it is kept, and for how long. */
struct model_snapshot {
	char *text;
	struct store_text doc;
	uint32_t ttl_ms;
};

int model_parse_snapshot(const char *body, size_t len, const char *agent,
			 struct model_snapshot *out, struct model_error *err);
void model_snapshot_fini(struct model_snapshot *m);

/* Whether a text of the store is one, as far as a list is concerned. */
bool model_is_snapshot(struct store_text doc);

/* "epoch:id" */
#define MODEL_CURSOR_MAX 44
bool model_parse_cursor(const char *text, struct store_cursor *out);
void model_format_cursor(char out[MODEL_CURSOR_MAX], const struct store_cursor *c);

/* "label=value,name=agent": whether it is one, and whether all of it matches. */
bool model_selector_valid(const char *selector);
bool model_selector_matches(const char *selector, const struct store_agent *agent);

/* Whether the agent may have the blob of the region whose doc this is. */
bool model_region_allows(const struct store_object *region, const struct store_agent *agent);

char *model_grant(const char *scope, const struct store_registration *r,
		  const struct store_grant *g, const char *lease, const struct store_config *c);
char *model_holder(const struct store_holder *h);
char *model_agent(const char *scope, const struct store_page *page);
/* selector may be NULL */
char *model_agents(const char *scope, const struct store_page *page, const char *selector);
char *model_services(const struct store_page *page, const char *name, const char *selector);
/* 0; STORE_NOT_FOUND when what is stored is none, which is counted; -ENOMEM. */
int model_region(const struct store_object *region, bool with_blob, char **out);
/* Without a selector all rows; with one those whose owners match. The owners are in the page then.
 */
char *model_regions(const struct store_page *page, const char *selector);
char *model_links(const struct store_page *page, const char *selector);
char *model_offer(const struct store_offer *offer);
char *model_offers(const struct store_cursor *cursor, const struct store_offer *offers, size_t n);
/* The event's own text, made once for all followers; NULL when there is no memory. */
const char *model_event(uint64_t epoch, const struct store_event *e);
/* The answer of a long poll. */
char *model_events(const struct store_events *events, const struct store_cursor *cursor, bool reset,
		   const char *to);

char *model_scopes(const struct store_scope *scopes, size_t n, const char *next);

/* selector may be NULL */
char *model_snapshots(const struct store_snapshots *page, const char *selector);

/* A document of the store that is none of ours was left out. */
void model_note_junk(void);
void model_metrics(struct evbuffer *out);

#endif
