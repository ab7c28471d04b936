/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Bound, the port is nobody else's; not listening, and with addresses reused, it is the server's.
 */
void server_init(struct server *s)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int one = 1;

	s->held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->held >= 0);
	assert_int_equal(setsockopt(s->held, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(s->held, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(getsockname(s->held, (struct sockaddr *)&addr, &len), 0);
	snprintf(s->port, sizeof(s->port), "%d", ntohs(addr.sin_port));
}

static void exec_server(const struct server *s, int out)
{
	const char *bin = getenv("SLIME_BIN");
	char path[512];
	const char *argv[SERVER_ARGS_MAX + 5] = { path, "server", "--port", s->port };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/nanoctrl", bin ? bin : ".");
	for (int i = 0; s->args[i]; i++)
		argv[4 + i] = s->args[i];
	dup2(out, STDOUT_FILENO);
	execv(path, (char **)(uintptr_t)argv);
	_exit(127);
}

void server_start(struct server *s)
{
	char line[256] = "", *at;
	int fds[2];
	FILE *out;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	s->pid = fork();
	if (!s->pid)
		exec_server(s, fds[1]);
	close(fds[1]);
	out = fdopen(fds[0], "r");
	assert_non_null(out);
	if (!fgets(line, sizeof(line), out))
		fail_msg("nanoctrl said nothing");
	fclose(out);
	at = strstr(line, "http://");
	assert_non_null(at);
	snprintf(s->url, sizeof(s->url), "%.*s", (int)strcspn(at, "\n"), at);
}

void server_kill(struct server *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	s->pid = 0;
}

int server_stop(struct server *s)
{
	int status = -1;

	kill(s->pid, SIGTERM);
	waitpid(s->pid, &status, 0);
	s->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void server_fini(struct server *s)
{
	server_kill(s);
	close(s->held);
}
