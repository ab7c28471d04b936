/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the server of api_fixture.h, and its answers. */
#ifndef TESTS_NANOCTRL_API_CLIENT_H
#define TESTS_NANOCTRL_API_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <cmocka.h>
#include <jansson.h>

#define API_TIMEOUT_S 60 /* for an answer */

struct api_fixture;

/* An answer; body is NULL when it is no JSON. */
struct api_answer {
	int status;
	bool retry_after;
	json_t *body;
};

#define OWNER_KEY_A "AAAAAAAAAAAAAAAAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OWNER_KEY_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* A region, of which those with the label role=node-b may have the descriptor. */
#define REGION                                                                             \
	"{\"revision\":1,\"size\":4096,\"access\":[\"read\"],\"allow\":[\"role=node-b\"]," \
	"\"descriptor\":\"QUJD\"}"
/* A descriptor for an exchange. */
#define OFFER "{\"connection_epoch\":1,\"peer_incarnation\":\"i2\",\"descriptor\":\"QUJD\"}"

/* One request; lease and body may be NULL. The answer's body is freed with the next call of it on
 * the same answer, or by api_answer_fini(). */
int api_do(struct api_fixture *f, struct api_answer *a, const char *method, const char *target,
	   const char *lease, const char *body);
void api_answer_fini(struct api_answer *a);
/* Posts without a lease; the answer is f->said until the next. */
int api_post(struct api_fixture *f, const char *path, const char *body);

/* The two halves of it: sent on a connection of its own, and answered. */
int api_begin(struct api_fixture *f, const char *method, const char *target, const char *lease,
	      const char *body);
int api_finish(int fd, struct api_answer *a);
/* With other header fields, which are whole lines and let the server close. */
int api_begin_with(struct api_fixture *f, const char *method, const char *target, const char *lease,
		   const char *fields, const char *body);

/* A member of an answer by a path of names: "agent", "labels", NULL. */
const char *api_text(const struct api_answer *a, const char *first, ...);
long long api_number(const struct api_answer *a, const char *first, ...);
size_t api_count(const struct api_answer *a, const char *name);
/* It is an error of ours; field may be NULL. */
void assert_error(const struct api_answer *a, int status, const char *code, const char *field);

/* Registers and copies the lease; the status. */
int api_register(struct api_fixture *f, const char *name, const char *incarnation, const char *key,
		 char lease[512]);
/* The same for node-a, after Redis was away. */
void api_until_registered(struct api_fixture *f, char lease[512]);

/* Connects; narrow: takes next to nothing unless it is read. */
int api_dial(const struct api_fixture *f, bool narrow);
void api_send_all(int fd, const void *data, size_t len);
/* The head of a request, with more header fields, which are whole lines. */
void api_send_head(int fd, const char *method, const char *target, const char *lease,
		   const char *more, size_t body_len);

#endif
