/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the library did not allocate, of a peer that is another process of this user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/log_lines.h"
#include <slime/slime.h>

#define assert_ok(expr) assert_int_equal(expr, 0)

#define PATIENCE_MS 15000

#define LEN 65536
/* Where the peer has its memory, before and after it runs another program. */
#define FAR	   ((void *)(uintptr_t)UINT64_C(0x200000000000))
#define FAR_BYTE   0x11
#define OTHER_BYTE 0x66
#define OUR_BYTE   0x22

struct how {
	enum slime_foreign ours, theirs;
	enum slime_transport second; /* besides shm */
	bool undumpable;	     /* the kernel does not let us into the peer's memory */
	bool restricted;
};

/* What the peer says of itself. */
struct card {
	uint8_t ep[SLIME_ENDPOINT_DESC_MAX], mr[SLIME_MR_DESC_MAX];
	int ep_len, mr_len;
};

struct scene {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	struct slime_mr *mr;
	uint8_t bytes[LEN];
	struct slime_remote_mr remote;
	struct slime_xfer xfer;		 /* all of the peer's */
	struct slime_endpoint_info info; /* when connected */
	pid_t pid;
	int fd; /* to the peer's process */
};

/* ---- the peer ---- */

static void must(bool holds)
{
	if (!holds)
		_exit(99);
}

static void fill_far(uint8_t byte)
{
	must(mmap(FAR, LEN, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == FAR);
	memset(FAR, byte, LEN);
}

/* Another program, which has memory at the same place. */
_Noreturn static void be_another(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fill_far(OTHER_BYTE);
	must(write(fd, "", 1) == 1);
	for (;;)
		pause();
}

static void become_another(int fd)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	must(fcntl(fd, F_SETFD, 0) == 0);
	execl("/proc/self/exe", "another", number, (char *)NULL);
	_exit(98);
}

static void open_card(const struct how *how, struct slime_context *ctx, struct slime_endpoint *ep,
		      struct card *card)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;
	struct slime_mr *mr;

	fill_far(FAR_BYTE);
	attr.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE;
	attr.restricted = how->restricted;
	must(slime_mr_create_attr(ctx, FAR, LEN, &attr, &mr) == 0);
	card->ep_len = slime_endpoint_export(ep, card->ep, sizeof(card->ep));
	card->mr_len = slime_mr_export(mr, card->mr, sizeof(card->mr));
	must(card->ep_len > 0 && card->mr_len > 0);
}

static void be_peer(const struct how *how, int fd)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	struct card card = { 0 }, ours;
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(!how->undumpable || prctl(PR_SET_DUMPABLE, 0) == 0);
	attr.foreign_memory = how->theirs;
	ep_attr.transports[0] = SLIME_TRANSPORT_SHM;
	ep_attr.transports[1] = how->second;
	must(slime_context_create(&attr, &ctx) == 0);
	must(slime_endpoint_create(ctx, &ep_attr, &ep) == 0);
	must(slime_op_create(ctx, NULL, &op) == 0);
	open_card(how, ctx, ep, &card);
	must(write(fd, &card, sizeof(card)) == sizeof(card));
	must(read(fd, &ours, sizeof(ours)) == sizeof(ours));
	must(slime_endpoint_connect(ep, ours.ep, (size_t)ours.ep_len, PATIENCE_MS, op) == 0);
	if (read(fd, &word, 1) == 1)
		become_another(fd);
	_exit(0);
}

/* ---- the scene ---- */

static void start_peer(struct scene *s, const struct how *how)
{
	int ends[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0)
		be_peer(how, ends[1]);
	close(ends[1]);
	s->fd = ends[0];
}

static void connect_peer(struct scene *s)
{
	struct card card, ours = { 0 };

	assert_int_equal(recv(s->fd, &card, sizeof(card), MSG_WAITALL), sizeof(card));
	ours.ep_len = slime_endpoint_export(s->ep, ours.ep, sizeof(ours.ep));
	assert_true(ours.ep_len > 0);
	assert_ok(slime_remote_mr_import(card.mr, (size_t)card.mr_len, &s->remote));
	assert_int_equal(write(s->fd, &ours, sizeof(ours)), sizeof(ours));
	assert_ok(slime_endpoint_connect(s->ep, card.ep, (size_t)card.ep_len, PATIENCE_MS, s->op));
	assert_ok(slime_op_wait(s->op, PATIENCE_MS));
	assert_ok(slime_op_status(s->op));
	slime_endpoint_info(s->ep, &s->info);
}

static struct scene *scene_open(const struct how *how)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	start_peer(s, how);
	/* It hears of nothing that it does not ask for. */
	attr.manual = true;
	attr.foreign_memory = how->ours;
	ep_attr.transports[0] = SLIME_TRANSPORT_SHM;
	ep_attr.transports[1] = how->second;
	assert_ok(slime_context_create(&attr, &s->ctx));
	assert_ok(slime_endpoint_create(s->ctx, &ep_attr, &s->ep));
	assert_ok(slime_op_create(s->ctx, NULL, &s->op));
	assert_ok(slime_mr_create(s->ctx, s->bytes, LEN, 0, &s->mr));
	memset(s->bytes, OUR_BYTE, LEN);
	s->xfer = (struct slime_xfer){ .local = s->mr, .remote = &s->remote, .len = LEN };
	connect_peer(s);
	return s;
}

static void scene_close(struct scene *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->fd);
	assert_ok(slime_endpoint_destroy(s->ep));
	assert_ok(slime_mr_destroy(s->mr));
	assert_ok(slime_op_destroy(s->op));
	assert_ok(slime_context_destroy(s->ctx));
	free(s);
}

static int start_read(struct scene *s)
{
	return slime_read(s->ep, &s->xfer, 1, 0, s->op);
}

static int read_all(struct scene *s)
{
	int ret = start_read(s);

	if (ret)
		return ret;
	assert_ok(slime_op_wait(s->op, PATIENCE_MS));
	return slime_op_status(s->op);
}

static bool all_are(const uint8_t *bytes, uint8_t byte)
{
	for (size_t i = 0; i < LEN; i++) {
		if (bytes[i] != byte)
			return false;
	}
	return true;
}

/* ---- tests ---- */

static void read__of_foreign_memory_works_by_default(void **state)
{
	const struct how how = { 0 };
	struct scene *s = scene_open(&how);

	(void)state;
	assert_int_equal(s->info.transport, SLIME_TRANSPORT_SHM);
	assert_true(s->info.foreign_memory);
	assert_string_equal(s->info.no_foreign_memory, "");
	assert_ok(read_all(s));
	assert_true(all_are(s->bytes, FAR_BYTE));
	scene_close(s);
}

/* What it reads is not shown, and what it is to write is not written. */
static void transfer__with_a_process_that_runs_another_program_is_econnreset(void **state)
{
	const struct how how = { 0 };
	struct scene *s = scene_open(&how);
	struct iovec here = { .iov_len = LEN }, there = { .iov_base = FAR, .iov_len = LEN };
	char word = 'x';

	(void)state;
	/* The region is known. */
	assert_ok(read_all(s));
	assert_int_equal(write(s->fd, &word, 1), 1);
	assert_int_equal(read(s->fd, &word, 1), 1);

	memset(s->bytes, OUR_BYTE, LEN);
	assert_ok(slime_write(s->ep, &s->xfer, 1, 0, s->op));
	assert_true(slime_op_test(s->op));
	assert_int_equal(slime_op_status(s->op), -ECONNRESET);
	assert_ok(start_read(s));
	assert_true(slime_op_test(s->op));
	assert_int_equal(slime_op_status(s->op), -ECONNRESET);

	here.iov_base = malloc(LEN);
	assert_int_equal(process_vm_readv(s->pid, &here, 1, &there, 1, 0), LEN);
	assert_true(all_are(here.iov_base, OTHER_BYTE));
	free(here.iov_base);
	scene_close(s);
}

static void
read__that_the_kernel_forbids_is_unsupported_at_submit_with_the_cure_in_the_log(void **state)
{
	const struct how how = { .undumpable = true };
	struct scene *s = scene_open(&how);

	(void)state;
	assert_int_equal(s->info.transport, SLIME_TRANSPORT_SHM);
	assert_false(s->info.foreign_memory);
	assert_non_null(strstr(s->info.no_foreign_memory, "the kernel forbids process_vm_readv"));
	log_lines_keep();
	assert_int_equal(start_read(s), -EOPNOTSUPP);
	assert_int_equal(log_lines_with("Allocate it with slime_mem_alloc"), 1);
	log_lines_release();
	scene_close(s);
}

static void connect__that_requires_foreign_memory_takes_the_next_transport(void **state)
{
	const struct how how = { .ours = SLIME_FOREIGN_REQUIRE,
				 .second = SLIME_TRANSPORT_TCP,
				 .undumpable = true };
	const struct how theirs = { .theirs = SLIME_FOREIGN_REQUIRE,
				    .second = SLIME_TRANSPORT_TCP,
				    .undumpable = true };
	struct scene *s = scene_open(&how);

	(void)state;
	assert_int_equal(s->info.transport, SLIME_TRANSPORT_TCP);
	assert_true(s->info.foreign_memory);
	assert_ok(read_all(s));
	assert_true(all_are(s->bytes, FAR_BYTE));
	scene_close(s);
	s = scene_open(&theirs);
	assert_int_equal(s->info.transport, SLIME_TRANSPORT_TCP);
	scene_close(s);
}

static void read__of_foreign_memory_that_is_off_at_an_end_is_unsupported(void **state)
{
	const struct how here = { .ours = SLIME_FOREIGN_OFF };
	const struct how there = { .theirs = SLIME_FOREIGN_OFF };
	struct scene *s = scene_open(&here);

	(void)state;
	assert_string_equal(s->info.no_foreign_memory, "foreign_memory is off here");
	assert_int_equal(start_read(s), -EOPNOTSUPP);
	scene_close(s);
	s = scene_open(&there);
	assert_string_equal(s->info.no_foreign_memory, "foreign_memory is off at the peer");
	assert_int_equal(start_read(s), -EOPNOTSUPP);
	scene_close(s);
}

static void read__of_a_restricted_region_of_foreign_memory_is_unsupported(void **state)
{
	const struct how how = { .restricted = true };
	struct scene *s = scene_open(&how);

	(void)state;
	assert_true(s->info.foreign_memory);
	assert_int_equal(read_all(s), -EOPNOTSUPP);
	scene_close(s);
}

/* Then the rules for processes of one user hold for root's, too, also behind exec. */
static void give_up_ptrace(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0); /* who may not has not got it */
	assert_ok(syscall(SYS_capget, &header, data));
	data[0].effective &= ~(1U << CAP_SYS_PTRACE);
	data[0].permitted &= ~(1U << CAP_SYS_PTRACE);
	data[0].inheritable = data[1].inheritable = 0;
	assert_ok(syscall(SYS_capset, &header, data));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__of_foreign_memory_works_by_default),
		cmocka_unit_test(transfer__with_a_process_that_runs_another_program_is_econnreset),
		cmocka_unit_test(
			read__that_the_kernel_forbids_is_unsupported_at_submit_with_the_cure_in_the_log),
		cmocka_unit_test(connect__that_requires_foreign_memory_takes_the_next_transport),
		cmocka_unit_test(read__of_foreign_memory_that_is_off_at_an_end_is_unsupported),
		cmocka_unit_test(read__of_a_restricted_region_of_foreign_memory_is_unsupported),
	};

	if (argc == 2)
		be_another(atoi(argv[1]));
	give_up_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
