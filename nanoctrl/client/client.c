/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "nanoctrl/client/client.h"
#include "nanoctrl/net/resolver.h"

uint64_t nc_backoff_ms(unsigned attempts, uint64_t base_ms, uint64_t most_ms)
{
	uint64_t ms = base_ms << (attempts < 16 ? attempts : 16);

	if (ms > most_ms)
		ms = most_ms;
	return ms - sl_random_up_to(ms / 2);
}

static int copy_urls(struct nc_client *client, const struct nc_client_attr *attr)
{
	if (!attr->n_urls || attr->n_urls > NC_MAX_URLS)
		return -EINVAL;
	for (size_t i = 0; i < attr->n_urls; i++) {
		int ret = nc_url_parse(attr->urls[i], &client->urls[i]);

		if (ret)
			return ret;
	}
	client->n_urls = attr->n_urls;
	return 0;
}

static int copy_scope_and_token(struct nc_client *client, const struct nc_client_attr *attr)
{
	const char *scope = attr->scope ? attr->scope : "default";

	if (!*scope || strlen(scope) > NC_NAME_MAX)
		return -EINVAL;
	strcpy(client->scope, scope);
	if (!attr->token)
		return 0;
	/* It goes into a header: nothing in it may end the line. */
	for (const char *c = attr->token; *c; c++)
		if (!isgraph((unsigned char)*c))
			return -EINVAL;
	client->token = strdup(attr->token);
	return client->token ? 0 : -ENOMEM;
}

int nc_client_create(struct nc_client **out, const struct nc_client_attr *attr)
{
	struct nc_client *client;
	int ret;

	if (!attr->base || attr->timeout_ms <= 0)
		return -EINVAL;
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->base = attr->base;
	client->timeout_ms = attr->timeout_ms;
	client->impatient = attr->impatient;
	client->on_retry = attr->on_retry;
	client->arg = attr->arg;
	client->lease_number = 1;
	sl_list_init(&client->ready);
	sl_list_init(&client->all);
	for (size_t i = 0; i < NC_N_SLOTS; i++)
		client->slots[i].client = client;
	ret = copy_urls(client, attr);
	if (!ret)
		ret = copy_scope_and_token(client, attr);
	if (!ret)
		ret = nc_resolver_create(client->base, &client->resolver);
	if (ret)
		goto free_client;
	*out = client;
	return 0;

free_client:
	free(client->token);
	free(client);
	return ret;
}

void nc_client_destroy(struct nc_client *client)
{
	struct sl_list *e, *tmp;

	if (!client)
		return;
	nc_session_destroy(client->session);
	for (size_t i = 0; i < NC_N_SLOTS; i++)
		nc_conn_close(client->slots[i].conn);
	sl_list_for_each_safe (e, tmp, &client->all)
		nc_call_destroy(SL_CONTAINER_OF(e, struct nc_call, in_all));
	nc_resolver_destroy(client->resolver);
	free(client->token);
	free(client);
}

const char *nc_client_url(const struct nc_client *client)
{
	return client->urls[client->server].text;
}

void nc_client_set_lease(struct nc_client *client, const char *lease)
{
	strcpy(client->lease, lease);
	client->lease_number++;
}

size_t nc_client_n_addresses(const struct nc_client *client)
{
	size_t n = 0;

	for (size_t i = 0; i < client->n_urls; i++)
		n += client->names[i].n ? client->names[i].n : 1;
	return n;
}

void nc_client_avoid(struct nc_client *client, size_t server)
{
	/* Several connections may find the same server dead: only the first moves on. */
	if (server == client->server)
		client->server = (server + 1) % client->n_urls;
}

void nc_client_failed(struct nc_client *client, size_t server, const char *cause, uint64_t wait_ms)
{
	if (client->on_retry)
		client->on_retry(client->arg, client->urls[server].text, cause, wait_ms);
	nc_client_avoid(client, server);
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
