/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that holds the link's key, and lies: a process with the library whose messages and shared
 * memory are changed at random on their way, or, with --raw, one without the library, which sends
 * what docs/wire.md knows in any order. Its victim runs in a process of its own and outlives
 * thousands of them: it ends every operation, touches nothing beside its region, and answers an
 * honest peer all the time.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slime/slime.h>

#include "tests/stress/dice.h"
#include "tests/stress/mutate.h"
#include "tests/stress/raw.h"
#include "tests/stress/report.h"

#define REGION	 65536
#define GUARD	 4096
#define N_OPS	 24
#define ROUND_MS 250
#define PEACE_MS 30000 /* an honest call takes no longer, whatever the other peer does */

static struct shared {
	enum slime_transport transport;
	bool raw;
	uint64_t seed;
	_Atomic bool failed;
	_Atomic uint64_t round, answered, over; /* of the victim, of the peer, of the victim */
	_Atomic uint64_t gone;			/* the peer of this round is dead */
	_Atomic uint64_t n_sends, n_words, n_connected, n_honest;
	_Atomic uint64_t n_ended, n_served; /* ops and calls, requests: those that went well */
	_Atomic bool stop;
	int desc_len[2];
	uint8_t desc[2][SLIME_ENDPOINT_DESC_MAX];
	struct slime_remote_mr remote[2];
} * shared;

/* ---- both ends ---- */

struct end {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_mem *mem;
	struct slime_mr *mr;
	uint8_t *bytes; /* of the region, behind a guard */
	/* of the victim: memory that every peer might use if it could show the secret */
	struct slime_mem *hidden_mem;
	struct slime_mr *hidden;
	struct slime_endpoint *ep;
	struct slime_op *ops[N_OPS];
	struct slime_call *calls[N_OPS];
	struct slime_remote_mr own, remote; /* the latter: the peer's, for the length of a round */
	struct slime_xfer xfers[N_OPS];
};

static void must(int ret, const char *what)
{
	if (ret < 0)
		fail("hostile", "%s: %s", what, strerror(-ret));
}

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	(void)slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void add_method(struct end *end, const char *name, uint32_t flags)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = echo;
	attr.flags = flags;
	attr.max_message = 1 << 20;
	must(slime_rpc_method_add(end->service, name, &attr), "a method");
}

static void offer(struct end *end, struct slime_remote_mr *remote)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len;

	must(slime_mr_create(end->ctx, end->bytes, REGION,
			     SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &end->mr),
	     "a region");
	len = slime_mr_export(end->mr, desc, sizeof(desc));
	must(len, "a region's descriptor");
	must(slime_remote_mr_import(desc, (size_t)len, remote), "that descriptor");
}

static void create_end(struct end *end, struct slime_remote_mr *remote)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.tcp_user_timeout_ms = 500;
	attr.tcp_streams = 2;
	attr.shm_copy_in_submit = 8192;
	attr.rpc_workers = 2;
	must(slime_context_create(&attr, &end->ctx), "a context");
	must(slime_rpc_service_create(end->ctx, &end->service), "a service");
	add_method(end, "inline", SLIME_RPC_INLINE);
	add_method(end, "in-place", SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE);
	add_method(end, "worker", 0);
	must(slime_mem_alloc(end->ctx, REGION + 2 * GUARD, NULL, &end->mem), "memory");
	end->bytes = (uint8_t *)slime_mem_addr(end->mem) + GUARD;
	memset(end->bytes - GUARD, 0xa5, GUARD);
	memset(end->bytes + REGION, 0xa5, GUARD);
	offer(end, remote);
	for (int i = 0; i < N_OPS; i++) {
		must(slime_op_create(end->ctx, NULL, &end->ops[i]), "an op");
		must(slime_call_create(end->ctx, NULL, &end->calls[i]), "a call");
	}
}

static void create_endpoint(struct end *end, int which)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	attr.transports[0] = shared->transport;
	attr.service = end->service;
	attr.quiet = true;
	must(slime_endpoint_create(end->ctx, &attr, &end->ep), "an endpoint");
	shared->desc_len[which] =
		slime_endpoint_export(end->ep, shared->desc[which], SLIME_ENDPOINT_DESC_MAX);
	must(shared->desc_len[which], "a descriptor");
}

/* Something of every kind. What is refused or fails is no matter: the peer is what it is. */
static void begin(struct end *end, struct dice *dice)
{
	static const char *const names[] = { "inline", "in-place", "worker", "none" };
	unsigned i = (unsigned)roll_below(dice, N_OPS);
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint64_t at = roll_below(dice, REGION / 2), len = roll_len(dice, REGION / 2);
	struct slime_xfer *x = &end->xfers[i];
	struct slime_op *op = end->ops[i];
	int ret;

	if (roll_percent(dice, 40)) {
		args.method = slime_rpc_method_id(names[roll_below(dice, 4)]);
		args.request_mr = end->mr;
		args.request_offset = at;
		args.request_len = len;
		args.reply_cap = REGION / 2;
		args.timeout_ms = (int64_t)roll_below(dice, 100);
		if (roll_percent(dice, 50))
			args.reply_mr = end->mr;
		ret = slime_call_start(end->ep, &args, end->calls[i]);
		if (ret == 0 && roll_percent(dice, 10))
			(void)slime_call_cancel(end->calls[i]);
		return;
	}
	if (!slime_op_test(op))
		return;
	*x = (struct slime_xfer){ .local = end->mr,
				  .remote = &end->remote,
				  .local_offset = at,
				  .remote_offset = roll_below(dice, REGION / 2),
				  .len = len };
	switch (roll_below(dice, 6)) {
	case 0:
		ret = slime_read(end->ep, x, 1, 0, op);
		break;
	case 1:
		ret = slime_write(end->ep, x, 1, 0, op);
		break;
	case 2:
		ret = slime_write_imm(end->ep, x, 1, SLIME_FENCE, (uint32_t)at, op);
		break;
	case 3:
		ret = slime_imm_recv(end->ep, op);
		break;
	case 4:
		ret = slime_send(end->ep, end->mr, at, len, at % 4, op);
		break;
	default:
		ret = slime_recv(end->ep, end->mr, at, len, 0, SLIME_TAG_ANY, op);
	}
	(void)ret;
}

/* ---- the peer that lies ---- */

static void await(_Atomic uint64_t *what, uint64_t value)
{
	while (*what < value && !shared->stop)
		pause_us(300);
}

static void be_quiet(void)
{
	int null = open("/dev/null", O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, STDERR_FILENO);
	dup2(null, STDOUT_FILENO);
}

/* One in so many values of a raw peer's fields is wrong; 0: none is. The peer is unusual then, and
 * does nothing that docs/wire.md forbids. */
static uint32_t raw_wrong_values(uint64_t round)
{
	struct dice dice = dice_of(shared->seed, round, 2, 0);
	uint64_t n = roll_below(&dice, 8);

	return n ? 8u << 2 * n : 0;
}

static _Noreturn void lie_raw(uint64_t round)
{
	static struct raw raw;
	struct dice dice = dice_of(shared->seed, round, 1, 0);

	be_quiet();
	raw_init(&raw, shared->transport, roll(&dice));
	raw.one_in = raw_wrong_values(round);
	raw.theirs = shared->remote[0];
	raw.n_messages = &shared->n_sends;
	shared->desc_len[1] = (int)raw_write_endpoint(&raw, shared->desc[1]);
	must(slime_remote_mr_import(raw.own, sizeof(raw.own), &shared->remote[1]),
	     "a descriptor of a raw region");
	if (!raw_read_endpoint(&raw, shared->desc[0], (size_t)shared->desc_len[0]))
		fail("hostile", "the victim has no address");
	shared->answered = round;
	if (shared->transport == SLIME_TRANSPORT_TCP)
		raw_tcp_live(&raw);
	else
		raw_shm_live(&raw);
	_exit(0);
}

static _Noreturn void lie(uint64_t round)
{
	struct dice dice = dice_of(shared->seed, round, 1, 0);
	uint32_t one_in = 1u << roll_below(&dice, 8);
	bool early = roll_percent(&dice, 25);
	struct end end = { 0 };
	struct slime_op *op;

	be_quiet();
	create_end(&end, &shared->remote[1]);
	create_endpoint(&end, 1);
	end.remote = shared->remote[0];
	shared->answered = round;
	if (early)
		mutate_sends(roll(&dice), one_in, &shared->n_sends);
	must(slime_op_create(end.ctx, NULL, &op), "an op");
	must(slime_endpoint_connect(end.ep, shared->desc[0], (size_t)shared->desc_len[0], 3000, op),
	     "connect");
	if (slime_op_wait(op, 3000) != 0)
		early = true; /* it may come up later, or not at all */
	mutate_sends(roll(&dice), one_in, &shared->n_sends);
	if (shared->transport == SLIME_TRANSPORT_SHM && roll_percent(&dice, 70))
		mutate_memory(roll(&dice), 1u << roll_below(&dice, 8), &shared->n_words);
	for (;;) {
		begin(&end, &dice);
		if (roll_percent(&dice, 20))
			pause_us(50);
	}
}

/* ---- its victim ---- */

struct honest {
	struct end end;
	struct end *victim;
	pthread_t thread;
	struct slime_op *ops[2];
};

/* Calls of an honest peer, in this process, to the victim's context. */
static void *call_always(void *arg)
{
	struct honest *h = arg;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint8_t request[64], reply[64];
	struct slime_call *call = h->end.calls[0];

	args.method = slime_rpc_method_id("inline");
	args.request = request;
	args.request_len = sizeof(request);
	args.reply = reply;
	args.reply_cap = sizeof(reply);
	while (!shared->stop) {
		pattern_fill(request, sizeof(request), shared->n_honest, 0);
		must(slime_call_start(h->end.ep, &args, call), "an honest call");
		watch_begin("hostile", "an honest peer's call", PEACE_MS);
		must(slime_call_wait(call, -1), "a wait for an honest call");
		watch_end();
		must(slime_call_status(call), "the end of an honest call");
		if (memcmp(request, reply, sizeof(reply)) != 0)
			fail("hostile", "an honest peer's reply has other bytes");
		shared->n_honest++;
		pause_us(2000);
	}
	return NULL;
}

static struct slime_endpoint *connect_honest(struct honest *h)
{
	struct slime_endpoint *ours;

	create_endpoint(h->victim, 0);
	ours = h->victim->ep;
	create_end(&h->end, &h->end.own);
	create_endpoint(&h->end, 1);
	for (int i = 0; i < 2; i++)
		must(slime_op_create(i ? h->end.ctx : h->victim->ctx, NULL, &h->ops[i]), "an op");
	for (int i = 0; i < 2; i++)
		must(slime_endpoint_connect(i ? h->end.ep : ours, shared->desc[!i],
					    (size_t)shared->desc_len[!i], 20000, h->ops[i]),
		     "connect");
	for (int i = 0; i < 2; i++) {
		must(slime_op_wait(h->ops[i], -1), "a wait for connect");
		must(slime_op_status(h->ops[i]), "an honest link");
		must(slime_op_destroy(h->ops[i]), "an op's end");
	}
	if (pthread_create(&h->thread, NULL, call_always, h) != 0)
		fail("hostile", "no thread");
	return ours;
}

static void hide_region(struct end *end)
{
	must(slime_mem_alloc(end->ctx, GUARD, NULL, &end->hidden_mem), "memory");
	memset(slime_mem_addr(end->hidden_mem), 0xa5, GUARD);
	must(slime_mr_create(end->ctx, slime_mem_addr(end->hidden_mem), GUARD,
			     SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &end->hidden),
	     "a region");
}

/* A peer that maps a region over shm maps all of the memory it lies in. */
static void check_guards(const struct end *end)
{
	const uint8_t *hidden = slime_mem_addr(end->hidden_mem);

	for (int i = 0; i < GUARD; i++)
		if (hidden[i] != 0xa5)
			fail("hostile", "a region was written whose secret nobody has");
	if (shared->transport == SLIME_TRANSPORT_SHM)
		return;
	for (int i = 0; i < GUARD; i++)
		if (end->bytes[i - GUARD] != 0xa5 || end->bytes[REGION + i] != 0xa5)
			fail("hostile", "a byte beside the region was written");
}

static void destroy_region(struct end *end)
{
	int ret;

	watch_begin("hostile", "the withdrawal of a region", WATCH_MS);
	while ((ret = slime_mr_destroy(end->mr)) == -EBUSY)
		pause_us(1000);
	watch_end();
	must(ret, "a region's end");
}

/* Else the page or the peer is not like the library, and the test looks at nothing. */
static void check_link(const struct slime_endpoint *ep, uint64_t round)
{
	struct slime_endpoint_stats stats;
	struct slime_endpoint_info info;

	slime_endpoint_stats(ep, &stats);
	for (int i = 0; i < SLIME_KIND_SERVE; i++)
		shared->n_ended += stats.kinds[i].completed;
	shared->n_served += stats.kinds[SLIME_KIND_SERVE].completed;
	slime_endpoint_info(ep, &info);
	if (shared->raw && !raw_wrong_values(round) && info.cause == -EPROTO)
		fail("hostile", "a peer that keeps to docs/wire.md was refused in round %llu: %s",
		     (unsigned long long)round, info.cause_text);
}

static void suffer(struct end *end, struct dice *dice, uint64_t round)
{
	struct slime_op *op;
	int64_t until;

	create_endpoint(end, 0);
	shared->remote[0] = end->own;
	shared->round = round;
	while (shared->answered < round && shared->gone < round && !shared->stop)
		pause_us(300);
	must(slime_op_create(end->ctx, NULL, &op), "an op");
	if (shared->answered == round &&
	    slime_endpoint_connect(end->ep, shared->desc[1], (size_t)shared->desc_len[1], 2000,
				   op) == 0) {
		watch_begin("hostile", "connect", WATCH_MS);
		must(slime_op_wait(op, -1), "a wait for connect");
		watch_end();
		if (slime_op_status(op) == 0)
			shared->n_connected++;
	}
	end->remote = shared->remote[1];
	until = now_ms() + ROUND_MS;
	while (slime_op_status(op) == 0 && now_ms() < until && shared->gone < round) {
		struct slime_endpoint_info info;

		begin(end, dice);
		pause_us(100);
		slime_endpoint_info(end->ep, &info);
		if (info.state != SLIME_ENDPOINT_CONNECTED)
			break;
	}
	must(slime_op_destroy(op), "an op's end");
	check_link(end->ep, round);
	watch_begin("hostile", "slime_endpoint_destroy()", WATCH_MS);
	must(slime_endpoint_destroy(end->ep), "an endpoint's end");
	watch_end();
	for (int i = 0; i < N_OPS; i++)
		if (!slime_op_test(end->ops[i]) || !slime_call_test(end->calls[i]))
			fail("hostile", "an op or call is pending, and its endpoint is gone");
	check_guards(end);
	shared->over = round;
	await(&shared->gone, round);
	if (round % 8 == 0) {
		destroy_region(end);
		offer(end, &end->own);
	}
}

static void destroy_end(struct end *end)
{
	destroy_region(end);
	must(slime_mem_destroy(end->mem), "the end of memory");
	must(slime_rpc_service_destroy(end->service), "a service's end");
	for (int i = 0; i < N_OPS; i++) {
		must(slime_op_destroy(end->ops[i]), "an op's end");
		must(slime_call_destroy(end->calls[i]), "a call's end");
	}
	watch_begin("hostile", "slime_context_destroy()", WATCH_MS);
	must(slime_context_destroy(end->ctx), "a context's end");
	watch_end();
}

static void be_victim(void)
{
	struct dice dice = dice_of(shared->seed, 0, 0, 0);
	struct end end = { 0 };
	struct honest honest = { .victim = &end };
	struct slime_endpoint *ours;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	report_begin("victim", &shared->failed);
	create_end(&end, &end.own);
	hide_region(&end);
	ours = connect_honest(&honest);
	for (uint64_t round = 1; !shared->stop; round++)
		suffer(&end, &dice, round);
	pthread_join(honest.thread, NULL);
	must(slime_endpoint_destroy(honest.end.ep), "an endpoint's end");
	must(slime_endpoint_destroy(ours), "an endpoint's end");
	destroy_end(&honest.end);
	must(slime_mr_destroy(end.hidden), "a region's end");
	must(slime_mem_destroy(end.hidden_mem), "the end of memory");
	destroy_end(&end);
	exit(0);
}

/* ---- who starts them ---- */

static bool has_ended(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

static int attend(pid_t victim, int64_t until)
{
	pid_t peer = 0;
	uint64_t round = 0;
	int status = 0, ignored;

	while (!has_ended(victim, &status)) {
		if (now_ms() > until)
			shared->stop = true;
		if (!peer && shared->round > round && !shared->stop) {
			round = shared->round;
			fflush(NULL);
			peer = fork();
			if (peer == 0 && shared->raw)
				lie_raw(round);
			if (peer == 0)
				lie(round);
		}
		if (peer && (shared->over >= round || shared->stop)) {
			kill(peer, SIGKILL);
			waitpid(peer, &ignored, 0);
			peer = 0;
			shared->gone = round;
		} else if (peer && has_ended(peer, &ignored)) {
			peer = 0;
			shared->gone = round;
		}
		pause_us(500);
	}
	if (peer) {
		kill(peer, SIGKILL);
		waitpid(peer, &ignored, 0);
	}
	return status;
}

int main(int argc, char **argv)
{
	static const struct option names[] = { { "transport", required_argument, NULL, 't' },
					       { "seed", required_argument, NULL, 's' },
					       { "seconds", required_argument, NULL, 'n' },
					       { "raw", no_argument, NULL, 'r' },
					       { NULL, 0, NULL, 0 } };
	int seconds = 10, c, status;
	pid_t victim;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	shared->seed = (uint64_t)now_ms() % 1000000;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 't')
			shared->transport = slime_transport_by_name(optarg);
		else if (c == 's')
			shared->seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			seconds = atoi(optarg);
		else if (c == 'r')
			shared->raw = true;
		else
			return 2;
	}
	printf("test-hostile --transport %s --seed %llu --seconds %d%s\n",
	       slime_transport_name(shared->transport), (unsigned long long)shared->seed, seconds,
	       shared->raw ? " --raw" : "");
	fflush(stdout);
	victim = fork();
	if (victim == 0)
		be_victim();
	status = attend(victim, now_ms() + seconds * 1000LL);
	printf("%llu peers, %llu of them connected, %llu messages %s and %llu words changed, %llu "
	       "honest calls; of the victim %llu ops and calls, and %llu requests of peers, went well\n",
	       (unsigned long long)shared->round, (unsigned long long)shared->n_connected,
	       (unsigned long long)shared->n_sends, shared->raw ? "sent" : "changed",
	       (unsigned long long)shared->n_words, (unsigned long long)shared->n_honest,
	       (unsigned long long)shared->n_ended, (unsigned long long)shared->n_served);
	if (status)
		fprintf(stderr, "hostile: the victim ended with %s %d, in round %llu\n",
			WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			(unsigned long long)shared->round);
	if (shared->raw && shared->round > 16 &&
	    (shared->n_connected * 2 < shared->round || !shared->n_ended || !shared->n_served)) {
		fprintf(stderr, "hostile: these peers are not like docs/wire.md or the library\n");
		status = 1;
	}
	return status ? 1 : 0;
}
