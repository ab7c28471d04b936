/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/libslime/transport/shm/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "src/core/desc.h"
#include "src/core/region.h"
#include "src/endpoint/endpoint.h"
#include "src/transport/hello.h"

#define NONCE UINT64_C(0x6e6f6e6365)

static void on_state(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		     int cause)
{
	struct raw_shm *r = arg;

	(void)ep;
	r->ended = state == SLIME_ENDPOINT_BROKEN || state == SLIME_ENDPOINT_CLOSED;
	r->cause = cause;
}

static void make_offer(struct raw_shm *r)
{
	assert_ok(shm_segment_create(&r->segment, &r->segment_fd));
	assert_ok(shm_page_create(&r->page, &r->page_fd));
	assert_ok(shm_board_create(&r->board, &r->board_fd));
}

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void make_service(struct raw_shm *r)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = echo;
	attr.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_service_create(r->ctx, &r->service));
	assert_ok(slime_rpc_method_add(r->service, "echo", &attr));
}

static void make_region(struct raw_shm *r)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len;

	assert_ok(slime_mem_alloc(r->ctx, RAW_SHM_LEN, NULL, &r->mem));
	r->bytes = slime_mem_addr(r->mem);
	assert_ok(slime_mr_create(r->ctx, r->bytes, RAW_SHM_LEN,
				  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &r->mr));
	len = slime_mr_export(r->mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &r->remote));
}

int raw_shm_setup(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	struct raw_shm *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	log_lines_keep();
	attr.manual = true;
	attr.tcp_user_timeout_ms = RAW_SHM_TIMEOUT_MS;
	attr.shm_copy_in_submit = RAW_SHM_SHARE;
	attr.shm_users = RAW_SHM_OTHER_USER;
	ep_attr.transports[0] = SLIME_TRANSPORT_SHM;
	ep_attr.on_state = on_state;
	ep_attr.arg = r;
	assert_ok(slime_context_create(&attr, &r->ctx));
	make_service(r);
	make_region(r);
	ep_attr.service = r->service;
	assert_ok(slime_endpoint_create(r->ctx, &ep_attr, &r->ep));
	assert_ok(slime_op_create(r->ctx, NULL, &r->op));
	r->self = r->ep->self;
	r->sock = -1;
	make_offer(r);
	*state = r;
	return 0;
}

int raw_shm_teardown(void **state)
{
	struct raw_shm *r = *state;

	/* What it still has of ours is free again. */
	raw_shm_kill(r);
	if (r->sock >= 0)
		close(r->sock);
	assert_ok(slime_endpoint_destroy(r->ep));
	assert_ok(slime_op_destroy(r->op));
	assert_ok(slime_mr_destroy(r->mr));
	assert_ok(slime_mem_destroy(r->mem));
	assert_ok(slime_rpc_service_destroy(r->service));
	assert_ok(slime_context_destroy(r->ctx));
	log_lines_release();
	shm_segment_unmap(r->segment);
	shm_page_unmap(r->page);
	shm_board_unmap(r->board);
	shm_board_unmap(r->our_board);
	close(r->segment_fd);
	close(r->page_fd);
	close(r->board_fd);
	free(r);
	return 0;
}

void raw_shm_turn(struct raw_shm *r)
{
	/* A poll after it was armed looks at the descriptors, too; their callbacks may leave work
	 * for the next. */
	for (int i = 0; i < 4; i++) {
		while (slime_context_arm(r->ctx) == -EAGAIN)
			assert_true(slime_context_poll(r->ctx) >= 0);
		assert_true(slime_context_poll(r->ctx) >= 0);
	}
}

/* ---- the greeting ---- */

/* Exactly one message of our end. */
static void take(struct raw_shm *r, void *bytes, size_t len)
{
	uint64_t deadline = sl_deadline_ns(PATIENCE_MS);
	ssize_t n;

	do {
		raw_shm_turn(r);
		n = recv(r->sock, bytes, len, MSG_DONTWAIT);
	} while (n < 0 && errno == EAGAIN && sl_clock_ns() < deadline);
	assert_int_equal(n, len);
}

static void give(struct raw_shm *r, const void *bytes, size_t len)
{
	assert_int_equal(send(r->sock, bytes, len, MSG_NOSIGNAL), len);
}

static socklen_t address_of(struct sockaddr_un *addr, const void *name, size_t len)
{
	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(addr->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* The kernel notes whose call it was. */
static void connect_in_child(int fd, uid_t uid, bool listens, const struct sockaddr_un *addr,
			     socklen_t len, int report)
{
	bool ok = uid && setuid(uid) ? false
		  : listens
			  ? bind(fd, (const struct sockaddr *)addr, len) == 0 && listen(fd, 1) == 0
			  : connect(fd, (const struct sockaddr *)addr, len) == 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(report, &ok, 1) != 1)
		_exit(1);
	close_range(3, ~0U, 0);
	for (;;)
		pause();
}

/* A socket of the peer's process. */
static int make_socket(struct raw_shm *r, bool listens, const void *name, size_t name_len)
{
	struct sockaddr_un addr;
	socklen_t len = address_of(&addr, name, name_len);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int report[2];
	bool ok;

	assert_true(fd >= 0);
	assert_ok(pipe2(report, O_CLOEXEC));
	if (r->foreign)
		assert_ok(madvise(r->page, sizeof(*r->page), MADV_DOFORK));
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0)
		connect_in_child(fd, r->uid, listens, &addr, len, report[1]);
	close(report[1]);
	assert_int_equal(read(report[0], &ok, 1), 1);
	assert_true(ok);
	close(report[0]);
	return fd;
}

static void dial(struct raw_shm *r)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(r->ep, desc, sizeof(desc));
	struct sl_endpoint_desc d;

	assert_true(len > 0);
	assert_ok(sl_desc_read_endpoint(&d, desc, (size_t)len));
	r->sock = make_socket(r, false, d.candidates[0].bytes, d.candidates[0].len);
}

void raw_shm_kill(struct raw_shm *r)
{
	if (r->pid <= 0)
		return;
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	r->pid = 0;
}

static void start_connect(struct raw_shm *r, bool peer_first, const char *name)
{
	struct sl_endpoint_desc d = { .context = peer_first ? RAW_SHM_FIRST : UINT64_MAX,
				      .endpoint = 1,
				      .n = 1 };
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len;

	d.candidates[0].transport = SLIME_TRANSPORT_SHM;
	d.candidates[0].len = (uint16_t)strlen(name);
	memcpy(d.candidates[0].bytes, name, strlen(name));
	len = sl_desc_write_endpoint(&d, desc, sizeof(desc));
	assert_true(len > 0);
	r->peer = (struct sl_link_id){ d.context, d.endpoint };
	assert_ok(slime_endpoint_connect(r->ep, desc, (size_t)len, PATIENCE_MS, r->op));
}

static void greet_as_initiator(struct raw_shm *r)
{
	struct sl_hello h = { .transport = SLIME_TRANSPORT_SHM,
			      .initiator = r->peer,
			      .acceptor = r->self,
			      .nonce = "the nonce of a peer of 32 bytes" };
	uint8_t hello[SL_HELLO_LEN], challenge[SL_CHALLENGE_LEN], proof[SL_PROOF_LEN];
	uint8_t mac[SL_AUTH_MAC_LEN], verdict[SL_VERDICT_LEN];

	dial(r);
	sl_hello_write(&h, hello);
	give(r, hello, sizeof(hello));
	take(r, challenge, sizeof(challenge));
	assert_ok(sl_hello_read_challenge(&h, mac, challenge));
	assert_ok(sl_hello_mac(&h, SL_INITIATOR, r->ep->key, mac));
	sl_hello_write_proof(mac, proof);
	give(r, proof, sizeof(proof));
	take(r, verdict, sizeof(verdict));
	assert_ok(sl_hello_read_verdict(verdict));
}

static void greet_as_acceptor(struct raw_shm *r, int listener)
{
	uint64_t deadline = sl_deadline_ns(PATIENCE_MS);
	uint8_t hello[SL_HELLO_LEN], challenge[SL_CHALLENGE_LEN], proof[SL_PROOF_LEN];
	uint8_t mac[SL_AUTH_MAC_LEN], verdict[SL_VERDICT_LEN];
	struct sl_hello h;

	while (r->sock < 0 && sl_clock_ns() < deadline) {
		raw_shm_turn(r);
		r->sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	}
	take(r, hello, sizeof(hello));
	assert_ok(sl_hello_read(&h, hello));
	memset(h.acceptor_nonce, 7, sizeof(h.acceptor_nonce));
	assert_ok(sl_hello_mac(&h, SL_ACCEPTOR, r->ep->key, mac));
	sl_hello_write_challenge(&h, mac, challenge);
	give(r, challenge, sizeof(challenge));
	take(r, proof, sizeof(proof));
	sl_hello_write_code(SL_WELCOME, verdict, sizeof(verdict));
	give(r, verdict, sizeof(verdict));
}

void raw_shm_greet(struct raw_shm *r, bool as_initiator)
{
	char name[64];
	int listener;

	snprintf(name, sizeof(name), "slime-raw-%d", (int)getpid());
	if (as_initiator) {
		start_connect(r, true, name);
		greet_as_initiator(r);
		return;
	}
	listener = make_socket(r, true, name, strlen(name));
	start_connect(r, false, name);
	greet_as_acceptor(r, listener);
	close(listener);
}

/* ---- the handshake ---- */

struct shm_packet raw_shm_introduction(struct raw_shm *r, uint8_t kind)
{
	struct shm_packet p = { .kind = kind, .a = NONCE };

	if (kind == SHM_SEGMENT) {
		r->own = &r->segment->initiator;
		r->other = &r->segment->acceptor;
		p.fds[p.n_fds++] = r->segment_fd;
	}
	atomic_store(&r->own->nonce, NONCE);
	if (r->foreign) {
		p.flags = SHM_FOREIGN_ALLOWED;
		p.b = (uintptr_t)r->page->mark;
	}
	assert_ok(shm_start_time(r->pid, &p.c));
	p.fds[p.n_fds++] = r->page_fd;
	p.fds[p.n_fds++] = r->board_fd;
	return p;
}

struct shm_packet raw_shm_map(const struct slime_mr *mr)
{
	const struct sl_region *r = mr->region;

	return (struct shm_packet){
		.kind = SHM_MAP,
		.id = r->id,
		.a = r->generation,
		.b = r->secret[0],
		.c = r->secret[1],
	};
}

void raw_shm_say(struct raw_shm *r, const struct shm_packet *p)
{
	assert_ok(shm_channel_send(r->sock, p));
	raw_shm_turn(r);
}

/* An acceptor gets the segment from our end: then it is that one. */
static void take_segment(struct raw_shm *r, int fd)
{
	shm_segment_unmap(r->segment);
	assert_ok(shm_segment_map(fd, &r->segment));
	r->own = &r->segment->acceptor;
	r->other = &r->segment->initiator;
}

struct shm_packet raw_shm_hear(struct raw_shm *r)
{
	uint64_t deadline = sl_deadline_ns(PATIENCE_MS);
	struct shm_packet p;
	int ret;

	do {
		raw_shm_turn(r);
		ret = shm_channel_recv(r->sock, &p);
	} while (ret == -EAGAIN && sl_clock_ns() < deadline);
	assert_ok(ret);
	if (p.kind == SHM_SEGMENT)
		take_segment(r, p.fds[0]);
	if (p.kind == SHM_SEGMENT || p.kind == SHM_ACCEPT) {
		assert_ok(shm_board_map(p.fds[p.n_fds - 1], &r->our_board));
		r->our_bit = p.id;
	}
	shm_packet_close_fds(&p);
	return p;
}

void raw_shm_link(struct raw_shm *r)
{
	struct shm_packet p, ready = { .kind = SHM_READY };

	raw_shm_greet(r, true);
	p = raw_shm_introduction(r, SHM_SEGMENT);
	raw_shm_say(r, &p);
	assert_int_equal(raw_shm_hear(r).kind, SHM_ACCEPT);
	raw_shm_say(r, &ready);
	assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	assert_ok(slime_op_status(r->op));
}

/* ---- the link ---- */

void raw_shm_mark(struct raw_shm *r)
{
	uint32_t word = r->our_bit / 64;

	atomic_fetch_or(&r->our_board->words[word], UINT64_C(1) << r->our_bit % 64);
	atomic_fetch_or(&r->our_board->marked, UINT64_C(1) << word);
}

void raw_shm_write(struct raw_shm *r, const struct sl_msg *m)
{
	struct shm_entry *e = &r->own->ring[r->n_posted % SL_RING_ENTRIES];

	e->m = *m;
	atomic_store_explicit(&e->seq, ++r->n_posted, memory_order_release);
}

void raw_shm_post(struct raw_shm *r, const struct sl_msg *m)
{
	raw_shm_write(r, m);
	raw_shm_turn(r);
}

void raw_shm_assert_broken(struct raw_shm *r, int cause, const char *text)
{
	uint64_t deadline = sl_deadline_ns(PATIENCE_MS);

	while (!r->ended && sl_clock_ns() < deadline)
		raw_shm_turn(r);
	assert_true(r->ended);
	assert_int_equal(r->cause, cause);
	assert_int_equal(log_lines_with(text), 1);
	assert_int_equal(log_lines_with(""), 1);
}
