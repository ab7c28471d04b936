/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random program on the public interface of libslime: links between three nodes, each a process
 * or, with --threads, part of this one. Every byte is compared with a model. This process starts
 * the nodes, stops and kills them, and says what came of it.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/stress/board.h"
#include "tests/stress/dice.h"
#include "tests/stress/node.h"
#include "tests/stress/report.h"

static struct board *board;
static pid_t pids[N_NODES];

static void usage(void)
{
	fputs("usage: test-stress --transport shm|tcp|rdma [--seed N] [--seconds N] [--threads]\n"
	      "                   [--devices LIST] [--links 1..4] [--without WORD,...]\n"
	      "words: kill, stop, close, early, reap, storm, pulls, notconn\n",
	      stderr);
	exit(2);
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "transport", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'n' },
		{ "threads", no_argument, NULL, 'p' },
		{ "devices", required_argument, NULL, 'd' },
		{ "links", required_argument, NULL, 'l' },
		{ "without", required_argument, NULL, 'w' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .seconds = 10, .links = N_LINKS };
	struct timespec now;
	int c;

	clock_gettime(CLOCK_REALTIME, &now);
	options.seed = mix((uint64_t)now.tv_nsec) % 1000000;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 't':
			options.transport = slime_transport_by_name(optarg);
			break;
		case 's':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			options.seconds = atoi(optarg);
			break;
		case 'p':
			options.threads = true;
			break;
		case 'd':
			options.devices = optarg;
			break;
		case 'l':
			options.links = atoi(optarg);
			break;
		case 'w':
			options.without = optarg;
			break;
		default:
			usage();
		}
	}
	if (options.transport == SLIME_TRANSPORT_NONE || options.links < 1 ||
	    options.links > N_LINKS || optind != argc)
		usage();
	return options;
}

static void repeat_line(void)
{
	const struct options *o = &board->options;

	printf("test-stress --transport %s --seed %llu --seconds %d --links %d%s%s%s%s%s\n",
	       slime_transport_name(o->transport), (unsigned long long)o->seed, o->seconds,
	       o->links, o->threads ? " --threads" : "", o->devices ? " --devices " : "",
	       o->devices ? o->devices : "", o->without ? " --without " : "",
	       o->without ? o->without : "");
	fflush(stdout);
}

static void start(int node)
{
	char name[32];
	pid_t parent = getpid();

	fflush(NULL);
	pids[node] = fork();
	if (pids[node] < 0)
		fail("stress", "fork: %s", strerror(errno));
	if (pids[node] > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	snprintf(name, sizeof(name), "node %d.%u pid %d", node, board->nodes[node].incarnation,
		 (int)getpid());
	report_begin(name, &board->failed);
	node_run(board, node);
	exit(0);
}

static _Noreturn void end_all(int node, int status)
{
	board->failed = true;
	fprintf(stderr, "stress: node %d ended with %s %d\n", node,
		WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	for (int i = 0; i < N_NODES; i++)
		if (i != node && pids[i] > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	repeat_line();
	exit(1);
}

static void look_after(void)
{
	for (int i = 0; i < N_NODES; i++) {
		int status;

		if (waitpid(pids[i], &status, WNOHANG) == pids[i])
			end_all(i, status);
	}
}

static void sleep_ms(int64_t ms)
{
	int64_t until = now_ms() + ms;

	while (now_ms() < until) {
		pause_us(5000);
		look_after();
	}
}

/* The first node lives from the begin to the end, where it is looked through for leaks. */
static void kill_one(int node)
{
	int status;

	board->nodes[node].doom++;
	kill(pids[node], SIGKILL);
	if (waitpid(pids[node], &status, 0) != pids[node] || !WIFSIGNALED(status) ||
	    WTERMSIG(status) != SIGKILL)
		end_all(node, status);
	board->nodes[node].incarnation++;
	board->n_kills++;
	start(node);
}

static void stop_one(int node, int64_t ms)
{
	kill(pids[node], SIGSTOP);
	sleep_ms(ms);
	kill(pids[node], SIGCONT);
	board->n_stops++;
}

static void disturb(struct dice *dice)
{
	int64_t until = now_ms() + board->options.seconds * 1000LL;

	while (now_ms() < until) {
		int node = (int)roll_below(dice, N_NODES);
		bool kills = roll_percent(dice, 50);
		int64_t stop_ms = 5 + (int64_t)roll_below(dice, 300);

		sleep_ms(100 + (int64_t)roll_below(dice, 900));
		if (kills && node > 0 && board_does(board, "kill"))
			kill_one(node);
		else if (board_does(board, "stop"))
			stop_one(node, stop_ms);
	}
}

static void run_processes(void)
{
	struct dice dice = dice_of(board->options.seed, 3000, 0, 0);
	int64_t until;

	for (int i = 0; i < N_NODES; i++)
		start(i);
	disturb(&dice);
	board->finish = true;
	until = now_ms() + 2 * WATCH_MS;
	for (int i = 0; i < N_NODES; i++) {
		int status;

		while (waitpid(pids[i], &status, WNOHANG) == 0) {
			pause_us(10000);
			if (now_ms() > until) {
				fprintf(stderr, "stress: node %d does not end\n", i);
				kill(pids[i], SIGKILL);
			}
		}
		if (status)
			end_all(i, status);
	}
}

static void *node_thread(void *arg)
{
	node_run(board, (int)((struct board_node *)arg - board->nodes));
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[N_NODES];

	report_begin("all nodes", &board->failed);
	for (int i = 0; i < N_NODES; i++)
		if (pthread_create(&threads[i], NULL, node_thread, &board->nodes[i]) != 0)
			fail("stress", "no thread");
	pause_us(board->options.seconds * 1000000LL);
	board->finish = true;
	for (int i = 0; i < N_NODES; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);

	board = board_create(&options);
	repeat_line();
	if (options.threads)
		run_threads();
	else
		run_processes();
	printf("%llu operations in %llu rounds, %llu times connected; %llu kills, %llu stops\n",
	       (unsigned long long)board->n_ops, (unsigned long long)board->n_rounds,
	       (unsigned long long)board->n_connected, (unsigned long long)board->n_kills,
	       (unsigned long long)board->n_stops);
	return 0;
}
