/* SPDX-License-Identifier: Apache-2.0 */
#include "server/config.h"

#include <limits.h>
#include <sched.h>
#include "server/compat.h"

#define OWN_DESCRIPTORS	 32 /* the log, the pid file, listeners, the private Redis */
#define LOOP_DESCRIPTORS 8  /* its poller, its eventfd, Redis, the server that names its address */

struct store_config serve_store_config(const struct settings *s)
{
	struct store_config config = STORE_CONFIG_INIT;

	config.url = s->redis.url;
	/* Without these routes no client is told. */
	if (s->server.compat != COMPAT_OFF) {
		config.advertise = s->redis.advertise;
		config.public_address = s->redis.public_address;
	}
	config.ttl_ms = (uint32_t)s->lease.ttl_ms;
	config.beat_ms = (uint32_t)s->lease.beat_ms;
	config.grace_ms = (uint32_t)s->lease.grace_ms;
	config.max_objects = (uint32_t)s->lease.max_objects;
	config.timeout_ms = (uint32_t)s->redis.timeout_ms;
	config.max_inflight = (uint32_t)s->redis.max_inflight;
	config.keep_events = (uint32_t)s->events.keep;
	config.keep_ms = (uint32_t)s->events.keep_ms;
	config.max_list = s->server.max_list;
	config.compat = compat.store;
	return config;
}

/* By themselves they leave a CPU to Redis, which has work for one whenever they have. */
static unsigned choose_threads(int64_t wanted)
{
	cpu_set_t cpus;

	if (wanted > 0)
		return (unsigned)wanted;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) > 4)
		return 4;
	return CPU_COUNT(&cpus) > 1 ? (unsigned)CPU_COUNT(&cpus) - 1 : 1;
}

struct server_config serve_server_config(const struct settings *settings,
					 struct route table[ROUTES_MAX])
{
	const struct server_settings *s = &settings->server;
	struct server_config config = SERVER_CONFIG_INIT;

	config.host = s->host;
	config.port = s->port;
	config.names = s->names;
	config.n_names = s->n_names;
	config.second_port = s->second_port;
	config.n_loops = choose_threads(s->threads);
	config.busy_poll_ns = (uint64_t)s->busy_poll_ns;
	config.routes = table;
	config.n_routes = routes_fill(table, s, &config.n_local);
	config.limits.body_bytes = s->max_body;
	config.max_connections = (unsigned)s->max_connections;
	config.stream_queue = s->max_queue;
	config.idle_ms = (unsigned)s->idle_ms;
	config.request_ms = (unsigned)s->request_ms;
	config.stall_ms = (unsigned)s->stall_ms;
	config.tick_ms = (unsigned)s->tick_ms;
	config.stream_age_ms = (unsigned)s->session_age_ms;
	config.drain_accept_ms = (unsigned)s->drain_accept_ms;
	config.drain_ms = (unsigned)s->drain_ms;
	config.access_log = settings->log.access;
	if (config.body_memory < 4 * config.limits.body_bytes)
		config.body_memory = 4 * config.limits.body_bytes;
	return config;
}

unsigned serve_connections(uint64_t descriptors, unsigned n_loops)
{
	uint64_t own = OWN_DESCRIPTORS + LOOP_DESCRIPTORS * (uint64_t)n_loops;
	uint64_t left = descriptors > 2 * own ? descriptors - own : descriptors / 2;

	return left < UINT_MAX ? (unsigned)left : UINT_MAX;
}

struct cli_log_attr serve_log_attr(const struct settings *s, const char *file)
{
	return (struct cli_log_attr){
		.file = file,
		.format = s->log.format,
		.level = (enum slime_log_level)s->log.level,
		.queued = "access", /* as request.c and reply.c name it */
	};
}
