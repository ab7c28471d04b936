/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint gets its connection: candidates that fail, and secrets that nobody keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/core/desc.h"
#include "src/transport/auth.h"
#include <slime/slime.h>

#define PATIENCE_MS 60000

#define assert_ok(expr) assert_int_equal(expr, 0)

/* ---- what is wiped ---- */

static uint8_t secret[SL_SECRET_LEN]; /* the one that is looked for */
static _Thread_local unsigned n_wiped;

/* Closed by this thread in the attempt to connect, when it wipes something. */
static _Thread_local struct slime_endpoint *close_at_wipe;

void __real_sl_auth_wipe(void *at, size_t len);
void __wrap_sl_auth_wipe(void *at, size_t len);

void __wrap_sl_auth_wipe(void *at, size_t len)
{
	const uint8_t *bytes = at;

	if (close_at_wipe)
		slime_endpoint_close(close_at_wipe);
	close_at_wipe = NULL;
	for (size_t i = 0; i + sizeof(secret) <= len; i++) {
		if (!memcmp(bytes + i, secret, sizeof(secret))) {
			n_wiped++;
			break;
		}
	}
	__real_sl_auth_wipe(at, len);
}

/* ---- two ends ---- */

struct side {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	size_t len;
};

struct two {
	struct side first; /* who initiates */
	struct side second;
};

static void side_open_endpoint(struct side *s, const struct slime_endpoint_attr *attr)
{
	int len;

	assert_ok(slime_endpoint_create(s->ctx, attr, &s->ep));
	len = slime_endpoint_export(s->ep, s->desc, sizeof(s->desc));
	assert_true(len > 0);
	s->len = (size_t)len;
}

static void side_open(struct side *s, const struct slime_context_attr *ctx_attr,
		      const struct slime_endpoint_attr *attr)
{
	assert_ok(slime_context_create(ctx_attr, &s->ctx));
	assert_ok(slime_op_create(s->ctx, NULL, &s->op));
	side_open_endpoint(s, attr);
}

static void side_close(struct side *s)
{
	assert_ok(slime_endpoint_destroy(s->ep));
	assert_ok(slime_op_destroy(s->op));
	assert_ok(slime_context_destroy(s->ctx));
}

static struct sl_endpoint_desc read_desc(const struct side *s)
{
	struct sl_endpoint_desc d;

	assert_ok(sl_desc_read_endpoint(&d, s->desc, s->len));
	return d;
}

/* They prefer shm to tcp, or have shm alone. */
static struct two *two_open(bool with_tcp)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct two *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	if (with_tcp)
		attr.transports[1] = SLIME_TRANSPORT_TCP;
	side_open(&t->first, NULL, &attr);
	side_open(&t->second, NULL, &attr);
	/* The smaller id begins. */
	if (read_desc(&t->first).context > read_desc(&t->second).context) {
		struct side s = t->first;

		t->first = t->second;
		t->second = s;
	}
	return t;
}

static void two_close(struct two *t)
{
	side_close(&t->first);
	side_close(&t->second);
	free(t);
}

static int start(struct side *from, const struct side *to)
{
	return slime_endpoint_connect(from->ep, to->desc, to->len, PATIENCE_MS, from->op);
}

static int ended(struct side *s)
{
	assert_ok(slime_op_wait(s->op, PATIENCE_MS));
	return slime_op_status(s->op);
}

/* What the initiator is told of the other's shm: nobody, or somebody else, listens there. */
static void set_shm_name(struct side *s, const char *name)
{
	struct sl_endpoint_desc d = read_desc(s);
	int len;

	assert_int_equal(d.candidates[0].transport, SLIME_TRANSPORT_SHM);
	d.candidates[0].len = (uint16_t)strlen(name);
	memcpy(d.candidates[0].bytes, name, strlen(name));
	len = sl_desc_write_endpoint(&d, s->desc, sizeof(s->desc));
	assert_true(len > 0);
	s->len = (size_t)len;
}

static void assert_connected_over(struct side *s, enum slime_transport transport)
{
	struct slime_endpoint_info info;

	assert_ok(ended(s));
	slime_endpoint_info(s->ep, &info);
	assert_int_equal(info.transport, transport);
}

/* ---- candidates ---- */

/* Over tcp, since nobody listens where shm is dialed. */
static struct two *two_connect_past_shm(void)
{
	struct two *t = two_open(true);

	set_shm_name(&t->second, "slime-nobody-listens-here");
	assert_ok(start(&t->first, &t->second));
	assert_ok(start(&t->second, &t->first));
	assert_connected_over(&t->first, SLIME_TRANSPORT_TCP);
	assert_connected_over(&t->second, SLIME_TRANSPORT_TCP);
	return t;
}

static void connect__with_a_first_candidate_nobody_listens_at_takes_the_next(void **state)
{
	(void)state;
	two_close(two_connect_past_shm());
}

/* The second allows the same, and waited for both: it knows of nothing that failed. */
static void info__says_why_a_transport_was_passed_over(void **state)
{
	struct slime_endpoint_info first, second;
	struct two *t = two_connect_past_shm();

	(void)state;
	slime_endpoint_info(t->first.ep, &first);
	slime_endpoint_info(t->second.ep, &second);
	assert_true(first.own_order);
	assert_false(second.own_order);
	assert_ptr_equal(strstr(first.passed_over, "shm: "), first.passed_over);
	assert_null(strstr(first.passed_over, ";"));
	assert_string_equal(second.passed_over, "");
	two_close(t);
}

/* The second's endpoint made anew, with these: it waits on both. */
static struct two *two_open_unlike(enum slime_transport one, enum slime_transport other)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct two *t = two_open(false);

	attr.transports[0] = one;
	attr.transports[1] = other;
	assert_ok(slime_endpoint_destroy(t->second.ep));
	side_open_endpoint(&t->second, &attr);
	return t;
}

static void assert_second_passed_over(struct two *t, const char *expected)
{
	struct slime_endpoint_info info;

	assert_ok(start(&t->first, &t->second));
	assert_ok(start(&t->second, &t->first));
	assert_connected_over(&t->first, SLIME_TRANSPORT_SHM);
	assert_connected_over(&t->second, SLIME_TRANSPORT_SHM);
	slime_endpoint_info(t->second.ep, &info);
	assert_string_equal(info.passed_over, expected);
}

/* The peer has no tcp to offer: that is told where tcp was to come first, and only there. */
static void info__tells_of_those_before_the_one_in_use(void **state)
{
	struct two *t = two_open_unlike(SLIME_TRANSPORT_TCP, SLIME_TRANSPORT_SHM);

	(void)state;
	assert_second_passed_over(t, "tcp: the peer does not offer it");
	two_close(t);
	t = two_open_unlike(SLIME_TRANSPORT_SHM, SLIME_TRANSPORT_TCP);
	assert_second_passed_over(t, "");
	two_close(t);
}

/* The first prefers shm: that the second's tcp is closed then is no reason. */
static void info__of_who_waited_on_both_has_no_reason(void **state)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct two *t = two_open_unlike(SLIME_TRANSPORT_TCP, SLIME_TRANSPORT_SHM);

	(void)state;
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	attr.transports[1] = SLIME_TRANSPORT_TCP;
	assert_ok(slime_endpoint_destroy(t->first.ep));
	side_open_endpoint(&t->first, &attr);
	assert_second_passed_over(t, "");
	two_close(t);
}

/* An abstract socket of a name that nobody else has. */
static int listen_as_stranger(char *name, size_t cap)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(name, cap, "slime-stranger-%d", (int)getpid());
	memcpy(addr.sun_path + 1, name, strlen(name));
	assert_ok(bind(fd, (struct sockaddr *)&addr,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))));
	assert_ok(listen(fd, 1));
	return fd;
}

static void hang_up_on_one(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int fd;

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	close(fd);
}

static void connect__with_a_first_candidate_that_hangs_up_takes_the_next(void **state)
{
	struct two *t = two_open(true);
	char name[64];
	int listener = listen_as_stranger(name, sizeof(name));

	(void)state;
	set_shm_name(&t->second, name);
	assert_ok(start(&t->first, &t->second));
	assert_ok(start(&t->second, &t->first));
	hang_up_on_one(listener);
	assert_connected_over(&t->first, SLIME_TRANSPORT_TCP);
	assert_connected_over(&t->second, SLIME_TRANSPORT_TCP);
	close(listener);
	two_close(t);
}

/* Streams until no more can wait in the queue of the listener; how many. */
static unsigned fill(const char *name, int *fds, unsigned max)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	unsigned n;

	memcpy(addr.sun_path + 1, name, strlen(name));
	for (n = 0; n < max; n++) {
		fds[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(fds[n] >= 0);
		if (connect(fds[n], (struct sockaddr *)&addr, len)) {
			assert_int_equal(errno, EAGAIN);
			close(fds[n]);
			break;
		}
	}
	return n;
}

static void connect__to_a_listener_that_is_full_waits_for_it(void **state)
{
	struct two *t = two_open(false);
	char name[64];
	int listener = listen_as_stranger(name, sizeof(name));
	int fds[16];
	unsigned n = fill(name, fds, 16);

	(void)state;
	assert_in_range(n, 1, 15);
	set_shm_name(&t->second, name);
	assert_ok(start(&t->first, &t->second));
	assert_int_equal(slime_op_wait(t->first.op, 100), -ETIMEDOUT);
	for (unsigned i = 0; i < n; i++) {
		hang_up_on_one(listener);
		close(fds[i]);
	}
	/* Now it is its turn. */
	hang_up_on_one(listener);
	assert_int_equal(ended(&t->first), -ECONNRESET);
	close(listener);
	two_close(t);
}

static void connect__with_one_candidate_that_fails_fails(void **state)
{
	struct slime_endpoint_info info;
	struct two *t = two_open(false);

	(void)state;
	set_shm_name(&t->second, "slime-nobody-listens-here");
	assert_ok(start(&t->first, &t->second));
	assert_int_equal(ended(&t->first), -ECONNREFUSED);
	slime_endpoint_info(t->first.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_non_null(strstr(info.cause_text, "shm: "));
	two_close(t);
}

/* Its only candidate fails right after. */
static void connect__that_fails_when_it_is_closed_is_canceled(void **state)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_context_attr manual = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_info info;
	struct two *t = two_open(false);
	struct side a;

	(void)state;
	manual.manual = true;
	attr.transports[0] = SLIME_TRANSPORT_TCP;
	side_open(&a, &manual, &attr);
	assert_ok(start(&a, &t->first));
	close_at_wipe = a.ep;
	assert_int_equal(ended(&a), -ECANCELED);
	assert_null(close_at_wipe);
	slime_endpoint_info(a.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_CLOSED);
	side_close(&a);
	two_close(t);
}

/* ---- secrets ---- */

/* The answer, and whether the copy of the peer's secret went. */
static void assert_refused(int ret, int expected)
{
	assert_int_equal(ret, expected);
	assert_int_equal(n_wiped, 1);
	n_wiped = 0;
}

static void connect__that_is_refused_keeps_no_copy_of_the_secret(void **state)
{
	struct two *t = two_open(false);
	struct side *a = &t->first;
	struct side other = t->second;

	(void)state;
	memcpy(secret, read_desc(&t->second).secret, sizeof(secret));
	n_wiped = 0;
	other.len--; /* cut behind the secret */
	assert_refused(start(a, &other), -EINVAL);
	assert_refused(start(&t->second, &t->second), -EINVAL);

	assert_ok(start(a, &t->second));
	n_wiped = 0;
	assert_refused(start(a, &t->second), -EBUSY);
	slime_endpoint_close(a->ep);
	assert_int_equal(ended(a), -ECANCELED);
	n_wiped = 0;
	assert_refused(start(a, &t->second), -EALREADY);
	two_close(t);
}

/* ---- closed while it connects ---- */

/* Without threads: what the other end has sent lies there until this one looks. */
struct lone {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep[2];
	struct slime_op *op[2];
};

static unsigned n_handled;

static void count_request(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	n_handled++;
	slime_rpc_reply(req, NULL, 0);
}

static void close_second(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
			 int cause)
{
	struct lone *l = arg;

	(void)cause;
	if (ep == l->ep[0] && state == SLIME_ENDPOINT_CONNECTED)
		slime_endpoint_close(l->ep[1]);
}

static void lone_open(struct lone *l)
{
	struct slime_context_attr manual = SLIME_CONTEXT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	manual.manual = true;
	assert_ok(slime_context_create(&manual, &l->ctx));
	assert_ok(slime_rpc_service_create(l->ctx, &l->service));
	method.fn = count_request;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_method_add(l->service, "count", &method));
}

static void lone_open_endpoints(struct lone *l, enum slime_transport transport, bool closes)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	attr.transports[0] = transport;
	attr.service = l->service;
	attr.on_state = closes ? close_second : NULL;
	attr.arg = l;
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_endpoint_create(l->ctx, &attr, &l->ep[i]));
		assert_ok(slime_op_create(l->ctx, NULL, &l->op[i]));
	}
}

static void lone_connect(struct lone *l, int i, const struct lone *to)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(to->ep[i], desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(l->ep[i], desc, (size_t)len, PATIENCE_MS, l->op[i]));
}

static void look(struct lone *l)
{
	assert_true(slime_context_poll(l->ctx) >= 0);
}

static bool is_open(const struct lone *l)
{
	struct slime_endpoint_info info[2];

	for (int i = 0; i < 2; i++)
		slime_endpoint_info(l->ep[i], &info[i]);
	return info[0].state <= SLIME_ENDPOINT_CONNECTED ||
	       info[1].state <= SLIME_ENDPOINT_CONNECTED;
}

/* Both at once: neither has a thread. */
static void close_endpoints(struct lone *a, struct lone *b)
{
	for (int i = 0; i < 2; i++) {
		slime_endpoint_close(a->ep[i]);
		slime_endpoint_close(b->ep[i]);
	}
	while (is_open(a) || is_open(b)) {
		look(a);
		look(b);
	}
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_endpoint_destroy(a->ep[i]));
		assert_ok(slime_endpoint_destroy(b->ep[i]));
		assert_ok(slime_op_destroy(a->op[i]));
		assert_ok(slime_op_destroy(b->op[i]));
	}
}

static void lone_close(struct lone *l)
{
	assert_ok(slime_rpc_service_destroy(l->service));
	assert_ok(slime_context_destroy(l->ctx));
}

/* Both links of the one who begins are up; the other has not looked since, unless one link alone
 * came up. */
static void bring_up(struct lone *first, struct lone *second)
{
	unsigned n_looks = 0;

	for (int i = 0; i < 2; i++) {
		lone_connect(first, i, second);
		lone_connect(second, i, first);
	}
	while (!slime_op_test(first->op[0]) || !slime_op_test(first->op[1])) {
		look(first);
		if ((slime_op_test(first->op[0]) || slime_op_test(first->op[1])) &&
		    ++n_looks < 1000)
			continue;
		look(second);
	}
}

static void call_closed_endpoint(struct lone *first, struct lone *second)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	int ret;

	bring_up(first, second);
	n_handled = 0;
	assert_ok(slime_call_create(first->ctx, NULL, &call));
	args.method = slime_rpc_method_id("count");
	ret = slime_call_start(first->ep[1], &args, call);
	while (!slime_op_test(second->op[0]) || !slime_op_test(second->op[1]) ||
	       !slime_call_test(call)) {
		look(second);
		look(first);
	}
	if (!ret && slime_op_status(second->op[1])) {
		assert_int_equal(n_handled, 0);
		assert_int_not_equal(slime_call_status(call), 0);
	}
	assert_ok(slime_call_destroy(call));
}

static void
request__to_an_endpoint_that_is_closed_while_it_connects_reaches_no_handler(void **state)
{
	static const enum slime_transport transports[] = { SLIME_TRANSPORT_SHM,
							   SLIME_TRANSPORT_TCP };
	struct lone a = { 0 }, b = { 0 };
	struct lone *first, *second;

	(void)state;
	lone_open(&a);
	lone_open(&b);
	for (int i = 0; i < 2 * 20; i++) {
		uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
		struct sl_endpoint_desc of_a, of_b;
		int len;

		lone_open_endpoints(&a, transports[i % 2], false);
		len = slime_endpoint_export(a.ep[0], desc, sizeof(desc));
		assert_ok(sl_desc_read_endpoint(&of_a, desc, (size_t)len));
		lone_open_endpoints(&b, transports[i % 2], false);
		len = slime_endpoint_export(b.ep[0], desc, sizeof(desc));
		assert_ok(sl_desc_read_endpoint(&of_b, desc, (size_t)len));
		first = of_a.context < of_b.context ? &a : &b;
		second = first == &a ? &b : &a;
		/* Its endpoints again, of which the first closes the second. */
		for (int k = 0; k < 2; k++) {
			assert_ok(slime_endpoint_destroy(second->ep[k]));
			assert_ok(slime_op_destroy(second->op[k]));
		}
		lone_open_endpoints(second, transports[i % 2], true);
		call_closed_endpoint(first, second);
		close_endpoints(first, second);
	}
	lone_close(&a);
	lone_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__with_a_first_candidate_nobody_listens_at_takes_the_next),
		cmocka_unit_test(info__says_why_a_transport_was_passed_over),
		cmocka_unit_test(info__tells_of_those_before_the_one_in_use),
		cmocka_unit_test(info__of_who_waited_on_both_has_no_reason),
		cmocka_unit_test(connect__with_a_first_candidate_that_hangs_up_takes_the_next),
		cmocka_unit_test(connect__to_a_listener_that_is_full_waits_for_it),
		cmocka_unit_test(connect__with_one_candidate_that_fails_fails),
		cmocka_unit_test(connect__that_fails_when_it_is_closed_is_canceled),
		cmocka_unit_test(connect__that_is_refused_keeps_no_copy_of_the_secret),
		cmocka_unit_test(
			request__to_an_endpoint_that_is_closed_while_it_connects_reaches_no_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
