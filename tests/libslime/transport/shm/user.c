/* SPDX-License-Identifier: Apache-2.0 */
/* Whose processes get as far as a greeting on the unix socket of shm, and whose socket we greet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
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
#include "src/transport/hello.h"
#include "support/log_lines.h"
#include <slime/slime.h>

#define OWNER	 65533
#define STRANGER 65532
#define FRIEND	 65531
#define FRIENDS	 "65530,65531"

/* Longer than anything that works takes. */
#define PATIENCE_MS 15000

#define assert_ok(expr) assert_int_equal(expr, 0)

struct owner {
	pid_t pid;
	struct sl_candidate shm;
};

/* What the owner's process does: 0 or the line that failed, and never back. */
static int own(int report, const char *users)
{
	struct slime_context_attr ctx_attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct sl_endpoint_desc d;
	struct slime_endpoint *ep;
	struct slime_context *ctx;
	int len;

	ctx_attr.shm_users = users;
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	if (slime_context_create(&ctx_attr, &ctx) || slime_endpoint_create(ctx, &attr, &ep))
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

static int begin(void **state, const char *users)
{
	static struct owner o;
	int report[2];

	assert_ok(pipe2(report, O_CLOEXEC));
	o.pid = fork_as(OWNER);
	if (o.pid == 0)
		_exit(own(report[1], users));
	close(report[1]);
	assert_int_equal(read(report[0], &o.shm, sizeof(o.shm)), sizeof(o.shm));
	close(report[0]);
	*state = &o;
	return 0;
}

static int setup(void **state)
{
	return begin(state, NULL);
}

static int setup_with_friends(void **state)
{
	return begin(state, FRIENDS);
}

static int teardown(void **state)
{
	struct owner *o = *state;

	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	return 0;
}

/* Whether the listener hangs up on a silent stream within that time, and says why: 1. */
static int dial_listener(const struct owner *o, int wait_ms)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	uint8_t said[SL_CHALLENGE_LEN + 1];

	memcpy(addr.sun_path + 1, o->shm.bytes, o->shm.len);
	if (connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + o->shm.len)))
		return -1;
	if (poll(&end, 1, wait_ms) == 0)
		return 0;
	if (recv(fd, said, sizeof(said), 0) != SL_CHALLENGE_LEN || said[7] != SL_REFUSED_USER)
		return 2;
	return recv(fd, said, sizeof(said), 0) == 0 ? 1 : 3;
}

static int dial_as(const struct owner *o, uid_t uid, int wait_ms)
{
	pid_t pid = fork_as(uid);
	int status;

	if (pid == 0)
		_exit(dial_listener(o, wait_ms) & 0xff);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void link_listener__of_another_user_is_closed_at_once(void **state)
{
	assert_int_equal(dial_as(*state, STRANGER, SL_GREETING_TIMEOUT_MS - 500), 1);
	/* Root may all, and is not trusted for it: its processes talk to many. */
	assert_int_equal(dial_as(*state, 0, SL_GREETING_TIMEOUT_MS - 500), 1);
}

static void link_listener__of_the_same_user_hears_who_comes(void **state)
{
	assert_int_equal(dial_as(*state, OWNER, 300), 0);
}

static void link_listener__hears_users_that_are_named_and_no_others(void **state)
{
	assert_int_equal(dial_as(*state, FRIEND, 300), 0);
	assert_int_equal(dial_as(*state, STRANGER, SL_GREETING_TIMEOUT_MS - 500), 1);
}

/* What the connect comes to that we, root, begin; users: ours. */
static int connect_to(const struct owner *o, const char *users)
{
	struct slime_context_attr ctx_attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	/* The smaller id begins. */
	struct sl_endpoint_desc d = { .context = UINT64_MAX, .endpoint = 1, .n = 1 };
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	int len, ret;

	ctx_attr.shm_users = users;
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	d.candidates[0] = o->shm;
	len = sl_desc_write_endpoint(&d, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_context_create(&ctx_attr, &ctx));
	assert_ok(slime_endpoint_create(ctx, &attr, &ep));
	assert_ok(slime_op_create(ctx, NULL, &op));
	assert_ok(slime_endpoint_connect(ep, desc, (size_t)len, PATIENCE_MS, op));
	assert_ok(slime_op_wait(op, PATIENCE_MS));
	ret = slime_op_status(op);
	assert_ok(slime_endpoint_destroy(ep));
	assert_ok(slime_op_destroy(op));
	assert_ok(slime_context_destroy(ctx));
	return ret;
}

static void connect__to_a_process_of_another_user_fails_and_names_the_cure(void **state)
{
	log_lines_keep();
	assert_int_equal(connect_to(*state, "1,65530"), -ECONNREFUSED);
	assert_int_equal(log_lines_with("another user's process: shm_users of both ends"), 1);
	log_lines_release();
}

/* Many times: the listener may hang up before or after our hello. */
static void connect__to_a_process_that_does_not_name_us_fails_and_says_so(void **state)
{
	log_lines_keep();
	for (int i = 1; i <= 20; i++) {
		assert_int_equal(connect_to(*state, "65533"), -ECONNREFUSED);
		assert_int_equal(log_lines_with("its shm_users does not name our user"), i);
	}
	log_lines_release();
}

static void create__with_users_that_are_no_numbers_is_einval(void **state)
{
	static const char *const bad[] = {
		",", "1,",   ",1",  "1,,2",	  "-1",
		"x", "1 ,2", "0x1", "4294967295", "99999999999999999999"
	};
	static const char *const good[] = { "", "0", "4294967294", "1000,1001,1000" };
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_context *ctx;

	(void)state;
	log_lines_keep();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr.shm_users = bad[i];
		assert_int_equal(slime_context_create(&attr, &ctx), -EINVAL);
	}
	log_lines_release();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		attr.shm_users = good[i];
		assert_ok(slime_context_create(&attr, &ctx));
		assert_ok(slime_context_destroy(ctx));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(link_listener__of_another_user_is_closed_at_once,
						setup, teardown),
		cmocka_unit_test_setup_teardown(link_listener__of_the_same_user_hears_who_comes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			link_listener__hears_users_that_are_named_and_no_others, setup_with_friends,
			teardown),
		cmocka_unit_test_setup_teardown(
			connect__to_a_process_of_another_user_fails_and_names_the_cure, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			connect__to_a_process_that_does_not_name_us_fails_and_says_so, setup,
			teardown),
		cmocka_unit_test(create__with_users_that_are_no_numbers_is_einval),
	};

	/* Only root can be several users. */
	if (geteuid() != 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
