/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/libslime/transport/shm/fuzz_peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/core/desc.h"
#include "src/endpoint/endpoint.h"
#include "src/progress/progress.h"
#include "support/echo.h"
#include "support/sealed_file.h"
#include "support/send_fds.h"

#define PACKET_LEN 48
#define AT_FLAGS   2
#define AT_FDS	   3 /* in a packet: how many descriptors, as it says itself */
#define AT_A	   16
#define AT_B	   24
#define AT_C	   32

#define NONCE UINT64_C(0x6e6f6e6365)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct fuzz_peer peers[2]; /* without and with foreign memory */

void fuzz_must(bool holds)
{
	if (!holds)
		abort();
}

/* ---- what stays ---- */

static void drop_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
}

static struct slime_rpc_request *held[SL_CALL_SLOTS];
static unsigned n_held;

static void hold(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	fuzz_must(n_held < SL_CALL_SLOTS);
	held[n_held++] = req;
}

bool fuzz_peer_answer(void)
{
	struct slime_rpc_request *req = held[0];

	if (!n_held)
		return false;
	n_held--;
	memmove(held, held + 1, n_held * sizeof(held[0]));
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
	return true;
}

static void add_method(struct fuzz_peer *p, const char *name, slime_rpc_fn *fn, uint32_t flags)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.flags = SLIME_RPC_INLINE | flags;
	fuzz_must(slime_rpc_method_add(p->service, name, &attr) == 0);
}

static void make_fds(struct fuzz_peer *p)
{
	struct shm_board *board;
	struct shm_page *page;
	int ends[2];

	fuzz_must(shm_segment_create(&p->segment, &p->fds[FUZZ_FD_SEGMENT]) == 0);
	fuzz_must(shm_page_create(&page, &p->fds[FUZZ_FD_PAGE]) == 0);
	/* The peer sleeps: it is rung for everything. */
	atomic_store(&page->sleeping, 1);
	if (p->foreign)
		memcpy(fuzz_peer_mark(), page->mark, SHM_MARK_LEN);
	shm_page_unmap(page);
	fuzz_must(shm_board_create(&board, &p->fds[FUZZ_FD_BOARD]) == 0);
	shm_board_unmap(board);
	p->fds[FUZZ_FD_EVENT] = eventfd(0, EFD_CLOEXEC);
	p->fds[FUZZ_FD_REGION] = sealed_file(8192, SEALS);
	p->fds[FUZZ_FD_UNSEALED] = sealed_file(sizeof(struct shm_segment), 0);
	p->fds[FUZZ_FD_SHORT] = sealed_file(16, SEALS);
	fuzz_must(pipe2(ends, O_CLOEXEC) == 0);
	close(ends[0]);
	p->fds[FUZZ_FD_PIPE] = ends[1];
}

/* An acceptor's: its pending handshakes are never accepted. */
static int listen_at(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(addr.sun_path + 1, name, strlen(name));
	fuzz_must(fd >= 0 && bind(fd, (struct sockaddr *)&addr,
				  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					      strlen(name))) == 0);
	fuzz_must(listen(fd, 8) == 0);
	return fd;
}

static const char *listener_name(const struct fuzz_peer *p)
{
	static char name[48];

	snprintf(name, sizeof(name), "slime-fuzz-%d%s", (int)getpid(),
		 p->foreign ? "-foreign" : "");
	return name;
}

static void make_region(struct fuzz_peer *p)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr remote;
	int len;

	fuzz_must(slime_mem_alloc(p->ctx, FUZZ_PEER_LEN, NULL, &p->mem) == 0);
	p->bytes = slime_mem_addr(p->mem);
	fuzz_must(slime_mr_create(p->ctx, p->bytes, FUZZ_PEER_LEN,
				  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
				  &p->mr) == 0);
	len = slime_mr_export(p->mr, desc, sizeof(desc));
	fuzz_must(len > 0 && slime_remote_mr_import(desc, (size_t)len, &remote) == 0);
	p->generation = remote.generation;
	memcpy(p->secret, remote.secret, sizeof(p->secret));
}

static void set_up(struct fuzz_peer *p)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	slime_log_set(drop_line, NULL, SLIME_LOG_ERROR);
	attr.manual = true;
	attr.foreign_memory = p->foreign ? SLIME_FOREIGN_AUTO : SLIME_FOREIGN_OFF;
	fuzz_must(slime_context_create(&attr, &p->ctx) == 0);
	fuzz_must(slime_rpc_service_create(p->ctx, &p->service) == 0);
	add_method(p, "echo", test_echo, 0);
	add_method(p, "echo_in_place", test_echo_in_place, SLIME_RPC_IN_PLACE);
	add_method(p, "hold", hold, 0);
	fuzz_must(slime_op_create(p->ctx, NULL, &p->op) == 0);
	make_region(p);
	make_fds(p);
	p->listener = listen_at(listener_name(p));
	fuzz_must(shm_start_time(getpid(), &p->start_time) == 0);
}

/* ---- a connection ---- */

static void connect_to_peer(struct fuzz_peer *p, bool peer_first)
{
	struct sl_endpoint_desc d = { .context = peer_first ? 1 : UINT64_MAX,
				      .endpoint = 1,
				      .n = 1 };
	const char *name = listener_name(p);
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len;

	d.candidates[0].transport = SLIME_TRANSPORT_SHM;
	d.candidates[0].len = (uint16_t)strlen(name);
	memcpy(d.candidates[0].bytes, name, strlen(name));
	len = sl_desc_write_endpoint(&d, desc, sizeof(desc));
	fuzz_must(len > 0);
	fuzz_must(slime_endpoint_connect(p->ep, desc, (size_t)len, -1, p->op) == 0);
}

/* The greeting that waits for an answer of the listener is not gone on with. */
static void hand_socket(struct fuzz_peer *p)
{
	struct sl_transport *t = p->ctx->transports[SLIME_TRANSPORT_SHM];
	int ends[2];

	fuzz_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	p->sock = ends[0];
	sl_progress_enter(p->ctx);
	p->base = p->ep->attempts[SLIME_TRANSPORT_SHM].conn;
	fuzz_must(p->base != NULL);
	p->conn = (struct shm_conn *)p->base;
	shm_conn_greeted(t, p->base, ends[1], 0);
	sl_progress_leave(p->ctx);
}

struct fuzz_peer *fuzz_peer_begin(bool initiator, bool foreign)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct fuzz_peer *p = &peers[foreign];

	p->foreign = foreign;
	if (!p->ctx)
		set_up(p);
	memset(p->segment, 0, sizeof(*p->segment));
	memset(p->bytes, 0x5a, FUZZ_PEER_LEN);
	attr.transports[0] = SLIME_TRANSPORT_SHM;
	attr.service = p->service;
	fuzz_must(slime_endpoint_create(p->ctx, &attr, &p->ep) == 0);
	connect_to_peer(p, initiator);
	fuzz_peer_turn(p);
	hand_socket(p);
	fuzz_peer_turn(p);
	return p;
}

/* It is gone when the endpoint has seen its end. */
static void look_at_conn(struct fuzz_peer *p)
{
	if (p->ep->attempts[SLIME_TRANSPORT_SHM].conn != p->base)
		p->conn = NULL;
}

void fuzz_peer_turn(struct fuzz_peer *p)
{
	/* A poll after it was armed looks at the descriptors, too; their callbacks may leave work
	 * for the next. */
	for (int i = 0; i < 2; i++) {
		while (slime_context_arm(p->ctx))
			fuzz_must(slime_context_poll(p->ctx) >= 0);
		fuzz_must(slime_context_poll(p->ctx) >= 0);
	}
	look_at_conn(p);
}

static void put_u64(uint8_t *to, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

/* The peer's number, and where it stands. */
static uint64_t right_word(struct fuzz_peer *p, uint8_t kind)
{
	if (kind == SHM_SEGMENT)
		atomic_store(&p->segment->initiator.nonce, NONCE);
	if (kind == SHM_ACCEPT && p->conn && p->conn->other)
		atomic_store(&p->conn->other->nonce, NONCE);
	return kind == SHM_SEGMENT || kind == SHM_ACCEPT ? NONCE : p->generation;
}

size_t fuzz_peer_say(struct fuzz_peer *p, const uint8_t *data, size_t size)
{
	uint8_t packet[PACKET_LEN];
	int fds[SHM_PACKET_FDS];
	size_t n;

	if (!size)
		return 0;
	n = data[0] >> 4 & 3;
	if (size < 1 + n + PACKET_LEN)
		return 0;
	for (size_t i = 0; i < n; i++)
		fds[i] = p->fds[data[1 + i] % FUZZ_FDS];
	memcpy(packet, data + 1 + n, PACKET_LEN);
	if (data[0] & 1)
		put_u64(packet + AT_A, right_word(p, packet[1]));
	if (data[0] & 1 && packet[1] == SHM_MAP) {
		put_u64(packet + AT_A + 8, p->secret[0]);
		put_u64(packet + AT_C, p->secret[1]);
	}
	if (data[0] & 2)
		put_u64(packet + AT_C, p->start_time);
	if (!(data[0] & 4))
		packet[AT_FDS] = (uint8_t)n;
	if (!(data[0] & 8))
		packet[0] = SHM_PACKET_VERSION;
	/* Our end may have hung up. */
	(void)send_fds(p->sock, packet, data[0] & 0x40 ? 1 : PACKET_LEN, fds, n);
	fuzz_peer_turn(p);
	return 1 + n + PACKET_LEN;
}

void fuzz_peer_link(struct fuzz_peer *p)
{
	static const uint8_t segment[] = { 3 | 3 << 4, FUZZ_FD_SEGMENT, FUZZ_FD_PAGE, FUZZ_FD_BOARD,
					   0,	       SHM_SEGMENT };
	static const uint8_t ready[] = { 0, 0, SHM_READY };
	uint8_t out[4 + PACKET_LEN] = { 0 };

	memcpy(out, segment, sizeof(segment));
	out[4 + AT_FLAGS] = p->foreign ? SHM_FOREIGN_ALLOWED : 0;
	put_u64(out + 4 + AT_B, FUZZ_PEER_MARK);
	fuzz_must(fuzz_peer_say(p, out, 4 + PACKET_LEN) > 0);
	memset(out, 0, sizeof(out));
	memcpy(out, ready, sizeof(ready));
	out[1 + AT_FLAGS] = p->foreign ? SHM_FOREIGN_REACHED : 0;
	fuzz_must(fuzz_peer_say(p, out, 1 + PACKET_LEN) > 0);
	fuzz_must(slime_op_test(p->op) && slime_op_status(p->op) == 0);
}

/* Its exit: nothing of ours is with it any more. */
static void exorcise(struct fuzz_peer *p)
{
	struct shm_transport *t = (struct shm_transport *)p->ctx->transports[SLIME_TRANSPORT_SHM];

	sl_progress_enter(p->ctx);
	while (!sl_list_empty(&t->retained))
		shm_retained_destroy(SL_CONTAINER_OF(t->retained.next, struct shm_retained, link));
	sl_progress_leave(p->ctx);
}

void fuzz_peer_end(struct fuzz_peer *p)
{
	int stream;

	slime_endpoint_close(p->ep);
	fuzz_must(slime_endpoint_destroy(p->ep) == 0);
	fuzz_must(slime_op_test(p->op));
	close(p->sock);
	exorcise(p);
	/* What a handler has outlives its link. */
	while (fuzz_peer_answer())
		;
	while ((stream = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(stream);
}
