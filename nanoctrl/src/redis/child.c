/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/process/process.h"
#include "nanoctrl/net/loop.h"
#include "redis/account.h"
#include "daemon/runtime.h"

#define SOCKET_NAME "redis.sock"
#define LOG_NAME    "redis.log"
#define STATE_NAME  "redis.pid"
#define PORT_NAME   "redis.port"
#define OWNER_LOCK  "nanoctrl.lock"
#define REDIS_LOCK  "redis.lock"

#define POLL_MS	       20
#define APPLY_MS       2000
#define STOP_MS	       10000
#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 10000
#define STABLE_MS      30000 /* after which a failure starts the back-off anew */

extern char **environ;

struct redis_child {
	char *dir;
	char *server;
	char key[REDIS_ACCOUNT_KEY + 1];
	uint64_t max_memory;
	bool guests;
	int owner_fd; /* the lock that says that the directory is ours */
	int redis_fd; /* the lock that the redis-server inherits; -1 while an adopted one has it */
	struct cli_process process;
	bool ours; /* to be reaped */
	int pidfd;
	struct event *gone;
	struct event *again;
	struct event_base *base;
	uint64_t started_ns;
	unsigned backoff_ms;
};

static int fail(char why[REDIS_CHILD_WHY_MAX], int ret, const char *fmt, ...) SLIME_PRINTF(3, 4);

static int fail(char why[REDIS_CHILD_WHY_MAX], int ret, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, REDIS_CHILD_WHY_MAX, fmt, args);
	va_end(args);
	return ret;
}

/* dir/name; NULL without memory. */
static char *path_in(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

static int open_in(const char *dir, const char *name, int flags)
{
	char *path = path_in(dir, name);
	int fd = path ? open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	int ret = fd < 0 ? (path ? -errno : -ENOMEM) : fd;

	free(path);
	return ret;
}

/* The locked file's descriptor; -EBUSY when another process has the lock. */
static int lock_in(const char *dir, const char *name)
{
	int fd = open_in(dir, name, O_RDWR | O_CREAT);
	int err;

	if (fd < 0)
		return fd;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	err = errno;
	close(fd);
	return err == EWOULDBLOCK ? -EBUSY : -err;
}

int redis_child_check_dir(const char *dir, char why[REDIS_CHILD_WHY_MAX])
{
	struct sockaddr_un addr;

	if (dir[0] != '/')
		return fail(why, -EINVAL, "the data directory %.100s is not an absolute path", dir);
	if (strlen(dir) + sizeof("/" SOCKET_NAME) > sizeof(addr.sun_path))
		return fail(
			why, -ENAMETOOLONG,
			"the name of the data directory is longer than %zu bytes, no room for a socket in it",
			sizeof(addr.sun_path) - sizeof("/" SOCKET_NAME));
	if (strchr(dir, '?'))
		return fail(why, -EINVAL,
			    "the name of the data directory %s has a question mark, which the URL "
			    "of a socket in it cannot have",
			    dir);
	return 0;
}

static int make_dir(const char *dir, char why[REDIS_CHILD_WHY_MAX])
{
	int ret = redis_child_check_dir(dir, why);

	if (ret)
		return ret;
	ret = runtime_make_dir(dir);
	return ret ? fail(why, ret, "%s: %s", dir, strerror(-ret)) : 0;
}

static int complain_of_key(const char *dir, int ret, char why[REDIS_CHILD_WHY_MAX])
{
	return fail(why, ret, "%s/%s: %s", dir, REDIS_ACCOUNT_FILE,
		    ret == -EPROTO  ? "it is not the password of a private Redis"
		    : ret == -EPERM ? "others than its owner may use it"
				    : strerror(-ret));
}

int redis_child_url(const char *data_dir, bool make, char *out, size_t room,
		    char why[REDIS_CHILD_WHY_MAX])
{
	char key[REDIS_ACCOUNT_KEY + 1];
	int ret = make ? make_dir(data_dir, why) : redis_child_check_dir(data_dir, why);

	if (ret)
		return ret;
	ret = make ? redis_account_make(data_dir, key) : redis_account_read(data_dir, key);
	if (ret)
		return complain_of_key(data_dir, ret, why);
	snprintf(out, room, "unix://" REDIS_ACCOUNT_USER ":%s@%s/%s", key, data_dir, SOCKET_NAME);
	return 0;
}

void redis_child_log_file(const char *data_dir, char *out, size_t room)
{
	snprintf(out, room, "%s/%s", data_dir, LOG_NAME);
}

void redis_child_port_file(const char *data_dir, char *out, size_t room)
{
	snprintf(out, room, "%s/%s", data_dir, PORT_NAME);
}

/* A connection to the process that listens on the directory's socket. */
static int dial(const char *dir)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd, ret;

	if ((size_t)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", dir, SOCKET_NAME) >=
	    sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

/* Which process listens on the directory's socket: what the kernel says, not what a file claims. */
static int listener_of(const char *dir, pid_t *out)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int fd = dial(dir), ret = 0;

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		ret = -errno;
	else
		*out = peer.pid;
	close(fd);
	return ret;
}

static int write_state(const struct redis_child *c)
{
	char text[128], *path = path_in(c->dir, STATE_NAME);
	int n = snprintf(text, sizeof(text), "%d %" PRIu64 " %s\n", (int)c->process.pid,
			 c->process.start, c->process.boot_id);
	int ret = path ? runtime_write(path, text, (size_t)n) : -ENOMEM;

	free(path);
	return ret;
}

static void remove_state(const char *dir)
{
	char *path = path_in(dir, STATE_NAME);

	if (path)
		unlink(path);
	free(path);
}

/* The process that the directory's state names, when it lives and nothing else listens on the
 * socket. */
static int read_state(const char *dir, struct cli_process *out)
{
	char text[128];
	int pid, fd = open_in(dir, STATE_NAME, O_RDONLY);
	pid_t listener = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -EPROTO;
	text[n] = '\0';
	if (sscanf(text, "%d %" SCNu64 " %36s", &pid, &out->start, out->boot_id) != 3)
		return -EPROTO;
	out->pid = pid;
	if (!cli_process_alive(out))
		return -ESRCH;
	return listener_of(dir, &listener) || listener == out->pid ? 0 : -EPROTO;
}

static int spawn(struct redis_child *c, pid_t *pid)
{
	char *socket_path = path_in(c->dir, SOCKET_NAME);
	char acl[PATH_MAX], memory[24];
	/* A port is set when it runs, and may be another's then: it serves us without. bind is for
	 * that one. */
	char *const argv[] = { c->server,    "--port",
			       "0",	     "--bind",
			       "127.0.0.1",  "--unixsocket",
			       socket_path,  "--unixsocketperm",
			       "600",	     "--dir",
			       c->dir,	     "--logfile",
			       LOG_NAME,     "--daemonize",
			       "no",	     "--appendonly",
			       "yes",	     "--appendfsync",
			       "always",     "--save",
			       "",	     "--maxmemory-policy",
			       "noeviction", "--maxmemory",
			       memory,	     "--aclfile",
			       acl,	     "--set-proc-title",
			       "no",	     NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, dflt;
	int err;

	if (!socket_path)
		return -ENOMEM;
	snprintf(memory, sizeof(memory), "%" PRIu64, c->max_memory);
	err = redis_account_write_acl(c->dir, c->key, acl, sizeof(acl));
	if (err) {
		free(socket_path);
		return err;
	}
	sigemptyset(&none);
	sigemptyset(&dflt);
	sigaddset(&dflt, SIGPIPE);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	/* onto itself: the copy loses close-on-exec */
	posix_spawn_file_actions_adddup2(&files, c->redis_fd, c->redis_fd);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	/* a session of its own: a terminal's interrupt is for us, and we end it after we are done
	 */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &dflt);
	err = posix_spawnp(pid, c->server, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	free(socket_path);
	return -err;
}

static void forget(struct redis_child *c)
{
	if (c->ours)
		waitpid(c->process.pid, NULL, 0);
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = -1;
	c->ours = false;
	c->process.pid = 0;
}

/* The identity of the process that runs, for us and for a nanoctrl that follows. */
static int note_process(struct redis_child *c, pid_t pid, char why[REDIS_CHILD_WHY_MAX])
{
	int ret = cli_process_of(pid, &c->process);

	c->process.pid = pid;
	c->ours = true;
	if (!ret) {
		c->pidfd = cli_process_open(&c->process);
		ret = c->pidfd < 0 ? c->pidfd : 0;
	}
	if (ret)
		return fail(why, ret, "%s, process %d: %s", c->server, (int)pid, strerror(-ret));
	ret = write_state(c);
	return ret ? fail(why, ret, "%s/%s: %s", c->dir, STATE_NAME, strerror(-ret)) : 0;
}

/* Run a redis-server; the lock is ours. */
static int begin(struct redis_child *c, char why[REDIS_CHILD_WHY_MAX])
{
	mode_t mask = umask(077);
	pid_t pid;
	int ret = spawn(c, &pid);

	umask(mask);
	if (ret)
		return fail(why, ret, "cannot run %s: %s%s", c->server, strerror(-ret),
			    ret == -ENOENT ? ": install it, or give yours with --redis-url" : "");
	c->started_ns = sl_clock_ns();
	ret = note_process(c, pid, why);
	if (ret) {
		kill(pid, SIGKILL);
		forget(c);
	}
	return ret;
}

static bool ended(const struct redis_child *c)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* How long a new one is waited for. */
struct patience {
	uint64_t deadline;
	bool (*told_to_end)(void *arg);
	void *arg;
};

/* Some time passes: 0, or -ETIMEDOUT or -ECANCELED, when there is no more. */
static int wait_a_little(const struct patience *p)
{
	if (p->told_to_end(p->arg))
		return -ECANCELED;
	if (sl_clock_ns() >= p->deadline)
		return -ETIMEDOUT;
	poll(NULL, 0, POLL_MS);
	return 0;
}

static int await_answer(struct redis_child *c, const struct patience *p,
			char why[REDIS_CHILD_WHY_MAX])
{
	pid_t listener = 0;
	int ret;

	while (listener_of(c->dir, &listener) || listener != c->process.pid) {
		if (ended(c))
			return fail(why, -ECHILD, "%s ended at once: see %s/%s", c->server, c->dir,
				    LOG_NAME);
		ret = wait_a_little(p);
		if (ret == -ECANCELED)
			return fail(why, ret, "told to end before %s answered", c->server);
		if (ret)
			return fail(why, ret, "%s does not answer: see %s/%s", c->server, c->dir,
				    LOG_NAME);
	}
	return 0;
}

/* Ends it in order, by force when that takes too long. */
static void end_process(const struct cli_process *p)
{
	if (cli_process_signal(p, SIGTERM))
		return;
	if (cli_process_wait(p, STOP_MS)) {
		sl_warn("redis", "redis-server %d did not end within %d s, killed", (int)p->pid,
			STOP_MS / 1000);
		cli_process_signal(p, SIGKILL);
		cli_process_wait(p, -1);
	}
}

/* Let it serve us as a new one would. One that cannot is ended. */
static int apply_account(struct redis_child *c)
{
	int fd = dial(c->dir);
	int ret = fd < 0 ? fd : redis_account_apply(fd, c->key, c->max_memory, c->guests, APPLY_MS);

	if (ret != -EACCES && ret != -EPROTO)
		return ret;
	sl_warn("redis", "redis-server %d in %s %s: it is ended, and another one is started",
		(int)c->process.pid, c->dir,
		ret == -EACCES ? "does not accept the password in " REDIS_ACCOUNT_FILE
			       : "refuses its settings");
	end_process(&c->process);
	return ret;
}

/* The redis-server that has the lock: adopt it, unless it is ending or not ours. -EAGAIN: look
 * again. */
static int adopt(struct redis_child *c)
{
	int ret = read_state(c->dir, &c->process);

	if (ret)
		return ret == -EPROTO ? ret : -EAGAIN;
	c->pidfd = cli_process_open(&c->process);
	if (c->pidfd < 0)
		return -EAGAIN;
	if (apply_account(c)) {
		forget(c);
		return -EAGAIN;
	}
	sl_info("redis", "redis-server %d lives in %s already, adopted", (int)c->process.pid,
		c->dir);
	return 0;
}

static int begin_or_adopt(struct redis_child *c, const struct patience *p,
			  char why[REDIS_CHILD_WHY_MAX])
{
	for (;;) {
		int ret;

		c->redis_fd = lock_in(c->dir, REDIS_LOCK);
		if (c->redis_fd >= 0)
			return begin(c, why);
		if (c->redis_fd != -EBUSY)
			return fail(why, c->redis_fd, "%s/%s: %s", c->dir, REDIS_LOCK,
				    strerror(-c->redis_fd));
		c->redis_fd = -1;
		ret = adopt(c);
		if (!ret)
			return 0;
		if (ret == -EAGAIN)
			ret = wait_a_little(p);
		if (ret == -ECANCELED)
			return fail(why, ret, "told to end before the redis-server in %s was known",
				    c->dir);
		if (ret)
			return fail(why, -EBUSY,
				    "a process that nanoctrl does not know, or a redis-server that "
				    "does not answer, uses %s",
				    c->dir);
	}
}

static struct redis_child *new_child(const struct redis_child_attr *attr)
{
	struct redis_child *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->owner_fd = c->redis_fd = c->pidfd = -1;
	c->backoff_ms = BACKOFF_MIN_MS;
	c->max_memory = attr->max_memory;
	c->guests = attr->guests;
	c->dir = strdup(attr->data_dir);
	c->server = strdup(attr->server);
	if (c->dir && c->server)
		return c;
	redis_child_destroy(c);
	return NULL;
}

static int own_dir(struct redis_child *c, char why[REDIS_CHILD_WHY_MAX])
{
	c->owner_fd = lock_in(c->dir, OWNER_LOCK);
	if (c->owner_fd >= 0)
		return 0;
	if (c->owner_fd == -EBUSY)
		return fail(why, -EBUSY,
			    "another nanoctrl owns the data directory %s: name another one with "
			    "--data-dir",
			    c->dir);
	return fail(why, c->owner_fd, "%s: %s", c->dir, strerror(-c->owner_fd));
}

int redis_child_create(const struct redis_child_attr *attr, struct redis_child **out,
		       char why[REDIS_CHILD_WHY_MAX])
{
	const struct patience p = { sl_deadline_ns(attr->wait_ms), attr->told_to_end, attr->arg };
	struct redis_child *c;
	int ret = make_dir(attr->data_dir, why);

	if (ret)
		return ret;
	c = new_child(attr);
	if (!c)
		return fail(why, -ENOMEM, "%s", strerror(ENOMEM));
	ret = own_dir(c, why);
	if (!ret) {
		ret = redis_account_make(c->dir, c->key);
		if (ret)
			complain_of_key(c->dir, ret, why);
	}
	if (!ret)
		ret = begin_or_adopt(c, &p, why);
	if (!ret)
		ret = await_answer(c, &p, why);
	if (ret)
		redis_child_destroy(c);
	else
		*out = c;
	return ret;
}

static void watch(struct redis_child *c);

static void begin_again(struct redis_child *c)
{
	char why[REDIS_CHILD_WHY_MAX];
	int ret;

	if (c->redis_fd < 0) /* the one that ended was adopted */
		c->redis_fd = lock_in(c->dir, REDIS_LOCK);
	ret = c->redis_fd < 0 ? fail(why, c->redis_fd, "%s/%s: %s", c->dir, REDIS_LOCK,
				     strerror(-c->redis_fd))
			      : begin(c, why);
	if (ret)
		sl_error("redis", "%s", why);
}

/* One that lives, and could not be watched, is left alone: two would write to one directory. */
static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct redis_child *c = arg;

	(void)fd;
	(void)what;
	if (c->pidfd < 0)
		begin_again(c);
	watch(c);
}

static void run_again(struct redis_child *c)
{
	unsigned ms;

	if (sl_clock_ns() - c->started_ns > STABLE_MS * SL_NS_PER_MS)
		c->backoff_ms = BACKOFF_MIN_MS;
	ms = c->backoff_ms;
	c->backoff_ms = c->backoff_ms * 2 < BACKOFF_MAX_MS ? c->backoff_ms * 2 : BACKOFF_MAX_MS;
	loop_set_timer(c->again, ms);
}

static void on_gone(evutil_socket_t fd, short what, void *arg)
{
	struct redis_child *c = arg;

	(void)fd;
	(void)what;
	sl_error("redis", "redis-server %d ended, see %s/%s; it is started again in %u ms",
		 (int)c->process.pid, c->dir, LOG_NAME, c->backoff_ms);
	event_free(c->gone);
	c->gone = NULL;
	forget(c);
	run_again(c);
}

/* Notice when it ends; when there is none, try again later. */
static void watch(struct redis_child *c)
{
	if (c->pidfd >= 0 && !c->gone)
		c->gone = event_new(c->base, c->pidfd, EV_READ, on_gone, c);
	if (!c->gone || event_add(c->gone, NULL))
		run_again(c);
}

int redis_child_watch(struct redis_child *c, struct event_base *base)
{
	c->base = base;
	c->again = event_new(base, -1, 0, on_again, c);
	if (!c->again)
		return -ENOMEM;
	watch(c);
	return 0;
}

void redis_child_destroy(struct redis_child *c)
{
	if (!c)
		return;
	if (c->again)
		event_free(c->again);
	if (c->gone)
		event_free(c->gone);
	if (c->pidfd >= 0) {
		end_process(&c->process);
		forget(c);
		remove_state(c->dir);
	}
	if (c->redis_fd >= 0)
		close(c->redis_fd);
	if (c->owner_fd >= 0)
		close(c->owner_fd);
	free(c->dir);
	free(c->server);
	free(c);
}

int redis_child_end_orphan(const char *data_dir, char why[REDIS_CHILD_WHY_MAX])
{
	int owner = lock_in(data_dir, OWNER_LOCK), lock, ret = 0;
	struct cli_process process;

	if (owner == -ENOENT)
		return 0;
	if (owner < 0)
		return fail(why, owner, "the data directory %s is not ours: %s", data_dir,
			    strerror(-owner));
	lock = lock_in(data_dir, REDIS_LOCK);
	if (lock >= 0) {
		remove_state(data_dir);
		close(lock);
	} else if (read_state(data_dir, &process)) {
		ret = fail(why, -EBUSY, "a process that nanoctrl does not know uses %s", data_dir);
	} else {
		end_process(&process);
		remove_state(data_dir);
		ret = 1;
	}
	close(owner);
	return ret;
}
