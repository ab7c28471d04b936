/* SPDX-License-Identifier: Apache-2.0 */
#include "lesson.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int must(const char *call, const char *file, int line, int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, strerror(-ret));
	exit(1);
}

void tell(int channel, const void *bytes, size_t len)
{
	if (send(channel, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
		perror("the peer is gone");
		exit(1);
	}
}

size_t hear(int channel, void *bytes, size_t cap)
{
	ssize_t n = recv(channel, bytes, cap, 0);

	if (n <= 0) {
		fprintf(stderr, "the peer is gone\n");
		exit(1);
	}
	return (size_t)n;
}

void connect_over(int channel, struct slime_endpoint *ep, struct slime_op *op)
{
	unsigned char desc[SLIME_ENDPOINT_DESC_MAX];
	size_t len = (size_t)TRY(slime_endpoint_export(ep, desc, sizeof(desc)));

	tell(channel, desc, len);
	len = hear(channel, desc, sizeof(desc));
	TRY(slime_endpoint_connect(ep, desc, len, 5000, op));
	TRY(slime_op_wait(op, -1));
	TRY(slime_op_status(op));
}

void tell_region(int channel, const struct slime_mr *mr)
{
	unsigned char desc[SLIME_MR_DESC_MAX];
	size_t len = (size_t)TRY(slime_mr_export(mr, desc, sizeof(desc)));

	tell(channel, desc, len);
}

struct slime_remote_mr hear_region(int channel)
{
	unsigned char desc[SLIME_MR_DESC_MAX];
	size_t len = hear(channel, desc, sizeof(desc));
	struct slime_remote_mr remote;

	TRY(slime_remote_mr_import(desc, len, &remote));
	return remote;
}

/* A library context does not survive fork(): the processes part before they make theirs. */
int lesson(void (*alice)(int channel), void (*bob)(int channel))
{
	int channel[2];
	int status;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel)) {
		perror("socketpair");
		return 1;
	}
	pid = fork();
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(channel[0]);
		bob(channel[1]);
		exit(0);
	}
	close(channel[1]);
	alice(channel[0]);
	if (waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "the other process failed\n");
		return 1;
	}
	return 0;
}
