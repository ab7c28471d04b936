/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"

static void *tell_blocked(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
	return NULL;
}

static void create__leaves_signals_of_others_to_the_program(void **state)
{
	static const int of_others[] = { SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE };
	pthread_t thread;
	sigset_t blocked;

	(void)state;
	assert_int_equal(sl_thread_create(&thread, "test", tell_blocked, &blocked), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (size_t i = 0; i < sizeof(of_others) / sizeof(of_others[0]); i++)
		assert_int_equal(sigismember(&blocked, of_others[i]), 1);
}

static void on_fault(int sig)
{
	(void)sig;
	_exit(7);
}

static void *fault(void *arg)
{
	(void)arg;
	raise(SIGSEGV);
	return NULL;
}

/* A blocked one ends the process without its handler. */
static void create__lets_a_fault_of_the_thread_reach_its_handler(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		pthread_t thread;

		signal(SIGSEGV, on_fault);
		if (sl_thread_create(&thread, "test", fault, NULL) == 0)
			pthread_join(thread, NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__leaves_signals_of_others_to_the_program),
		cmocka_unit_test(create__lets_a_fault_of_the_thread_reach_its_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
