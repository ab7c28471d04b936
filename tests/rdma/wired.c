/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/rdma/wired.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEN	  (512 * KiB)
#define PIECE	  (32 * KiB)
#define ANY_WHERE 2 /* a lane's pieces lie so many pieces apart */

const char *wired_near = "rxe0";
const char *wired_far = "rxe1";

/* ---- the wire ---- */

/* Of rxe0 it is wire0; of a device that is not the laboratory's there is none. */
static int number_of(const char *device)
{
	int number = -1;

	return sscanf(device, "rxe%d", &number) == 1 ? number : -1;
}

static bool has_wire(const char *device)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/net/wire%d", number_of(device));
	return !access(path, F_OK);
}

void sh(const char *command)
{
	assert_int_equal(system(command), 0);
}

void delete_device(const char *name)
{
	char command[64];

	/* It waits until nobody has the device open. */
	snprintf(command, sizeof(command), "rdma link del %s &", name);
	sh(command);
}

bool wired_has_wires(void)
{
	return has_wire(wired_near) && has_wire(wired_far);
}

/* What is sent over it is not disturbed any more. */
static void calm_wire(int number)
{
	char command[64];

	snprintf(command, sizeof(command), "tc qdisc del dev wire%d root 2>/dev/null; true",
		 number);
	sh(command);
}

static void mend_wire(int number)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "wire=%d;"
		 "tc qdisc del dev wire$wire root 2>/dev/null;"
		 "while ps -e -o args= | grep -q \"^rdma link del rxe$wire\"; do sleep 0.02; done;"
		 "test -e /sys/class/infiniband/rxe$wire ||"
		 " rdma link add rxe$wire type rxe netdev wire$wire || exit;"
		 "ip link set wire$wire up &&"
		 " ip address replace 10.$((77 + wire / 2)).0.$((wire %% 2 + 1))/24 dev wire$wire",
		 number);
	sh(command);
}

/* Of a wire that went up, some time after that. */
static void await_port(int number)
{
	uint64_t begin = now_ms();
	char command[128];

	snprintf(command, sizeof(command),
		 "grep -q ACTIVE /sys/class/infiniband/rxe%d/ports/1/state", number);
	while (system(command))
		assert_true(now_ms() - begin <= REPORT_MS);
}

void mend_wires(void)
{
	if (!wired_has_wires())
		return;
	mend_wire(number_of(wired_near));
	mend_wire(number_of(wired_far));
	await_port(number_of(wired_near));
	await_port(number_of(wired_far));
}

/* ---- the pair ---- */

struct pair *wired_open(bool manual_a)
{
	struct pair_attr near = PAIR_ATTR_INIT, far = PAIR_ATTR_INIT;
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	near.rails = wired_near;
	far.rails = wired_far;
	near.manual_a = manual_a;
	near.len = far.len = LEN;
	end_create(&p->a, &near);
	end_create(&p->b, &far);
	pair_create_endpoints(p, NULL);
	pair_connect(p);
	return p;
}

int wired_setup(void **state)
{
	*state = wired_open(false);
	return 0;
}

int wired_teardown(void **state)
{
	/* First, so that links end in order, and a device that is being deleted can go. */
	if (wired_has_wires()) {
		calm_wire(number_of(wired_near));
		calm_wire(number_of(wired_far));
	}
	pair_close(*state);
	mend_wires();
	return 0;
}

/* ---- traffic ---- */

/* The last is pulled by the other end. */
enum kind { READ, WRITE, WRITE_IMM, SEND, KINDS };

struct lane {
	struct slime_op *op;
	struct slime_op *far_op; /* what the other end waits for; NULL: nothing */
	struct slime_xfer piece;
	uint64_t seed;
};

struct traffic {
	struct pair *p;
	unsigned kinds;
	struct lane lanes[KINDS];
	bool busy[KINDS];
	uint64_t next_seed;
};

static uint64_t place_of(enum kind kind)
{
	return (uint64_t)kind * ANY_WHERE * PIECE;
}

static int submit(struct pair *p, enum kind kind, struct lane *l)
{
	uint64_t at = place_of(kind);
	l->piece = a_and_b(p, at, at, PIECE);
	switch (kind) {
	case READ:
		return slime_read(p->a.ep, &l->piece, 1, 0, l->op);
	case WRITE:
		return slime_write(p->a.ep, &l->piece, 1, 0, l->op);
	case WRITE_IMM:
		return slime_write_imm(p->a.ep, &l->piece, 1, 0, 7, l->op);
	default:
		return slime_send(p->a.ep, p->a.mr, at, PIECE, kind, l->op);
	}
}

static int expect(struct pair *p, enum kind kind, struct lane *l)
{
	if (kind == WRITE_IMM)
		return slime_imm_recv(p->b.ep, l->far_op);
	return slime_recv(p->b.ep, p->b.mr, place_of(kind), PIECE, kind, SLIME_TAG_ALL, l->far_op);
}

static int begin(struct traffic *t, enum kind kind)
{
	struct lane *l = &t->lanes[kind];
	struct end *from = kind == READ ? &t->p->b : &t->p->a;
	int ret;

	l->seed = ++t->next_seed;
	pattern_fill(from->bytes + place_of(kind), PIECE, l->seed, 0);
	ret = l->far_op ? expect(t->p, kind, l) : 0;
	if (ret)
		return ret;
	ret = submit(t->p, kind, l);
	/* What was not sent is not waited for: the far end learns of the fault, too. */
	if (ret && l->far_op)
		op_end(l->far_op);
	t->busy[kind] = !ret;
	return ret;
}

static int finish(struct traffic *t, enum kind kind)
{
	struct lane *l = &t->lanes[kind];
	struct end *to = kind == READ ? &t->p->a : &t->p->b;
	int ret = op_end(l->op);
	int far = l->far_op ? op_end(l->far_op) : 0;

	t->busy[kind] = false;
	ret = ret ? ret : far;
	if (!ret)
		assert_pattern(to->bytes + place_of(kind), PIECE, l->seed, 0);
	return ret;
}

static int keep_going(struct traffic *t, uint64_t until_ms)
{
	int ret = 0;

	for (int kind = 0; kind < KINDS && !ret; kind++)
		ret = t->kinds & 1u << kind ? begin(t, (enum kind)kind) : 0;
	for (int kind = 0; !ret && now_ms() < until_ms; kind = (kind + 1) % KINDS) {
		if (!t->busy[kind])
			continue;
		ret = finish(t, (enum kind)kind);
		if (!ret)
			ret = begin(t, (enum kind)kind);
	}
	for (int kind = 0; kind < KINDS; kind++) {
		int last = t->busy[kind] ? finish(t, (enum kind)kind) : 0;

		ret = ret ? ret : last;
	}
	return ret;
}

int traffic_run_of(struct pair *p, uint64_t ms, unsigned kinds)
{
	struct traffic t = { .p = p, .kinds = kinds };
	int ret;

	for (int kind = 0; kind < KINDS; kind++) {
		t.lanes[kind].op = op_new(p->a.ctx);
		if (kind == WRITE_IMM || kind == SEND)
			t.lanes[kind].far_op = op_new(p->b.ctx);
	}
	ret = keep_going(&t, now_ms() + ms);
	print_message("%llu operations, then %s\n", (unsigned long long)t.next_seed,
		      ret ? strerror(-ret) : "no more");
	for (int kind = 0; kind < KINDS; kind++) {
		assert_ok(slime_op_destroy(t.lanes[kind].op));
		assert_ok(slime_op_destroy(t.lanes[kind].far_op));
	}
	return ret;
}

int traffic_run(struct pair *p, uint64_t ms)
{
	return traffic_run_of(p, ms, TRAFFIC_ALL);
}

int cause_of(const struct end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_true(info.cause_text[0]);
	print_message("cause: %s: %s\n", strerror(-info.cause), info.cause_text);
	return info.cause;
}

void assert_both_break(struct pair *p, uint64_t begin_ms, uint64_t limit_ms)
{
	end_await(&p->a, SLIME_ENDPOINT_BROKEN);
	end_await(&p->b, SLIME_ENDPOINT_BROKEN);
	print_message("reported after %llu ms\n", (unsigned long long)(now_ms() - begin_ms));
	assert_true(now_ms() - begin_ms <= limit_ms);
}

void assert_traffic_fails(struct pair *p, uint64_t begin_ms)
{
	assert_true(traffic_run(p, REPORT_MS) < 0);
	assert_both_break(p, begin_ms, REPORT_MS);
}

/* ---- programs ---- */

/* Two that are named become one for each end; a peer in another process has the near one. */
static void take_devices(int argc, char **argv)
{
	for (int i = 3; i + 1 < argc; i += 2) {
		char *comma;

		if (strcmp(argv[i], "--rails"))
			continue;
		wired_near = wired_far = argv[i + 1];
		comma = strchr(argv[i + 1], ',');
		if (comma) {
			*comma = '\0';
			wired_far = comma + 1;
		}
	}
}

static bool is_there(const char *device)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", device);
	return !access(path, F_OK);
}

int wired_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n)
{
	/* Started by a test, which looked. */
	if (argc > 1 && !strcmp(argv[1], "--peer"))
		return fixture_main(argc, argv, group, tests, n);
	take_devices(argc, argv);
	if (!is_there(wired_near) || !is_there(wired_far)) {
		printf("skipped: there are no devices %s and %s\n", wired_near, wired_far);
		return 77;
	}
	return fixture_main(argc, argv, group, tests, n);
}
