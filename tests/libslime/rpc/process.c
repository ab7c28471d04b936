/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to another process that is killed or stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include <slime/slime.h>

#define TIMEOUT_MS 60000
/* The fault table of the documents promises 2 s for a peer that is killed; a starved machine has
 * some more. */
#define DEATH_MS 10000

static enum slime_transport transport;

struct end {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep;
	struct slime_op *op;
	int fd; /* to the other process */
};

struct peer {
	struct end end;
	pid_t pid;
};

/* ---- both processes ---- */

static int say_and_hear(struct end *e)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	ssize_t len = slime_endpoint_export(e->ep, desc, sizeof(desc));

	if (len < 0 || send(e->fd, desc, (size_t)len, 0) != len)
		return -EIO;
	len = recv(e->fd, desc, sizeof(desc), 0);
	if (len <= 0)
		return -EIO;
	return slime_endpoint_connect(e->ep, desc, (size_t)len, TIMEOUT_MS, e->op);
}

static int end_open(struct end *e)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	int ret;

	attr.transports[0] = transport;
	attr.service = e->service;
	ret = slime_endpoint_create(e->ctx, &attr, &e->ep);
	if (!ret)
		ret = slime_op_create(e->ctx, NULL, &e->op);
	if (!ret)
		ret = say_and_hear(e);
	if (!ret)
		ret = slime_op_wait(e->op, TIMEOUT_MS);
	return ret ? ret : slime_op_status(e->op);
}

/* ---- the child ---- */

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

/* Tells the parent that it has the request, and keeps it. */
static void keep(void *arg, struct slime_rpc_request *req)
{
	struct end *e = arg;

	(void)req;
	if (send(e->fd, "k", 1, 0) != 1)
		_exit(1);
}

static int add(struct end *e, const char *name, slime_rpc_fn *fn)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.arg = e;
	attr.flags = SLIME_RPC_INLINE;
	return slime_rpc_method_add(e->service, name, &attr);
}

static void serve(int fd)
{
	struct end e = { .fd = fd };
	char byte;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || slime_context_create(NULL, &e.ctx) ||
	    slime_rpc_service_create(e.ctx, &e.service) || add(&e, "echo", echo) ||
	    add(&e, "keep", keep) || end_open(&e))
		_exit(1);
	/* Until the parent closes its end, or kills us. */
	while (recv(fd, &byte, 1, 0) > 0)
		;
	_exit(0);
}

/* ---- the parent ---- */

static int open_peer(void **state)
{
	struct peer *p = calloc(1, sizeof(*p));
	int fds[2];

	assert_non_null(p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	/* Before there are contexts, and so threads, here. */
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (!p->pid) {
		close(fds[0]);
		serve(fds[1]);
	}
	close(fds[1]);
	p->end.fd = fds[0];
	*state = p;
	assert_int_equal(slime_context_create(NULL, &p->end.ctx), 0);
	assert_int_equal(end_open(&p->end), 0);
	return 0;
}

static void kill_child(struct peer *p)
{
	if (!p->pid)
		return;
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

static int close_peer(void **state)
{
	struct peer *p = *state;

	kill_child(p);
	close(p->end.fd);
	assert_int_equal(slime_endpoint_destroy(p->end.ep), 0);
	assert_int_equal(slime_op_destroy(p->end.op), 0);
	assert_int_equal(slime_context_destroy(p->end.ctx), 0);
	free(p);
	return 0;
}

static struct slime_call *start(struct peer *p, const char *method, size_t len, int64_t timeout_ms)
{
	static uint8_t out[100000], in[100000];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = slime_rpc_method_id(method);
	args.request = out;
	args.request_len = len;
	args.reply = in;
	args.reply_cap = len;
	args.timeout_ms = timeout_ms;
	assert_int_equal(slime_call_create(p->end.ctx, NULL, &call), 0);
	assert_int_equal(slime_call_start(p->end.ep, &args, call), 0);
	return call;
}

static int finish(struct slime_call *call)
{
	int status;

	assert_int_equal(slime_call_wait(call, TIMEOUT_MS), 0);
	status = slime_call_status(call);
	assert_int_equal(slime_call_destroy(call), 0);
	return status;
}

static void hear_kept(struct peer *p)
{
	char byte;

	assert_int_equal(recv(p->end.fd, &byte, 1, 0), 1);
}

static void call__to_another_process_returns(void **state)
{
	struct peer *p = *state;

	for (int i = 0; i < 100; i++)
		assert_int_equal(finish(start(p, "echo", (size_t)i * 1000, -1)), 0);
}

static void call__whose_peer_is_killed_is_econnreset(void **state)
{
	struct peer *p = *state;
	struct slime_call *calls[3] = { start(p, "keep", 10, -1), start(p, "keep", 5000, -1),
					start(p, "keep", 100000, -1) };
	uint64_t killed;

	for (int i = 0; i < 3; i++)
		hear_kept(p);
	kill_child(p);
	killed = sl_clock_ms();
	for (int i = 0; i < 3; i++)
		assert_int_equal(finish(calls[i]), -ECONNRESET);
	assert_in_range(sl_clock_ms() - killed, 0, DEATH_MS);
}

static void stop_child(struct peer *p)
{
	int status;

	assert_int_equal(kill(p->pid, SIGSTOP), 0);
	/* Its threads stop one by one. */
	assert_int_equal(waitpid(p->pid, &status, WUNTRACED), p->pid);
	assert_true(WIFSTOPPED(status));
}

static void deadline__of_a_stopped_peer_ends_the_wait_and_keeps_the_call(void **state)
{
	struct peer *p = *state;
	struct slime_call *call;

	assert_int_equal(finish(start(p, "echo", 10, -1)), 0);
	stop_child(p);
	call = start(p, "echo", 10, 50);
	assert_int_equal(slime_call_wait(call, -1), -ETIMEDOUT);
	/* A late byte could still come. */
	assert_false(slime_call_test(call));
	assert_int_equal(slime_call_destroy(call), -EBUSY);
	assert_int_equal(kill(p->pid, SIGCONT), 0);
	assert_int_equal(finish(call), -ETIMEDOUT);
	assert_int_equal(finish(start(p, "echo", 100000, -1)), 0);
}

/* They are sent, or wait for their turn; none has a deadline. */
static void call__to_a_stopped_peer_ends_when_it_goes_on(void **state)
{
	static const size_t lens[] = { 10, 5000, 100000 };
	struct peer *p = *state;
	struct slime_call *calls[3];

	assert_int_equal(finish(start(p, "echo", 10, -1)), 0);
	stop_child(p);
	for (int i = 0; i < 3; i++)
		calls[i] = start(p, "echo", lens[i], -1);
	assert_int_equal(slime_call_wait(calls[0], 200), -ETIMEDOUT);
	assert_int_equal(kill(p->pid, SIGCONT), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(finish(calls[i]), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_peer, close_peer)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(call__to_another_process_returns),
		T(call__whose_peer_is_killed_is_econnreset),
		T(deadline__of_a_stopped_peer_ends_the_wait_and_keeps_the_call),
		T(call__to_a_stopped_peer_ends_when_it_goes_on),
	};
	int failed;

	transport = SLIME_TRANSPORT_SHM;
	failed = cmocka_run_group_tests_name("rpc between processes over shm", tests, NULL, NULL);
	transport = SLIME_TRANSPORT_TCP;
	return failed +
	       cmocka_run_group_tests_name("rpc between processes over tcp", tests, NULL, NULL);
}
