/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of nanoctrl: its configuration file and its command line. */
#ifndef NANOCTRL_SETTINGS_H
#define NANOCTRL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include "cli/options/option.h"

#define SERVER_PORT 3000 /* the default of server.port */

/* The clients to which routes of other projects are served. */
enum compat_service { COMPAT_OFF, COMPAT_LOOPBACK, COMPAT_OPEN };

struct server_settings {
	const char *host;
	uint16_t port;
	uint16_t second_port; /* 0: none */
	bool insecure;
	const char *const *names; /* beside its addresses and localhost */
	size_t n_names;
	int compat;
	int mooncake;
	int64_t threads; /* below 1: one per core but one, at least 1 and at most 4 */
	int64_t busy_poll_ns;
	int64_t max_connections;
	uint64_t max_body;
	uint64_t max_list;
	uint64_t max_queue;
	int64_t idle_ms, request_ms, stall_ms;
	int64_t tick_ms, session_age_ms;
	int64_t drain_accept_ms, drain_ms;
};

struct redis_settings {
	const char *url; /* NULL: a private one */
	const char *program;
	const char *data_dir;
	const char *advertise;	    /* [redis://]HOST:PORT for others; NULL: as the URL says */
	const char *public_address; /* for those elsewhere; NULL: an address of this host */
	int64_t compat_port;	    /* of the private one, for DLSlime's agents; or as below */
	uint64_t max_memory;	    /* of the private one; 0: no limit */
	int64_t timeout_ms;
	int64_t max_inflight;
};

/* The words for a compat_port that is no port. */
enum { REDIS_COMPAT_OFF = -1, REDIS_COMPAT_AUTO = -2 };

struct lease_settings {
	int64_t ttl_ms, beat_ms, grace_ms, max_objects;
};

struct events_settings {
	int64_t keep, keep_ms;
};

struct log_settings {
	int level;
	int format;
	bool access;
};

/* nanoctrl.yaml */
struct settings {
	int64_t version;
	struct server_settings server;
	struct redis_settings redis;
	struct lease_settings lease;
	struct events_settings events;
	struct log_settings log;
};

/* describe has the first two. */
enum output_form { OUTPUT_YAML, OUTPUT_JSON, OUTPUT_TABLE, OUTPUT_WIDE };

/* The command line beside it. */
struct options {
	const char *config;
	const char *runtime_dir;
	const char *log_file;
	int64_t wait_ms;
	int64_t timeout_ms;
	bool force;
	const char *health_host; /* NULL: as it listens */
	uint16_t health_port;	 /* 0: as it listens */
	const char *address;
	const char *scope; /* NULL: none is named */
	int64_t links_wait_ms;
	const char *topology; /* NULL: none is named */
	int64_t stale_ms;
	int64_t every_ms;
	int64_t times;
	bool json;
	bool rails;
	bool dry_run;
	bool prune;
	const char *file;
	bool all_scopes;
	const char *selector; /* of labels; NULL: all */
	const char *agent;    /* NULL: of any */
	const char *state;    /* NULL: any */
	bool watch;
	int output; /* enum output_form */
};

/* The value of --address as a URL: HOST:PORT alone is http, as DLSlime's commands take it.
 * -ENAMETOOLONG. */
#define OPTIONS_ADDRESS_MAX 320
int options_address(const char *text, char out[OPTIONS_ADDRESS_MAX]);

extern const struct cli_setting settings_table[];
extern const struct cli_program nanoctrl_program;

#endif
