/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers that answer from memory of their request, which is theirs until the answer. With the
 * address sanitizer that memory is poisoned as soon as the library has it back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/libslime/rpc/pair.h"

static const char *const methods[] = { "slice", "slice_inline", "slice_in_place" };
#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

/* A call, and the memory that it lends. */
struct job {
	struct slime_call *call;
	struct slice slice;
	const char *method;
	uint8_t *request;
	size_t request_len;
	uint8_t *reply;
};

static void job_init(struct job *j, struct slime_context *ctx, size_t max)
{
	j->call = make_call(ctx);
	j->request = malloc(max);
	j->reply = malloc(max);
}

static void job_fini(struct job *j)
{
	assert_int_equal(slime_call_destroy(j->call), 0);
	free(j->request);
	free(j->reply);
}

/* Bytes of a message are letters, and end with the slice. */
static void fill_request(struct job *j, uint32_t seed)
{
	pattern_fill(j->request, j->request_len, seed);
	if (j->slice.how == SLICE_ERROR) {
		for (size_t i = 0; i < j->slice.len; i++)
			j->request[j->slice.at + i] = 'a' + j->request[j->slice.at + i] % 26;
		j->request[j->slice.at + j->slice.len] = '\0';
	}
	memcpy(j->request, &j->slice, sizeof(j->slice));
}

static void start(struct job *j, struct slime_endpoint *ep, uint32_t seed)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	fill_request(j, seed);
	args.method = slime_rpc_method_id(j->method);
	args.request = j->request;
	args.request_len = j->request_len;
	args.reply = j->reply;
	args.reply_cap = j->slice.room > j->slice.len ? j->slice.room : j->slice.len;
	memset(j->reply, 0xee, args.reply_cap);
	assert_int_equal(slime_call_start(ep, &args, j->call), 0);
}

static void finish(struct job *j)
{
	const struct slice *s = &j->slice;
	const char *message;

	assert_int_equal(slime_call_wait(j->call, PAIR_TIMEOUT_MS), 0);
	if (s->how == SLICE_ERROR) {
		assert_int_equal(slime_call_status(j->call), -EREMOTEIO);
		assert_int_equal(slime_call_error(j->call, &message), s->len);
		assert_int_equal(strlen(message), s->len);
		assert_memory_equal(message, j->request + s->at, s->len);
		return;
	}
	assert_int_equal(slime_call_status(j->call), 0);
	assert_int_equal(slime_call_reply_len(j->call), s->len);
	assert_memory_equal(slime_call_reply_data(j->call), j->request + s->at, s->len);
}

/* Around the lengths of what goes along with a message, of slots, and of the smallest chunk. */
static const uint32_t lens[] = { 0, 1, 63, 64, 65, 250, 1024, 1025, 16384, 16385, 40000 };
#define N_LENS (sizeof(lens) / sizeof(lens[0]))

/* All replies that a request of this length can have. */
static void try_slices(struct pair *p, struct job *j, uint32_t room)
{
	for (unsigned m = 0; m < N_METHODS; m++) {
		for (uint32_t how = 0; how < SLICE_HOWS; how++) {
			for (size_t i = 0; i < N_LENS; i++) {
				uint32_t most = (uint32_t)(j->request_len - sizeof(struct slice));

				if (lens[i] >= most || lens[i] > room ||
				    (how == SLICE_ERROR && lens[i] > SLIME_RPC_MESSAGE_MAX))
					continue;
				j->method = methods[m];
				j->slice = (struct slice){
					.how = how,
					.at = (uint32_t)(j->request_len - 1 - lens[i]),
					.len = lens[i],
					.room = room,
				};
				start(j, p->a.ep, (uint32_t)i);
				finish(j);
			}
		}
	}
}

static void reply__from_any_part_of_the_request_has_its_bytes(void **state)
{
	static const size_t request_lens[] = { 64, 500, 1025, 5000, 17000, 50000 };
	static const uint32_t rooms[] = { 64, 1024, 5000, 50000 };
	struct pair *p = *state;
	struct job j;

	job_init(&j, p->a.ctx, 50000);
	for (size_t i = 0; i < sizeof(request_lens) / sizeof(request_lens[0]); i++) {
		j.request_len = request_lens[i];
		for (size_t k = 0; k < sizeof(rooms) / sizeof(rooms[0]); k++)
			try_slices(p, &j, rooms[k]);
	}
	job_fini(&j);
}

/* ---- of many calls at once ---- */

#define N_JOBS	 48
#define N_ROUNDS 4000
#define LEN_MAX	 (48 * 1024)

static uint32_t roll(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)((*seed >> 33) % below);
}

/* Half of the replies go along with their message; half of the requests are long. */
static void choose(struct job *j, uint64_t *seed)
{
	uint32_t most;

	j->method = methods[roll(seed, N_METHODS)];
	j->request_len = 128 + roll(seed, roll(seed, 2) ? LEN_MAX - 128 : 2000);
	most = (uint32_t)(j->request_len - sizeof(struct slice)) - 1;
	j->slice.how = roll(seed, SLICE_HOWS);
	j->slice.len = 1 + roll(seed, roll(seed, 2) ? 64 : most);
	if (j->slice.how == SLICE_ERROR && j->slice.len > SLIME_RPC_MESSAGE_MAX)
		j->slice.len = SLIME_RPC_MESSAGE_MAX;
	j->slice.at = (uint32_t)sizeof(struct slice) + roll(seed, most - j->slice.len + 1);
	j->slice.room = roll(seed, 2) ? j->slice.len : LEN_MAX;
}

static void reply__from_the_request_beside_many_others_has_its_bytes(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct job jobs[N_JOBS];
	uint64_t seed = 20;
	struct pair *p;

	(void)state;
	attr.rpc_workers = 4;
	p = pair_open(pair_transport(), &attr);
	for (unsigned i = 0; i < N_JOBS; i++)
		job_init(&jobs[i], p->a.ctx, LEN_MAX);
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		struct job *j = &jobs[i % N_JOBS];

		if (i >= N_JOBS)
			finish(j);
		choose(j, &seed);
		start(j, p->a.ep, i);
	}
	for (unsigned i = 0; i < N_JOBS; i++) {
		finish(&jobs[i]);
		job_fini(&jobs[i]);
	}
	pair_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_PAIR(reply__from_any_part_of_the_request_has_its_bytes),
		cmocka_unit_test(reply__from_the_request_beside_many_others_has_its_bytes),
	};

	return PAIR_RUN("rpc_memory", tests);
}
