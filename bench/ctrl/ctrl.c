/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ctrl/publications.h"
#include "bench/ctrl/crash.h"
#include "bench/ctrl/ctrl.h"
#include "bench/ctrl/sessions.h"
#include "bench/ctrl/load.h"
#include "bench/ctrl/mesh.h"
#include "bench/ctrl/topology.h"
#include "cli/output/progress.h"
#include "cli/options/secret.h"

#define TOKEN_MAX 4096

const char *const ctrl_op_names[] = { "register", "heartbeat", "lookup", "rendezvous",
				      "topology", "hold",      "crash",	 NULL };

static bool wants(const struct ctrl_settings *s, enum ctrl_op op)
{
	for (size_t i = 0; i < s->n_ops; i++)
		if (s->ops[i] == (int)op)
			return true;
	return false;
}

static int publish(struct crowd *c, enum ctrl_op op, const struct ctrl_settings *s)
{
	if (op != CTRL_CRASH)
		return 0;
	return publications_make(c, (size_t)s->killed, (size_t)s->regions, (size_t)s->links);
}

/* Registered, and in session where that is what it takes. What is published before there are
 * sessions is news to none of them. */
static int prepare(struct crowd *c, enum ctrl_op op, const struct ctrl_settings *s)
{
	if (op >= CTRL_RENDEZVOUS && c->agents[0].in_session)
		return publish(c, op, s);
	if (crowd_register(c))
		return -1;
	if (op != CTRL_REGISTER)
		crowd_keep(c);
	if (publish(c, op, s))
		return -1;
	if (op >= CTRL_RENDEZVOUS)
		return crowd_open_sessions(c);
	return 0;
}

/* The mesh that a topology wants: until each agent knows, and until all could connect. */
static int measure_topology(struct crowd *c, const struct ctrl_settings *s, struct ctrl_row *rows)
{
	int ret = mesh_topology_run(c, &rows[0]);

	if (!ret)
		ret = mesh_run(c, (size_t)s->inflight, 2, &rows[1], &rows[2]);
	return ret ? ret : mesh_topology_drop(c);
}

static int measure_op(struct crowd *c, enum ctrl_op op, const struct ctrl_settings *s,
		      struct ctrl_row *rows)
{
	switch (op) {
	case CTRL_RENDEZVOUS:
		return mesh_run(c, (size_t)s->inflight, 1, &rows[0], &rows[1]);
	case CTRL_TOPOLOGY:
		return measure_topology(c, s, rows);
	case CTRL_HOLD:
		return sessions_run(c, s->duration_ms, &rows[0]);
	case CTRL_CRASH:
		return crash_run(c, (size_t)s->killed, &rows[0]);
	default:
		return load_run(c, op, s, &rows[0]);
	}
}

static int measure_all(struct crowd *c, const struct ctrl_settings *s, struct ctrl_result *out)
{
	struct cli_progress progress;
	int ret = 0;

	cli_progress_init(&progress, stderr);
	for (enum ctrl_op op = CTRL_REGISTER; op < CTRL_N_OPS && !ret; op++) {
		if (!wants(s, op))
			continue;
		cli_progress_say(&progress, "%s ...", ctrl_op_names[op]);
		ret = prepare(c, op, s);
		if (!ret)
			ret = measure_op(c, op, s, &out->rows[out->n_rows]);
		cli_progress_clear(&progress);
		if (!ret)
			out->n_rows += op == CTRL_RENDEZVOUS ? 2 : op == CTRL_TOPOLOGY ? 3 : 1;
	}
	return ret;
}

static int measure_with(const struct settings *settings, const char *token, struct ctrl_result *out)
{
	struct crowd c;
	int ret = crowd_init(&c, settings, token);

	if (!ret)
		ret = measure_all(&c, &settings->ctrl, out);
	crowd_leave(&c);
	crowd_fini(&c);
	if (c.caught)
		fprintf(stderr, "slime-bench: interrupted\n");
	return c.caught ? 128 + c.caught : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

int ctrl_measure(const struct settings *settings, struct ctrl_result *out)
{
	const char *file = settings->control.token_file;
	char token[TOKEN_MAX + 1] = "";
	int ret = file ? cli_secret_read(file, token, sizeof(token)) : 0;

	out->settings = settings;
	out->n_rows = 0;
	if (ret) {
		fprintf(stderr, "slime-bench: %s: %s\n", file, cli_secret_error(ret));
		return EXIT_FAILURE;
	}
	ret = measure_with(settings, file ? token : NULL, out);
	explicit_bzero(token, sizeof(token));
	return ret;
}
