/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The document behind the decoders, and its members. *ret keeps the first failure, so that a
 * decoder looks once: a member that is missing or of another type is -EPROTO to _of(), and the
 * third argument to _or().
 */
#ifndef NC_JSON_PRIVATE_H
#define NC_JSON_PRIVATE_H

#include <jansson.h>

#include "nanoctrl/client/json.h"

struct nc_json {
	json_t *root;
	const char *text; /* the caller's */
	size_t len;
	struct block *blocks; /* what decoders allocated */
};

/* Reads any value, for json_decref(): -EPROTO where it is none, -ENOMEM. */
int nc_json_load(const char *text, size_t len, json_t **out);

/* The words of enum nc_link_state. */
#define NC_N_STATES 3
extern const char *const nc_state_words[NC_N_STATES];

/* Zeroed, and freed with the document. NULL without memory. */
void *nc_json_allocate(struct nc_json *json, size_t n, size_t size);

const char *nc_text_of(const json_t *o, const char *key, int *ret);
const char *nc_text_or(const json_t *o, const char *key, const char *otherwise);
uint64_t nc_number_of(const json_t *o, const char *key, int *ret);
uint64_t nc_number_or(const json_t *o, const char *key, uint64_t otherwise);
uint32_t nc_ms_of(const json_t *o, const char *key, int *ret);

/* The strings of an object; an absent one has none. */
struct nc_pairs nc_pairs_of(struct nc_json *json, json_t *o, const char *key, int *ret);

/* Bytes in base64. Absent is no error, since not everybody may have a descriptor: NULL. */
const void *nc_descriptor_of(struct nc_json *json, const json_t *o, size_t *out_len, int *ret);

#endif
