/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service in a shared object, for the peeragent program. The object defines the one symbol
 * slime_plugin and links neither libslime nor libslime-agent: the program exports both. The node's
 * file names it:
 *
 *	services: [ { plugin: ./libmine.so } ]
 *
 *	const struct slime_plugin slime_plugin = {
 *		SLIME_PLUGIN_HEAD, .name = "mine", .init = mine_init, .fini = mine_fini,
 *	};
 *
 * The program calls, on its main thread and in this order: init, before the agent starts; start,
 * when it is ready for the first time; stop, before it leaves; fini, when its links are closed. The
 * object is unloaded after the agent is destroyed.
 */
#ifndef SLIME_PLUGIN_H
#define SLIME_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/agent.h>

SLIME_BEGIN_DECLS

/* Raised when a plugin built for the version before would not work any more. */
#define SLIME_PLUGIN_ABI 1

/* What stands under `options` of the service. */
struct slime_plugin_option {
	const char *key;
	const char *value;
};

/* One series of GET /metrics. Those of one name follow each other. */
struct slime_plugin_figure {
	const char *name;   /* as Prometheus wants it, "mine_pages" */
	const char *help;   /* one line */
	const char *labels; /* "", or "tenant=\"a\"", whose values need no escapes */
	bool counts;	    /* a counter; false: a gauge */
	uint64_t value;
};

typedef void slime_plugin_figure_fn(void *arg, const struct slime_plugin_figure *figure);

struct slime_plugin {
	uint32_t abi;	  /* SLIME_PLUGIN_ABI */
	uint32_t size;	  /* of this struct: a later version may add members at its end */
	const char *name; /* announced in the registration, and used in log lines */

	/*
	 * Add methods with slime_agent_method_add(); options live until fini. The other calls
	 * get the value of *state. A negative errno stops the program.
	 */
	int (*init)(struct slime_agent *agent, const struct slime_plugin_option *options,
		    size_t n_options, void **state);

	/* The agent is registered and its regions exist. Its lease is not extended meanwhile: do
	 * work of seconds in init. May be NULL. An error stops the program. */
	int (*start)(void *state);

	/*
	 * Tell threads to end, put endpoints back; from here on handlers only refuse. The program
	 * calls it on a thread of its own while the agent's loop runs: it may call the agent, and
	 * wait for threads that do. May be NULL.
	 */
	void (*stop)(void *state);

	/* Free everything, also regions, ops and calls in the agent's context: no handler runs any
	 * more. Called whenever init succeeded. May be NULL. */
	void (*fini)(void *state);

	/*
	 * What was expected in place of options[*index], for people; NULL when all of them are
	 * fine. Called before init, and where the file is checked and nothing is started: without
	 * an agent. May be NULL.
	 */
	const char *(*check)(const struct slime_plugin_option *options, size_t n_options,
			     size_t *index);

	/*
	 * The program is to end, and init has not returned: it gives up what takes long, frees what
	 * it has and returns -ECANCELED. Called at most once, on another thread, perhaps before
	 * init begins or as it returns. May be NULL: the end waits for init.
	 */
	void (*cancel)(void);

	/*
	 * So many of its handlers may run for long at one time, as those do that wait for calls of
	 * their own to other agents: the program has as many threads for handlers more than the
	 * node's file says, so that the others have theirs. At most 64.
	 */
	uint32_t workers;

	/*
	 * For GET /metrics: call add with arg for each figure. Between init and stop, on the
	 * agent's loop: it does not wait. May be NULL.
	 */
	void (*figures)(void *state, slime_plugin_figure_fn *add, void *arg);
};

#define SLIME_PLUGIN_HEAD .abi = SLIME_PLUGIN_ABI, .size = sizeof(struct slime_plugin)

/* Defined by the plugin. */
SLIME_API extern const struct slime_plugin slime_plugin;

SLIME_END_DECLS

#endif
