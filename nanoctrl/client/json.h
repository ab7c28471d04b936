/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API's JSON to and from its structs. What a decoder fills points into the document and lives
 * as long. Members that are missing or of another type are -EPROTO; members it does not know are
 * passed over.
 */
#ifndef NC_JSON_H
#define NC_JSON_H

#include "nanoctrl/client/nanoctrl_client.h"

struct nc_json;

/* One object; text lives as long as the document is used. -EPROTO, -ENOMEM. */
int nc_json_parse(const char *text, size_t len, struct nc_json **out);
/* The same of any text, for callers that read the text themselves. -ENOMEM. */
int nc_json_wrap(const char *text, size_t len, struct nc_json **out);
/* The text it was parsed from. */
const char *nc_json_source(const struct nc_json *json, size_t *len);
void nc_json_free(struct nc_json *json);

/* The members of an error; those that are not there stay. */
void nc_json_error(struct nc_json *json, struct nc_error *error);

struct nc_json_grant {
	struct nc_grant grant;
	const char *lease;
};

int nc_json_grant(struct nc_json *json, struct nc_json_grant *out);
int nc_json_epoch(struct nc_json *json, uint64_t *out);
int nc_json_agent(struct nc_json *json, struct nc_agent *out);
int nc_json_region(struct nc_json *json, struct nc_region *out);
int nc_json_offer(struct nc_json *json, struct nc_offer *out);
int nc_json_agents(struct nc_json *json, struct nc_page *out);
int nc_json_regions(struct nc_json *json, struct nc_page *out);
int nc_json_offers(struct nc_json *json, struct nc_page *out);
int nc_json_links(struct nc_json *json, struct nc_page *out);
int nc_json_wanted(struct nc_json *json, struct nc_wanted *out);
int nc_json_providers(struct nc_json *json, struct nc_page *out);

enum nc_message_type {
	NC_MESSAGE_HELLO,
	NC_MESSAGE_EVENT,
	NC_MESSAGE_RESET,
	NC_MESSAGE_BEAT,
	NC_MESSAGE_RESYNC,
	NC_MESSAGE_SUPERSEDED,
	NC_MESSAGE_GOAWAY,
	NC_MESSAGE_ERROR,
	NC_MESSAGE_OTHER, /* of a later release */
};

/* A message of the server in a session. */
struct nc_message {
	enum nc_message_type type;
	struct nc_event event;
	const char *cursor; /* HELLO, EVENT, RESET */
	const char *reason; /* GOAWAY; ERROR: its message */
	uint32_t spread_ms; /* RESYNC, GOAWAY */
	uint32_t beat_ms;   /* HELLO */
	uint32_t ttl_ms;    /* HELLO: of the lease; 0: it does not say */
	uint32_t tick_ms;   /* HELLO: how often it says something; 0: it does not say */
};

int nc_json_message(struct nc_json *json, struct nc_message *out);

/* Of a poll: what is of a later release is left out. */
int nc_json_events(struct nc_json *json, struct nc_events *out);

/* Bodies of requests, to be freed; NULL without memory. */
char *nc_json_registration(const struct nc_registration *r, bool again, uint64_t epoch,
			   uint64_t generation);
char *nc_json_change(const struct nc_change *change);
char *nc_json_publication(const struct nc_region *region);
char *nc_json_posting(uint64_t connection_epoch, const char *peer_incarnation,
		      const void *descriptor, size_t len);
char *nc_json_report(const struct nc_link *link);
char *nc_json_snapshot(const struct nc_snapshot *snapshot, const char *agent);
char *nc_json_beat(const char *cursor); /* NULL acknowledges nothing */

#endif
