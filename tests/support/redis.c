/* SPDX-License-Identifier: Apache-2.0 */
#include "redis.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#define START_TRIES 500 /* of 10 ms */

static void serve(const struct test_redis *r, pid_t parent)
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", r->socket, "--dir",
	       r->dir, "--save", "", "--appendonly", r->durable ? "yes" : "no", "--appendfsync",
	       "always", "--maxmemory-policy", "noeviction", (char *)NULL);
	_exit(errno == ENOENT ? 77 : 1);
}

/* Not while it reads what it kept. */
static bool answers(redisContext *c)
{
	redisReply *reply = redisCommand(c, "PING");
	bool yes = reply && reply->type == REDIS_REPLY_STATUS;

	if (reply)
		freeReplyObject(reply);
	return yes;
}

static redisContext *try_connect(const struct test_redis *r)
{
	redisContext *c = redisConnectUnix(r->socket);

	if (c && c->err) {
		redisFree(c);
		c = NULL;
	}
	if (c && r->account)
		freeReplyObject(redisCommand(c, "AUTH test word"));
	return c;
}

void test_redis_account(struct test_redis *r)
{
	test_redis_do(r, "ACL SETUSER test on >word ~* &* +@all");
	r->account = true;
	snprintf(r->url, sizeof(r->url), "unix://test:word@%s", r->socket);
}

void test_redis_restart(struct test_redis *r)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	pid_t parent = getpid();
	redisContext *c = NULL;
	int status;

	unlink(r->socket);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (!r->pid)
		serve(r, parent);
	for (int i = 0; i < START_TRIES && !c; i++) {
		c = try_connect(r);
		if (c && !answers(c)) {
			redisFree(c);
			c = NULL;
		}
		if (!c && waitpid(r->pid, &status, WNOHANG) == r->pid) {
			r->pid = 0;
			rmdir(r->dir);
			if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
				exit(77);
			fail_msg("redis-server ended at once, status 0x%x", (unsigned)status);
		}
		if (!c)
			nanosleep(&pause, NULL);
	}
	assert_non_null(c);
	redisFree(c);
}

static void start(struct test_redis *r, bool durable)
{
	memset(r, 0, sizeof(*r));
	r->durable = durable;
	strcpy(r->dir, "/tmp/slime-redis-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->socket, sizeof(r->socket), "%s/redis.sock", r->dir);
	snprintf(r->url, sizeof(r->url), "unix://%s", r->socket);
	test_redis_restart(r);
}

void test_redis_start(struct test_redis *r)
{
	start(r, false);
}

void test_redis_start_durable(struct test_redis *r)
{
	start(r, true);
}

void test_redis_kill(struct test_redis *r)
{
	if (!r->pid)
		return;
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
}

void test_redis_pause(struct test_redis *r)
{
	kill(r->pid, SIGSTOP);
}

void test_redis_resume(struct test_redis *r)
{
	kill(r->pid, SIGCONT);
}

void test_redis_stop(struct test_redis *r)
{
	char command[2 * sizeof(r->dir) + 64];

	test_redis_kill(r);
	if (!*r->dir)
		return;
	unlink(r->socket);
	snprintf(command, sizeof(command), "rm -rf '%s/appendonlydir' '%s/dump.rdb'", r->dir,
		 r->dir);
	if (system(command) == 0)
		rmdir(r->dir);
}

long long test_redis_do(struct test_redis *r, const char *fmt, ...)
{
	redisContext *c = try_connect(r);
	redisReply *reply;
	long long n = 0;
	va_list ap;

	assert_non_null(c);
	va_start(ap, fmt);
	reply = redisvCommand(c, fmt, ap);
	va_end(ap);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("redis: %s", reply->str);
	if (reply->type == REDIS_REPLY_INTEGER)
		n = reply->integer;
	else if (reply->type == REDIS_REPLY_ARRAY)
		n = (long long)reply->elements;
	freeReplyObject(reply);
	redisFree(c);
	return n;
}

long long test_redis_calls(struct test_redis *r, const char *command)
{
	return test_redis_do(r, "EVAL %s 0 %s",
			     "local n = string.match(redis.call('INFO', 'commandstats'), "
			     "'cmdstat_' .. ARGV[1] .. ':calls=(%d+)') return tonumber(n or 0)",
			     command);
}
