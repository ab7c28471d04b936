/* SPDX-License-Identifier: Apache-2.0 */
/* A real nanoctrl of a test, always on the same port, dead when the test is dead. */
#ifndef TESTS_CLIENT_SERVER_H
#define TESTS_CLIENT_SERVER_H

#include <sys/types.h>

#define SERVER_ARGS_MAX 16

struct server {
	pid_t pid; /* 0: not running */
	int held;  /* keeps the port while the server is away */
	char port[16];
	char url[64];
	const char *args[SERVER_ARGS_MAX]; /* behind `nanoctrl server --port N`; NULL ends them */
};

/* Chooses the port. */
void server_init(struct server *s);

/* Runs it and waits until it says where it serves. */
void server_start(struct server *s);

/* SIGKILL; harmless when none runs. */
void server_kill(struct server *s);

/* SIGTERM, and the exit status. */
int server_stop(struct server *s);

void server_fini(struct server *s);

#endif
