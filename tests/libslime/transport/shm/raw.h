/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of ours over shm, and a peer that is a socket and some memory: it holds the link's
 * key, and beyond that says and writes what a test wants. One thread does both: our context is
 * manual, and is polled while the peer waits. For the kernel the peer is a process of its own,
 * which sleeps and can be killed. What the library logs meanwhile is kept.
 */
#ifndef RAW_SHM_H
#define RAW_SHM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <sys/types.h>

#include "src/transport/shm/channel.h"
#include "src/transport/shm/segment.h"
#include "support/log_lines.h"
#include <slime/slime.h>

#define assert_ok(expr) assert_int_equal(expr, 0)

/* Longer than anything that works takes. */
#define PATIENCE_MS 15000

/* Of the endpoint's memory. */
#define RAW_SHM_LEN 65536
/* The context's tcp_user_timeout_ms: how long a peer has to let go of a region. */
#define RAW_SHM_TIMEOUT_MS 100

/* Another user whose processes may be peers: the context's shm_users. */
#define RAW_SHM_OTHER_USER "65532"

/* The context's shm_copy_in_submit. */
#define RAW_SHM_SHARE 16384

/* The peer's context id as the initiator; the smaller id begins. */
#define RAW_SHM_FIRST 1

struct raw_shm {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;		   /* of the connect, then the test's */
	struct slime_rpc_service *service; /* "echo", inline */
	struct slime_mem *mem;
	struct slime_mr *mr; /* of mem, read and write */
	struct slime_remote_mr remote;
	uint8_t *bytes;		/* of mem */
	struct sl_link_id self; /* the endpoint's */
	struct sl_link_id peer;
	int sock; /* the peer's end of the unix socket, greeted; -1: none */
	pid_t pid;
	uid_t uid;    /* of its process; 0: as ours */
	bool foreign; /* it offers its process's memory */
	bool ended;
	int cause;

	/* What the peer offers; made by the setup, and as an honest one makes it. */
	struct shm_segment *segment;
	struct shm_half *own;	/* the peer writes */
	struct shm_half *other; /* our end writes */
	struct shm_page *page;
	struct shm_board *board;
	int segment_fd, page_fd, board_fd;
	struct shm_board *our_board; /* of our end, which the peer may write; NULL: not heard of */
	uint32_t our_bit;
	uint64_t n_posted;
};

/* Setup and teardown of a test: *state is a raw_shm whose endpoint does not connect yet. */
int raw_shm_setup(void **state);
int raw_shm_teardown(void **state);
#define IN_RAW_SHM(fn) cmocka_unit_test_setup_teardown(fn, raw_shm_setup, raw_shm_teardown)

/* Our endpoint connects, and the greeting is through. The peer is the initiator, or it listens. */
void raw_shm_greet(struct raw_shm *r, bool as_initiator);

/* What asks for that region of ours, as its descriptor says. */
struct shm_packet raw_shm_map(const struct slime_mr *mr);

/* What an honest peer says first: SEGMENT of an initiator, ACCEPT of an acceptor. */
struct shm_packet raw_shm_introduction(struct raw_shm *r, uint8_t kind);
void raw_shm_say(struct raw_shm *r, const struct shm_packet *p);
/* The next packet of ours; its descriptors are closed. */
struct shm_packet raw_shm_hear(struct raw_shm *r);

/* All of it until the link is up, the peer being the initiator. */
void raw_shm_link(struct raw_shm *r);

/* The peer's process dies. */
void raw_shm_kill(struct raw_shm *r);

/* Let our end do what there is to do. */
void raw_shm_turn(struct raw_shm *r);

/* The link's bit of our board. */
void raw_shm_mark(struct raw_shm *r);

/* A message in the ring, which our board is not told of; post: and our end looks at all it has. */
void raw_shm_write(struct raw_shm *r, const struct sl_msg *m);
void raw_shm_post(struct raw_shm *r, const struct sl_msg *m);

/* The endpoint breaks with this cause and says so in one line, which contains text. */
void raw_shm_assert_broken(struct raw_shm *r, int cause, const char *text);

#endif
