/* SPDX-License-Identifier: Apache-2.0 */
#include "stand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stand_start(struct stand *s, const char *setting)
{
	const char *const args[] = {
		"--redis-url", s->redis.url, "--runtime-dir",	       s->run_dir,
		"--log-file",  "/dev/null",  setting ? "--set" : NULL, setting
	};

	snprintf(s->run_dir, sizeof(s->run_dir), "%s/run", s->redis.dir);
	memcpy(s->server.args, args, sizeof(args));
	server_init(&s->server);
	server_start(&s->server);
}

int stand_stop(struct stand *s)
{
	char command[256];

	server_fini(&s->server);
	snprintf(command, sizeof(command), "rm -rf '%s'", s->run_dir);
	if (system(command))
		return -1;
	test_redis_stop(&s->redis);
	return 0;
}
