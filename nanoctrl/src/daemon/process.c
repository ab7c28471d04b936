/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/process.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <event2/event.h>

#include "base/log.h"
#include "cli/options/version.h"
#include "cli/process/daemon.h"
#include "cli/process/logsink.h"
#include "cli/process/manager.h"
#include "cli/process/signals.h"
#include "daemon/node.h"
#include "http/server.h"
#include "nanoctrl/net/loop.h"

int process_fail(struct process *p, int ret, const char *fmt, ...)
{
	char text[CLI_DAEMON_MESSAGE_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sl_error(p->rt->program, "%s", text);
	if (p->daemon)
		cli_daemon_failed(p->daemon, "%s", text);
	return ret;
}

static void on_drained(void *arg)
{
	struct process *p = arg;

	loop_stop(p->loop);
}

/* The next signal that ends us; 0 when there is none. The others are done with on the way. */
static int next_end(struct process *p)
{
	int sig, ret;

	while ((sig = cli_signals_read(p->signals)) == SIGHUP) {
		cli_manager_tell_reloading();
		ret = cli_log_reopen();
		if (ret)
			sl_error(p->rt->program, "cannot open the log again: %s",
				 cli_log_error(ret));
		if (p->ready)
			cli_manager_tell("READY=1");
	}
	return sig > 0 ? sig : 0;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;
	int sig;

	(void)fd;
	(void)what;
	while ((sig = next_end(p))) {
		sl_info(p->rt->program, "%s: shutting down", sig == SIGINT ? "SIGINT" : "SIGTERM");
		cli_manager_tell("STOPPING=1\nSTATUS=finishing what is in flight");
		server_drain(p->server, on_drained, p);
	}
}

bool process_told_to_end(void *arg)
{
	return next_end(arg) != 0;
}

static int open_log(struct process *p, const struct cli_log_attr *attr)
{
	int ret = cli_log_open(attr);

	return ret ? process_fail(p, ret, "cannot open the log %s: %s", attr->file,
				  cli_log_error(ret))
		   : 0;
}

static int open_pidfile(struct process *p)
{
	struct cli_pidfile_info holder;
	int ret = cli_pidfile_create(&p->pidfile, p->rt->pid_file);

	if (ret == -EEXIST && !cli_pidfile_read(p->rt->pid_file, &holder))
		return process_fail(p, ret, "%s is already running (pid=%d)", p->rt->program,
				    (int)holder.process.pid);
	return ret ? process_fail(p, ret, "cannot lock %s: %s", p->rt->pid_file, strerror(-ret))
		   : 0;
}

static int open_loop(struct process *p)
{
	static const int handled[] = { SIGTERM, SIGINT, SIGHUP };
	int ret;

	p->signals = cli_signals_open(handled, sizeof(handled) / sizeof(handled[0]));
	if (p->signals < 0)
		return process_fail(p, p->signals, "signals: %s", strerror(-p->signals));
	ret = loop_create(&p->loop);
	if (ret)
		return process_fail(p, ret, "event loop: %s", strerror(-ret));
	p->signalled =
		event_new(loop_base(p->loop), p->signals, EV_READ | EV_PERSIST, on_signal, p);
	if (!p->signalled || event_add(p->signalled, NULL))
		return process_fail(p, -ENOMEM, "event loop: %s", strerror(ENOMEM));
	return 0;
}

int process_open(struct process *p, const struct runtime *rt, const struct cli_log_attr *log,
		 struct cli_daemon *daemon)
{
	int ret;

	*p = (struct process){ .rt = rt, .daemon = daemon, .signals = -1 };
	ret = open_log(p, log);
	if (!ret)
		ret = open_pidfile(p);
	return ret ? ret : open_loop(p);
}

void process_url(const struct process *p, const char *host, const char *asked_host, unsigned port,
		 char out[PROCESS_URL_MAX])
{
	const char *url = server_url(p->server);
	char own[INET_ADDRSTRLEN];

	if (!port)
		sscanf(strrchr(url, ':'), ":%u", &port);
	if (asked_host) {
		host = asked_host;
	} else if (!strcmp(host, "0.0.0.0") || !strcmp(host, "::")) {
		node_address(own);
		host = own;
	}
	snprintf(out, PROCESS_URL_MAX, strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host,
		 port);
}

/* A sign of life only when each loop has run the last task that was posted to it: a loop that hangs
 * serves no client. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;

	(void)fd;
	(void)what;
	if (server_loops_run(p->server))
		cli_manager_tell("WATCHDOG=1");
	else
		sl_warn(p->rt->program, "an event loop does not run: the service manager is told "
					"nothing");
}

static int open_watchdog(struct process *p)
{
	unsigned ms = cli_manager_watchdog_ms();
	const struct timeval every = { .tv_sec = ms / 1000, .tv_usec = (long)(ms % 1000) * 1000 };

	if (!ms)
		return 0;
	p->watchdog = event_new(loop_base(p->loop), -1, EV_PERSIST, on_watchdog, p);
	return p->watchdog && !event_add(p->watchdog, &every)
		       ? 0
		       : process_fail(p, -ENOMEM, "event loop: %s", strerror(ENOMEM));
}

static void tell_manager(struct process *p, const char *url)
{
	char state[CLI_MANAGER_STATE_MAX];
	int ret;

	snprintf(state, sizeof(state), "READY=1\nSTATUS=serves at %s", url);
	ret = cli_manager_tell(state);
	if (ret)
		sl_error(p->rt->program, "cannot tell the service manager: NOTIFY_SOCKET: %s",
			 strerror(-ret));
	p->ready = true;
}

int process_announce(struct process *p, const char *url)
{
	int ret = cli_pidfile_set_note(&p->pidfile, url);

	if (ret)
		return process_fail(p, ret, "%s: %s", p->rt->dir, strerror(-ret));
	ret = server_start(p->server);
	if (ret)
		return process_fail(p, ret, "threads: %s", strerror(-ret));
	ret = open_watchdog(p);
	if (ret)
		return ret;
	sl_info(p->rt->program, "version %s (%s) serves at %s", cli_version(), cli_commit(), url);
	tell_manager(p, url);
	if (p->daemon)
		return cli_daemon_ready(p->daemon, url);
	printf("%s serves at %s\n", p->rt->program, url);
	return fflush(stdout) ? -errno : 0;
}

void process_close_server(struct process *p)
{
	if (p->watchdog)
		event_free(p->watchdog);
	server_destroy(p->server);
}

void process_close(struct process *p)
{
	if (p->signalled)
		event_free(p->signalled);
	loop_destroy(p->loop);
	if (p->signals >= 0)
		cli_signals_end(p->signals);
	if (p->pidfile.path) {
		runtime_clean(p->rt);
		cli_pidfile_destroy(&p->pidfile);
	}
}
