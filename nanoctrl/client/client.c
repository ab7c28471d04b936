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

static int parse_urls(struct nc_url *out, const char *const *urls, size_t n)
{
	if (!n || n > NC_MAX_URLS)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int ret = nc_url_parse(urls[i], &out[i]);

		if (ret)
			return ret;
	}
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
	ret = parse_urls(client->urls, attr->urls, attr->n_urls);
	client->n_urls = attr->n_urls;
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
	if (client->move)
		event_free(client->move);
	free(client->next_urls);
	free(client->token);
	free(client);
}

/* ---- other servers ---- */

static void on_move(evutil_socket_t fd, short what, void *arg)
{
	struct nc_client *client = arg;

	(void)fd;
	(void)what;
	nc_client_restart_calls(client);
	memcpy(client->urls, client->next_urls, client->n_next_urls * sizeof(*client->urls));
	memset(client->names, 0, sizeof(client->names));
	client->n_urls = client->n_next_urls;
	client->server = 0;
	free(client->next_urls);
	client->next_urls = NULL;
	if (client->session)
		nc_session_restart(client->session, "other servers are to be asked");
}

static bool are_same(const struct nc_url *have, size_t n, const struct nc_url *want, size_t n_want)
{
	for (size_t i = 0; n == n_want && i < n; i++)
		if (strcmp(have[i].text, want[i].text) != 0)
			return false;
	return n == n_want;
}

int nc_client_set_urls(struct nc_client *client, const char *const *urls, size_t n_urls)
{
	struct nc_url *next = calloc(NC_MAX_URLS, sizeof(*next));
	int ret = next ? parse_urls(next, urls, n_urls) : -ENOMEM;

	if (!ret && !client->move)
		client->move = evtimer_new(client->base, on_move, client);
	if (!ret && !client->move)
		ret = -ENOMEM;
	if (ret || (!client->next_urls && are_same(client->urls, client->n_urls, next, n_urls))) {
		free(next);
		return ret;
	}
	free(client->next_urls);
	client->next_urls = next;
	client->n_next_urls = n_urls;
	event_active(client->move, EV_TIMEOUT, 0);
	return 0;
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
