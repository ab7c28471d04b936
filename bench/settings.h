/* SPDX-License-Identifier: Apache-2.0 */
/* What a user can say to slime-bench: its configuration file and its command line. */
#ifndef BENCH_SETTINGS_H
#define BENCH_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options/config.h"

struct control_settings {
	const char *const *urls;
	size_t n_urls;
	const char *token_file;
	const char *discovery_addr; /* in place of the URLs; NULL: none */
};

struct between_settings {
	const char *scope;
	const char *from; /* NULL: this process */
	const char *const *peers;
	size_t n_peers;
	int transport;	      /* enum slime_transport */
	int polling;	      /* enum slime_polling */
	const char *tcp_bind; /* of the ephemeral agent */
	const char *devices;  /* of it, as rails; NULL: the first that can be used */
	int64_t max_channels; /* queue pairs of a rail, or streams of tcp; 0: as they come */
	int64_t threads;
};

struct rpc_settings {
	const uint64_t *sizes;
	size_t n_sizes;
	int64_t iterations;
	int64_t duration_ms;
	int64_t inflight;
	const int *baselines; /* from enum system, without ourselves: 0 is the first after us */
	size_t n_baselines;
	const char *results;
	const char *programs;
};

struct transfer_settings {
	int op; /* enum load_op */
	const char *region;
	bool overwrite;
	const uint64_t *block_sizes;
	size_t n_block_sizes;
	int64_t batch_size;
	int64_t duration_ms;
	int64_t qps;
	int64_t processes; /* for each peer */
	int64_t targets;   /* without peers by name: how many to wait for */
	uint64_t size;	   /* of a target's regions */
};

struct ctrl_settings {
	const int *ops; /* enum ctrl_op */
	size_t n_ops;
	int64_t agents;
	int64_t duration_ms;
	int64_t rate;
	int64_t killed;
	int64_t regions, links; /* of each that is killed */
	int64_t inflight;
	const char *baseline; /* NULL: ours alone */
};

struct page_settings {
	int op;	    /* enum page_op */
	int layout; /* enum page_layout */
	int verify; /* enum slime_pages_verify */
	uint64_t page_size;
	uint64_t memory; /* of an owner; 0: what the working set takes */
	int64_t working_set;
	int64_t batch_size;
	const uint64_t *concurrencies;
	size_t n_concurrencies;
	int64_t duration_ms, warmup_ms, dir_cache_ttl_ms;
	int64_t hit_percent;
	int64_t owners;
	int64_t replicas;
	int64_t processes;
	int64_t readers; /* of all hosts; 0: not waited for */
	bool machine;
	const char *tenant;
	bool check_all;
	bool gpu;
};

/* The file. */
struct settings {
	int64_t version;
	struct control_settings control;
	struct between_settings between;
	struct rpc_settings rpc;
	struct transfer_settings transfer;
	struct ctrl_settings ctrl;
	struct page_settings page;
};

/* The command line beside it. */
struct options {
	const char *config;
	bool json;
	bool csv;
	bool watch;
	const char *sysfs; /* NULL: this host's */
};

extern const struct cli_program bench_program;

/*
 * Read the file and what the command line says over it, and check it for the command. Strings in
 * out are the configuration's. 0, -ENOMEM, or -EINVAL after the errors were printed.
 */
int settings_read(struct cli_config *config, const struct options *options,
		  const struct cli_args *args, struct settings *out);

#endif
