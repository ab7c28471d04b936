/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "bench/service/job.h"

#define JOB_VERSION    1
#define RESULT_VERSION 2

static void write_text(struct sl_writer *w, const char *s)
{
	uint16_t len = (uint16_t)strlen(s);

	sl_write_u16(w, len);
	sl_write_bytes(w, s, len);
}

static void read_text(struct sl_reader *r, char *out, size_t cap)
{
	uint16_t len = sl_read_u16(r);
	const uint8_t *p = sl_read_span(r, len);

	if (!p || len >= cap || memchr(p, 0, len)) {
		r->failed = true;
		return;
	}
	memcpy(out, p, len);
	out[len] = 0;
}

int bench_job_write(const struct bench_job *job, void *buf, size_t cap)
{
	struct sl_writer w = { .at = buf, .room = cap };
	const struct load_rpc *c = &job->rpc;
	const struct load_transfer *t = &job->transfer;

	sl_write_u16(&w, JOB_VERSION);
	sl_write_u8(&w, (uint8_t)job->kind);
	sl_write_u8(&w, (uint8_t)job->transport);
	write_text(&w, job->peer);
	write_text(&w, job->region);
	sl_write_u64(&w, c->size);
	sl_write_u32(&w, c->threads);
	sl_write_u32(&w, c->inflight);
	sl_write_u32(&w, c->warmup);
	sl_write_u64(&w, c->iterations);
	sl_write_u32(&w, c->duration_ms);
	sl_write_u8(&w, (uint8_t)t->op);
	sl_write_u64(&w, t->block_size);
	sl_write_u32(&w, t->batch_size);
	sl_write_u32(&w, t->threads);
	sl_write_u32(&w, t->duration_ms);
	sl_write_u32(&w, t->warmup_ms);
	sl_write_u32(&w, t->qps);
	return w.failed ? -ENOSPC : (int)(cap - w.room);
}

int bench_job_read(struct bench_job *job, const void *buf, size_t len)
{
	struct sl_reader r = { .at = buf, .left = len };
	struct bench_job j = { 0 };

	if (sl_read_u16(&r) != JOB_VERSION)
		return -EINVAL;
	j.kind = (enum bench_kind)sl_read_u8(&r);
	j.transport = (enum slime_transport)sl_read_u8(&r);
	read_text(&r, j.peer, sizeof(j.peer));
	read_text(&r, j.region, sizeof(j.region));
	j.rpc.size = sl_read_u64(&r);
	j.rpc.threads = sl_read_u32(&r);
	j.rpc.inflight = sl_read_u32(&r);
	j.rpc.warmup = sl_read_u32(&r);
	j.rpc.iterations = sl_read_u64(&r);
	j.rpc.duration_ms = sl_read_u32(&r);
	j.transfer.op = (enum load_op)sl_read_u8(&r);
	j.transfer.block_size = sl_read_u64(&r);
	j.transfer.batch_size = sl_read_u32(&r);
	j.transfer.threads = sl_read_u32(&r);
	j.transfer.duration_ms = sl_read_u32(&r);
	j.transfer.warmup_ms = sl_read_u32(&r);
	j.transfer.qps = sl_read_u32(&r);
	if (r.failed || r.left || (unsigned)j.kind >= BENCH_KINDS ||
	    (unsigned)j.transport >= SLIME_TRANSPORT_MAX || (unsigned)j.transfer.op >= LOAD_OPS ||
	    !j.peer[0])
		return -EINVAL;
	*job = j;
	return 0;
}

/* ---- results ---- */

static void write_rail(struct sl_writer *w, const struct bench_rail *rail)
{
	write_text(w, rail->device);
	write_text(w, rail->peer);
	sl_write_u8(w, (uint8_t)rail->state);
	sl_write_u32(w, rail->n_failures);
	sl_write_u64(w, rail->bytes);
}

/* It is shown to people. */
static bool is_printable(const char *s)
{
	while (*s > ' ' && *s <= '~')
		s++;
	return !*s;
}

static void read_rail(struct sl_reader *r, struct bench_rail *rail)
{
	read_text(r, rail->device, sizeof(rail->device));
	read_text(r, rail->peer, sizeof(rail->peer));
	rail->state = (enum slime_rail_state)sl_read_u8(r);
	rail->n_failures = sl_read_u32(r);
	rail->bytes = sl_read_u64(r);
	if (!is_printable(rail->device) || !is_printable(rail->peer) ||
	    (unsigned)rail->state > SLIME_RAIL_RISING)
		r->failed = true;
}

static void read_rails(struct sl_reader *r, struct bench_result *got)
{
	unsigned n = sl_read_u8(r);

	if (n > SLIME_RAILS_MAX) {
		r->failed = true;
		return;
	}
	got->n_rails = n;
	for (unsigned i = 0; i < n; i++)
		read_rail(r, &got->rails[i]);
}

int bench_result_write(const struct bench_result *b, void *buf, size_t cap)
{
	struct sl_writer w = { .at = buf, .room = cap };
	const uint64_t numbers[] = {
		b->trips,  b->bytes,  b->elapsed_ns, b->cpu_ns, b->peer_cpu_ns, b->late,   b->n,
		b->avg_ns, b->min_ns, b->p50_ns,     b->p99_ns, b->p999_ns,	b->max_ns,
	};

	sl_write_u16(&w, RESULT_VERSION);
	sl_write_u8(&w, (uint8_t)b->transport);
	sl_write_u8(&w, b->has_peer_cpu);
	sl_write_u8(&w, b->verified);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sl_write_u64(&w, numbers[i]);
	sl_write_u8(&w, (uint8_t)b->n_rails);
	for (unsigned i = 0; i < b->n_rails; i++)
		write_rail(&w, &b->rails[i]);
	return w.failed ? -ENOSPC : (int)(cap - w.room);
}

int bench_result_read(struct bench_result *b, const void *buf, size_t len)
{
	struct sl_reader r = { .at = buf, .left = len };
	struct bench_result got = { 0 };
	uint64_t *const numbers[] = {
		&got.trips,  &got.bytes,   &got.elapsed_ns, &got.cpu_ns, &got.peer_cpu_ns,
		&got.late,   &got.n,	   &got.avg_ns,	    &got.min_ns, &got.p50_ns,
		&got.p99_ns, &got.p999_ns, &got.max_ns,
	};

	if (sl_read_u16(&r) != RESULT_VERSION)
		return -EINVAL;
	got.transport = (enum slime_transport)sl_read_u8(&r);
	got.has_peer_cpu = sl_read_u8(&r) != 0;
	got.verified = sl_read_u8(&r) != 0;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		*numbers[i] = sl_read_u64(&r);
	read_rails(&r, &got);
	if (r.failed || r.left || (unsigned)got.transport >= SLIME_TRANSPORT_MAX)
		return -EINVAL;
	*b = got;
	return 0;
}
