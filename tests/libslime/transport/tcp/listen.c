/* SPDX-License-Identifier: Apache-2.0 */
/* Where a context listens, and what it tells its peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/core/desc.h"
#include "src/transport/tcp/tcp.h"
#include <slime/slime.h>

#define assert_ok(expr) assert_int_equal(expr, 0)

static void ignore_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
}

/* What creating a context with these comes to. */
static int try_attr(const struct slime_context_attr *attr)
{
	struct slime_context *ctx;
	int ret = slime_context_create(attr, &ctx);

	if (!ret)
		assert_ok(slime_context_destroy(ctx));
	return ret;
}

static int try_bind(const char *bind_to, const char *advertise, uint16_t port)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.tcp_bind = bind_to;
	attr.tcp_advertise = advertise;
	attr.tcp_port = port;
	return try_attr(&attr);
}

static int try_ports(uint16_t first, uint16_t last)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.tcp_port = first;
	attr.tcp_port_last = last;
	return try_attr(&attr);
}

/* The address in the descriptor of an endpoint; false when it offers no tcp. */
static bool advertised_by(const struct slime_context_attr *attr, struct sockaddr_storage *out)
{
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct sl_endpoint_desc d;
	int len;

	ep_attr.transports[0] = SLIME_TRANSPORT_TCP;
	assert_ok(slime_context_create(attr, &ctx));
	assert_ok(slime_endpoint_create(ctx, &ep_attr, &ep));
	len = slime_endpoint_export(ep, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(sl_desc_read_endpoint(&d, desc, (size_t)len));
	if (d.n)
		assert_ok(tcp_read_candidate(out, d.candidates[0].bytes, d.candidates[0].len));
	assert_ok(slime_endpoint_destroy(ep));
	assert_ok(slime_context_destroy(ctx));
	return d.n;
}

static bool advertised(const char *bind_to, const char *advertise, struct sockaddr_storage *out)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.tcp_bind = bind_to;
	attr.tcp_advertise = advertise;
	return advertised_by(&attr, out);
}

/* A listener of another program on loopback, at a port of the kernel's choice. */
static int occupy(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_ok(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	assert_ok(listen(fd, 1));
	assert_ok(getsockname(fd, (struct sockaddr *)&at, &len));
	*port = ntohs(at.sin_port);
	return fd;
}

static void bind__is_loopback_by_default(void **state)
{
	struct sockaddr_storage a;
	char text[80];

	(void)state;
	assert_true(advertised(NULL, NULL, &a));
	tcp_format_address(&a, text, sizeof(text));
	assert_memory_equal(text, "127.0.0.1:", 10);
}

static void bind__empty_is_no_listener(void **state)
{
	struct sockaddr_storage a;

	(void)state;
	assert_false(advertised("", NULL, &a));
}

static void bind__to_a_wildcard_tells_what_is_advertised(void **state)
{
	struct sockaddr_storage a;
	char text[80];

	(void)state;
	assert_true(advertised("0.0.0.0", "192.0.2.7", &a));
	tcp_format_address(&a, text, sizeof(text));
	assert_memory_equal(text, "192.0.2.7:", 10);
}

static void bind__to_a_wildcard_needs_advertise(void **state)
{
	(void)state;
	assert_int_equal(try_bind("0.0.0.0", NULL, 0), -EINVAL);
	assert_int_equal(try_bind("::", NULL, 0), -EINVAL);
	assert_int_equal(try_bind("0.0.0.0", "0.0.0.0", 0), -EINVAL);
}

static void bind__to_what_is_no_numeric_address_is_einval(void **state)
{
	(void)state;
	assert_int_equal(try_bind("localhost", NULL, 0), -EINVAL);
	assert_int_equal(try_bind("127.0.0.1:80", NULL, 0), -EINVAL);
	assert_int_equal(try_bind("127.0.0.1", "node-a", 0), -EINVAL);
}

static void bind__to_another_hosts_address_says_so(void **state)
{
	(void)state;
	assert_int_equal(try_bind("192.0.2.1", NULL, 0), -EADDRNOTAVAIL);
}

static void bind__to_a_port_in_use_says_so(void **state)
{
	uint16_t port;
	int fd = occupy(&port);

	(void)state;
	assert_int_equal(try_bind(NULL, NULL, port), -EADDRINUSE);
	close(fd);
}

static void bind__to_a_range_takes_a_free_port_of_it(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct sockaddr_storage a;
	uint16_t taken, port;
	int fd = occupy(&taken);

	(void)state;
	attr.tcp_port = taken;
	attr.tcp_port_last = taken < UINT16_MAX - 100 ? taken + 100 : UINT16_MAX;
	assert_true(advertised_by(&attr, &a));
	port = ntohs(((struct sockaddr_in *)&a)->sin_port);
	assert_true(port > taken && port <= attr.tcp_port_last);
	close(fd);
}

static void bind__to_a_range_without_a_free_port_says_so(void **state)
{
	uint16_t taken;
	int fd = occupy(&taken);

	(void)state;
	assert_int_equal(try_ports(taken, taken), -EADDRINUSE);
	close(fd);
}

static void bind__to_a_range_that_is_none_is_einval(void **state)
{
	(void)state;
	assert_int_equal(try_ports(47001, 47000), -EINVAL);
	assert_int_equal(try_ports(0, 47000), -EINVAL);
}

static void candidate__of_ipv6_is_read_as_written(void **state)
{
	struct sockaddr_storage a, b;
	uint8_t bytes[SL_CANDIDATE_MAX];
	struct sl_writer w = { .at = bytes, .room = sizeof(bytes) };
	char text[80];

	(void)state;
	assert_ok(tcp_parse_address("2001:db8::7", 4711, &a));
	tcp_write_candidate(&a, &w);
	assert_false(w.failed);
	assert_ok(tcp_read_candidate(&b, bytes, sizeof(bytes) - w.room));
	tcp_format_address(&b, text, sizeof(text));
	assert_string_equal(text, "[2001:db8::7]:4711");
}

static void candidate__that_is_malformed_is_einval(void **state)
{
	static const uint8_t good[] = { 4, 0x12, 0x34, 127, 0, 0, 1 };
	uint8_t bad[sizeof(good) + 1];
	struct sockaddr_storage a;

	(void)state;
	assert_ok(tcp_read_candidate(&a, good, sizeof(good)));
	for (size_t len = 0; len < sizeof(good); len++)
		assert_int_equal(tcp_read_candidate(&a, good, len), -EINVAL);
	memcpy(bad, good, sizeof(good));
	bad[sizeof(good)] = 0;
	assert_int_equal(tcp_read_candidate(&a, bad, sizeof(bad)), -EINVAL);
	bad[0] = 5;
	assert_int_equal(tcp_read_candidate(&a, bad, sizeof(good)), -EINVAL);
	memcpy(bad, good, sizeof(good));
	bad[1] = bad[2] = 0;
	assert_int_equal(tcp_read_candidate(&a, bad, sizeof(good)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bind__is_loopback_by_default),
		cmocka_unit_test(bind__empty_is_no_listener),
		cmocka_unit_test(bind__to_a_wildcard_tells_what_is_advertised),
		cmocka_unit_test(bind__to_a_wildcard_needs_advertise),
		cmocka_unit_test(bind__to_what_is_no_numeric_address_is_einval),
		cmocka_unit_test(bind__to_another_hosts_address_says_so),
		cmocka_unit_test(bind__to_a_port_in_use_says_so),
		cmocka_unit_test(bind__to_a_range_takes_a_free_port_of_it),
		cmocka_unit_test(bind__to_a_range_without_a_free_port_says_so),
		cmocka_unit_test(bind__to_a_range_that_is_none_is_einval),
		cmocka_unit_test(candidate__of_ipv6_is_read_as_written),
		cmocka_unit_test(candidate__that_is_malformed_is_einval),
	};

	slime_log_set(ignore_line, NULL, SLIME_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
