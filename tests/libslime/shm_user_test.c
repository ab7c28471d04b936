/* SPDX-License-Identifier: Apache-2.0 */
/* Whose processes get as far as a greeting on the unix socket of shm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/core/desc.h"
#include "src/transport/greeting.h"
#include <slime/slime.h>

#define OWNER	 65533
#define STRANGER 65532

#define assert_ok(expr) assert_int_equal(expr, 0)

struct owner {
	pid_t pid;
	struct sl_candidate shm;
};

/* What the owner's process does: 0 or the line that failed, and never back. */
static int own(int report)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct sl_endpoint_desc d;
	struct slime_endpoint *ep;
	struct slime_context *ctx;
	int len;

	attr.transports[0] = SLIME_TRANSPORT_SHM;
	if (slime_context_create(NULL, &ctx) || slime_endpoint_create(ctx, &attr, &ep))
		return __LINE__;
	len = slime_endpoint_export(ep, desc, sizeof(desc));
	if (len < 0 || sl_desc_read_endpoint(&d, desc, (size_t)len))
		return __LINE__;
	if (write(report, &d.candidates[0], sizeof(d.candidates[0])) != sizeof(d.candidates[0]))
		return __LINE__;
	for (;;)
		pause();
}

/* A process of that user; it ends with us. */
static pid_t fork_as(uid_t uid)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgid(uid) || setuid(uid))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	return pid;
}

static int setup(void **state)
{
	static struct owner o;
	int report[2];

	assert_ok(pipe2(report, O_CLOEXEC));
	o.pid = fork_as(OWNER);
	if (o.pid == 0)
		_exit(own(report[1]));
	close(report[1]);
	assert_int_equal(read(report[0], &o.shm, sizeof(o.shm)), sizeof(o.shm));
	close(report[0]);
	*state = &o;
	return 0;
}

static int teardown(void **state)
{
	struct owner *o = *state;

	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	return 0;
}

/* Whether the door hangs up on who says nothing, within that time. */
static int knock(const struct owner *o, int wait_ms)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };

	memcpy(addr.sun_path + 1, o->shm.bytes, o->shm.len);
	if (connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + o->shm.len)))
		return -1;
	return poll(&end, 1, wait_ms);
}

static int knock_as(const struct owner *o, uid_t uid, int wait_ms)
{
	pid_t pid = fork_as(uid);
	int status;

	if (pid == 0)
		_exit(knock(o, wait_ms) & 0xff);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void door__of_another_user_is_closed_at_once(void **state)
{
	assert_int_equal(knock_as(*state, STRANGER, SL_GREETING_TIMEOUT_MS - 500), 1);
}

static void door__of_the_same_user_and_of_root_hears_who_comes(void **state)
{
	assert_int_equal(knock_as(*state, OWNER, 300), 0);
	assert_int_equal(knock_as(*state, 0, 300), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(door__of_another_user_is_closed_at_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(door__of_the_same_user_and_of_root_hears_who_comes,
						setup, teardown),
	};

	/* Only root can be several users. */
	if (geteuid() != 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
