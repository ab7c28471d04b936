/* SPDX-License-Identifier: Apache-2.0 */
/* A client and two servers in the test's own process, which do with each request what a script
 * says.
 */
#ifndef TEST_CLIENT_STAGE_H
#define TEST_CLIENT_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/steps.h"
#include "nanoctrl/client/nanoctrl_client.h"

struct stage {
	struct event_base *base;
	struct fake fake, second;
	struct nc_client *client;
	step_fn *const *steps;
	char requests[16][4096]; /* what came */
	int n_requests;
	int n_done; /* calls that called back */
	int n_retries;
	char failed_url[64];
	uint64_t wait_ms; /* that was told last */
	bool impatient;	  /* the client */
	uint64_t turn_ms; /* how long the loop's turn takes that tells of a retry */
	struct nc_error error;
	bool failed;
	char text[256];
	uint64_t number;
	int64_t left;
	size_t n;
	unsigned char bytes[16];
};

extern struct stage t;

int stage_setup(void **state);
int stage_teardown(void **state);

/* Create the client, whose requests meet these steps, and whose calls have so long. */
void begin(step_fn *const *steps, int timeout_ms);

/* Runs the loop until so many calls called back. */
void await(int n_done);
/* Registers, as the n-th call. */
void do_register(int n);

/* Note in t what a call came to. */
void note(const struct nc_error *error);
void on_done(void *arg, const struct nc_error *error);
void on_grant(void *arg, const struct nc_error *error, const struct nc_grant *grant);
void on_agent(void *arg, const struct nc_error *error, const struct nc_agent *agent);

/* Steps. */
step_fn reply_ok, reply_beat, reply_grant, reply_agent;

#endif
