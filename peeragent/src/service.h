/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC services of the node: echo, and plugins (slime/plugin.h). */
#ifndef PEERAGENT_SERVICE_H
#define PEERAGENT_SERVICE_H

#include <stdbool.h>

#include "peeragent/src/canceller.h"
#include "peeragent/src/config.h"
#include <slime/plugin.h>

struct service {
	const struct slime_plugin *plugin;
	void *object; /* of dlopen; NULL: built in */
	void *state;
	bool initialised;
	bool started;
};

struct services {
	struct service *list;
	size_t n;
	bool stopping; /* no figures any more; of the loop */
};

/* Load what the file names; nothing of it runs but its own check of its options. -EINVAL after the
 * errors were printed to standard error, with their places in the file; -ENOMEM. To be unloaded in
 * any case. */
int services_load(struct services *s, struct config *config);

/* Add what was loaded to the agent, which has not been started. What an init said is logged.
 * -ECANCELED when a signal to end came meanwhile. */
int services_init(struct services *s, const struct node *node, struct slime_agent *agent,
		  struct canceller *c);

/* The threads for handlers that they need beside those of the file. */
uint32_t services_workers(const struct services *s);

/* The agent is ready for the first time. An error is logged. */
int services_start(struct services *s);

/* The lines of services for GET /metrics. */
void services_figures(const struct services *s, slime_plugin_figure_fn *add, void *arg);

/* Before the agent leaves, on any thread; then, when its links are closed; then, when it is
 * destroyed. */
void services_stop(struct services *s);
void services_fini(struct services *s);
void services_unload(struct services *s);

/* The echo service. */
extern const struct slime_plugin echo_service;

#endif
