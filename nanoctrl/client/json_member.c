/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/client/json_member.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/json_document.h"

const char *const nc_state_words[NC_N_STATES] = { "connecting", "connected", "broken", "refused" };

const char *nc_text_of(const json_t *o, const char *key, int *ret)
{
	const char *text = json_string_value(json_object_get(o, key));

	if (!text)
		*ret = *ret ? *ret : -EPROTO;
	return text ? text : "";
}

const char *nc_text_or(const json_t *o, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : otherwise;
}

uint64_t nc_number_of(const json_t *o, const char *key, int *ret)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0) {
		*ret = *ret ? *ret : -EPROTO;
		return 0;
	}
	return (uint64_t)json_integer_value(v);
}

uint64_t nc_number_or(const json_t *o, const char *key, uint64_t otherwise)
{
	int ret = 0;
	uint64_t v = nc_number_of(o, key, &ret);

	return ret ? otherwise : v;
}

uint32_t nc_ms_of(const json_t *o, const char *key, int *ret)
{
	uint64_t v = nc_number_of(o, key, ret);

	return v > INT32_MAX ? INT32_MAX : (uint32_t)v;
}

struct nc_pairs nc_pairs_of(struct nc_json *json, json_t *o, const char *key, int *ret)
{
	json_t *map = json_object_get(o, key), *value;
	struct nc_pair *list;
	const char *name;
	size_t n = 0;

	if (!json_object_size(map))
		return (struct nc_pairs){ 0 };
	list = nc_json_allocate(json, json_object_size(map), sizeof(*list));
	if (!list) {
		*ret = -ENOMEM;
		return (struct nc_pairs){ 0 };
	}
	json_object_foreach(map, name, value)
	{
		if (json_is_string(value))
			list[n++] = (struct nc_pair){ name, json_string_value(value) };
	}
	return (struct nc_pairs){ list, n };
}

/* --- base64 --- */

static bool is_base64(const char *text, size_t len)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

	if (len % 4 || len - n > 2)
		return false;
	return strspn(text + n, "=") == len - n;
}

const void *nc_descriptor_of(struct nc_json *json, const json_t *o, size_t *out_len, int *ret)
{
	const json_t *v = json_object_get(o, "descriptor");
	const char *text = json_string_value(v);
	size_t len = json_string_length(v);
	unsigned char *bytes;

	*out_len = 0;
	if (!v)
		return NULL;
	if (!text || !is_base64(text, len) || len / 4 * 3 > NC_DESCRIPTOR_MAX + 2) {
		*ret = *ret ? *ret : -EPROTO;
		return NULL;
	}
	bytes = nc_json_allocate(json, len / 4 * 3 + 1, 1);
	if (!bytes) {
		*ret = -ENOMEM;
		return NULL;
	}
	EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	*out_len = len / 4 * 3 - (len && text[len - 1] == '=') - (len && text[len - 2] == '=');
	return bytes;
}
