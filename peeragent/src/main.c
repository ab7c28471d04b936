/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of one node: its file, its signals, its services. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <event2/event.h>

#include "base/log.h"
#include "base/thread.h"
#include "cli/process/descriptors.h"
#include "cli/process/logsink.h"
#include "cli/process/manager.h"
#include "cli/options/option.h"
#include "cli/output/output.h"
#include "cli/process/signals.h"
#include "cli/options/standard.h"
#include "cli/options/version.h"
#include "peeragent/src/config.h"
#include "peeragent/src/metrics.h"
#include "peeragent/src/service.h"

/* More than the 5 s that a goodbye waits for its answer, and then says itself that there was none.
 */
#define STOP_TIMEOUT_MS 8000

struct options {
	const char *config;
	bool check;
	bool print_config;
};

static const struct cli_setting option_table[] = {
	CLI_STRING(struct options, config, "config", .letter = 'c', .value = "FILE",
		   .help = "the node's file"),
	CLI_FLAG(struct options, check, "check", .help = "check the file, start nothing"),
	CLI_FLAG(struct options, print_config, "print-config",
		 .help = "print the effective values, start nothing"),
	CLI_SET,
	CLI_KEY("log-file", "log.file", .value = "FILE", .help = "log file"),
	CLI_KEY("log-format", "log.format", .value = "text|json", .help = "form of the log"),
	CLI_KEY("log-level", "log.level", .value = "LEVEL", .help = "lowest level that is logged"),
	CLI_END,
};

static const struct cli_command command = {
	.name = "peeragent",
	.summary = "keep one node's regions, links and services up",
	.tables = { option_table },
};

static const struct cli_program program = {
	.name = "peeragent",
	.summary = "keep one node's regions, links and services up",
	.text = "SIGHUP reads the file again, SIGTERM and SIGINT leave in order, SIGUSR1 opens the "
		"log file again.",
	.main = &command,
	.settings = node_settings,
};

struct daemon {
	struct options options;
	struct cli_args args;
	struct config *config;
	struct event_base *base;
	struct event *signals;
	struct event *watchdog; /* NULL when no service manager waits for our signs of life */
	int signal_fd;
	struct slime_agent *agent;
	struct services services;
	struct metrics *metrics;
	bool was_ready;
	int stopped_fd; /* readable when the services have stopped, */
	bool stopped;	/* as the loop has seen */
	int status;	/* to exit with */
};

/* The reason for its end, also for the process that started it and reads no log file. */
__attribute__((format(printf, 2, 3))) static void say_why(const struct daemon *d, const char *fmt,
							  ...)
{
	char why[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	sl_error("peeragent", "%s", why);
	if (d->config->node.log.file)
		fprintf(stderr, "peeragent: %s (log: %s)\n", why, d->config->node.log.file);
}

/* The first failure stays: a signal may come while we stop because of it. */
static void finish(struct daemon *d, int status)
{
	if (!d->status)
		d->status = status;
	event_base_loopbreak(d->base);
}

/* ---- SIGHUP ---- */

static void say_in_log(const char *line)
{
	sl_error("peeragent", "reload: %s", line);
}

static void apply(struct daemon *d, const struct config *next)
{
	int ret = slime_agent_apply(d->agent, &next->attr.topology);

	if (ret == -EEXIST) /* the agent said which name */
		return;
	if (!ret)
		ret = slime_agent_urls_set(d->agent, next->attr.urls, next->attr.n_urls);
	if (ret)
		sl_error("peeragent", "reload: %s: the old file stays",
			 ret == -ESHUTDOWN ? "the agent leaves" : strerror(-ret));
	else
		sl_info("peeragent", "reloaded %s", d->options.config);
}

/* The old file stays in force unless all of the new one can be used. The agent copies the settings
 * that may change; all others are as in the file of the start, to whose strings services point. */
static void reload(struct daemon *d)
{
	struct config *next;
	const char *key;
	int ret = config_create(d->options.config, &d->args, say_in_log, &next);

	if (ret) {
		sl_error("peeragent", "reload: %s is not usable%s: the old one stays",
			 d->options.config, ret == -ENOMEM ? " without memory" : "");
		return;
	}
	key = config_needs_restart(d->config, next);
	if (key)
		sl_error("peeragent",
			 "reload: %s cannot change while the agent runs: restart it; the old "
			 "file stays",
			 key);
	else
		apply(d, next);
	config_destroy(next);
}

static void reload_and_tell(struct daemon *d)
{
	cli_manager_tell_reloading();
	reload(d);
	if (d->was_ready)
		cli_manager_tell("READY=1");
}

/* The old log file may be out of sight: the line goes to standard error, too. */
static void reopen_log(const struct daemon *d)
{
	const char *file = d->config->node.log.file;
	int ret = cli_log_reopen();

	if (!ret)
		return;
	sl_error("peeragent", "log file %s cannot be opened again: %s", file, cli_log_error(ret));
	fprintf(stderr, "peeragent: log file %s cannot be opened again: %s\n", file,
		cli_log_error(ret));
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *d = arg;
	int signal;

	(void)what;
	while ((signal = cli_signals_read(fd)) > 0) {
		if (signal == SIGHUP)
			reload_and_tell(d);
		else if (signal == SIGUSR1)
			reopen_log(d);
		else
			finish(d, 0);
	}
}

/* ---- the agent's state ---- */

static void say_ready(struct daemon *d)
{
	const struct node *node = &d->config->node;
	int ret;

	printf("ready: %s scope=%s%s%s\n", node->agent.name, node->agent.scope,
	       d->metrics ? " metrics=" : "", d->metrics ? metrics_address(d->metrics) : "");
	fflush(stdout);
	ret = cli_manager_tell("READY=1\nSTATUS=registered with nanoctrl");
	if (ret)
		sl_error("peeragent", "cannot tell the service manager: NOTIFY_SOCKET: %s",
			 strerror(-ret));
}

static void on_ready(struct daemon *d)
{
	if (d->was_ready || d->services.stopping)
		return;
	d->was_ready = true;
	if (services_start(&d->services)) {
		say_why(d, "cannot start its services");
		finish(d, 1);
	} else {
		say_ready(d);
	}
}

static void on_refused(struct daemon *d, const char *who)
{
	say_why(d,
		"the name %s is held by another agent, whose owner key this one does not have: %s",
		slime_agent_name(d->agent), who);
	finish(d, 1);
}

static void on_state(void *arg, struct slime_agent *agent, enum slime_agent_state state, int cause,
		     const char *text)
{
	struct daemon *d = arg;

	(void)agent;
	if (state == SLIME_AGENT_READY) {
		on_ready(d);
	} else if (state == SLIME_AGENT_REFUSED) {
		on_refused(d, text);
	} else if (state == SLIME_AGENT_ENDED && cause) {
		say_why(d, "stopping: %s", text);
		finish(d, 1);
	} else if (state == SLIME_AGENT_STARTING && cause && cause != -EAGAIN &&
		   cause != -EADDRINUSE) {
		say_why(d, "cannot start: %s: %s", text, strerror(-cause));
		finish(d, 1);
	}
}

/* ---- life ---- */

static int open_signals(struct daemon *d)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1 };

	d->signal_fd = cli_signals_open(signals, sizeof(signals) / sizeof(signals[0]));
	return d->signal_fd < 0 ? d->signal_fd : 0;
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	cli_manager_tell("WATCHDOG=1");
}

static int create_watchdog(struct daemon *d)
{
	unsigned ms = cli_manager_watchdog_ms();
	const struct timeval every = { .tv_sec = ms / 1000, .tv_usec = (long)(ms % 1000) * 1000 };

	if (!ms)
		return 0;
	d->watchdog = event_new(d->base, -1, EV_PERSIST, on_watchdog, d);
	return d->watchdog && !event_add(d->watchdog, &every) ? 0 : -ENOMEM;
}

static int create_loop(struct daemon *d)
{
	d->base = event_base_new();
	if (!d->base)
		return -ENOMEM;
	d->signals = event_new(d->base, d->signal_fd, EV_READ | EV_PERSIST, on_signal, d);
	return d->signals && !event_add(d->signals, NULL) ? create_watchdog(d) : -ENOMEM;
}

static int init_services(struct daemon *d)
{
	struct canceller canceller;
	int ret = canceller_init(&canceller);

	if (ret)
		return ret;
	ret = services_init(&d->services, &d->config->node, d->agent, &canceller);
	canceller_fini(&canceller);
	return ret;
}

static int create_agent(struct daemon *d)
{
	struct slime_agent_attr attr = d->config->attr;
	int ret;

	attr.data.rpc_workers += services_workers(&d->services);
	attr.loop = d->base;
	attr.on_state = on_state;
	attr.arg = d;
	ret = slime_agent_create(&attr, &d->agent);
	if (ret)
		return ret;
	ret = init_services(d);
	if (ret)
		return ret;
	if (d->config->node.metrics.listen)
		ret = metrics_create(d->base, d->config->node.metrics.listen, d->agent,
				     &d->services, &d->metrics);
	return ret;
}

static int start(struct daemon *d)
{
	int ret = create_loop(d);

	if (!ret)
		ret = create_agent(d);
	return ret ? ret : slime_agent_start(d->agent);
}

static void *stop_services(void *arg)
{
	struct daemon *d = arg;

	services_stop(&d->services);
	eventfd_write(d->stopped_fd, 1);
	return NULL;
}

static void on_stopped(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *d = arg;

	(void)fd;
	(void)what;
	d->stopped = true;
	event_base_loopbreak(d->base);
}

/* Beside the running loop: threads of services may be in calls of the agent, which need it. */
static void stop_beside_loop(struct daemon *d)
{
	struct event *stopped = NULL;
	pthread_t thread;

	d->stopped_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->stopped_fd >= 0)
		stopped = event_new(d->base, d->stopped_fd, EV_READ, on_stopped, d);
	d->services.stopping = true;
	if (!stopped || event_add(stopped, NULL) ||
	    sl_thread_create(&thread, "slime-stop", stop_services, d)) {
		sl_error("peeragent", "no thread to stop the services: the loop waits for them");
		services_stop(&d->services);
	} else {
		/* Another signal to end breaks the loop, too. */
		while (!d->stopped && event_base_loop(d->base, 0) == 0)
			;
		pthread_join(thread, NULL);
	}
	if (stopped)
		event_free(stopped);
	if (d->stopped_fd >= 0)
		close(d->stopped_fd);
}

static void stop(struct daemon *d)
{
	cli_manager_tell("STOPPING=1");
	if (d->agent)
		stop_beside_loop(d);
	if (d->agent && slime_agent_stop(d->agent, STOP_TIMEOUT_MS))
		sl_warn("peeragent", "did not leave within %d ms", STOP_TIMEOUT_MS);
	metrics_destroy(d->metrics);
	services_fini(&d->services);
	if (slime_agent_destroy(d->agent))
		sl_error("peeragent", "a service did not put an endpoint back");
	if (d->watchdog)
		event_free(d->watchdog);
	if (d->signals)
		event_free(d->signals);
	if (d->base) {
		/* A connection with a deferred callback is freed by that callback, also when it has
		 * no callback to call. */
		event_base_loop(d->base, EVLOOP_NONBLOCK);
		event_base_free(d->base);
	}
	cli_signals_end(d->signal_fd);
}

static void warn_in_log(const char *line)
{
	sl_warn("peeragent", "%s", line);
}

static int run(struct daemon *d)
{
	const struct node_log *log = &d->config->node.log;
	struct cli_log_attr log_attr = { .file = log->file,
					 .format = log->format,
					 .level = (enum slime_log_level)log->level };
	int ret = cli_log_open(&log_attr);

	if (ret) {
		fprintf(stderr, "peeragent: log file %s: %s\n", log->file, cli_log_error(ret));
		return 1;
	}
	ret = open_signals(d);
	if (ret) {
		say_why(d, "signals: %s", strerror(-ret));
		return 1;
	}
	cli_descriptors_raise(); /* a link has some */
	sl_info("peeragent", "peeragent %s (%s) starts %s", cli_version(), cli_commit(),
		d->config->node.agent.name);
	config_warn(d->config, warn_in_log);
	ret = start(d);
	if (ret == -ECANCELED) {
		sl_info("peeragent", "told to end before its services are prepared");
	} else if (ret) {
		say_why(d, "cannot start: %s", strerror(-ret));
		d->status = 1;
	} else {
		cli_manager_tell("STATUS=waits for nanoctrl");
		event_base_dispatch(d->base);
	}
	stop(d);
	sl_info("peeragent", "stopped");
	cli_log_close();
	return d->status;
}

static int dump(const struct daemon *d)
{
	int ret = cli_config_dump(d->config->source, stdout);

	return ret ? cli_output_fail("peeragent", ret) : 0;
}

static void say_on_stderr(const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static void warn_on_stderr(const char *line)
{
	fprintf(stderr, "warning: %s\n", line);
}

/* The status for a file that cannot be had. */
static int fail_config(int ret)
{
	if (ret == -EINVAL)
		return CLI_EXIT_USAGE;
	fprintf(stderr, "peeragent: %s\n", strerror(-ret));
	return 1;
}

/* A daemon that begins is also told that there is another file, or another place for the log:
 * signals that come before it listens wait. */
static void hold_reloads(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int read_and_run(struct daemon *d)
{
	int ret;

	if (!d->options.check && !d->options.print_config)
		hold_reloads();
	ret = config_create(d->options.config, &d->args, say_on_stderr, &d->config);

	if (ret)
		return fail_config(ret);
	ret = services_load(&d->services, d->config);
	if (ret)
		ret = fail_config(ret);
	else if (d->options.print_config)
		ret = dump(d);
	else if (d->options.check)
		config_warn(d->config, warn_on_stderr);
	else
		ret = run(d);
	services_unload(&d->services);
	config_destroy(d->config);
	return ret;
}

int main(int argc, char **argv)
{
	static struct daemon d = { .signal_fd = -1 };
	int ret = cli_standard_open();

	if (ret)
		return EXIT_FAILURE;
	ret = cli_args_init(&d.args, &program, argc, argv, &d.options);
	if (ret)
		return cli_args_exit_status(ret);
	ret = d.options.config ? read_and_run(&d)
			       : cli_usage_error(&program, "--config FILE is needed");
	cli_args_fini(&d.args);
	return ret;
}
