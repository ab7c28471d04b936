/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/call.h"
#include "nanoctrl/client/client.h"
#include "nanoctrl/client/session.h"
#include "nanoctrl/net/resolver.h"

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
