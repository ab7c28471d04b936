/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/background.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/process/daemon.h"
#include "daemon/probe.h"
#include "text/json_slice.h"

#define POLL_MS	     20
#define LOG_TAIL_MAX 4096

int background_complain(const struct runtime *rt, const char *what, int ret)
{
	fprintf(stderr, "%s: %s: %s\n", rt->program, what, strerror(-ret));
	return 1;
}

/* The last lines of the log, from what was written since its length was from. */
static void print_log_tail(const char *file, off_t from)
{
	char text[LOG_TAIL_MAX + 1];
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n;

	if (fd < 0)
		return;
	if (end - from > LOG_TAIL_MAX)
		from = end - LOG_TAIL_MAX;
	n = end > from ? pread(fd, text, LOG_TAIL_MAX, from) : 0;
	close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	printf("recent log:\n%s", text);
}

static off_t length_of(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	off_t len = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

	if (fd >= 0)
		close(fd);
	return len < 0 ? 0 : len; /* a FIFO has none */
}

int background_find(const struct runtime *rt, int wait_ms, struct cli_pidfile_info *out)
{
	uint64_t deadline = sl_deadline_ns(wait_ms);
	int ret;

	for (;;) {
		ret = cli_pidfile_read(rt->pid_file, out);
		if ((ret != -EAGAIN && (ret || out->note[0])) || sl_clock_ns() >= deadline)
			return ret;
		poll(NULL, 0, POLL_MS);
	}
}

/* Whether it shuts down: first it still answers, then it accepts no connections. */
static bool is_ending(const struct cli_pidfile_info *info)
{
	struct probe_reply reply;
	int ret = probe_get(info->note, "/readyz?local=1", BACKGROUND_PROBE_MS, &reply);

	if (ret)
		return ret == -ECONNREFUSED || ret == -ECONNRESET;
	free(reply.body);
	return reply.status == 503;
}

bool background_runs(const struct background *b, struct cli_pidfile_info *out)
{
	return !background_find(b->rt, b->wait_ms, out) &&
	       !(is_ending(out) && !cli_process_wait(&out->process, b->wait_ms));
}

int background_health(const struct runtime *rt, const char *url, pid_t pid)
{
	pid_t who = 0;
	int ret = probe_health(url, rt->program, BACKGROUND_PROBE_MS, &who);

	return ret || !pid || who == pid ? ret : -EADDRINUSE;
}

static const char *health_text(int ret)
{
	return ret == -EADDRINUSE ? "another server has its address" : strerror(-ret);
}

void background_print_health(int ret)
{
	if (ret)
		printf("health: down (%s)\n", health_text(ret));
	else
		printf("health: ok\n");
}

int background_say_running(const struct background *b, const struct cli_pidfile_info *info)
{
	const char *program = b->rt->program;
	char difference[3 * PATH_MAX] = "";
	int ret = info->note[0] ? background_health(b->rt, info->note, info->process.pid) : -EAGAIN;

	printf("%s is already running (pid=%d)\n", program, (int)info->process.pid);
	if (info->note[0])
		printf("address: %s\n", info->note);
	if (ret) {
		fprintf(stderr, "%s: it does not answer: %s\n", program, health_text(ret));
		return 1;
	}
	b->find_difference(b->arg, difference, sizeof(difference));
	if (is_ending(info))
		fprintf(stderr, "%s: it is shutting down, and has not ended yet\n", program);
	else if (*difference)
		fprintf(stderr, "%s: it was started otherwise: %s; stop it first\n", program,
			difference);
	else
		return 0;
	return 1;
}

/* The message of a reply with an error, in place; "" without one. */
static const char *message_of(char *json)
{
	char *at = strstr(json, "\"message\":\"");
	char *end = at ? strstr(at + 11, "\",\"") : NULL;

	if (!end)
		return "";
	*end = '\0';
	return at + 11;
}

/* Whether the server can do its work: 0 and its answer, or 1 with the reason in why. */
static int ask_ready(const char *url, char *why, size_t room, struct probe_reply *out)
{
	int ret = probe_get(url, "/readyz", BACKGROUND_PROBE_MS, out);

	if (ret) {
		snprintf(why, room, "%s", strerror(-ret));
		return 1;
	}
	if (out->status == 200)
		return 0;
	snprintf(why, room, "%s", message_of(out->body));
	sl_utf8_make_printable(why);
	free(out->body);
	return 1;
}

static int probe_ready(const char *url, char *why, size_t room)
{
	struct probe_reply reply;
	int ret = ask_ready(url, why, room, &reply);

	if (!ret)
		free(reply.body);
	return ret;
}

/* The elements of an array, a line for each that is a text. */
static void print_warnings(struct json_slice array)
{
	struct json_slice key, value;
	struct json_walk w;

	if (!json_walk_init(&w, array) || w.object)
		return;
	while (json_walk_next(&w, &key, &value)) {
		char *text = malloc(value.len + 1);

		if (text && json_unquote(value, text) >= 0) {
			sl_utf8_make_printable(text);
			printf("warning: %s\n", text);
		}
		free(text);
	}
}

bool background_say_ready(const char *url)
{
	struct json_slice key, value;
	struct probe_reply reply;
	struct json_walk w;
	char why[PATH_MAX];
	size_t len;

	if (ask_ready(url, why, sizeof(why), &reply)) {
		printf("ready: no (%s)\n", why);
		return false;
	}
	printf("ready: yes\n");
	len = strlen(reply.body);
	if (!json_too_deep(reply.body, len, 2) && json_walk_init(&w, json_first(reply.body, len)) &&
	    w.object)
		while (json_walk_next(&w, &key, &value))
			if (json_is(key, "\"warnings\""))
				print_warnings(value);
	free(reply.body);
	return true;
}

/* So that nothing runs of a start that failed; a server that takes longer to end goes on alone. */
static void take_back(const struct runtime *rt, pid_t pid, int wait_ms)
{
	struct cli_process process;

	if (cli_process_of(pid, &process) || cli_process_signal(&process, SIGTERM))
		return;
	if (cli_process_wait(&process, wait_ms))
		fprintf(stderr, "%s: it (pid=%d) has not ended yet\n", rt->program, (int)pid);
}

/* The host of a URL with a port, without the brackets of an IPv6 address. */
static void print_host(const char *url)
{
	const char *from = strstr(url, "://"), *end = strrchr(url, ':');

	from = from ? from + 3 : url;
	if (!end || end < from)
		end = from + strlen(from);
	if (*from == '[' && end > from + 1 && end[-1] == ']')
		from++, end--;
	printf("Local node IP: %.*s\n\n", (int)(end - from), from);
}

static int say_started(const struct background *b, const struct cli_daemon *d, const char *log)
{
	uint64_t deadline = sl_deadline_ns(b->ready_ms);
	const char *url = d->message, *program = b->rt->program;
	char why[512];
	int ret = background_health(b->rt, url, d->pid);

	if (ret) {
		fprintf(stderr,
			"%s: %s does not answer as the server that was started: %s\nlog: %s\n",
			program, url, health_text(ret), log);
		take_back(b->rt, d->pid, b->ready_ms);
		return 1;
	}
	while ((ret = probe_ready(url, why, sizeof(why))) && sl_clock_ns() < deadline)
		poll(NULL, 0, POLL_MS);
	print_host(url);
	if (ret)
		printf("%s runs (pid=%d), but is not ready: %s\n", program, (int)d->pid, why);
	else
		printf("%s started (pid=%d)\n", program, (int)d->pid);
	printf("address: %s\nlog: %s\n", url, log);
	return ret ? BACKGROUND_NOT_READY : 0;
}

/* The log's absolute name: the daemon, status and people elsewhere mean the same file. */
static int choose_log(const struct background *b, char out[PATH_MAX])
{
	char cwd[PATH_MAX / 2];
	const char *file = b->log_file ? b->log_file : b->rt->log_file;
	int n;

	if (file[0] == '/')
		n = snprintf(out, PATH_MAX, "%s", file);
	else if (getcwd(cwd, sizeof(cwd)))
		n = snprintf(out, PATH_MAX, "%s/%s", cwd, file);
	else
		return -errno;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int background_start(const struct background *b)
{
	struct cli_daemon_attr attr = { .timeout_ms = b->wait_ms };
	struct cli_pidfile_info info;
	struct cli_daemon d;
	char log[PATH_MAX];
	off_t log_len;
	int ret = choose_log(b, log);

	if (ret)
		return background_complain(b->rt, "log file", ret);
	attr.log_file = log;
	log_len = length_of(log);
	ret = cli_daemon_start(&d, &attr);
	if (!ret)
		return b->serve(b->arg, log, &d);
	if (ret == CLI_DAEMON_PARENT)
		return say_started(b, &d, log);
	/* Another start may have been faster. */
	if (ret == -ECHILD && !background_find(b->rt, b->wait_ms, &info))
		return background_say_running(b, &info);
	fprintf(stderr, "%s: %s\nlog: %s\n", b->rt->program, d.message, log);
	print_log_tail(log, log_len);
	return 1;
}

int background_complain_of_pidfile(const struct runtime *rt, int ret)
{
	fprintf(stderr, "%s: cannot find the process that holds %s: %s\n", rt->program,
		rt->pid_file, ret == -EPROTO ? "it is no pid file of ours" : strerror(-ret));
	return 1;
}

int background_end(const struct runtime *rt, const struct cli_process *process, int64_t timeout_ms,
		   bool force)
{
	int ret = cli_process_signal(process, SIGTERM);

	if (ret && ret != -ESRCH) {
		background_complain(rt, "cannot signal it", ret);
		return ret;
	}
	if (!cli_process_wait(process, (int)timeout_ms))
		return 0;
	if (!force) {
		fprintf(stderr, "Error: %s did not stop within %.1fs; rerun with --force\n",
			rt->program, (double)timeout_ms / 1e3);
		return -ETIMEDOUT;
	}
	cli_process_signal(process, SIGKILL);
	cli_process_wait(process, -1);
	return 1;
}

void background_clean(const struct runtime *rt)
{
	struct cli_pidfile stale;

	runtime_clean(rt);
	if (!access(rt->pid_file, F_OK) && !cli_pidfile_create(&stale, rt->pid_file))
		cli_pidfile_destroy(&stale);
}
