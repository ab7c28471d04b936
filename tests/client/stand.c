/* SPDX-License-Identifier: Apache-2.0 */
#include "stand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void start_server(const struct stand *s, struct server *server, const char *run_dir,
			 const char *const *settings, size_t n)
{
	const char *const args[] = { "--redis-url", s->redis.url, "--runtime-dir",
				     run_dir,	    "--log-file", "/dev/null" };
	size_t at = sizeof(args) / sizeof(args[0]);

	assert_true(at + 2 * n < SERVER_ARGS_MAX);
	memcpy(server->args, args, sizeof(args));
	for (size_t i = 0; i < n; i++) {
		server->args[at++] = "--set";
		server->args[at++] = settings[i];
	}
	server_init(server);
	server_start(server);
}

void stand_start_with(struct stand *s, const char *const *settings, size_t n)
{
	snprintf(s->run_dir, sizeof(s->run_dir), "%s/run", s->redis.dir);
	start_server(s, &s->server, s->run_dir, settings, n);
}

void stand_start_second(struct stand *s, const char *const *settings, size_t n)
{
	snprintf(s->second_dir, sizeof(s->second_dir), "%s/second", s->redis.dir);
	start_server(s, &s->second, s->second_dir, settings, n);
}

void stand_start(struct stand *s, const char *setting)
{
	stand_start_with(s, &setting, setting ? 1 : 0);
}

int stand_stop(struct stand *s)
{
	char command[320];

	server_fini(&s->server);
	if (*s->second_dir)
		server_fini(&s->second);
	snprintf(command, sizeof(command), "rm -rf '%s' '%s/second'", s->run_dir, s->redis.dir);
	if (system(command))
		return -1;
	test_redis_stop(&s->redis);
	return 0;
}
