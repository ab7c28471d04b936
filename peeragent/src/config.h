/* SPDX-License-Identifier: Apache-2.0 */
/* The node's file, as structs. The tables in config.c are the reference of what it may say. */
#ifndef PEERAGENT_CONFIG_H
#define PEERAGENT_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/options/config.h"
#include <slime/agent.h>

struct node_region {
	const char *name;
	uint64_t size;
	int backing;
	int huge_pages;
	int64_t numa; /* below 0: a word of the table */
	const int *access;
	size_t n_access;
	const char *const *allow;
	size_t n_allow;
	bool on_demand;
	const char *gpu;
};

struct node_link {
	const char *to;
	const char *profile;
	const int *transports;
	size_t n_transports;
	int64_t qps;   /* below 0: data.rdma.qps_per_rail */
	int64_t rails; /* below 0: all */
	const char *const *devices;
	size_t n_devices;
	const char *const *peer_devices;
	size_t n_peer_devices;
	const char *min_bandwidth;
	const char *max_bandwidth;
};

struct node_service {
	const char *name;
	const char *plugin;
	const struct cli_pair *options;
	size_t n_options;
};

struct node_agent {
	const char *name;
	const char *scope;
	const char *address;
	const char *state_dir;
	const struct cli_pair *labels;
	size_t n_labels;
};

struct node_control {
	const char *url;
	const char *const *urls;
	size_t n_urls;
	const char *token_file;
	int64_t snapshots_ms;
};

struct node_shm {
	int foreign_memory; /* enum slime_foreign */
	const char *users;
};

struct node_rdma {
	const char *const *devices;
	size_t n_devices;
	int pair;	   /* enum slime_rdma_pair */
	int64_t gid_index; /* below 0: auto */
	int64_t qps_per_rail;
	int64_t timeout;
	int64_t retry_count;
	int64_t rnr_retry;
	int64_t min_rnr_timer;
	int64_t service_level;
	int64_t traffic_class;
	int64_t hop_limit;
	int64_t pkey_index;
	int64_t flow_label;
};

struct node_tcp {
	const char *bind;
	const char *port;
	const char *advertise;
	int64_t streams;
	int64_t user_timeout_ms;
};

struct node_data {
	const int *transports;
	size_t n_transports;
	int polling;
	int64_t cpu;
	int64_t connect_timeout_ms;
	int64_t retry_min_ms;
	int64_t retry_max_ms;
	int64_t max_links;
	int64_t workers;
	const char *max_bandwidth;
	struct node_shm shm;
	struct node_rdma rdma;
	struct node_tcp tcp;
};

struct node_metrics {
	const char *listen;
};

struct node_log {
	const char *file;
	int format;
	int level;
};

struct node {
	int64_t version;
	struct node_agent agent;
	struct node_control control;
	struct node_data data;
	struct node_region *regions;
	size_t n_regions;
	struct node_link *links;
	size_t n_links;
	struct node_service *services;
	size_t n_services;
	struct node_metrics metrics;
	struct node_log log;
};

extern const struct cli_setting node_settings[];
extern const struct cli_setting rdma_settings[]; /* of its part data.rdma */

/* Takes one line on what is wrong with a file. */
typedef void config_say_fn(const char *line);

/* One reading of the file and of what the command line says over it. */
struct config {
	struct cli_config *source; /* owns every string */
	config_say_fn *say;
	struct node node;
	char *token;
	char state_dir[PATH_MAX], log_file[PATH_MAX]; /* of a service manager */
	char host[HOST_NAME_MAX + 1];		      /* in the place of agent.name */
	char tcp_bind[46];	      /* the address that was found for data.tcp.bind */
	struct slime_agent_attr attr; /* points into the config */
	struct slime_label *labels;
	struct slime_agent_region *regions;
	struct slime_agent_link *links;
	const char *url; /* control.url as a list */
	char *rdma_devices;
	char **link_ports; /* lists of ports, two for each link; NULL: none */
};

/* Read, check, convert. -EINVAL after the errors were said, -ENOMEM. */
int config_create(const char *file, const struct cli_args *args, config_say_fn *say,
		  struct config **out);
void config_destroy(struct config *config);

/* In the order of the words of regions[].backing. */
enum node_backing { NODE_BACKING_MEMFD, NODE_BACKING_CUDA };

/* The settings under data.rdma, into the attributes. -ENOMEM. */
int config_set_rdma(struct config *config);
/* What link i asks of rdma. 0 or -ENOMEM. */
int config_set_link(struct config *config, size_t i);
/* Whether the text is a port of an RDMA device, a bandwidth: NULL, or what is expected. */
const char *config_expects_port(const char *text);
const char *config_expects_bandwidth(const char *text);
bool config_same_rdma(const struct slime_context_attr *a, const struct slime_context_attr *b);

/* data.tcp.bind as an address, into the attributes. */
void config_set_bind(struct config *config);

/* Refuse what the tables cannot; the errors are in config->source. Nothing is left behind. */
void config_check(struct config *config);

/* Its parts: of data.rdma; of regions, beside the topology's own check; and whether there is an
 * RDMA device for the region with the key at path, paging: one that pages it. */
void config_check_rdma(struct config *config);
void config_check_regions(struct config *config);
void config_check_device(struct config *config, const char *path, bool paging);

/* Whether a link may take this transport: data.transports names it, or a link's own list. */
bool config_uses(const struct config *config, enum slime_transport transport);

/* Settings that the file may have, but hardly means: one line for each. */
void config_warn(const struct config *config, config_say_fn *say);

/* -EINVAL when there are errors in config->source, which are said. */
int config_errors(const struct config *config);

/* The setting that differs between these two and cannot be changed while the agent runs: its key,
 * or NULL. */
const char *config_needs_restart(const struct config *have, const struct config *want);

/* "address:port" of `metrics.listen` and the like, "[::1]:80" for IPv6. The address is cut out into
 * host. -EINVAL. */
int config_split_listen(const char *listen, char *host, size_t host_len, uint16_t *port);

/* "47000" or "47000-47099" of `data.tcp.port`; *last is 0 where there is one port alone. -EINVAL.
 */
int config_split_ports(const char *text, uint16_t *first, uint16_t *last);

#endif
