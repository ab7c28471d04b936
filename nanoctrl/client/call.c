/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call: waiting for a slot, on its way, or waiting to be tried again; until its
 * answer or its deadline.
 */
#include <errno.h>
#include <inttypes.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "nanoctrl/client/call.h"
#include "nanoctrl/client/client.h"
#include "nanoctrl/client/request.h"
#include "nanoctrl/client/servers.h"
#include "nanoctrl/net/loop.h"

#define RETRY_BASE_MS 50
#define RETRY_MAX_MS  2000
#define ORDER_MAX     (UINT64_C(1) << 53) /* of a clock that can be believed */
/* Of many servers each gets that much of a call's time, or half of it. */
#define ATTEMPT_MIN_MS 1000

static const char *const method_names[] = { "GET", "PUT", "POST", "DELETE", "PATCH" };

static void dispatch(struct nc_client *client);

/* --- timers --- */

static void arm(struct nc_call *call)
{
	uint64_t now = sl_clock_ns(), at = call->deadline_ns;

	if (call->retry_ns && call->retry_ns < at)
		at = call->retry_ns;
	if (call->silence_ns && call->silence_ns < at)
		at = call->silence_ns;
	/* Rounded up: never early. */
	loop_set_timer_us(call->timer, at > now ? (at - now + SL_NS_PER_US - 1) / SL_NS_PER_US : 0);
}

/* --- ends --- */

void nc_call_destroy(struct nc_call *call)
{
	if (!call)
		return;
	sl_list_remove(&call->in_all);
	sl_list_remove(&call->in_ready);
	if (call->timer)
		event_free(call->timer);
	free(call->target);
	free(call->body);
	free(call);
}

/* The user is called when the client is in order again; afterwards call is gone. */
static void finish(struct nc_call *call, struct nc_error *error, struct nc_json *json)
{
	struct nc_client *client = call->client;

	client->n_calls--;
	client->n_polls -= call->wait_ms > 0;
	sl_list_remove(&call->in_all);
	sl_list_remove(&call->in_ready);
	event_del(call->timer);
	if (!call->cancelled && call->finish(call, error, json)) {
		struct nc_error bad = { .err = -EPROTO,
					.status = 200,
					.message = "the answer lacks what it should say" };

		call->finish(call, &bad, NULL);
	}
	nc_call_destroy(call);
	dispatch(client);
}

static void drop_slot(struct nc_slot *slot)
{
	nc_conn_close(slot->conn);
	slot->conn = NULL;
	slot->used = false;
	if (slot->call)
		slot->call->slot = NULL;
	slot->call = NULL;
}

void nc_client_drop_idle(struct nc_client *client)
{
	for (size_t i = 0; i < NC_N_SLOTS; i++)
		if (client->slots[i].conn && !client->slots[i].call)
			drop_slot(&client->slots[i]);
}

static void time_out(struct nc_call *call)
{
	struct nc_error error = call->last;
	size_t server = call->slot ? call->slot->server : call->client->server;

	if (call->slot) {
		nc_client_avoid(call->client, server);
		drop_slot(call->slot);
	}
	error.err = -ETIMEDOUT;
	if (!error.message[0])
		snprintf(error.message, sizeof(error.message), "no answer from %.200s",
			 call->client->urls[server].text);
	finish(call, &error, NULL);
}

/* It was asked for by a registration that is over: what it says is for the next one to say. */
static bool is_outlived(const struct nc_call *call)
{
	return call->lease_number && call->lease_number != call->client->lease_number;
}

static void end_outlived(struct nc_call *call)
{
	struct nc_error error = { .err = -EKEYEXPIRED,
				  .code = "lease_gone",
				  .message = "the lease that it was made with is over" };

	finish(call, &error, NULL);
}

/* Later, after at least delay_ms. */
static void retry(struct nc_call *call, uint64_t delay_ms)
{
	call->attempts++;
	call->silence_ns = 0;
	call->retry_ns = sl_clock_ns() + delay_ms * SL_NS_PER_MS;
	arm(call);
}

void nc_client_restart_calls(struct nc_client *client)
{
	for (size_t i = 0; i < NC_N_SLOTS; i++) {
		struct nc_slot *slot = &client->slots[i];
		struct nc_call *call = slot->call;

		if (slot->conn)
			drop_slot(slot);
		if (call)
			retry(call, 0);
	}
}

/* The server could not be spoken to at n addresses, as call->last says: another attempt, or the
 * end. */
static void try_again(struct nc_call *call, size_t server, size_t n, const char *cause)
{
	struct nc_client *client = call->client;
	uint64_t wait_ms = nc_backoff_ms(call->attempts, RETRY_BASE_MS, RETRY_MAX_MS);

	call->n_unreachable += n;
	if (client->impatient && call->n_unreachable >= nc_client_n_addresses(client)) {
		wait_ms = 0;
		call->deadline_ns = sl_clock_ns();
	}
	nc_client_failed(client, server, cause, wait_ms);
	retry(call, wait_ms);
}

static void fail_attempt(struct nc_call *call, size_t server, size_t n, int err, const char *cause)
{
	call->last = (struct nc_error){ .err = err };
	snprintf(call->last.message, sizeof(call->last.message), "%.100s: %.150s",
		 call->client->urls[server].text, cause);
	try_again(call, server, n, cause);
}

static void give_up_attempt(struct nc_call *call)
{
	size_t server = call->slot->server, n = nc_conn_tried(call->slot->conn);

	drop_slot(call->slot);
	fail_attempt(call, server, n, -ETIMEDOUT, "no answer");
}

/* The loop's clock is that of its turn: after a long turn a timer is early. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct nc_call *call = arg;
	uint64_t now = sl_clock_ns();

	(void)fd;
	(void)what;
	if (call->outlived) {
		end_outlived(call);
		return;
	}
	if (now >= call->deadline_ns) {
		time_out(call);
		return;
	}
	if (call->silence_ns && now >= call->silence_ns) {
		give_up_attempt(call);
		dispatch(call->client);
		return;
	}
	if (call->retry_ns && now >= call->retry_ns) {
		sl_list_append(&call->client->ready, &call->in_ready);
		call->retry_ns = 0;
	}
	arm(call);
	dispatch(call->client);
}

/* --- answers --- */

static void take_answer(struct nc_call *call, const struct http_message *response)
{
	const char *body = response->body ? response->body : "";
	struct nc_json *json = NULL;
	struct nc_error error;
	int ret;

	if (call->raw)
		ret = nc_json_wrap(body, response->body_len, &json);
	else
		ret = nc_json_parse(body, response->body_len, &json);
	if (!ret) {
		finish(call, NULL, json);
		nc_json_free(json);
		return;
	}
	error = (struct nc_error){ .err = ret == -ENOMEM ? -EIO : ret,
				   .status = (int)response->status,
				   .message = "the answer is no JSON object" };
	finish(call, &error, NULL);
}

/* A proxy before the server says that it could not speak to it. */
static bool is_gateway(unsigned status)
{
	return status == 502 || status == 504;
}

static void take_refusal(struct nc_call *call, const struct http_message *response, size_t server)
{
	struct nc_error error;
	uint64_t delay_ms;

	nc_client_read_error(response, &error);
	if (is_gateway(response->status)) {
		call->last = error;
		try_again(call, server, 1, error.message);
		return;
	}
	if (call->ordered && error.err == -ESTALE && error.order) {
		/* The refusal is for this process, not for an earlier attempt: ours is the later
		 * one, by a clock that is behind. */
		if (call->client->order < error.order)
			call->client->order = error.order;
		call->last = error;
		retry(call, nc_backoff_ms(call->attempts, RETRY_BASE_MS, RETRY_MAX_MS));
		return;
	}
	if (response->status != 503 && response->status != 408) {
		finish(call, &error, NULL);
		return;
	}
	delay_ms = nc_backoff_ms(call->attempts, RETRY_BASE_MS, RETRY_MAX_MS);
	delay_ms += nc_client_retry_after_ms(response);
	nc_client_failed(call->client, server, error.message, delay_ms);
	call->last = error;
	call->n_unreachable = 0;
	retry(call, delay_ms);
}

static void on_answered(void *arg, const struct http_message *response)
{
	struct nc_slot *slot = arg;
	struct nc_client *client = slot->client;
	struct nc_call *call = slot->call;
	size_t server = slot->server;

	slot->call = NULL;
	slot->used = true;
	if (call)
		call->slot = NULL;
	/* An answer to nothing, or one that ends the connection. */
	if (!call || !response->keep_alive || response->status == 101)
		drop_slot(slot);
	if (!call)
		return;
	if (response->status >= 200 && response->status < 300) {
		take_answer(call, response);
		return;
	}
	take_refusal(call, response, server);
	dispatch(client);
}

static void on_failed(void *arg, int err, const char *cause)
{
	struct nc_slot *slot = arg;
	struct nc_client *client = slot->client;
	struct nc_call *call = slot->call;
	bool stale = slot->used && err == -ECONNRESET;
	size_t server = slot->server, n = nc_conn_tried(slot->conn);

	drop_slot(slot);
	if (!call)
		return;
	if (err == -EPROTO || err == -EMSGSIZE) {
		struct nc_error error = { .err = err };

		snprintf(error.message, sizeof(error.message), "%.100s: %.150s",
			 client->urls[server].text, cause);
		finish(call, &error, NULL);
		return;
	}
	/* A kept connection that the server closed meanwhile says nothing: at once on a new one. */
	if (stale) {
		retry(call, 0);
		return;
	}
	fail_attempt(call, server, n, err, cause);
}

static void on_data(void *arg, struct evbuffer *in)
{
	/* These connections never upgrade; the slot was dropped with the 101. */
	(void)arg;
	(void)in;
}

/* A server that says nothing is left in time for another one, but no slow one for its slowness. */
static int64_t attempt_ms(const struct nc_client *client)
{
	int64_t share = client->timeout_ms / (int64_t)nc_client_n_addresses(client);
	int64_t half = client->timeout_ms / 2;
	int64_t least = half < ATTEMPT_MIN_MS ? half : ATTEMPT_MIN_MS;

	return share < least ? least : share;
}

static void limit_attempt(struct nc_call *call)
{
	if (nc_client_n_addresses(call->client) < 2)
		return;
	call->silence_ns = sl_deadline_ns(attempt_ms(call->client) + call->wait_ms);
	arm(call);
}

static void on_found(void *arg)
{
	struct nc_slot *slot = arg;

	if (slot->call)
		limit_attempt(slot->call);
}

static const struct nc_conn_ops slot_ops = { on_answered, on_data, on_failed, on_found };

/* --- sending --- */

/* A number for this owner, in any process: each is greater than the one before. */
static uint64_t next_order(struct nc_client *client)
{
	struct timespec now;
	uint64_t us;

	clock_gettime(CLOCK_REALTIME, &now);
	us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	client->order = us > client->order && us < ORDER_MAX ? us : client->order + 1;
	return client->order;
}

static int write_request(const struct nc_call *call, struct evbuffer *out, size_t server)
{
	size_t len = call->body ? strlen(call->body) : 0;
	char order[32] = "";

	if (call->ordered)
		snprintf(order, sizeof(order), "&order=%" PRIu64, next_order(call->client));
	if (evbuffer_add_printf(out, "%s %s%s HTTP/1.1\r\n", method_names[call->method],
				call->target, order) < 0 ||
	    nc_client_headers(call->client, out, server, call->with_lease))
		return -ENOMEM;
	if (call->body && evbuffer_add_printf(out, "Content-Type: application/json\r\n") < 0)
		return -ENOMEM;
	if (call->method != NC_GET && evbuffer_add_printf(out, "Content-Length: %zu\r\n", len) < 0)
		return -ENOMEM;
	return evbuffer_add_printf(out, "\r\n") < 0 || evbuffer_add(out, call->body, len) ? -ENOMEM
											  : 0;
}

static int send_on(struct nc_slot *slot, struct nc_call *call)
{
	struct evbuffer *out = evbuffer_new();
	int ret;

	if (!out)
		return -ENOMEM;
	ret = write_request(call, out, slot->server);
	if (!ret)
		ret = nc_conn_send(slot->conn, out, call->wait_ms);
	evbuffer_free(out);
	return ret;
}

/* An idle connection to the server in use, else a free slot; others idle are to a server or an
 * address left behind. */
static struct nc_slot *choose_slot(struct nc_client *client)
{
	struct nc_slot *free_slot = NULL;

	for (size_t i = 0; i < NC_N_SLOTS; i++) {
		struct nc_slot *slot = &client->slots[i];

		if (slot->call)
			continue;
		if (slot->conn && slot->server == client->server && !nc_conn_is_left(slot->conn))
			return slot;
		if (!free_slot || !slot->conn)
			free_slot = slot;
	}
	return free_slot;
}

static int start_on(struct nc_slot *slot, struct nc_call *call)
{
	struct nc_client *client = slot->client;
	int ret = 0;

	if (slot->conn && (slot->server != client->server || nc_conn_is_left(slot->conn)))
		drop_slot(slot);
	if (!slot->conn) {
		slot->server = client->server;
		ret = nc_conn_open(&slot->conn, client->base, client->resolver,
				   &client->urls[slot->server], &client->names[slot->server],
				   &slot_ops, slot);
	}
	if (!ret)
		ret = send_on(slot, call);
	if (ret)
		return ret;
	slot->call = call;
	call->slot = slot;
	limit_attempt(call);
	return 0;
}

static void dispatch(struct nc_client *client)
{
	while (!sl_list_empty(&client->ready)) {
		struct nc_slot *slot = choose_slot(client);
		struct nc_call *call;
		int ret;

		if (!slot)
			return;
		call = SL_CONTAINER_OF(sl_list_pop(&client->ready), struct nc_call, in_ready);
		if (is_outlived(call)) {
			call->outlived = true;
			retry(call, 0); /* never call back from inside of a call */
			continue;
		}
		ret = start_on(slot, call);
		if (!ret)
			continue;
		drop_slot(slot);
		fail_attempt(call, client->server, 1, ret, strerror(-ret));
	}
}

/* --- begin --- */

struct nc_call *nc_call_create(struct nc_client *client, enum nc_method method,
			       nc_finish_fn *fn_finish, nc_any_fn *fn, void *arg)
{
	struct nc_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	sl_list_init(&call->in_all);
	sl_list_init(&call->in_ready);
	call->client = client;
	call->method = method;
	call->finish = fn_finish;
	call->fn = fn;
	call->arg = arg;
	call->timer = evtimer_new(client->base, on_timer, call);
	if (call->timer)
		return call;
	free(call);
	return NULL;
}

int nc_call_start(struct nc_call *call)
{
	struct nc_client *client = call->client;

	if (client->n_calls == NC_MAX_CALLS)
		return -EAGAIN;
	client->n_calls++;
	client->n_polls += call->wait_ms > 0;
	call->deadline_ns = sl_deadline_ns((int64_t)client->timeout_ms + call->wait_ms);
	sl_list_append(&client->all, &call->in_all);
	sl_list_append(&client->ready, &call->in_ready);
	arm(call);
	dispatch(client);
	return 0;
}

/* Its place, and its connection's, are for others. */
static void abandon(struct nc_call *call)
{
	struct nc_slot *slot = call->slot;

	if (slot) {
		nc_conn_abandon(slot->conn);
		slot->conn = NULL;
		drop_slot(slot);
	}
	call->client->n_calls--;
	call->client->n_polls--;
	nc_call_destroy(call);
}

void nc_cancel(struct nc_client *client, const void *arg)
{
	struct sl_list *e, *next;

	/* The call runs on to its answer, which is dropped; but the answer of a poll may take long.
	 */
	sl_list_for_each_safe (e, next, &client->all) {
		struct nc_call *call = SL_CONTAINER_OF(e, struct nc_call, in_all);

		if (call->arg != arg)
			continue;
		call->cancelled = true;
		if (call->wait_ms)
			abandon(call);
	}
	dispatch(client);
}
