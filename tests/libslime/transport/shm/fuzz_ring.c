/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link over shm, and a peer that writes into the memory we share. The first byte of the input
 * says whether both allow foreign memory; the rest is a list of what the peer does, and of what we
 * do meanwhile. Each begins with a byte that says what:
 *
 *	0 message	56 bytes as in the ring, then as much payload as it says for its slot, or,
 *			when that says so, for the entry
 *	1 scribble	where in the segment (4), how many bytes (1), these
 *	2 packet	as fuzz_shm_peer.h has them
 *	3 use		what the application does (1)
 *	4 number	which entry of the ring (2), its new number (8)
 *	5 answer	what "hold" has
 * As soon as a message is read, its entry in the ring changes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "tests/libslime/transport/shm/fuzz_peer.h"
#include "src/rpc/mailbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MSG_LEN 56
#define N_OPS	6
#define N_CALLS 2

/* Who has which bytes of our region. */
#define RECEIVED    0
#define SENT	    4096
#define READ	    8192
#define READ_LEN    8192
#define REPLIES	    16384
#define REPLY_LEN   20000
#define REQUESTS    (REPLIES + N_CALLS * REPLY_LEN)
#define REQUEST_LEN (UINT8_MAX * 79)
#define UNTOUCHED   0x5a

_Static_assert(REQUESTS + REQUEST_LEN <= FUZZ_PEER_LEN, "requests lie in the region");

/* In the descriptor of a region. */
/* Of lent memory, and of a region's descriptor. */
#define LENT_GENERATION 16
#define DESC_GENERATION 32
#define SECRET_BEHIND	16

static const char *const methods[] = { "echo", "echo_in_place", "hold" };
#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

struct application {
	struct slime_op *ops[N_OPS];
	struct slime_call *calls[N_CALLS];
	struct slime_xfer xfer[N_OPS];
	struct slime_remote_mr remote; /* the peer's region */
};

static struct fuzz_peer *p;
static struct shm_half *own; /* the peer's */
static uint64_t n_posted;
static struct application apps[2]; /* as the peers */
static struct application *app;

/* ---- under the reader's eyes ---- */

static const struct sl_conn_events *events;

static void on_ready(void *owner)
{
	events->ready(owner);
}

static bool on_msg(void *owner, const struct sl_msg *m, const uint8_t *payload)
{
	memset(&own->ring[(p->conn->rx_seq - 1) % SL_RING_ENTRIES].m, 0xff, sizeof(*m));
	return events->msg(owner, m, payload);
}

static void on_broken(void *owner, int cause, const char *why)
{
	events->broken(owner, cause, why);
}

static const struct sl_conn_events watched = {
	.ready = on_ready,
	.msg = on_msg,
	.broken = on_broken,
};

/* ---- what we do ---- */

static void make_application(void)
{
	app = &apps[p->foreign];
	if (app->ops[0])
		return;
	for (int i = 0; i < N_OPS; i++)
		fuzz_must(slime_op_create(p->ctx, NULL, &app->ops[i]) == 0);
	for (int i = 0; i < N_CALLS; i++)
		fuzz_must(slime_call_create(p->ctx, NULL, &app->calls[i]) == 0);
	app->remote = (struct slime_remote_mr){
		.owner = 1,
		.addr = p->foreign ? FUZZ_PEER_MEMORY : 0,
		.len = READ_LEN,
		.generation = p->generation,
		.id = 3,
		.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
		.kind = p->foreign ? SL_REGION_FOREIGN : SL_REGION_MEMFD,
	};
}

static void transfer(unsigned which, uint8_t how)
{
	struct slime_xfer *x = &app->xfer[which];

	*x = (struct slime_xfer){ .local = p->mr, .remote = &app->remote, .len = how * 32u };
	x->local_offset = which == 3 ? READ : SENT;
	if (x->len > SENT - RECEIVED)
		x->len = SENT - RECEIVED;
	if (which == 3)
		(void)!slime_read(p->ep, x, 1, 0, app->ops[which]);
	else if (which == 4)
		(void)!slime_write(p->ep, x, 1, how & 1 ? SLIME_FENCE : 0, app->ops[which]);
	else
		(void)!slime_write_imm(p->ep, x, 1, 0, how, app->ops[which]);
}

static void call(unsigned which, uint8_t how)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	if (!slime_call_test(app->calls[which])) {
		slime_call_cancel(app->calls[which]);
		return;
	}
	args.method = how;
	args.request = p->bytes + REQUESTS;
	args.request_len = how * 79u;
	args.reply = how & 1 ? p->bytes + REPLIES + which * REPLY_LEN : NULL;
	args.reply_cap = how * 78u;
	(void)!slime_call_start(p->ep, &args, app->calls[which]);
}

static void use(uint8_t how)
{
	unsigned which = how & 7;

	how >>= 3;
	if (which < N_OPS && !slime_op_test(app->ops[which]))
		return;
	switch (which) {
	case 0:
		(void)!slime_imm_recv(p->ep, app->ops[0]);
		break;
	case 1:
		(void)!slime_recv(p->ep, p->mr, RECEIVED, SENT, 0, how & 1 ? SLIME_TAG_ALL : 0,
				  app->ops[1]);
		break;
	case 2:
		(void)!slime_send(p->ep, p->mr, SENT, how * 100u, how, app->ops[2]);
		break;
	case 3:
	case 4:
	case 5:
		transfer(which, (uint8_t)(how * 8));
		break;
	default:
		call(which - N_OPS, (uint8_t)(how * 8 + 3));
		break;
	}
}

/* ---- what the peer does ---- */

/* Descriptors in a slot without a generation get the one that the peer's region has. */
static void make_right(uint8_t *slot, const struct sl_msg *m)
{
	size_t at = m->kind == SL_MSG_SEND ? DESC_GENERATION : LENT_GENERATION;

	for (unsigned i = 0; i < 2 && (m->flags >> i & 1); i++) {
		uint8_t *generation = slot + (size_t)i * SL_LOAN_LEN + at;

		if (m->len >= (i + 1) * SL_LOAN_LEN && !sl_get_le64(generation)) {
			sl_put_le64(generation, p->generation);
			sl_put_le64(generation + SECRET_BEHIND, p->secret[0]);
			sl_put_le64(generation + SECRET_BEHIND + 8, p->secret[1]);
		}
	}
}

static size_t post(const uint8_t *data, size_t size)
{
	struct shm_entry *e = &own->ring[n_posted % SL_RING_ENTRIES];
	struct sl_msg m;
	size_t len = 0;

	if (size < MSG_LEN)
		return 0;
	m = (struct sl_msg){ .kind = data[0],
			     .flags = data[1],
			     .slot = sl_get_le16(data + 2),
			     .len = sl_get_le32(data + 4) };
	for (int i = 0; i < 6; i++)
		m.w[i] = sl_get_le64(data + 8 + 8 * i);
	if (m.kind == SL_MSG_REQUEST && m.w[SL_REQUEST_METHOD] - 1 < N_METHODS)
		m.w[SL_REQUEST_METHOD] = slime_rpc_method_id(methods[m.w[SL_REQUEST_METHOD] - 1]);
	if (m.slot & SHM_SLOT_HERE) {
		len = size - MSG_LEN < m.len ? size - MSG_LEN : m.len;
		len = len < sizeof(e->payload) ? len : sizeof(e->payload);
		memcpy(e->payload, data + MSG_LEN, len);
	} else if (sl_msg_area(m.kind) != SL_AREAS && sl_msg_valid(&m)) {
		uint8_t *slot = own->slots + sl_slot_offset(sl_msg_area(m.kind), m.slot);

		len = size - MSG_LEN < m.len ? size - MSG_LEN : m.len;
		memcpy(slot, data + MSG_LEN, len);
		if (m.kind == SL_MSG_REQUEST || m.kind == SL_MSG_SEND)
			make_right(slot, &m);
	}
	e->m = m;
	atomic_store_explicit(&e->seq, ++n_posted, memory_order_release);
	return MSG_LEN + len;
}

static size_t scribble(const uint8_t *data, size_t size)
{
	uint8_t *bytes = (uint8_t *)p->segment;
	size_t at, len;

	if (size < 5 || size < 5u + data[4])
		return 0;
	at = sl_get_le32(data) % sizeof(*p->segment);
	len = data[4];
	if (len > sizeof(*p->segment) - at)
		len = sizeof(*p->segment) - at;
	memcpy(bytes + at, data + 5, len);
	return 5u + data[4];
}

static size_t set_number(const uint8_t *data, size_t size)
{
	if (size < 10)
		return 0;
	atomic_store(&own->ring[sl_get_le16(data) % SL_RING_ENTRIES].seq, sl_get_le64(data + 2));
	return 10;
}

/* How many bytes it took; 0: there are too few. */
static size_t act(const uint8_t *data, size_t size)
{
	size_t n;

	switch (data[0] % 6) {
	case 0:
		n = post(data + 1, size - 1);
		break;
	case 1:
		n = scribble(data + 1, size - 1);
		break;
	case 2:
		n = fuzz_peer_say(p, data + 1, size - 1);
		break;
	case 3:
		n = size > 1;
		if (n)
			use(data[1]);
		break;
	case 4:
		n = set_number(data + 1, size - 1);
		break;
	default:
		fuzz_peer_answer();
		return 1;
	}
	return n ? 1 + n : 0;
}

/* ---- and that nothing else was touched ---- */

static void must_be_untouched(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		fuzz_must(p->bytes[i] == UNTOUCHED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n;

	if (!size)
		return 0;
	p = fuzz_peer_begin(true, data[0] & 1);
	data++;
	size--;
	make_application();
	fuzz_peer_link(p);
	own = &p->segment->initiator;
	n_posted = 0;
	events = p->base->events;
	p->base->events = &watched;
	while (size && (n = act(data, size))) {
		data += n;
		size -= n;
		fuzz_peer_turn(p);
	}
	fuzz_peer_end(p);
	for (int i = 0; i < N_OPS; i++)
		fuzz_must(slime_op_test(app->ops[i]));
	for (int i = 0; i < N_CALLS; i++) {
		fuzz_must(slime_call_test(app->calls[i]));
		slime_call_release(app->calls[i]);
	}
	must_be_untouched(SENT, READ);
	must_be_untouched(REQUESTS, FUZZ_PEER_LEN);
	return 0;
}
