/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <base/clock.h>
#include <tests/support/tcp.h>

int api_dial(const struct api_fixture *f, bool narrow)
{
	struct timeval tv = { .tv_sec = API_TIMEOUT_S };
	int fd = tcp_dial(f->port, narrow);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return fd;
}

void api_send_all(int fd, const void *data, size_t len)
{
	assert_true(tcp_send(fd, data, len));
}

void api_send_head(int fd, const char *method, const char *target, const char *lease,
		   const char *more, size_t body_len)
{
	char head[2048];
	int len =
		snprintf(head, sizeof(head),
			 "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%sContent-Length: %zu\r\n\r\n",
			 method, target, lease ? "Slime-Lease: " : "", lease ? lease : "",
			 lease ? "\r\n" : "", more, body_len);

	assert_true(len > 0 && (size_t)len < sizeof(head));
	api_send_all(fd, head, (size_t)len);
}

/* The whole answer: the server closes because we asked it to. */
static char *read_all(int fd)
{
	size_t size = 4 << 20;
	char *text = malloc(size);
	size_t len = 0;
	ssize_t n;

	assert_non_null(text);
	while ((n = recv(fd, text + len, size - len - 1, 0)) > 0)
		len += (size_t)n;
	assert_int_equal(n, 0);
	text[len] = '\0';
	return text;
}

int api_begin_with(struct api_fixture *f, const char *method, const char *target, const char *lease,
		   const char *fields, const char *body)
{
	int fd = api_dial(f, false);

	api_send_head(fd, method, target, lease, fields, body ? strlen(body) : 0);
	if (body)
		api_send_all(fd, body, strlen(body));
	return fd;
}

int api_begin(struct api_fixture *f, const char *method, const char *target, const char *lease,
	      const char *body)
{
	return api_begin_with(f, method, target, lease,
			      body ? "Connection: close\r\nContent-Type: application/json\r\n"
				   : "Connection: close\r\n",
			      body);
}

int api_finish(int fd, struct api_answer *a)
{
	const char *head_end;
	char *text = read_all(fd);

	api_answer_fini(a);
	close(fd);
	assert_int_equal(sscanf(text, "HTTP/1.1 %d", &a->status), 1);
	head_end = strstr(text, "\r\n\r\n");
	assert_non_null(head_end);
	a->retry_after = strcasestr(text, "\r\nRetry-After:") != NULL;
	a->body = json_loads(head_end + 4, 0, NULL);
	free(text);
	return a->status;
}

int api_do(struct api_fixture *f, struct api_answer *a, const char *method, const char *target,
	   const char *lease, const char *body)
{
	return api_finish(api_begin(f, method, target, lease, body), a);
}

int api_post(struct api_fixture *f, const char *path, const char *body)
{
	return api_do(f, &f->said, "POST", path, NULL, body);
}

void api_answer_fini(struct api_answer *a)
{
	json_decref(a->body);
	memset(a, 0, sizeof(*a));
}

static const json_t *walk(const struct api_answer *a, const char *first, va_list ap)
{
	const json_t *v = a->body;

	for (const char *name = first; name; name = va_arg(ap, const char *))
		v = json_is_array(v) ? json_array_get(v, (size_t)atoi(name))
				     : json_object_get(v, name);
	return v;
}

const char *api_text(const struct api_answer *a, const char *first, ...)
{
	const char *s;
	va_list ap;

	va_start(ap, first);
	s = json_string_value(walk(a, first, ap));
	va_end(ap);
	return s ? s : "(none)";
}

long long api_number(const struct api_answer *a, const char *first, ...)
{
	const json_t *v;
	va_list ap;

	va_start(ap, first);
	v = walk(a, first, ap);
	va_end(ap);
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

size_t api_count(const struct api_answer *a, const char *name)
{
	return json_array_size(json_object_get(a->body, name));
}

void assert_error(const struct api_answer *a, int status, const char *code, const char *field)
{
	assert_string_equal(api_text(a, "code", NULL), code);
	assert_int_equal(a->status, status);
	assert_string_equal(api_text(a, "status", NULL), "error");
	assert_string_equal(api_text(a, "outcome", NULL), "not_executed");
	if (field)
		assert_string_equal(api_text(a, "field", NULL), field);
}

int api_register(struct api_fixture *f, const char *name, const char *incarnation, const char *key,
		 char lease[512])
{
	struct api_answer a = { .status = 0 };
	char target[300];
	char body[512];
	static unsigned order;
	int status;

	snprintf(target, sizeof(target), "/v1/agents/%s?scope=demo&order=%u", name, ++order);
	snprintf(body, sizeof(body),
		 "{\"incarnation\":\"%s\",\"owner_key\":\"%s\",\"labels\":{\"role\":\"%s\"},"
		 "\"services\":[{\"name\":\"echo\"}]}",
		 incarnation, key, name);
	status = api_do(f, &a, "PUT", target, NULL, body);
	snprintf(lease, 512, "%s", api_text(&a, "lease", NULL));
	api_answer_fini(&a);
	return status;
}

/* Each loop comes back to Redis by itself: until then it says 503. */
void api_until_registered(struct api_fixture *f, char lease[512])
{
	uint64_t deadline = sl_deadline_ns(60000);
	int status = 503;

	while (status == 503) {
		assert_true(sl_clock_ns() < deadline);
		status = api_register(f, "node-a", "i1", OWNER_KEY_A, lease);
	}
	assert_int_equal(status, 201);
}
