/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that writes over what it sent while it is read: once after each of our instructions that
 * touch the memory we share. What was checked is what is used, whenever that is: either the message
 * counts as it was first, or it ends the link.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/libslime/transport/shm/raw.h"
#include "src/core/desc.h"
#include "src/rpc/mailbox.h"
#include "src/endpoint/recv.h"
#include "src/transport/shm/shm.h"
#include "tests/support/stepper.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The peer's region, and what of it a message names. */
#define REGION_LEN	  16384
#define REGION_ID	  3
#define REGION_GENERATION 7
#define SOURCE		  200
#define SINK		  8192
#define LEN		  2000
#define SLOT		  5
#define CALL_ID		  (UINT64_C(1) << 8 | SLOT)

struct reader {
	struct raw_shm *r;
	struct slime_call *call;
	uint8_t *region; /* the peer's, as it has it mapped */
	int region_fd;
	uint8_t *slot; /* what is written over: this, as much, and the entry */
	size_t slot_len;
	struct shm_entry *entry;
};

/* How a message goes. post() says it without a look of ours; went_well() is asked when the link is
 * still up, and goes on with what it began. */
struct scenario {
	void (*prepare)(struct reader *x);
	void (*post)(struct reader *x);
	void (*went_well)(struct reader *x);
};

/* ---- the peer ---- */

static void open_region(struct reader *x)
{
	x->region_fd = memfd_create("a peer's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(x->region_fd >= 0);
	assert_ok(ftruncate(x->region_fd, REGION_LEN));
	assert_ok(fcntl(x->region_fd, F_ADD_SEALS, SEALS));
	x->region = mmap(NULL, REGION_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, x->region_fd, 0);
	assert_ptr_not_equal(x->region, MAP_FAILED);
	for (int i = 0; i < LEN; i++)
		x->region[SOURCE + i] = (uint8_t)(i * 7);
}

static void close_region(struct reader *x)
{
	munmap(x->region, REGION_LEN);
	close(x->region_fd);
}

static struct slime_remote_mr region_of(const struct reader *x)
{
	return (struct slime_remote_mr){
		.owner = x->r->peer.context,
		.addr = 0x10000,
		.len = REGION_LEN,
		.generation = REGION_GENERATION,
		.id = REGION_ID,
		.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
		.kind = SL_REGION_MEMFD,
	};
}

static void post_quietly(struct reader *x, const struct sl_msg *m)
{
	struct raw_shm *r = x->r;

	x->entry = &r->own->ring[r->n_posted % SL_RING_ENTRIES];
	x->entry->m = *m;
	atomic_store_explicit(&x->entry->seq, ++r->n_posted, memory_order_release);
	raw_shm_mark(r);
}

/* The number stays: it says that there is a message, and nothing of it. */
static void write_over(void *arg)
{
	struct reader *x = arg;

	memset(&x->entry->m, 0xff, sizeof(x->entry->m));
	memset(x->slot, 0xff, x->slot_len);
}

/* Our end asks for the region and gets it. */
static void give_region(struct reader *x)
{
	struct shm_packet answer = {
		.kind = SHM_MAPPED,
		.id = REGION_ID,
		.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
		.a = REGION_GENERATION,
		.c = REGION_LEN,
		.len = REGION_LEN,
		.n_fds = 1,
		.fds = { x->region_fd },
	};
	struct shm_packet asked = raw_shm_hear(x->r);

	assert_int_equal(asked.kind, SHM_MAP);
	assert_int_equal(asked.id, REGION_ID);
	assert_int_equal(asked.a, REGION_GENERATION);
	raw_shm_say(x->r, &answer);
}

static const struct shm_conn *conn_of(const struct reader *x)
{
	return (struct shm_conn *)x->r->ep->attempts[SLIME_TRANSPORT_SHM].conn;
}

/* The last message of our end. */
static struct sl_msg last_said(struct reader *x)
{
	const struct shm_conn *c = conn_of(x);

	assert_true(c->tx_seq > 0);
	return x->r->other->ring[(c->tx_seq - 1) % SL_RING_ENTRIES].m;
}

/* ---- each instruction ---- */

/* Whether there was an n-th one. */
static bool step(struct raw_shm *r, const struct scenario *s, unsigned n, unsigned *n_well)
{
	struct sl_transport *transport = r->ctx->transports[SLIME_TRANSPORT_SHM];
	struct reader x = { .r = r };
	struct shm_conn *c;
	bool reached;

	open_region(&x);
	raw_shm_link(r);
	assert_ok(slime_call_create(r->ctx, NULL, &x.call));
	s->prepare(&x);
	raw_shm_turn(r);
	c = (struct shm_conn *)r->ep->attempts[SLIME_TRANSPORT_SHM].conn;
	s->post(&x);
	/* A whole round could go on to unmap it. */
	sl_progress_enter(r->ctx);
	stepper_begin(c->segment, sizeof(*c->segment), n, write_over, &x);
	transport->ops->progress(transport);
	reached = stepper_end();
	sl_progress_leave(r->ctx);
	raw_shm_turn(r);
	if (r->ended) {
		raw_shm_assert_broken(r, -EPROTO, "the peer broke the protocol");
	} else {
		s->went_well(&x);
		assert_false(r->ended);
		assert_int_equal(log_lines_with(""), 0);
		++*n_well;
	}
	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	assert_ok(slime_call_wait(x.call, PATIENCE_MS));
	assert_ok(slime_call_destroy(x.call));
	close_region(&x);
	return reached;
}

static void expect_first_or_end(void **state, const struct scenario *s)
{
	unsigned n = 0, n_well = 0;
	bool reached;

	do {
		reached = step(*state, s, ++n, &n_well);
		assert_ok(raw_shm_teardown(state));
		assert_ok(raw_shm_setup(state));
	} while (reached);
	/* It was late for some, and for others not. */
	assert_in_range(n_well, 1, n - 1);
}

/* ---- a request ---- */

static void prepare_nothing(struct reader *x)
{
	(void)x;
}

static struct sl_msg request(uint8_t flags, uint32_t len, uint64_t request_len, uint64_t cap)
{
	return (struct sl_msg){
		.kind = SL_MSG_REQUEST,
		.flags = flags,
		.slot = SLOT,
		.len = len,
		.w = { [SL_REQUEST_ID] = CALL_ID,
		       [SL_REQUEST_METHOD] = slime_rpc_method_id("echo"),
		       [SL_REQUEST_LEN] = request_len,
		       [SL_REQUEST_REPLY_CAP] = cap },
	};
}

static void name_slot(struct reader *x, enum sl_area area, size_t len)
{
	x->slot = x->r->own->slots + sl_slot_offset(area, SLOT);
	x->slot_len = len;
}

static void post_short_request(struct reader *x)
{
	struct sl_msg m = request(0, 100, 100, 100);

	name_slot(x, SL_AREA_REQUEST, 100);
	memset(x->slot, 1, 100);
	post_quietly(x, &m);
}

/* Of its words the peer may change any in time: it is another message then, which is right. */
static void expect_short_reply(struct reader *x)
{
	struct sl_msg m = last_said(x);

	assert_int_equal(m.kind, SL_MSG_REPLY);
	assert_int_equal(m.slot, SLOT);
	assert_int_equal(m.flags, 0);
	assert_int_equal(m.len, m.w[SL_REPLY_STATUS] == SL_REPLY_OK ? 100 : 0);
}

static void request__written_over_while_it_is_read_counts_as_first_or_ends_the_link(void **state)
{
	static const struct scenario s = { prepare_nothing, post_short_request,
					   expect_short_reply };

	expect_first_or_end(state, &s);
}

/* Both lent: first the room for the reply, then the request. */
static void post_request_with_loan(struct reader *x)
{
	struct sl_msg m = request(SL_REQUEST_LOAN | SL_REPLY_LOAN, 2 * SL_LOAN_LEN, LEN, LEN);
	struct sl_loan lent = { .remote = region_of(x), .offset = SINK };

	name_slot(x, SL_AREA_REQUEST, 2 * SL_LOAN_LEN);
	sl_loan_write(&lent, x->slot);
	lent.offset = SOURCE;
	sl_loan_write(&lent, x->slot + SL_LOAN_LEN);
	post_quietly(x, &m);
}

static void expect_written_reply(struct reader *x)
{
	struct sl_msg m;

	/* What was half read names another region, which is not there: that is right. */
	if (conn_of(x)->tx_seq) {
		assert_int_equal(last_said(x).w[SL_REPLY_STATUS], SL_REPLY_UNREACHABLE);
		return;
	}
	give_region(x);
	raw_shm_turn(x->r);
	m = last_said(x);
	assert_int_equal(m.kind, SL_MSG_REPLY);
	assert_int_equal(m.flags, SL_REPLY_WRITTEN);
	assert_int_equal(m.w[SL_REPLY_STATUS], SL_REPLY_OK);
	assert_int_equal(m.w[SL_REPLY_LEN], LEN);
	assert_memory_equal(x->region + SINK, x->region + SOURCE, LEN);
	assert_int_equal(x->region[SINK - 1], 0);
	assert_int_equal(x->region[SINK + LEN], 0);
}

static void request__of_lent_memory_is_read_once(void **state)
{
	static const struct scenario s = { prepare_nothing, post_request_with_loan,
					   expect_written_reply };

	expect_first_or_end(state, &s);
}

/* ---- a reply ---- */

static void prepare_call(struct reader *x)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	memset(x->r->bytes, 0x5a, 4096);
	args.method = slime_rpc_method_id("echo");
	args.reply = x->r->bytes;
	args.reply_cap = 200;
	assert_ok(slime_call_start(x->r->ep, &args, x->call));
}

static void post_reply(struct reader *x)
{
	struct sl_msg asked = last_said(x);
	struct sl_msg m = { .kind = SL_MSG_REPLY,
			    .slot = asked.slot,
			    .len = 100,
			    .w = { [SL_REPLY_ID] = asked.w[SL_REQUEST_ID] } };

	assert_int_equal(asked.kind, SL_MSG_REQUEST);
	x->slot = x->r->own->slots + sl_slot_offset(SL_AREA_REPLY, asked.slot);
	x->slot_len = SL_SLOT_SMALL;
	memset(x->slot, 1, 100);
	post_quietly(x, &m);
}

static void expect_reply(struct reader *x)
{
	assert_true(slime_call_test(x->call));
	assert_ok(slime_call_status(x->call));
	assert_int_equal(slime_call_reply_len(x->call), 100);
	for (int i = 100; i < 4096; i++)
		assert_int_equal(x->r->bytes[i], 0x5a);
}

static void reply__written_over_while_it_is_read_counts_as_first_or_ends_the_link(void **state)
{
	static const struct scenario s = { prepare_call, post_reply, expect_reply };

	expect_first_or_end(state, &s);
}

/* ---- a send ---- */

static void prepare_receive(struct reader *x)
{
	memset(x->r->bytes, 0x5a, 4096);
	assert_ok(slime_recv(x->r->ep, x->r->mr, 0, LEN, 0, 0, x->r->op));
}

static void post_send(struct reader *x)
{
	struct slime_remote_mr region = region_of(x);
	struct sl_msg m = {
		.kind = SL_MSG_SEND, .flags = SL_SEND_BY_DESC, .slot = SLOT, .w = { 0, LEN, SOURCE }
	};
	int len;

	name_slot(x, SL_AREA_SEND, SL_SLOT_SMALL);
	len = sl_desc_write_region(&region, x->slot, SL_SLOT_SMALL);
	assert_true(len > 0);
	m.len = (uint32_t)len;
	post_quietly(x, &m);
}

static void expect_received(struct reader *x)
{
	/* A copy of the descriptor takes several loads. One whose rest came later names a region
	 * that is not there: that is right. */
	if (slime_op_test(x->r->op)) {
		assert_int_equal(slime_op_status(x->r->op), -ESTALE);
		assert_int_equal(x->r->bytes[0], 0x5a);
		return;
	}
	give_region(x);
	assert_ok(slime_op_wait(x->r->op, PATIENCE_MS));
	assert_ok(slime_op_status(x->r->op));
	assert_int_equal(slime_op_bytes(x->r->op), LEN);
	assert_memory_equal(x->r->bytes, x->region + SOURCE, LEN);
	assert_int_equal(x->r->bytes[LEN], 0x5a);
}

static void send__by_a_descriptor_is_read_once(void **state)
{
	static const struct scenario s = { prepare_receive, post_send, expect_received };

	expect_first_or_end(state, &s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_RAW_SHM(request__written_over_while_it_is_read_counts_as_first_or_ends_the_link),
		IN_RAW_SHM(request__of_lent_memory_is_read_once),
		IN_RAW_SHM(reply__written_over_while_it_is_read_counts_as_first_or_ends_the_link),
		IN_RAW_SHM(send__by_a_descriptor_is_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
