/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object in a JSON body, and its path from the body's root. Its members are read with their
 * types checked; an error names the whole path of the member.
 */
#ifndef NANOCTRL_MODEL_JSON_PATH_H
#define NANOCTRL_MODEL_JSON_PATH_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <slime/export.h>
#include "model/model.h"

#define JSON_PATH_MAX sizeof(((struct model_error *)0)->field)

struct json_path {
	json_t *in;
	char path[JSON_PATH_MAX]; /* "" is the body, "previous", "services[1]" */
	struct model_error *err;
};

/* json_loadb() that reports missing memory, and ends the program before it would write beyond its
 * buffer. */
json_t *json_path_parse(const char *text, size_t len, size_t flags, json_error_t *why);

/* Parses a body, which has to be an object without duplicate members. 0, or -EINVAL or -ENOMEM with
 * *err; then p->in is NULL. The caller gives p->in back with json_decref(). */
int json_path_load(struct json_path *p, const char *body, size_t len, struct model_error *err);

/* The object that is element i of the array that is called name here. */
void json_path_element(const struct json_path *p, const char *name, size_t i, json_t *object,
		       struct json_path *out);

/* These set *err for a member (name "": the object itself) and return -EINVAL. */
int json_path_refuse(const struct json_path *p, const char *code, const char *name, const char *fmt,
		     ...) SLIME_PRINTF(4, 5);
int json_path_bad_value(const struct json_path *p, const char *name, const char *expected);
int json_path_bad_type(const struct json_path *p, const char *name, const char *expected);
/* Returns -ENOMEM. */
int json_path_no_memory(const struct json_path *p);

enum json_path_need { OPTIONAL, REQUIRED };

/* Of all of these: an optional member that is absent or null is 0 and leaves *out as it was, NULL
 * for json_path_member(). */
int json_path_member(const struct json_path *p, const char *name, enum json_path_need need,
		     json_type type, json_t **out);
/* From min, 0 or 1, to 2^53. */
int json_path_number(const struct json_path *p, const char *name, enum json_path_need need,
		     uint64_t min, uint64_t *out);
int json_path_text(const struct json_path *p, const char *name, enum json_path_need need,
		   size_t max, const char **out);
/* A member that is an object, and its path. *there: whether the member exists. */
int json_path_object(const struct json_path *p, const char *name, enum json_path_need need,
		     struct json_path *out, bool *there);

#endif
