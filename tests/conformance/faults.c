/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random faults, round by round: two processes at work over a link, one of them stopped, killed or
 * closing, over tcp behind a network that cuts everything to pieces, stalls and resets. A seed
 * determines a round's choices; --seed of a round that failed, with --rounds 1, makes them again.
 */
#include "fixture.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy.h"
#include "traffic.h"

enum order {
	ORDER_START = 1,
	ORDER_STOP,  /* the lanes; answered with what was done */
	ORDER_CLOSE, /* the endpoint, at once; not answered */
	ORDER_END,   /* answered when nobody writes any more */
	ORDER_CHECK, /* that nobody did; answered before it ends */
};

/* ---- the other process ---- */

static void say(int fd, const void *what, size_t len)
{
	if (send(fd, what, len, MSG_NOSIGNAL) != (ssize_t)len)
		_exit(2);
}

static void hear(int fd, void *what, size_t len)
{
	if (recv(fd, what, len, 0) != (ssize_t)len)
		_exit(2);
}

static void obey(struct traffic *t, int fd)
{
	uint64_t done;
	int order;

	for (;;) {
		hear(fd, &order, sizeof(order));
		switch ((enum order)order) {
		case ORDER_START:
			traffic_start(t);
			continue;
		case ORDER_CLOSE:
			traffic_close(t);
			continue;
		case ORDER_STOP:
			traffic_stop(t);
			break;
		case ORDER_END:
			traffic_withdraw(t);
			break;
		case ORDER_CHECK:
			done = traffic_count(t);
			traffic_destroy(t);
			say(fd, &done, sizeof(done));
			return;
		}
		done = traffic_count(t);
		say(fd, &done, sizeof(done));
	}
}

static int child_main(int fd, uint64_t seed)
{
	struct traffic_hello ours, theirs;
	struct traffic *t;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t = traffic_create(seed);
	traffic_hello(t, &ours);
	say(fd, &ours, sizeof(ours));
	hear(fd, &theirs, sizeof(theirs));
	status = traffic_connect(t, &theirs);
	say(fd, &status, sizeof(status));
	obey(t, fd);
	return 0;
}

/* ---- this process ---- */

struct round {
	uint64_t seed;
	struct traffic *t;
	pid_t child;
	int fd;
	uint64_t n_done; /* by both */
};

static void start_child(struct round *r, uint64_t seed)
{
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	char fd[16], seed_text[32];
	int fds[2];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	assert_ok(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
	r->fd = fds[0];
	r->child = fork();
	if (r->child == 0) {
		snprintf(fd, sizeof(fd), "%d", dup(fds[1]));
		execl("/proc/self/exe", "faults", "--transport",
		      slime_transport_name(fixture_transport), "--seed", seed_text, "--child", fd,
		      (char *)NULL);
		_exit(127);
	}
	assert_true(r->child > 0);
	close(fds[1]);
}

static void take(struct round *r, void *what, size_t len, const char *name)
{
	if (recv(r->fd, what, len, 0) != (ssize_t)len)
		wrong("the other process does not answer: %s", name);
}

static void order(struct round *r, enum order what)
{
	int word = (int)what;

	if (send(r->fd, &word, sizeof(word), MSG_NOSIGNAL) != sizeof(word))
		wrong("the other process is gone");
}

static uint64_t ask(struct round *r, enum order what, const char *name)
{
	uint64_t done;

	order(r, what);
	take(r, &done, sizeof(done), name);
	return done;
}

static void begin(struct round *r)
{
	struct traffic_hello ours, theirs;
	int status, their_status;

	start_child(r, r->seed + 1);
	r->t = traffic_create(r->seed);
	traffic_hello(r->t, &ours);
	take(r, &theirs, sizeof(theirs), "hello");
	assert_int_equal(send(r->fd, &ours, sizeof(ours), MSG_NOSIGNAL), sizeof(ours));
	status = traffic_connect(r->t, &theirs);
	take(r, &their_status, sizeof(their_status), "connect");
	if (status || their_status)
		wrong("connect: status %d here, %d there", status, their_status);
	order(r, ORDER_START);
	traffic_start(r->t);
}

static void reap(struct round *r, bool killed)
{
	int status;

	assert_int_equal(waitpid(r->child, &status, 0), r->child);
	close(r->fd);
	r->child = 0;
	if (killed ? !WIFSIGNALED(status) : !WIFEXITED(status) || WEXITSTATUS(status))
		wrong("the other process ended with 0x%x", (unsigned)status);
}

static void stop_process(struct round *r)
{
	int status;

	assert_ok(kill(r->child, SIGSTOP));
	assert_int_equal(waitpid(r->child, &status, WUNTRACED), r->child);
	if (!WIFSTOPPED(status))
		wrong("the other process ended with 0x%x", (unsigned)status);
}

/* The time in which things happen is part of a fault. */
static void let_pass(struct round *r, unsigned most_ms)
{
	poll(NULL, 0, (int)(next_random(&r->seed) % most_ms));
}

/* ---- faults: true when the other process still lives ---- */

static bool nothing(struct round *r)
{
	(void)r;
	return true;
}

static bool kill_it(struct round *r)
{
	assert_ok(kill(r->child, SIGKILL));
	return false;
}

static bool stop_it(struct round *r)
{
	stop_process(r);
	let_pass(r, 300);
	assert_ok(kill(r->child, SIGCONT));
	let_pass(r, 50);
	return true;
}

static bool stop_and_kill_it(struct round *r)
{
	stop_process(r);
	let_pass(r, 50);
	assert_ok(kill(r->child, SIGKILL));
	return false;
}

static bool close_here(struct round *r)
{
	traffic_close(r->t);
	return true;
}

static bool close_there(struct round *r)
{
	order(r, ORDER_CLOSE);
	return true;
}

static bool close_on_both_sides(struct round *r)
{
	order(r, ORDER_CLOSE);
	traffic_close(r->t);
	return true;
}

static bool reset_stream(struct round *r)
{
	proxy_reset_one(traffic_proxy(r->t));
	return true;
}

static bool stall_network(struct round *r)
{
	proxy_stall(traffic_proxy(r->t), (unsigned)(next_random(&r->seed) % 300));
	let_pass(r, 50);
	return true;
}

static const struct {
	const char *name;
	bool (*happen)(struct round *r);
} faults[] = {
	{ "nothing", nothing },
	{ "kill", kill_it },
	{ "stop", stop_it },
	{ "stop and kill", stop_and_kill_it },
	{ "close here", close_here },
	{ "close there", close_there },
	{ "close on both sides", close_on_both_sides },
	{ "stall", stall_network },
	{ "reset", reset_stream }, /* where there is a network */
};

#define N_FAULTS   (sizeof(faults) / sizeof(faults[0]))
#define OF_NETWORK 2

/* ---- rounds ---- */

static void end(struct round *r, bool alive)
{
	if (alive)
		ask(r, ORDER_STOP, "stop");
	traffic_stop(r->t);
	r->n_done = traffic_count(r->t);
	if (alive) {
		/* Each waits for the other's word on the regions. */
		order(r, ORDER_END);
		traffic_withdraw(r->t);
		take(r, &(uint64_t){ 0 }, sizeof(uint64_t), "end");
		r->n_done += ask(r, ORDER_CHECK, "check");
	} else {
		traffic_withdraw(r->t);
	}
	reap(r, !alive);
	traffic_destroy(r->t);
}

static uint64_t run_round(uint64_t seed)
{
	size_t n = N_FAULTS - (fixture_transport == SLIME_TRANSPORT_TCP ? 0 : OF_NETWORK);
	struct round r = { .seed = seed };
	size_t i = next_random(&r.seed) % n;
	bool alive;

	printf("seed %llu: %s", (unsigned long long)seed, faults[i].name);
	fflush(stdout);
	begin(&r);
	let_pass(&r, 150);
	alive = faults[i].happen(&r);
	end(&r, alive);
	printf(", %llu operations\n", (unsigned long long)r.n_done);
	return r.n_done;
}

static int usage(const char *name)
{
	fprintf(stderr,
		"usage: %s --transport NAME [--seed N] [--seconds N] [--rounds N]\n\n"
		"  --seed     of the first round; the next one has it plus 1000; the time by default\n"
		"  --seconds  until no further round begins (10)\n"
		"  --rounds   how many at most\n",
		name);
	return 2;
}

static void run_rounds(uint64_t seed, uint64_t seconds, uint64_t rounds)
{
	uint64_t until = now_ms() + seconds * 1000, n, done = 0;

	slime_log_set(NULL, NULL, SLIME_LOG_ERROR);
	for (n = 0; n < rounds && (!n || now_ms() < until); n++)
		done += run_round(seed + n * 1000);
	printf("%llu rounds over %s, %llu operations\n", (unsigned long long)n,
	       slime_transport_name(fixture_transport), (unsigned long long)done);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "transport", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'd' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "child", required_argument, NULL, 'c' },
		{ 0 },
	};
	uint64_t seed = (uint64_t)time(NULL), seconds = 10, rounds = UINT64_MAX;
	int opt, child = -1;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;

		if (opt == 't')
			fixture_transport = slime_transport_by_name(optarg);
		else if (opt == 's')
			seed = value;
		else if (opt == 'd')
			seconds = value;
		else if (opt == 'r')
			rounds = value;
		else if (opt == 'c')
			child = (int)value;
		else
			return usage(argv[0]);
	}
	if (fixture_transport == SLIME_TRANSPORT_NONE || optind != argc)
		return usage(argv[0]);
	if (child >= 0)
		return child_main(child, seed);
	run_rounds(seed, seconds, rounds);
	return 0;
}
