/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/client/request.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/client.h"
#include "nanoctrl/client/json.h"

void nc_client_set_lease(struct nc_client *client, const char *lease)
{
	strcpy(client->lease, lease);
	client->lease_number++;
}

static int add_query(struct evbuffer *out, const char *const *query)
{
	for (; query && query[0]; query += 2) {
		if (!query[1])
			continue;
		if (evbuffer_add_printf(out, "&%s=", query[0]) < 0 || nc_url_encode(out, query[1]))
			return -ENOMEM;
	}
	return 0;
}

char *nc_client_target(const struct nc_client *client, const char *const *segments,
		       const char *const *query)
{
	struct evbuffer *out = evbuffer_new();
	char *target = NULL;
	size_t len;

	if (!out)
		return NULL;
	if (evbuffer_add_printf(out, "/v1") < 0)
		goto free_out;
	for (; *segments; segments++)
		if (evbuffer_add(out, "/", 1) || nc_url_encode(out, *segments))
			goto free_out;
	if (evbuffer_add_printf(out, "?scope=") < 0 || nc_url_encode(out, client->scope) ||
	    add_query(out, query))
		goto free_out;
	len = evbuffer_get_length(out);
	target = calloc(1, len + 1);
	if (target)
		evbuffer_remove(out, target, len);
free_out:
	evbuffer_free(out);
	return target;
}

int nc_client_headers(const struct nc_client *client, struct evbuffer *out, size_t server,
		      bool with_lease)
{
	int n = evbuffer_add_printf(out,
				    "Host: %s\r\nUser-Agent: slime-client/" SLIME_VERSION "\r\n",
				    client->urls[server].authority);

	if (n >= 0 && client->token)
		n = evbuffer_add_printf(out, "Authorization: Bearer %s\r\n", client->token);
	if (n >= 0 && with_lease && client->lease[0])
		n = evbuffer_add_printf(out, "Slime-Lease: %s\r\n", client->lease);
	return n < 0 ? -ENOMEM : 0;
}

static int errno_of(int status, const char *code)
{
	if (status == 409) {
		if (!strcmp(code, "name_taken"))
			return -EEXIST;
		return !strcmp(code, "superseded") ? -EKEYREVOKED : -ESTALE;
	}
	switch (status) {
	case 401:
	case 403:
		return -EACCES;
	case 404:
		return -ENOENT;
	case 410:
		return -EKEYEXPIRED;
	case 413:
	case 414:
	case 431:
		return -EMSGSIZE;
	case 429:
		return -EDQUOT;
	case 503:
		return -EAGAIN;
	default:
		return status >= 500 ? -EIO : status >= 400 ? -EINVAL : -EPROTO;
	}
}

uint64_t nc_client_retry_after_ms(const struct http_message *response)
{
	const char *value = http_message_field(response, "Retry-After");
	size_t len = value ? strspn(value, "0123456789") : 0;

	if (!len || len > 5 || value[len])
		return 0;
	return strtoull(value, NULL, 10) * 1000;
}

void nc_client_read_error(const struct http_message *response, struct nc_error *error)
{
	struct nc_json *json;

	*error = (struct nc_error){ .status = (int)response->status };
	snprintf(error->message, sizeof(error->message), "the server answered %u",
		 response->status);
	if (response->body && !nc_json_parse(response->body, response->body_len, &json)) {
		nc_json_error(json, error);
		nc_json_free(json);
	}
	error->err = errno_of((int)response->status, error->code);
}
