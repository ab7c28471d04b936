/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "bench/agents/client.h"
#include "bench/agents/agent_name.h"
#include "bench/agents/discovery.h"
#include "cli/options/secret.h"

#define READY_TIMEOUT_MS 10000
#define LINK_TIMEOUT_MS	 15000
#define STOP_TIMEOUT_MS	 6000
#define QPS_MAX		 8 /* of a rail */
#define TOKEN_MAX	 4096
#define CLIENT_PROFILE	 "default" /* of the link to the agent that initiates */
/* Above the load itself: link, lookups, warm-up, check. */
#define REMOTE_EXTRA_MS 120000

/* Everything ends with an error when a signal came, which says enough. */
static int complain(const struct client *c, const char *what, const char *why)
{
	if (!atomic_load(&c->interrupt.caught))
		fprintf(stderr, "slime-bench: %s: %s\n", what, why);
	return -1;
}

int client_init(struct client *c, const struct settings *settings)
{
	int ret;

	*c = (struct client){ .settings = settings, .lock = PTHREAD_MUTEX_INITIALIZER };
	cli_progress_init(&c->progress, stderr);
	ret = interrupt_init(&c->interrupt);
	return ret ? complain(c, "signals", strerror(-ret)) : 0;
}

/* ---- registering ---- */

static void on_state(void *arg, struct slime_agent *agent, enum slime_agent_state state, int cause,
		     const char *text)
{
	struct client *c = arg;

	(void)agent;
	(void)state;
	(void)cause;
	pthread_mutex_lock(&c->lock);
	snprintf(c->trouble, sizeof(c->trouble), "%s", text);
	pthread_mutex_unlock(&c->lock);
}

/* Some texts name the server themselves. */
static bool names_a_server(const struct client *c, const char *text)
{
	const struct control_settings *control = &c->settings->control;

	for (size_t i = 0; i < control->n_urls; i++)
		if (!strncmp(text, control->urls[i], strlen(control->urls[i])))
			return true;
	return false;
}

static int complain_of_control(struct client *c, int ret)
{
	const char *url = c->settings->control.urls[0];
	char text[2 * CLIENT_TROUBLE_MAX];

	if (ret != -ETIMEDOUT && ret != -EADDRINUSE)
		return complain(c, url, strerror(-ret));
	pthread_mutex_lock(&c->lock);
	if (names_a_server(c, c->trouble))
		snprintf(text, sizeof(text), "%s", c->trouble);
	else
		snprintf(text, sizeof(text), "%.200s: %s", url,
			 c->trouble[0] ? c->trouble : "no answer");
	pthread_mutex_unlock(&c->lock);
	return complain(c, "not registered with nanoctrl", text);
}

static void set_channels(struct slime_context_attr *attr, uint32_t n)
{
	if (!n)
		return;
	attr->tcp_streams = n;
	attr->rdma_qps = n < QPS_MAX ? n : QPS_MAX;
}

static int create_agent(struct client *c, const char *token)
{
	const struct settings *s = c->settings;
	struct slime_agent_attr attr = SLIME_AGENT_ATTR_INIT;
	char name[AGENT_NAME_ROOM];

	agent_name_make(name);
	attr.name = name;
	attr.scope = s->between.scope;
	attr.urls = s->control.urls;
	attr.n_urls = s->control.n_urls;
	attr.token = token;
	attr.data.polling = (enum slime_polling)s->between.polling;
	attr.data.tcp_bind = s->between.tcp_bind;
	attr.data.rdma_devices = s->between.devices;
	set_channels(&attr.data, (uint32_t)s->between.max_channels);
	attr.on_state = on_state;
	attr.arg = c;
	if (c->settings->between.transport)
		attr.transports[0] = (enum slime_transport)c->settings->between.transport;
	attr.data.rpc_workers = c->role ? c->role->workers : 0;
	return slime_agent_create(&attr, &c->agent);
}

static int start_agent(struct client *c, const char *token)
{
	int ret = create_agent(c, token);

	if (ret)
		return complain(c, "no agent of its own", strerror(-ret));
	ret = c->role ? c->role->prepare(c) : 0;
	if (ret)
		return complain(c, "memory to offer", strerror(-ret));
	ret = interrupt_watch(&c->interrupt, c->agent);
	if (!ret)
		ret = slime_agent_start(c->agent);
	if (!ret)
		ret = slime_agent_wait_ready(c->agent, READY_TIMEOUT_MS);
	return ret ? complain_of_control(c, ret) : 0;
}

/* Over whatever both have: what the measured link takes is between that agent and the peer. */
static int link_to_initiator(struct client *c)
{
	const char *from = c->settings->between.from;
	struct slime_agent_link link = { .to = from, .profile = CLIENT_PROFILE };
	char message[BENCH_MESSAGE_MAX];
	int ret = bench_check_registered(c->agent, from, message);

	if (!ret) {
		ret = slime_agent_link_add(c->agent, &link);
		if (!ret)
			ret = slime_agent_endpoint_get(c->agent, from, CLIENT_PROFILE,
						       LINK_TIMEOUT_MS, &c->from);
		if (ret)
			bench_explain_link(c->agent, from, CLIENT_PROFILE, ret, message);
	}
	if (!ret)
		return 0;
	if (!atomic_load(&c->interrupt.caught))
		fprintf(stderr, "slime-bench: %s\n", message);
	return -1;
}

int client_open(struct client *c)
{
	const char *file = c->settings->control.token_file;
	char token[TOKEN_MAX + 1] = "";
	int ret = file ? cli_secret_read(file, token, sizeof(token)) : 0;

	if (ret)
		return complain(c, file, cli_secret_error(ret));
	ret = start_agent(c, file ? token : NULL);
	explicit_bzero(token, sizeof(token));
	if (!ret && c->settings->between.from)
		ret = link_to_initiator(c);
	return ret;
}

/* How long the load may take; one that goes by iterations says nothing about it. */
static int64_t duration_of(const struct bench_job *job)
{
	int64_t ms = job->kind == BENCH_RPC ? job->rpc.duration_ms : job->transfer.duration_ms;

	return ms ? ms : LOAD_DURATION_MAX_MS;
}

int client_run(struct client *c, const struct bench_job *job, const struct load_control *control,
	       struct bench_result *out, struct load_histogram *latency)
{
	const char *from = c->settings->between.from;
	char message[BENCH_MESSAGE_MAX];
	int ret;

	if (job->kind == BENCH_RPC)
		cli_progress_say(&c->progress, "rpc %" PRIu64 " bytes ...", job->rpc.size);
	else
		cli_progress_say(&c->progress, "%s %" PRIu64 " x %u for %u ms ...",
				 load_op_names[job->transfer.op], job->transfer.block_size,
				 job->transfer.batch_size, job->transfer.duration_ms);
	if (from)
		ret = bench_job_run_at(c->agent, c->from, job, REMOTE_EXTRA_MS + duration_of(job),
				       out, message);
	else
		ret = bench_job_run(c->agent, job, control, out, latency, message);
	cli_progress_clear(&c->progress);
	if (!ret)
		return 0;
	if (!atomic_load(&c->interrupt.caught) && !(control && ret == -EPIPE))
		fprintf(stderr, "slime-bench: %s%s%s\n", from ? from : "", from ? ": " : "",
			message);
	return -1;
}

int client_fini(struct client *c)
{
	int sig = interrupt_fini(&c->interrupt);

	if (c->state) {
		c->role->withdraw(c);
		(void)slime_agent_stop(c->agent, STOP_TIMEOUT_MS);
		if (c->role->fini(c))
			fprintf(stderr, "slime-bench: a peer that stands still keeps the memory\n");
	}
	if (c->from)
		slime_agent_endpoint_put(c->agent, c->from);
	slime_agent_destroy(c->agent);
	return sig;
}

/* ---- serving ---- */

static int serve(struct client *c, const char *what)
{
	int ret = c->role->offer(c);

	if (ret) {
		complain(c, "cannot offer its memory", strerror(-ret));
		return EXIT_FAILURE;
	}
	printf("%s %s until it is interrupted\n", slime_agent_name(c->agent), what);
	fflush(stdout);
	while (!atomic_load(&c->interrupt.caught))
		poll(NULL, 0, 50);
	return EXIT_SUCCESS;
}

int client_interrupted(int sig)
{
	fprintf(stderr, "slime-bench: interrupted\n");
	return 128 + sig;
}

int client_serve(const struct settings *settings, const struct client_role *role, const char *what)
{
	const char *addr = settings->control.discovery_addr;
	struct discovery d = { .dir = "" };
	struct client client;
	int status = EXIT_FAILURE, sig, ret;

	if (client_init(&client, settings))
		return EXIT_FAILURE;
	client.role = role;
	ret = addr ? discovery_start(&d, addr) : 0;
	if (ret)
		complain(&client, "nanoctrl for the discovery address", strerror(-ret));
	if (!ret && !client_open(&client))
		status = serve(&client, what);
	sig = client_fini(&client);
	discovery_stop(&d);
	return sig && status ? client_interrupted(sig) : status;
}
