/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "daemon/background.h"
#include "daemon/probe.h"
#include "redis/child.h"
#include "redis/url.h"
#include "server/serve.h"

#define READY_MS  3000 /* how long start waits for a Redis that is given and not there */
#define LET_GO_MS 2000 /* for the last locks of a killed process */
#define POLL_MS	  20
#define ROOM_MIN  (1024 * 1024) /* of the disk of a private Redis; below it status warns */

/* A start, and what it asks for. */
struct start {
	const struct settings *settings;
	const struct options *options;
	const struct runtime *rt;
};

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

/* DLSlime's own program does not lock its pid file, and writes nothing but the pid into it. A pid
 * that another process has by now counts as none. */
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

/* Whether a nanoctrl answers there, ours or DLSlime's. */
static bool is_served(const char *url)
{
	struct probe_reply reply;
	bool served;

	if (probe_get(url, "/", BACKGROUND_PROBE_MS, &reply))
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

/* A default asks for nothing. */
static void find_difference(void *arg, char *out, size_t room)
{
	const struct settings *settings = ((const struct start *)arg)->settings;
	const struct runtime *rt = ((const struct start *)arg)->rt;
	const char *port, *url = settings->redis.url;
	struct redis_url redis = { .shown = NULL };
	struct runtime_meta meta;
	char dir[PATH_MAX];
	const char *why;

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

static int serve_start(void *arg, const char *log, struct cli_daemon *daemon)
{
	const struct start *s = arg;

	return serve(s->settings, s->options, s->rt, log, daemon);
}

int instance_start(const struct settings *settings, const struct options *options,
		   const struct runtime *rt)
{
	struct start start = { .settings = settings, .options = options, .rt = rt };
	int wait_ms = (int)options->wait_ms;
	const struct background b = { .rt = rt,
				      .log_file = options->log_file,
				      .wait_ms = wait_ms,
				      .ready_ms = settings->redis.url ? READY_MS : wait_ms,
				      .serve = serve_start,
				      .find_difference = find_difference,
				      .arg = &start };
	struct cli_pidfile_info info;
	struct runtime_meta meta;
	char url[128];

	if (background_runs(&b, &info))
		return background_say_running(&b, &info);
	if (find_original(rt, &info.process)) {
		runtime_read_meta(rt, &meta);
		printf("nanoctrl is already running (pid=%d)\naddress: %s\n", (int)info.process.pid,
		       meta.address);
		return refuse_asked(settings, options, true);
	}
	likely_url(settings, url, sizeof(url));
	if (settings->server.port && is_served(url))
		return say_served(settings, options, url);
	return background_start(&b);
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
static bool say_health(const struct runtime *rt, const char *url, pid_t pid)
{
	int ret = background_health(rt, url, pid);

	if (ret == -EPROTO && !pid && is_served(url))
		ret = 0; /* DLSlime's has no such page */
	background_print_health(ret);
	return !ret;
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
	ok = say_health(rt, url, 0);
	if (*meta.log)
		printf("log: %s\n", meta.log);
	printf("note: it is a server of DLSlime's\n");
	return ok ? 0 : 1;
}

/* The pid file is not locked, so no server runs: report what the last one left. */
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
	say_health(rt, options->address ? options->address : url, 0);
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
		return background_complain_of_pidfile(rt, ret);
	if (ret || !info.note[0]) {
		printf("nanoctrl is not running, or is only starting\n");
		return 1;
	}
	printf("pid: %d\nprocess: running\naddress: %s\n", (int)info.process.pid, url);
	if (!say_health(rt, url, info.process.pid))
		return 1;
	ready = background_say_ready(url);
	if (runtime_read_meta(rt, &meta) && *meta.log)
		printf("log: %s\n", meta.log);
	if (readlink(rt->data_link, text, 1) > 0 && !find_data_dir(settings, rt, text))
		say_data(text, ready);
	printf("runtime: %s\n", rt->dir);
	return ready ? 0 : BACKGROUND_NOT_READY;
}

/* Ends what a killed server left, as soon as its last thread has let go of the directory. */
static int end_orphan(const char *data_dir, char why[REDIS_CHILD_WHY_MAX])
{
	uint64_t deadline = sl_deadline_ns(LET_GO_MS);
	int ret;

	while ((ret = redis_child_end_orphan(data_dir, why)) == -EBUSY && sl_clock_ns() < deadline)
		poll(NULL, 0, POLL_MS);
	return ret;
}

/* Whether the last server may have had a Redis of its own; one that left files says it there. */
static bool had_private_redis(const struct settings *settings, const struct runtime *rt)
{
	struct runtime_meta meta;

	return !settings->redis.url && (!runtime_read_meta(rt, &meta) || *meta.data_dir);
}

/* No server runs. One that did not end in order, which shows in files that it left, may have left
 * its Redis, too. */
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
	background_clean(rt);
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
	int ret = background_find(rt, BACKGROUND_PROBE_MS, &info);
	bool original = ret == CLI_PIDFILE_FREE && find_original(rt, &info.process);

	if (ret < 0)
		return background_complain_of_pidfile(rt, ret);
	if (ret == CLI_PIDFILE_FREE && !original)
		return clean_up(settings, rt,
				access(rt->meta_file, F_OK) && access(rt->pid_file, F_OK)
					? "nanoctrl is not running"
					: "nanoctrl is not running (stale pid file cleaned)");
	ret = background_end(rt, &info.process, options->timeout_ms, options->force);
	if (ret < 0)
		return 1;
	if (!ret) {
		if (original) /* its own command removes them */
			background_clean(rt);
		return say_stopped(settings, rt, info.process.pid);
	}
	snprintf(done, sizeof(done), "nanoctrl killed (pid=%d)", (int)info.process.pid);
	return clean_up(settings, rt, done);
}
