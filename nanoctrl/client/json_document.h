/* SPDX-License-Identifier: Apache-2.0 */
/* The document behind the decoders of json.h. */
#ifndef NC_JSON_DOCUMENT_H
#define NC_JSON_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>

#include "nanoctrl/client/json.h"

struct block;

struct nc_json {
	json_t *root;
	const char *text; /* the caller's */
	size_t len;
	struct block *blocks; /* what decoders allocated */
};

/* Zeroed, and freed with the document. NULL without memory. */
void *nc_json_allocate(struct nc_json *json, size_t n, size_t size);

#endif
