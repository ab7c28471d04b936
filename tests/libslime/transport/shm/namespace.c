/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that shm cannot reach, as they are in namespaces of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slime/slime.h>

/* Connects over shm with whoever is at the other end of the channel: 0 with the endpoint's info. */
static int meet(int channel, int64_t timeout_ms, struct slime_endpoint_info *info)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint *ep;
	struct slime_context *ctx;
	struct slime_op *op;
	ssize_t len;

	attr.transports[0] = SLIME_TRANSPORT_SHM;
	if (slime_context_create(NULL, &ctx) || slime_endpoint_create(ctx, &attr, &ep) ||
	    slime_op_create(ctx, NULL, &op))
		return __LINE__;
	len = slime_endpoint_export(ep, desc, sizeof(desc));
	if (len < 0 || send(channel, desc, (size_t)len, MSG_NOSIGNAL) != len)
		return __LINE__;
	len = recv(channel, desc, sizeof(desc), 0);
	if (len <= 0 || slime_endpoint_connect(ep, desc, (size_t)len, timeout_ms, op) ||
	    slime_op_wait(op, -1))
		return __LINE__;
	slime_endpoint_info(ep, info);
	if (slime_endpoint_destroy(ep) || slime_op_destroy(op) || slime_context_destroy(ctx))
		return __LINE__;
	return 0;
}

/* The same in a process with a PID or a network namespace of its own, which ends with us; it tells
 * the cause. */
static int meet_from_elsewhere(int channel, int namespace, int64_t timeout_ms)
{
	struct slime_endpoint_info info;
	pid_t pid;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(namespace | CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return 1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (mount("proc", "/proc", "proc", 0, NULL) || meet(channel, timeout_ms, &info))
			_exit(1);
		_exit(send(channel, info.cause_text, sizeof(info.cause_text), MSG_NOSIGNAL) < 0);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status ? 1 : 0;
}

/* What both ends say: ours, and that of such a process. */
static void meet_apart(int namespace, int64_t timeout_ms, char ours[SLIME_CAUSE_TEXT_MAX],
		       char theirs[SLIME_CAUSE_TEXT_MAX])
{
	struct slime_endpoint_info info;
	int channel[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
	pid = fork();
	if (pid == 0)
		_exit(meet_from_elsewhere(channel[1], namespace, timeout_ms));
	assert_true(pid > 0);
	close(channel[1]);
	assert_int_equal(meet(channel[0], timeout_ms, &info), 0);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	strcpy(ours, info.cause_text);
	assert_int_equal(recv(channel[0], theirs, SLIME_CAUSE_TEXT_MAX, 0), SLIME_CAUSE_TEXT_MAX);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(channel[0]);
}

static void connect__with_a_process_of_another_pid_namespace_says_so(void **state)
{
	char ours[SLIME_CAUSE_TEXT_MAX], theirs[SLIME_CAUSE_TEXT_MAX];

	(void)state;
	meet_apart(CLONE_NEWPID, 10000, ours, theirs);
	assert_string_equal(theirs,
			    "shm: the peer is in a PID namespace that is not seen from here");
}

/* Who is to come is waited for: which of both that is, is chance. */
static void connect__with_a_process_of_another_network_namespace_says_so(void **state)
{
	static const char refused[] =
		"shm: no process is at the peer's socket: its process has ended, or is "
		"in another network namespace";
	char ours[SLIME_CAUSE_TEXT_MAX], theirs[SLIME_CAUSE_TEXT_MAX];

	(void)state;
	meet_apart(CLONE_NEWNET, 500, ours, theirs);
	assert_true(!strcmp(ours, refused) || !strcmp(theirs, refused));
}

/* Root may, unless it is a container's, or its root directory is no mount, as in a chroot. */
static bool may_make_namespaces(void)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS) ||
		      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__with_a_process_of_another_pid_namespace_says_so),
		cmocka_unit_test(connect__with_a_process_of_another_network_namespace_says_so),
	};

	if (!may_make_namespaces())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
