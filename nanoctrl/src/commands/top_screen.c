/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"

#define ENTER "\033[?1049h\033[?25l"	     /* another screen, without a cursor */
#define LEAVE "\033[?7h\033[?25h\033[?1049l" /* with line wrap, which a look is written without */

/* Of the handlers as well. */
static volatile sig_atomic_t wanted, shown, has_keys, was_away;
static struct termios before, keys;

static bool say(const char *text)
{
	return write(STDOUT_FILENO, text, strlen(text)) >= 0;
}

/* A process in the background is stopped when it changes the terminal, and when it reads from it.
 */
static bool in_front(void)
{
	return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void set_keys(const struct termios *how)
{
	if (has_keys && in_front())
		tcsetattr(STDIN_FILENO, TCSANOW, how);
}

void top_screen_enter(void)
{
	bool first;

	if (!wanted && !tcgetattr(STDIN_FILENO, &before)) {
		keys = before;
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		keys.c_cc[VMIN] = 1;
		keys.c_cc[VTIME] = 0;
		has_keys = 1;
	}
	first = !shown;
	wanted = shown = 1; /* before it is so: a signal gives back what may have been taken */
	set_keys(&keys);
	if (first)
		say(ENTER);
}

static bool give_back(void)
{
	bool ok = !shown || say(LEAVE);

	if (shown)
		set_keys(&before);
	shown = 0;
	return ok;
}

void top_screen_leave(void)
{
	wanted = 0; /* first: a signal takes it again as long as it is */
	give_back();
}

/* At any moment, also during a wait for a server; a stopped process continues before it ends. */
static void on_end(int signal)
{
	(void)signal;
	_exit(give_back() ? 0 : 1);
}

/* Another program had the terminal, also after a SIGSTOP. */
static void on_continue(int signal)
{
	int err = errno;

	(void)signal;
	if (wanted)
		top_screen_enter();
	was_away = 1;
	errno = err;
}

/* Stops as if there were no handler; in an orphaned process group, where no shell could continue
 * it, it does not stop. */
static void on_stop(int sig)
{
	struct sigaction ours, stops = { .sa_handler = SIG_DFL };
	int err = errno;
	sigset_t one;

	give_back();
	sigaction(sig, &stops, &ours);
	sigemptyset(&one);
	sigaddset(&one, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL); /* stops here */
	sigaction(sig, &ours, NULL);
	on_continue(SIGCONT);
	errno = err;
}

void top_screen_init(void)
{
	static const struct {
		int signal;
		void (*fn)(int signal);
	} caught[] = { { SIGINT, on_end },  { SIGTERM, on_end },  { SIGHUP, on_end },
		       { SIGQUIT, on_end }, { SIGTSTP, on_stop }, { SIGCONT, on_continue } };

	for (size_t i = 0; i < sizeof(caught) / sizeof(*caught); i++) {
		struct sigaction action = { .sa_handler = caught[i].fn, .sa_flags = SA_RESTART };

		if (caught[i].fn == on_end) {
			sigaddset(&action.sa_mask, SIGCONT);
			sigaddset(&action.sa_mask, SIGTSTP);
		}
		sigaction(caught[i].signal, &action, NULL);
	}
}

/* Whether a q was typed. A terminal that is gone has no keys any more. */
static bool is_left(void)
{
	char typed[64];
	ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		has_keys = 0;
	return n > 0 && (memchr(typed, 'q', (size_t)n) || memchr(typed, 'Q', (size_t)n));
}

/* A process that was stopped draws everything again, also when it was stopped just before the wait.
 */
bool top_screen_wait(int ms)
{
	uint64_t now, deadline = sl_deadline_ns(ms);
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	sigset_t stops, none;
	bool left = false;

	sigemptyset(&stops);
	sigaddset(&stops, SIGTSTP);
	sigaddset(&stops, SIGCONT);
	sigprocmask(SIG_BLOCK, &stops, &none);
	while (!left && !was_away && (now = sl_clock_ns()) < deadline) {
		struct timespec ts = { .tv_sec = (time_t)((deadline - now) / SL_NS_PER_S),
				       .tv_nsec = (long)((deadline - now) % SL_NS_PER_S) };

		if (ppoll(&p, has_keys && in_front() ? 1 : 0, &ts, &none) > 0)
			left = is_left();
	}
	was_away = 0;
	sigprocmask(SIG_SETMASK, &none, NULL);
	return !left;
}
