/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "base/wire.h"
#include "bench/load/memory.h"
#include "bench/load/pattern.h"
#include "bench/service/job.h"

#define LINK_TIMEOUT_MS	   15000
#define LINK_SLICE_MS	   200 /* how long a wish to stop may go unseen meanwhile */
#define LOOKUP_TIMEOUT_MS  5000
#define PROVIDERS_MAX	   256
#define SERVICE_TIMEOUT_MS 1000 /* nanoctrl may be away, and the measurement goes on */
#define CALL_TIMEOUT_MS	   5000
#define NAMES_SHOWN	   4

/* One run: who, over what, and what must be undone. */
struct run {
	struct slime_agent *agent;
	const struct bench_job *job;
	const struct load_control *control;
	struct bench_result *out;
	struct load_histogram *latency; /* NULL: the percentiles in out are enough */
	char *message;
	char profile[32];
	struct slime_endpoint *ep;
	uint64_t all_trips; /* of which out->trips are measured */
};

static int fail(struct run *r, int ret, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int fail(struct run *r, int ret, const char *fmt, ...)
{
	va_list args;
	size_t n;

	va_start(args, fmt);
	vsnprintf(r->message, BENCH_MESSAGE_MAX, fmt, args);
	va_end(args);
	n = strlen(r->message);
	snprintf(r->message + n, BENCH_MESSAGE_MAX - n, ": %s", strerror(-ret));
	return ret;
}

/* ---- the peer's bench service ---- */

/* The memory of a call that its peer has not confirmed is lent until the call ends, and the end of
 * the link ends it: -ETIMEDOUT, and the link is closed. */
static int wait_for_end(struct slime_endpoint *ep, struct slime_call *call)
{
	int ret = slime_call_wait(call, -1);

	if (ret != -ETIMEDOUT)
		return ret;
	slime_endpoint_close(ep);
	while (slime_call_wait(call, CALL_TIMEOUT_MS) == -ETIMEDOUT)
		;
	return ret;
}

/* A small call to the peer: its length is returned, at most cap bytes. One whose peer stands still
 * ends the link. */
static int ask(struct slime_agent *agent, struct slime_endpoint *ep, const char *method,
	       const void *request, size_t len, void *reply, size_t cap, int64_t timeout_ms,
	       char *error)
{
	struct slime_call_args args = {
		.method = slime_rpc_method_id(method),
		.request = request,
		.request_len = len,
		.reply = reply,
		.reply_cap = cap,
		.timeout_ms = timeout_ms,
	};
	const char *said = "";
	struct slime_call *call;
	int ret = slime_call_create(slime_agent_context(agent), NULL, &call);

	if (ret)
		return ret;
	ret = slime_call_start(ep, &args, call);
	if (!ret)
		ret = wait_for_end(ep, call);
	if (!ret)
		ret = slime_call_status(call);
	if (ret == -EREMOTEIO && error) {
		slime_call_error(call, &said);
		snprintf(error, BENCH_MESSAGE_MAX, "%s", said);
		sl_utf8_make_printable(error); /* it is shown to people */
	}
	if (!ret)
		ret = (int)slime_call_reply_len(call);
	slime_call_destroy(call);
	return ret;
}

/* Whether the peer is none of those that offer the service: a call of a method that it has not
 * would count as an error. Without an answer, or with a list that may not be whole, it is asked. */
static bool peer_lacks(const struct run *r, const char *service)
{
	char(*names)[SLIME_AGENT_NAME_MAX + 1] = calloc(PROVIDERS_MAX, sizeof(*names));
	int n = names ? slime_agent_providers(r->agent, service, names, PROVIDERS_MAX,
					      SERVICE_TIMEOUT_MS)
		      : -ENOMEM;
	bool lacks = n >= 0 && n < PROVIDERS_MAX;

	for (int i = 0; i < n && lacks; i++)
		lacks = strcmp(names[i], r->job->peer) != 0;
	free(names);
	return lacks;
}

/* CPU time of the peer so far; a peer without a bench service has none to tell. */
static bool peer_usage(struct run *r, uint64_t *cpu_ns)
{
	uint8_t reply[8];

	if (ask(r->agent, r->ep, BENCH_METHOD_USAGE, NULL, 0, reply, sizeof(reply), CALL_TIMEOUT_MS,
		NULL) != sizeof(reply))
		return false;
	*cpu_ns = sl_get_le64(reply);
	return true;
}

/* Who takes the region: our name, and over which link immediates will come. */
static int ask_as_ourselves(struct run *r, const char *method, uint32_t number, void *reply,
			    size_t cap)
{
	uint8_t request[2 * (SLIME_AGENT_NAME_MAX + 3) + 4];
	struct sl_writer w = { .at = request, .room = sizeof(request) };
	const char *texts[] = { slime_agent_name(r->agent), r->profile };
	int ret;

	for (int i = 0; i < 2; i++) {
		sl_write_u16(&w, (uint16_t)strlen(texts[i]));
		sl_write_bytes(&w, texts[i], strlen(texts[i]));
	}
	sl_write_u32(&w, number);
	ret = ask(r->agent, r->ep, method, request, sizeof(request) - w.room, reply, cap,
		  CALL_TIMEOUT_MS, r->message);
	if (ret == -EREMOTEIO)
		return -EBUSY;
	return ret < 0 ? fail(r, ret, "%s at %s", method, r->job->peer) : ret;
}

/* ---- the link ---- */

void bench_explain_link(struct slime_agent *agent, const char *peer, const char *profile, int err,
			char message[BENCH_MESSAGE_MAX])
{
	int n = slime_agent_links(agent, NULL, 0);
	struct slime_agent_link_info *links = n > 0 ? calloc((size_t)n, sizeof(*links)) : NULL;
	const char *cause = "";
	int n_filled = links ? slime_agent_links(agent, links, (size_t)n) : 0;

	for (int i = 0; i < n_filled && i < n; i++)
		if (!strcmp(links[i].peer, peer) && !strcmp(links[i].profile, profile))
			cause = links[i].cause;
	snprintf(message, BENCH_MESSAGE_MAX, "the link to %.60s did not come up: %.100s", peer,
		 *cause ? cause : strerror(-err));
	free(links);
}

/* Who is there instead, as far as there is room. */
static void add_names(struct slime_agent *agent, char message[BENCH_MESSAGE_MAX])
{
	struct slime_agent_peers *page;
	size_t used = strlen(message);

	if (slime_agent_peers(agent, NULL, NULL, LOOKUP_TIMEOUT_MS, &page))
		return;
	for (size_t i = 0; i < page->n && i <= NAMES_SHOWN && used < BENCH_MESSAGE_MAX; i++)
		used += (size_t)snprintf(message + used, BENCH_MESSAGE_MAX - used, "%s%.40s",
					 i ? ", " : "; there are ",
					 i < NAMES_SHOWN ? page->peers[i].name : "others");
	slime_agent_peers_free(page);
}

int bench_check_registered(struct slime_agent *agent, const char *name,
			   char message[BENCH_MESSAGE_MAX])
{
	size_t used;

	if (slime_agent_peer_find(agent, name, LOOKUP_TIMEOUT_MS) != -ENOENT)
		return 0;
	snprintf(message, BENCH_MESSAGE_MAX, "%.60s is not registered in scope %.40s", name,
		 slime_agent_scope(agent));
	add_names(agent, message);
	used = strlen(message);
	snprintf(message + used, BENCH_MESSAGE_MAX - used, "; --scope names another scope");
	return -ENOENT;
}

static int wait_for_link(struct run *r)
{
	uint64_t end = sl_clock_ns() + LINK_TIMEOUT_MS * SL_NS_PER_MS;
	int ret;

	do {
		ret = slime_agent_endpoint_get(r->agent, r->job->peer, r->profile, LINK_SLICE_MS,
					       &r->ep);
	} while (ret == -ETIMEDOUT && sl_clock_ns() < end && !load_stop_asked(r->control));
	return ret;
}

static int open_link(struct run *r)
{
	struct slime_agent_link link = {
		.to = r->job->peer,
		.profile = r->profile,
		.transports = { r->job->transport },
	};
	struct slime_endpoint_info info;
	int ret;

	snprintf(r->profile, sizeof(r->profile), BENCH_PROFILE "%s",
		 r->job->transport == SLIME_TRANSPORT_NONE
			 ? "any"
			 : slime_transport_name(r->job->transport));
	ret = bench_check_registered(r->agent, r->job->peer, r->message);
	if (ret)
		return ret;
	ret = slime_agent_link_add(r->agent, &link);
	if (ret == -EEXIST)
		return fail(r, -EBUSY, "another run uses the link to %s", r->job->peer);
	if (ret)
		return fail(r, ret, "no link to %s", r->job->peer);
	ret = wait_for_link(r);
	if (ret) {
		bench_explain_link(r->agent, r->job->peer, r->profile, ret, r->message);
		slime_agent_link_remove(r->agent, r->job->peer, r->profile);
		return ret;
	}
	slime_endpoint_info(r->ep, &info);
	r->out->transport = info.transport;
	return 0;
}

static void take_rails(struct run *r)
{
	struct slime_rail_info rails[SLIME_RAILS_MAX];
	size_t n = slime_endpoint_rails(r->ep, rails, SLIME_RAILS_MAX);

	for (size_t i = 0; i < n; i++) {
		struct bench_rail *to = &r->out->rails[i];

		*to = (struct bench_rail){ .state = rails[i].state,
					   .n_failures = rails[i].n_failures,
					   .bytes = rails[i].bytes };
		memcpy(to->device, rails[i].device, sizeof(to->device));
		memcpy(to->peer, rails[i].peer, sizeof(to->peer));
	}
	r->out->n_rails = (unsigned)n;
}

static void close_link(struct run *r)
{
	slime_agent_endpoint_put(r->agent, r->ep);
	slime_agent_link_remove(r->agent, r->job->peer, r->profile);
}

/* ---- what is measured ---- */

static void take_latency(struct run *r, const struct load_histogram *h)
{
	bench_result_latency(r->out, h);
	if (r->latency)
		*r->latency = *h;
}

void bench_result_latency(struct bench_result *out, const struct load_histogram *h)
{
	out->n = h->n;
	out->avg_ns = h->n ? h->sum_ns / h->n : 0;
	out->min_ns = h->n ? h->min_ns : 0;
	out->p50_ns = load_histogram_permille(h, 500);
	out->p99_ns = load_histogram_permille(h, 990);
	out->p999_ns = load_histogram_permille(h, 999);
	out->max_ns = h->max_ns;
}

/* Of CPU time that went into all trips, what the measured ones took: the others' bytes are not
 * counted. */
static uint64_t measured_part(const struct run *r, uint64_t cpu_ns)
{
	return r->all_trips
		       ? (uint64_t)((double)cpu_ns * (double)r->out->trips / (double)r->all_trips)
		       : 0;
}

static int fail_memory(struct run *r, uint64_t needed)
{
	const double gib = 1024.0 * 1024.0 * 1024.0;

	snprintf(r->message, BENCH_MESSAGE_MAX,
		 "it needs %.1f GiB of memory at the initiator, where at most half of the %.1f GiB "
		 "available are taken: lower size, threads or what is in flight",
		 (double)needed / gib, (double)load_memory_available() / gib);
	return -E2BIG;
}

/* A bench service's region is as large as its agent's file says. */
static int fail_blocks(struct run *r, const struct load_transfer *load, uint64_t region)
{
	snprintf(
		r->message, BENCH_MESSAGE_MAX,
		"%u x %u x %llu bytes (threads, blocks of a trip, block) do not fit the region of %llu "
		"bytes: lower them%s",
		load->threads, load->batch_size, (unsigned long long)load->block_size,
		(unsigned long long)region,
		r->job->region[0]
			? ""
			: ", or raise size of its bench service (options: { size: 1GiB })");
	return -EINVAL;
}

static int fail_length(struct run *r, uint64_t size)
{
	snprintf(r->message, BENCH_MESSAGE_MAX,
		 "%.40s takes no calls of %llu bytes: raise max_message of its echo service "
		 "(services: [ { name: echo, options: { max_message: 1GiB } } ])",
		 r->job->peer, (unsigned long long)size);
	return -EMSGSIZE;
}

/* A call that is too long is refused anyway, but only when there is memory for it. A peer whose
 * echo is not peeragent's does not tell. */
static int check_length(struct run *r, uint64_t size)
{
	uint8_t reply[8];

	if (peer_lacks(r, "echo") || ask(r->agent, r->ep, BENCH_METHOD_ECHO_MAX, NULL, 0, reply,
					 sizeof(reply), CALL_TIMEOUT_MS, NULL) != sizeof(reply))
		return 0;
	return size > sl_get_le64(reply) ? fail_length(r, size) : 0;
}

static int run_rpc(struct run *r)
{
	struct load_rpc load = r->job->rpc;
	struct load_rpc_result got;
	int ret = check_length(r, load.size);

	if (ret)
		return ret;
	load.method = slime_rpc_method_id(BENCH_METHOD_ECHO);
	ret = load_rpc_run(slime_agent_context(r->agent), r->ep, &load, r->control, &got);
	if (ret == -E2BIG)
		return fail_memory(r, load_rpc_memory(&load));
	if (ret == -EMSGSIZE)
		return fail_length(r, load.size);
	if (ret)
		return fail(r, ret, "echo of %llu bytes", (unsigned long long)load.size);
	r->all_trips = got.all_calls;
	r->out->trips = got.calls;
	r->out->bytes = 2 * got.calls * load.size;
	r->out->elapsed_ns = got.elapsed_ns;
	r->out->cpu_ns = measured_part(r, got.cpu_ns);
	take_latency(r, &got.latency);
	return 0;
}

/* The peer says that its memory cannot be reached, and not why: that is in its log. Where it was
 * the peer's device that refused, the link is at its end. */
static int fail_refused(struct run *r, const char *op)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(r->ep, &info);
	if (info.state == SLIME_ENDPOINT_CONNECTED && info.transport == SLIME_TRANSPORT_RDMA)
		return fail(r, -EREMOTEIO,
			    "%s: %.60s cannot register its region with an RDMA device, and its log "
			    "says why",
			    op, r->job->peer);
	return fail(r, -EREMOTEIO, "%s: %.120s", op,
		    *info.cause_text ? info.cause_text : "refused by the peer");
}

static int run_transfer_on(struct run *r, const struct slime_remote_mr *remote,
			   const struct load_transfer *load)
{
	struct load_transfer_result got;
	int ret = load_transfer_run(slime_agent_context(r->agent), r->ep, remote, load, r->control,
				    &got);

	if (ret == -EINVAL)
		return fail_blocks(r, load, remote->len);
	if (ret == -E2BIG)
		return fail_memory(r, load_transfer_memory(load));
	if (ret == -EREMOTEIO)
		return fail_refused(r, load_op_names[load->op]);
	if (ret)
		return fail(r, ret, "%s", load_op_names[load->op]);
	r->all_trips = got.all_trips;
	r->out->trips = got.trips;
	r->out->bytes = got.bytes;
	r->out->elapsed_ns = got.elapsed_ns;
	r->out->cpu_ns = got.cpu_ns;
	r->out->late = got.late;
	take_latency(r, &got.latency);
	return 0;
}

/* The peer takes the immediates for as long as we write them; then it must have had one for each
 * trip. */
static int run_with_drain(struct run *r, const struct slime_remote_mr *remote,
			  const struct load_transfer *load)
{
	uint8_t reply[8];
	int ret = ask_as_ourselves(r, BENCH_METHOD_DRAIN, 0, reply, sizeof(reply));

	if (ret < 0)
		return ret;
	ret = run_transfer_on(r, remote, load);
	if (ret)
		return ret;
	ret = ask_as_ourselves(r, BENCH_METHOD_DRAINED, 0, reply, sizeof(reply));
	if (ret < 0)
		return ret;
	if (ret != (int)sizeof(reply) || sl_get_le64(reply) < r->out->trips)
		return fail(r, -EILSEQ, "immediates are missing at %s", r->job->peer);
	return 0;
}

static int fail_lookup(struct run *r, int ret, const char *region)
{
	const char *peer = r->job->peer;

	if (ret == -ENOENT)
		snprintf(r->message, BENCH_MESSAGE_MAX, "%.80s offers no region %.80s", peer,
			 region);
	else if (ret == -EAGAIN || ret == -ETIMEDOUT)
		snprintf(r->message, BENCH_MESSAGE_MAX,
			 "region %.60s of %.60s: nanoctrl does not answer", region, peer);
	else
		fail(r, ret, "region %s of %s", region, peer);
	return ret;
}

static int run_transfer(struct run *r)
{
	const struct bench_job *job = r->job;
	struct load_transfer load = job->transfer;
	const char *region = job->region;
	struct slime_remote_mr remote;
	bool writes = load.op != LOAD_READ;
	bool ours =
		!region[0] || !strcmp(region, BENCH_REGION) || !strcmp(region, BENCH_REGION_WRITE);
	uint8_t reply[8];
	int ret;

	if (!region[0])
		region = writes ? BENCH_REGION_WRITE : BENCH_REGION;
	ret = slime_agent_region_remote(r->agent, job->peer, region, LOOKUP_TIMEOUT_MS, &remote);
	if (ret)
		return fail_lookup(r, ret, region);
	load.seed = LOAD_PATTERN_SEED;
	load.verify = ours;
	if (writes) {
		load.verify = true;
		if (getrandom(&load.seed, sizeof(load.seed), 0) != sizeof(load.seed))
			return fail(r, -EIO, "no random seed");
	}
	if (writes && ours) {
		ret = ask_as_ourselves(r, BENCH_METHOD_CLAIM,
				       load.duration_ms + load.warmup_ms + 60000, reply,
				       sizeof(reply));
		if (ret < 0)
			return ret;
	}
	r->out->verified = load.verify;
	if (load.op != LOAD_WRITE_IMM)
		ret = run_transfer_on(r, &remote, &load);
	else
		ret = run_with_drain(r, &remote, &load);
	if (writes && ours)
		(void)ask_as_ourselves(r, BENCH_METHOD_CLAIM, 0, reply,
				       sizeof(reply)); /* ends with the link otherwise */
	return ret;
}

int bench_job_run(struct slime_agent *agent, const struct bench_job *job,
		  const struct load_control *control, struct bench_result *out,
		  struct load_histogram *latency, char message[BENCH_MESSAGE_MAX])
{
	struct run r = { .agent = agent,
			 .job = job,
			 .control = control,
			 .out = out,
			 .latency = latency,
			 .message = message };
	uint64_t before = 0, after = 0;
	int ret;

	memset(out, 0, sizeof(*out));
	message[0] = 0;
	ret = open_link(&r);
	if (ret)
		return ret;
	out->verified = true;
	out->has_peer_cpu = !peer_lacks(&r, "bench") && peer_usage(&r, &before);
	ret = job->kind == BENCH_RPC ? run_rpc(&r) : run_transfer(&r);
	out->has_peer_cpu = out->has_peer_cpu && !ret && peer_usage(&r, &after);
	out->peer_cpu_ns = measured_part(&r, after > before ? after - before : 0);
	take_rails(&r);
	close_link(&r);
	return ret;
}

int bench_job_run_at(struct slime_agent *agent, struct slime_endpoint *ep,
		     const struct bench_job *job, int64_t timeout_ms, struct bench_result *out,
		     char message[BENCH_MESSAGE_MAX])
{
	uint8_t request[BENCH_JOB_MAX];
	uint8_t reply[BENCH_JOB_MAX];
	int len = bench_job_write(job, request, sizeof(request));
	int ret;

	message[0] = 0;
	if (len < 0)
		return len;
	ret = ask(agent, ep, BENCH_METHOD_RUN, request, (size_t)len, reply, sizeof(reply),
		  timeout_ms, message);
	if (ret >= 0)
		ret = bench_result_read(out, reply, (size_t)ret);
	if (ret && !message[0])
		snprintf(message, BENCH_MESSAGE_MAX, "%s",
			 ret == -ENOSYS ? "it has no bench service" : strerror(-ret));
	return ret;
}
