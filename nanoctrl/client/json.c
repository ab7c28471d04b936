/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/json_document.h"
#include "nanoctrl/client/json_load.h"

struct block {
	struct block *next;
	max_align_t bytes[];
};

int nc_json_parse(const char *text, size_t len, struct nc_json **out)
{
	struct nc_json *json;
	int ret = nc_json_wrap(text, len, &json);

	if (ret)
		return ret;
	ret = nc_json_load(text, len, &json->root);
	if (!ret && !json_is_object(json->root))
		ret = -EPROTO;
	if (ret)
		nc_json_free(json);
	else
		*out = json;
	return ret;
}

int nc_json_wrap(const char *text, size_t len, struct nc_json **out)
{
	struct nc_json *json = calloc(1, sizeof(*json));

	if (!json)
		return -ENOMEM;
	json->text = text;
	json->len = len;
	*out = json;
	return 0;
}

const char *nc_json_source(const struct nc_json *json, size_t *len)
{
	*len = json->len;
	return json->text;
}

void nc_json_free(struct nc_json *json)
{
	struct block *b;

	if (!json)
		return;
	while ((b = json->blocks)) {
		json->blocks = b->next;
		free(b);
	}
	json_decref(json->root);
	free(json);
}

void *nc_json_allocate(struct nc_json *json, size_t n, size_t size)
{
	struct block *b = calloc(1, sizeof(*b) + n * size);

	if (!b)
		return NULL;
	b->next = json->blocks;
	json->blocks = b;
	return b->bytes;
}
