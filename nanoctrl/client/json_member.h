/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of an object. *ret keeps the first failure, so that a decoder checks it once: a member
 * that is missing or of another type is -EPROTO to _of(), and the third argument to _or().
 */
#ifndef NC_JSON_MEMBER_H
#define NC_JSON_MEMBER_H

#include <jansson.h>
#include <stdint.h>

#include "nanoctrl/client/json.h"

/* The words of enum nc_link_state. */
#define NC_N_STATES 4
extern const char *const nc_state_words[NC_N_STATES];

const char *nc_text_of(const json_t *o, const char *key, int *ret);
const char *nc_text_or(const json_t *o, const char *key, const char *otherwise);
uint64_t nc_number_of(const json_t *o, const char *key, int *ret);
uint64_t nc_number_or(const json_t *o, const char *key, uint64_t otherwise);
uint32_t nc_ms_of(const json_t *o, const char *key, int *ret);

/* The strings of an object; an absent one has none. */
struct nc_pairs nc_pairs_of(struct nc_json *json, json_t *o, const char *key, int *ret);

/* Bytes in base64. NULL when it is absent, which is no error: not every agent may see descriptors.
 */
const void *nc_descriptor_of(struct nc_json *json, const json_t *o, size_t *out_len, int *ret);

#endif
