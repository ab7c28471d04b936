/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of the routes that are compatible with DLSlime's NanoCtrl: docs/http-api.md 9. Texts are
 * bytes of any kind, also NUL; JSON that a client made is kept as it was written, without the
 * blanks between its tokens.
 */
#ifndef NANOCTRL_MODEL_COMPAT_H
#define NANOCTRL_MODEL_COMPAT_H

#include <stdbool.h>
#include <stddef.h>
#include "model/model.h"
#include "model/out.h"
#include "compat/peer.h"

#define COMPAT_NAME_MAX 1024 /* bytes of a name */

enum compat_form {
	COMPAT_HEARTBEAT,
	COMPAT_REGISTER,
	COMPAT_UNREGISTER,
	COMPAT_GET_ENTITY,
	COMPAT_LIST_ENTITIES,
	COMPAT_START_PEER,
	COMPAT_QUERY,
	COMPAT_CLEANUP,
	COMPAT_TOPOLOGY,
	COMPAT_REGISTER_MR,
	COMPAT_GET_MR,
	COMPAT_NOTHING,
};

/* The contents of a request of any form; at is NULL for members that are absent. */
struct compat_request {
	struct store_text scope; /* never NULL; "" is none */
	struct store_text type;
	struct store_text id;
	struct store_text kind;
	struct store_text endpoint; /* JSON, as the two below */
	struct store_text metadata;
	struct store_text resource;
	/* of agents */
	struct store_text name; /* alias, agent_name, dst */
	struct store_text device;
	struct store_text port; /* digits; so are the four below */
	struct store_text addr;
	struct store_text length;
	struct store_text rkey;
	struct store_text lkey;
	struct store_text link_type;
	struct store_text address;
	struct store_text prefix;
	struct store_text mr;
	struct store_text src;
	struct store_text min_bw;
	struct store_text symmetric; /* true or false */
	struct store_text *targets;
	size_t n_targets;
	char *heap; /* the texts */
};

/* 0, or -EINVAL with *err (status 400 or 422), or -ENOMEM with *err. */
int compat_parse(enum compat_form form, const char *body, size_t len, struct compat_request *out,
		 struct model_error *err);
void compat_request_fini(struct compat_request *r);

/* These return a malloc()ed text, NULL when there is no memory. */

/* {"status":STATUS,"message":"BEFORE A BETWEEN B BEHIND"} without the blanks. */
char *compat_message(const char *status, const char *before, struct store_text a,
		     const char *between, struct store_text b, const char *behind);

/* The entity as others read it. */
char *compat_entity(const struct compat_request *r);

/* The event of its registration, up to the entity in it. */
char *compat_event(const struct compat_request *r);

/* The answers: of stored entities, those that are JSON objects. */
/* Whether a value of the store is JSON that begins so ('{' or '['), and may stand in an answer. */
bool compat_is_json(struct store_text t, char first);

char *compat_found(const struct store_entities *found);

/* The same of a list, which begins with its first batch and ends with its last. */
void compat_listed(struct out *o, const struct store_entities *found);

/* ---- agents ---- */

char *compat_started(const struct compat_request *r, struct store_text name, const char *redis);
void compat_peers(struct out *o, const struct store_peer_list *found); /* as compat_listed() */
char *compat_redis(const char *address);

/* The stored form of targets and of a region, and the answer about a stored region. */
char *compat_spec(const struct compat_request *r);
char *compat_mr(const struct compat_request *r);
char *compat_mr_info(const struct store_entities *found);

#endif
