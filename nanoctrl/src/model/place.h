/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in a JSON body: an object, and how one gets to it from the body's root. Its members are
 * read with their types checked, and what is wrong with them is said with their whole path.
 */
#ifndef NANOCTRL_MODEL_PLACE_H
#define NANOCTRL_MODEL_PLACE_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <slime/export.h>
#include "model/model.h"

#define PLACE_FIELD_MAX sizeof(((struct model_error *)0)->field)

struct place {
	json_t *in;
	char path[PLACE_FIELD_MAX]; /* "" is the body, "previous", "services[1]" */
	struct model_error *err;
};

/* json_loadb(), which says of memory that it is short, and ends the program where it would write
 * beyond what it has. */
json_t *place_parse(const char *text, size_t len, size_t flags, json_error_t *why);

/* Parses a body, which has to be an object without duplicate members. 0, or -EINVAL or -ENOMEM with
 * *err; then p->in is NULL. The caller gives p->in back with json_decref(). */
int place_load(struct place *p, const char *body, size_t len, struct model_error *err);

/* The object that is element i of the array that is called name here. */
void place_element(const struct place *p, const char *name, size_t i, json_t *object,
		   struct place *out);

/* These say what is wrong with a member (name "" is the place itself) and return -EINVAL. */
int place_refuse(const struct place *p, const char *code, const char *name, const char *fmt, ...)
	SLIME_PRINTF(4, 5);
int place_bad_value(const struct place *p, const char *name, const char *expected);
int place_bad_type(const struct place *p, const char *name, const char *expected);
/* Returns -ENOMEM. */
int place_no_memory(const struct place *p);

enum place_need { OPTIONAL, REQUIRED };

/* Of all of these: an optional member that is absent or null is 0 and leaves *out as it was, NULL
 * for place_member(). */
int place_member(const struct place *p, const char *name, enum place_need need, json_type type,
		 json_t **out);
/* From min, 0 or 1, to 2^53. */
int place_number(const struct place *p, const char *name, enum place_need need, uint64_t min,
		 uint64_t *out);
int place_text(const struct place *p, const char *name, enum place_need need, size_t max,
	       const char **out);
/* An object, as a place. *there says whether it is. */
int place_object(const struct place *p, const char *name, enum place_need need, struct place *out,
		 bool *there);

#endif
