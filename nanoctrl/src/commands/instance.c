/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/process/daemon.h"
#include "cli/process/pidfile.h"
#include "text/json_slice.h"
#include "commands/probe.h"
#include "redis/child.h"
#include "redis/url.h"
#include "server/serve.h"

#define PROBE_MS     2000
#define READY_MS     3000 /* how long start waits for a Redis that is given and not there */
#define LET_GO_MS    2000 /* for the last locks of a killed process */
#define LOOK_MS	     20
#define LOG_TAIL_MAX 4096
#define ROOM_MIN     (1024 * 1024) /* of the disk of a private Redis; below it status warns */

static int complain(const char *what, int ret)
{
	fprintf(stderr, "nanoctrl: %s: %s\n", what, strerror(-ret));
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

/* ---- a server of DLSlime's in this runtime directory ---- */

/* The name of a program without its folder. */
static bool is_program(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(slash ? slash + 1 : path, name);
}

/* Whether the process is a server of DLSlime's, by its command line. */
static bool is_original(pid_t pid)
{
	char path[32], words[PATH_MAX + 1];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, words, sizeof(words) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	words[n] = '\0';
	return is_program(words, "nanoctrl") || is_program(words, "dlslime-ctrl");
}

/* It locks nothing: its pid file has the pid, and nothing else. A pid that is another process's by
 * now is nobody. */
static bool find_original(const struct runtime *rt, struct cli_process *out)
{
	char text[16], *end;
	int fd = open(rt->pid_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	long pid;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	pid = strtol(text, &end, 10);
	if (*text < '1' || *text > '9' || pid > INT32_MAX || (*end && strcmp(end, "\n") != 0))
		return false;
	return !cli_process_of((pid_t)pid, out) && is_original(out->pid);
}

/* ---- ours ---- */

/* Waits until the server behind the pid file says where it is. 0, CLI_PIDFILE_FREE, or -EAGAIN. */
static int find_running(const struct runtime *rt, int wait_ms, struct cli_pidfile_info *out)
{
	uint64_t deadline = sl_deadline_ns(wait_ms);
	int ret;

	for (;;) {
		ret = cli_pidfile_read(rt->pid_file, out);
		if ((ret != -EAGAIN && (ret || out->note[0])) || sl_clock_ns() >= deadline)
			return ret;
		poll(NULL, 0, LOOK_MS);
	}
}

/* Whether it shuts down: first it still answers, then nobody can connect. */
static bool is_ending(const struct cli_pidfile_info *info)
{
	struct probe_reply reply;
	int ret = probe_get(info->note, "/readyz?local=1", PROBE_MS, &reply);

	if (ret)
		return ret == -ECONNREFUSED || ret == -ECONNRESET;
	free(reply.body);
	return reply.status == 503;
}

/* Whether there is a server that a start leaves the work to: none that shuts down, of which the end
 * is waited for. */
static bool is_running(const struct runtime *rt, int wait_ms, struct cli_pidfile_info *out)
{
	return !find_running(rt, wait_ms, out) &&
	       !(is_ending(out) && !cli_process_wait(&out->process, wait_ms));
}

/* Whether a nanoctrl answers there, ours or DLSlime's. */
static bool is_served(const char *url)
{
	struct probe_reply reply;
	bool served;

	if (probe_get(url, "/", PROBE_MS, &reply))
		return false;
	served = reply.status == 200 &&
		 (!strcmp(reply.body, "NanoCtrl Server Running") ||
		  !strcmp(reply.body, "DLSlime control plane Server Running"));
	free(reply.body);
	return served;
}

static bool same_directory(const char *a, const char *b)
{
	struct stat sa, sb;

	if (!strcmp(a, b))
		return true;
	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* What a start asks for that the server which runs does not do, in words; "" when there is nothing.
 * A default asks for nothing. */
static void find_difference(const struct settings *settings, const struct runtime *rt, char *out,
			    size_t room)
{
	const char *port, *url = settings->redis.url;
	struct redis_url redis = { .shown = NULL };
	struct runtime_meta meta;
	char dir[PATH_MAX];
	const char *why;

	*out = '\0';
	if (!runtime_read_meta(rt, &meta))
		return;
	port = strrchr(meta.address, ':');
	if (url && !redis_url_parse(url, &redis, &why) && strcmp(redis.shown, meta.redis) != 0)
		snprintf(out, room, "its Redis is %s, not %s",
			 *meta.redis ? meta.redis : "a private one", redis.shown);
	else if (!url && settings->redis.data_dir && *meta.redis)
		snprintf(out, room, "its Redis is %s, not a private one", meta.redis);
	else if (!url && settings->redis.data_dir &&
		 !runtime_data_dir(settings->redis.data_dir, dir) &&
		 !same_directory(dir, meta.data_dir))
		snprintf(out, room, "its data directory is %s, not %s", meta.data_dir, dir);
	else if (settings->server.port && settings->server.port != SERVER_PORT && port &&
		 atoi(port + 1) != settings->server.port)
		snprintf(out, room, "its port is %s, not %u", port + 1, settings->server.port);
	redis_url_fini(&redis);
}

static int say_running(const struct settings *settings, const struct runtime *rt,
		       const struct cli_pidfile_info *info)
{
	char difference[3 * PATH_MAX];
	pid_t pid;
	int ret = info->note[0] ? probe_health(info->note, PROBE_MS, &pid) : -EAGAIN;

	printf("nanoctrl is already running (pid=%d)\n", (int)info->process.pid);
	if (info->note[0])
		printf("address: %s\n", info->note);
	if (!ret && pid == info->process.pid) {
		find_difference(settings, rt, difference, sizeof(difference));
		if (is_ending(info))
			fprintf(stderr, "nanoctrl: it is shutting down, and has not ended yet\n");
		else if (*difference)
			fprintf(stderr, "nanoctrl: it was started otherwise: %s; stop it first\n",
				difference);
		else
			return 0;
		return 1;
	}
	fprintf(stderr, "nanoctrl: it does not answer: %s\n",
		ret ? strerror(-ret) : "another server has its address");
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
	int ret = probe_get(url, "/readyz", PROBE_MS, out);

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

/* In lines, with what does not do all the same. */
static bool say_ready(const char *url)
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
static void take_back(pid_t pid, int wait_ms)
{
	struct cli_process process;

	if (cli_process_of(pid, &process) || cli_process_signal(&process, SIGTERM))
		return;
	if (cli_process_wait(&process, wait_ms))
		fprintf(stderr, "nanoctrl: it (pid=%d) has not ended yet\n", (int)pid);
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

/* wait_ms: for the Redis. */
static int say_started(const struct cli_daemon *d, const char *log, int wait_ms)
{
	uint64_t deadline = sl_deadline_ns(wait_ms);
	const char *url = d->message;
	char why[512];
	pid_t pid;
	int ret = probe_health(url, PROBE_MS, &pid);

	if (ret || pid != d->pid) {
		fprintf(stderr,
			"nanoctrl: %s does not answer as the server that was started: %s\nlog: %s\n",
			url, ret ? strerror(-ret) : "another server has its address", log);
		take_back(d->pid, wait_ms);
		return 1;
	}
	while ((ret = probe_ready(url, why, sizeof(why))) && sl_clock_ns() < deadline)
		poll(NULL, 0, LOOK_MS);
	print_host(url);
	if (ret)
		printf("nanoctrl runs (pid=%d), but is not ready: %s\n", (int)d->pid, why);
	else
		printf("nanoctrl started (pid=%d)\n", (int)d->pid);
	printf("address: %s\nlog: %s\n", url, log);
	return ret ? INSTANCE_NOT_READY : 0;
}

/* The log's absolute name: the daemon, status and people elsewhere mean the same file. */
static int choose_log(const struct options *options, const struct runtime *rt, char out[PATH_MAX])
{
	char cwd[PATH_MAX / 2];
	const char *file = options->log_file ? options->log_file : rt->log_file;
	int n;

	if (file[0] == '/')
		n = snprintf(out, PATH_MAX, "%s", file);
	else if (getcwd(cwd, sizeof(cwd)))
		n = snprintf(out, PATH_MAX, "%s/%s", cwd, file);
	else
		return -errno;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Where a server of these settings would answer, as long as its port is known. */
static void likely_url(const struct settings *settings, char *out, size_t room)
{
	const char *host = settings->server.host;

	if (!strcmp(host, "0.0.0.0"))
		host = "127.0.0.1";
	else if (!strcmp(host, "::"))
		host = "::1";
	snprintf(out, room, strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host,
		 settings->server.port);
}

/* Of a server that another runtime directory manages nothing is known: it does for a start that
 * asks for nothing in particular. */
static int refuse_asked(const struct settings *settings, const struct options *options, bool here)
{
	const char *asked = options->runtime_dir && !here ? "--runtime-dir" : NULL;

	if (settings->redis.url)
		asked = "--redis-url";
	else if (settings->redis.data_dir)
		asked = "--data-dir";
	if (asked)
		fprintf(stderr,
			"nanoctrl: it was not started with this %s: choose another --port, or stop "
			"it\n",
			asked);
	return asked ? 1 : 0;
}

static int say_served(const struct settings *settings, const struct options *options,
		      const char *url)
{
	printf("nanoctrl appears to be already running at %s (no pid file managed by this CLI)\n",
	       url);
	return refuse_asked(settings, options, false);
}

int instance_start(const struct settings *settings, const struct options *options,
		   const struct runtime *rt)
{
	struct cli_daemon_attr attr = { .timeout_ms = (int)options->wait_ms };
	struct cli_pidfile_info info;
	struct runtime_meta meta;
	struct cli_daemon d;
	char log[PATH_MAX], url[128];
	off_t log_len;
	int ret = choose_log(options, rt, log);

	if (ret)
		return complain("log file", ret);
	if (is_running(rt, attr.timeout_ms, &info))
		return say_running(settings, rt, &info);
	if (find_original(rt, &info.process)) {
		runtime_read_meta(rt, &meta);
		printf("nanoctrl is already running (pid=%d)\naddress: %s\n", (int)info.process.pid,
		       meta.address);
		return refuse_asked(settings, options, true);
	}
	likely_url(settings, url, sizeof(url));
	if (settings->server.port && is_served(url))
		return say_served(settings, options, url);
	attr.log_file = log;
	log_len = length_of(log);
	ret = cli_daemon_start(&d, &attr);
	if (!ret)
		return serve(settings, options, rt, log, &d);
	if (ret == CLI_DAEMON_PARENT)
		return say_started(&d, log, settings->redis.url ? READY_MS : (int)options->wait_ms);
	/* Another start may have been faster. */
	if (ret == -ECHILD && !find_running(rt, attr.timeout_ms, &info))
		return say_running(settings, rt, &info);
	fprintf(stderr, "nanoctrl: %s\nlog: %s\n", d.message, log);
	print_log_tail(log, log_len);
	return 1;
}

/* The data directory that the last server of this runtime directory used, else the configured one.
 */
static int find_data_dir(const struct settings *settings, const struct runtime *rt,
			 char out[PATH_MAX])
{
	ssize_t n = readlink(rt->data_link, out, PATH_MAX - 1);

	if (n <= 0)
		return runtime_data_dir(settings->redis.data_dir, out);
	out[n] = '\0';
	return 0;
}

/* Whether a nanoctrl answers there, which is the one of this process when pid is not 0; said in a
 * line. */
static bool say_health(const char *url, pid_t pid)
{
	pid_t who = 0;
	int ret = probe_health(url, PROBE_MS, &who);
	bool ok = !ret && (!pid || who == pid);

	if (ret == -EPROTO && !pid && is_served(url))
		ok = true; /* DLSlime's has no such page */
	if (ok)
		printf("health: ok\n");
	else
		printf("health: down (%s)\n",
		       ret ? strerror(-ret) : "another server has its address");
	return ok;
}

/* Whoever holds the pid file, it is not known who: no reason to take anything from him. */
static int complain_of_pidfile(const struct runtime *rt, int ret)
{
	fprintf(stderr, "nanoctrl: cannot tell who holds %s: %s\n", rt->pid_file,
		ret == -EPROTO ? "it is no pid file of nanoctrl" : strerror(-ret));
	return 1;
}

static int say_original(const struct runtime *rt, const struct options *options,
			const struct cli_process *process)
{
	struct runtime_meta meta;
	const char *url = options->address;
	bool ok;

	runtime_read_meta(rt, &meta);
	if (!url)
		url = meta.address;
	printf("pid: %d\nprocess: running\naddress: %s\n", (int)process->pid, url);
	ok = say_health(url, 0);
	if (*meta.log)
		printf("log: %s\n", meta.log);
	printf("note: it is a server of DLSlime's\n");
	return ok ? 0 : 1;
}

/* Nobody holds the pid file: what the last server left is all there is to say. */
static int say_not_running(const struct settings *settings, const struct options *options,
			   const struct runtime *rt)
{
	struct runtime_meta meta;
	char url[256];

	likely_url(settings, url, sizeof(url));
	if (!runtime_read_meta(rt, &meta)) {
		printf("nanoctrl is not running (no pid file)\n");
	} else {
		printf("pid: %ld\nprocess: not running\naddress: %s\n", meta.pid, meta.address);
		if (*meta.address)
			snprintf(url, sizeof(url), "%s", meta.address);
	}
	say_health(options->address ? options->address : url, 0);
	if (*meta.log)
		printf("log: %s\n", meta.log);
	return 1;
}

/* Where the private Redis keeps its data, and what may keep it from doing so. It ends when it
 * cannot write, and then nothing but its log tells why. */
static void say_data(const char *dir, bool ready)
{
	char log[PATH_MAX];
	struct statvfs fs;
	uint64_t left;

	printf("data: %s\n", dir);
	if (!ready) {
		redis_child_log_file(dir, log, sizeof(log));
		printf("redis log: %s\n", log);
	}
	if (statvfs(dir, &fs))
		return;
	left = (uint64_t)fs.f_frsize * (geteuid() ? fs.f_bavail : fs.f_bfree);
	if (left < ROOM_MIN)
		printf("warning: the disk of %s has %" PRIu64
		       " KiB left, and the private Redis ends "
		       "when it cannot write\n",
		       dir, left / 1024);
}

int instance_status(const struct settings *settings, const struct options *options,
		    const struct runtime *rt)
{
	struct cli_pidfile_info info;
	struct runtime_meta meta;
	char text[PATH_MAX];
	const char *url = options->address ? options->address : info.note;
	bool ready;
	int ret = cli_pidfile_read(rt->pid_file, &info);

	if (ret == CLI_PIDFILE_FREE && find_original(rt, &info.process))
		return say_original(rt, options, &info.process);
	if (ret == CLI_PIDFILE_FREE)
		return say_not_running(settings, options, rt);
	if (ret && ret != -EAGAIN)
		return complain_of_pidfile(rt, ret);
	if (ret || !info.note[0]) {
		printf("nanoctrl is not running, or is only starting\n");
		return 1;
	}
	printf("pid: %d\nprocess: running\naddress: %s\n", (int)info.process.pid, url);
	if (!say_health(url, info.process.pid))
		return 1;
	ready = say_ready(url);
	if (runtime_read_meta(rt, &meta) && *meta.log)
		printf("log: %s\n", meta.log);
	if (readlink(rt->data_link, text, 1) > 0 && !find_data_dir(settings, rt, text))
		say_data(text, ready);
	printf("runtime: %s\n", rt->dir);
	return ready ? 0 : INSTANCE_NOT_READY;
}

/* Ends what a killed server left, as soon as its last thread has let go of the directory. */
static int end_orphan(const char *data_dir, char why[REDIS_CHILD_WHY_MAX])
{
	uint64_t deadline = sl_deadline_ns(LET_GO_MS);
	int ret;

	while ((ret = redis_child_end_orphan(data_dir, why)) == -EBUSY && sl_clock_ns() < deadline)
		poll(NULL, 0, LOOK_MS);
	return ret;
}

/* Whether the last server may have had a Redis of its own; one that left files says it there. */
static bool had_private_redis(const struct settings *settings, const struct runtime *rt)
{
	struct runtime_meta meta;

	return !settings->redis.url && (!runtime_read_meta(rt, &meta) || *meta.data_dir);
}

/* The pid file as well, unless somebody has locked it since. */
static void clean_files(const struct runtime *rt)
{
	struct cli_pidfile stale;

	runtime_clean(rt);
	if (!access(rt->pid_file, F_OK) && !cli_pidfile_create(&stale, rt->pid_file))
		cli_pidfile_destroy(&stale);
}

/* Nobody runs. A server that did not end in order, of which files are left, may have left its
 * Redis, too. */
static int clean_up(const struct settings *settings, const struct runtime *rt, const char *done)
{
	bool orphaned = !access(rt->meta_file, F_OK);
	char data_dir[PATH_MAX], why[REDIS_CHILD_WHY_MAX] = "";
	int ret = find_data_dir(settings, rt, data_dir);

	if (!ret && had_private_redis(settings, rt))
		ret = orphaned ? end_orphan(data_dir, why) : redis_child_end_orphan(data_dir, why);
	if (ret < 0 && ret != -EBUSY && *why) {
		fprintf(stderr, "nanoctrl: %s\n", why);
		return 1;
	}
	clean_files(rt);
	if (ret == -EBUSY && orphaned)
		printf("%s; a Redis was left: %s\n", done, why);
	else
		printf("%s%s\n", done, ret == 1 ? "; its Redis was ended" : "");
	return 0;
}

/* The server has ended. One that was killed before it heard us left its files, which one that ends
 * in order takes with it. */
static int say_stopped(const struct settings *settings, const struct runtime *rt, pid_t pid)
{
	struct cli_pidfile_info next;
	char done[64];

	if (access(rt->meta_file, F_OK) ||
	    (!cli_pidfile_read(rt->pid_file, &next) && next.process.pid != pid)) {
		printf("nanoctrl stopped (pid=%d)\n", (int)pid);
		return 0;
	}
	snprintf(done, sizeof(done), "nanoctrl was killed (pid=%d)", (int)pid);
	return clean_up(settings, rt, done);
}

int instance_stop(const struct settings *settings, const struct options *options,
		  const struct runtime *rt)
{
	struct cli_pidfile_info info;
	char done[64];
	int ret = find_running(rt, PROBE_MS, &info);
	bool original = ret == CLI_PIDFILE_FREE && find_original(rt, &info.process);

	if (ret < 0)
		return complain_of_pidfile(rt, ret);
	if (ret == CLI_PIDFILE_FREE && !original)
		return clean_up(settings, rt,
				access(rt->meta_file, F_OK) && access(rt->pid_file, F_OK)
					? "nanoctrl is not running"
					: "nanoctrl is not running (stale pid file cleaned)");
	ret = cli_process_signal(&info.process, SIGTERM);
	if (ret && ret != -ESRCH)
		return complain("cannot signal it", ret);
	if (!cli_process_wait(&info.process, (int)options->timeout_ms)) {
		if (original) /* its own command removes them */
			clean_files(rt);
		return say_stopped(settings, rt, info.process.pid);
	}
	if (!options->force) {
		fprintf(stderr, "Error: nanoctrl did not stop within %.1fs; rerun with --force\n",
			(double)options->timeout_ms / 1e3);
		return 1;
	}
	cli_process_signal(&info.process, SIGKILL);
	cli_process_wait(&info.process, -1);
	snprintf(done, sizeof(done), "nanoctrl killed (pid=%d)", (int)info.process.pid);
	return clean_up(settings, rt, done);
}
