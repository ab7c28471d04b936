/* SPDX-License-Identifier: Apache-2.0 */
/* A server of many links: those where nothing happens for long are heard when something does. */
#include <string.h>

#include "tests/libslime/rpc/pair.h"

#define LINKS 16
/* More rounds without a message than a link stays awake for. */
#define QUIET_ROUNDS 1500
/* A message of a link beside a busy one is taken within so many, at each end. */
#define ROUNDS_UNTIL_HEARD (2 * 9)

struct hub {
	struct pair *p;
	struct slime_endpoint *clients[LINKS];
	struct slime_endpoint *servers[LINKS];
	struct slime_call *call;
};

static struct slime_endpoint *make_endpoint(struct side *s, enum slime_transport transport)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint *ep;

	attr.transports[0] = transport;
	attr.service = s->service;
	assert_int_equal(slime_endpoint_create(s->ctx, &attr, &ep), 0);
	return ep;
}

static void wait_both(struct hub *h, struct slime_op *a, struct slime_op *b)
{
	while (!slime_op_test(a) || !slime_op_test(b)) {
		slime_context_poll(h->p->a.ctx);
		slime_context_poll(h->p->b.ctx);
	}
	assert_int_equal(slime_op_status(a), 0);
	assert_int_equal(slime_op_status(b), 0);
}

static void open_hub(struct hub *h, const struct slime_context_attr *attr,
		     enum slime_transport transport)
{
	h->p = pair_open(transport, attr);
	for (int i = 0; i < LINKS; i++) {
		h->clients[i] = make_endpoint(&h->p->a, transport);
		h->servers[i] = make_endpoint(&h->p->b, transport);
		connect_to(h->clients[i], h->servers[i], h->p->a.op);
		connect_to(h->servers[i], h->clients[i], h->p->b.op);
		wait_both(h, h->p->a.op, h->p->b.op);
	}
	assert_int_equal(slime_call_create(h->p->a.ctx, NULL, &h->call), 0);
}

static void close_hub(struct hub *h)
{
	assert_int_equal(slime_call_destroy(h->call), 0);
	for (int i = 0; i < LINKS; i++) {
		assert_int_equal(slime_endpoint_destroy(h->clients[i]), 0);
		assert_int_equal(slime_endpoint_destroy(h->servers[i]), 0);
	}
	pair_close(h->p);
}

/* Every link's call returns, each after all links were quiet, and the other links' afterwards. */
static void call_on_each(struct hub *h, void (*be_quiet)(struct hub *h))
{
	uint8_t out[100], in[100];

	for (int i = 0; i < LINKS; i++) {
		be_quiet(h);
		pattern_fill(out, sizeof(out), (uint32_t)i);
		assert_int_equal(call_now(h->clients[i], h->call, "echo_inline", out, sizeof(out),
					  in, sizeof(in)),
				 0);
		assert_true(pattern_ok(in, sizeof(in), (uint32_t)i));
	}
}

/* Rounds of both contexts, by this thread as far as theirs leave it any. */
static void poll_both(struct hub *h)
{
	for (int i = 0; i < QUIET_ROUNDS; i++) {
		slime_context_poll(h->p->a.ctx);
		slime_context_poll(h->p->b.ctx);
	}
}

static void idle_links__are_heard_by_a_server_that_spins(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct hub h = { 0 };

	attr.polling = SLIME_POLLING_BUSY;
	open_hub(&h, &attr, *(enum slime_transport *)*state);
	call_on_each(&h, poll_both);
	close_hub(&h);
}

static void idle_links__are_heard_by_a_server_that_sleeps(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct hub h = { 0 };

	attr.polling = SLIME_POLLING_EVENT;
	open_hub(&h, &attr, *(enum slime_transport *)*state);
	poll_both(&h);
	call_on_each(&h, poll_both);
	close_hub(&h);
}

/* Both sides poll until the call over that link has ended well. */
static void call_polling(struct hub *h, int link, const struct slime_call_args *args)
{
	assert_int_equal(slime_call_start(h->clients[link], args, h->call), 0);
	while (!slime_call_test(h->call)) {
		slime_context_poll(h->p->b.ctx);
		slime_context_poll(h->p->a.ctx);
	}
	assert_int_equal(slime_call_status(h->call), 0);
}

/* A poll that comes after a pause finds what there is. */
static void idle_links__are_heard_by_a_caller_that_polls(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct hub h = { 0 };
	uint8_t byte = 7;

	attr.manual = true;
	open_hub(&h, &attr, *(enum slime_transport *)*state);
	args.method = slime_rpc_method_id("echo_inline");
	args.request = &byte;
	args.request_len = 1;
	args.reply = &byte;
	args.reply_cap = 1;
	for (int i = 0; i < LINKS; i++) {
		poll_both(&h);
		call_polling(&h, i, &args);
	}
	close_hub(&h);
}

/* A call that begins and ends while each side makes one round. */
static void call_in_a_round(struct hub *h, const struct slime_call_args *args,
			    struct slime_call *call)
{
	assert_int_equal(slime_call_start(h->clients[0], args, call), 0);
	assert_true(slime_context_poll(h->p->b.ctx) > 0);
	assert_true(slime_context_poll(h->p->a.ctx) > 0);
	assert_true(slime_call_test(call));
	assert_int_equal(slime_call_status(call), 0);
}

/* The next message of the link that had the last one is looked for first, and taken without a look
 * at the others: only so many times in a row. */
static void link__beside_one_that_always_has_a_message_is_heard(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_call_args busy = SLIME_CALL_ARGS_INIT, other = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	struct hub h = { 0 };
	int rounds = 0;

	attr.manual = true;
	open_hub(&h, &attr, *(enum slime_transport *)*state);
	assert_int_equal(slime_call_create(h.p->a.ctx, NULL, &call), 0);
	busy.method = slime_rpc_method_id("echo_inline");
	other.method = slime_rpc_method_id("count");
	/* A link that was idle while others connected is not looked at in every round. */
	call_polling(&h, 0, &busy);
	call_polling(&h, 1, &other);
	for (int i = 0; i < 100; i++)
		call_in_a_round(&h, &busy, call);

	assert_int_equal(slime_call_start(h.clients[1], &other, h.call), 0);
	for (; !slime_call_test(h.call); rounds++) {
		assert_true(rounds < ROUNDS_UNTIL_HEARD);
		call_in_a_round(&h, &busy, call);
	}
	assert_int_equal(slime_call_status(h.call), 0);
	assert_int_equal(slime_call_destroy(call), 0);
	close_hub(&h);
}

int main(void)
{
	static enum slime_transport shm = SLIME_TRANSPORT_SHM, tcp = SLIME_TRANSPORT_TCP;
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(idle_links__are_heard_by_a_server_that_spins, &shm),
		cmocka_unit_test_prestate(idle_links__are_heard_by_a_server_that_sleeps, &shm),
		cmocka_unit_test_prestate(idle_links__are_heard_by_a_caller_that_polls, &shm),
		cmocka_unit_test_prestate(link__beside_one_that_always_has_a_message_is_heard,
					  &shm),
		cmocka_unit_test_prestate(idle_links__are_heard_by_a_server_that_sleeps, &tcp),
		cmocka_unit_test_prestate(idle_links__are_heard_by_a_caller_that_polls, &tcp),
	};

	return cmocka_run_group_tests_name("rpc over many links", tests, NULL, NULL);
}
