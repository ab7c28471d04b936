/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin for the tests: method "upper" answers with its request in capitals; option `fail` says
 * where to fail, option `parting` what fini says, option `gate` the pipe that is read while the
 * file is checked; with option `wait` init takes half a minute, unless it is cancelled; with option
 * `ask` stop waits for a thread that calls the agent. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slime/plugin.h>

static void upper(void *arg, struct slime_rpc_request *req)
{
	size_t len = slime_rpc_request_len(req);
	const char *from = slime_rpc_request_data(req);
	char *to = slime_rpc_reply_buffer(req, len);

	(void)arg;
	if (!to) {
		slime_rpc_reply_error(req, 1, "no room");
		return;
	}
	for (size_t i = 0; i < len; i++)
		to[i] = (char)toupper((unsigned char)from[i]);
	slime_rpc_reply_commit(req, len);
}

static int fails_at;
static const char *parting = "fini"; /* an option lives as long as we do */

static void wait_at(const char *gate)
{
	int fd = open(gate, O_RDONLY);
	char c;

	if (fd >= 0 && read(fd, &c, 1) >= 0)
		close(fd);
}

static const char *check(const struct slime_plugin_option *options, size_t n, size_t *index)
{
	for (*index = 0; *index < n; ++*index) {
		const struct slime_plugin_option *o = &options[*index];

		if (!strcmp(o->key, "fail") && strcmp(o->value, "init") &&
		    strcmp(o->value, "start"))
			return "init or start";
		if (!strcmp(o->key, "gate"))
			wait_at(o->value);
	}
	return NULL;
}

static void say(const char *what)
{
	printf("upper: %s\n", what);
	fflush(stdout);
}

static sem_t cancelled;

static void cancel(void)
{
	sem_post(&cancelled);
}

static int wait_for_cancel(void)
{
	struct timespec until;

	say("wait");
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	return sem_timedwait(&cancelled, &until) ? 0 : -ECANCELED;
}

static struct slime_agent *asked; /* by a thread while we stop; NULL: by none */

static int init(struct slime_agent *agent, const struct slime_plugin_option *options, size_t n,
		void **state)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;
	bool waits = false;

	*state = &fails_at;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(options[i].key, "fail"))
			fails_at = !strcmp(options[i].value, "init") ? 1 : 2;
		if (!strcmp(options[i].key, "parting"))
			parting = options[i].value;
		if (!strcmp(options[i].key, "wait"))
			waits = true;
		if (!strcmp(options[i].key, "ask"))
			asked = agent;
	}
	if (waits && wait_for_cancel())
		return -ECANCELED;
	if (fails_at == 1)
		return -EINVAL;
	attr.fn = upper;
	attr.flags = SLIME_RPC_INLINE;
	return slime_agent_method_add(agent, "upper", &attr);
}

static int start(void *state)
{
	say("start");
	return *(int *)state == 2 ? -EIO : 0;
}

/* Another SIGTERM, of somebody impatient. */
static void press(void)
{
	kill(getpid(), SIGTERM);
}

static void *ask(void *arg)
{
	return slime_agent_links(arg, NULL, 0) < 0 ? arg : NULL;
}

static void stop(void *state)
{
	pthread_t thread;
	void *failed = NULL;

	(void)state;
	if (asked && !pthread_create(&thread, NULL, ask, asked))
		pthread_join(thread, &failed);
	say(failed ? "the agent has no answer" : "stop");
	press();
}

static void fini(void *state)
{
	(void)state;
	say(parting);
	press();
}

const struct slime_plugin slime_plugin = {
	SLIME_PLUGIN_HEAD, .name = "upper", .init = init,   .start = start,
	.stop = stop,	   .fini = fini,    .check = check, .cancel = cancel,
};
