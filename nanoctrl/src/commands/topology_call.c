/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/topology_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int topology_call_open(struct topology_call *c, const struct settings *settings,
		       const struct options *options, const struct runtime *rt)
{
	*c = (struct topology_call){ .text = NULL };
	if (obs_source_open(settings, options, rt, &c->source))
		return -EINVAL;
	if (obs_source_client(c->source))
		return 0;
	obs_source_complain(c->source, "topologies are asked of a server: --address names one");
	topology_call_close(c);
	return -EINVAL;
}

void topology_call_close(struct topology_call *c)
{
	free(c->text);
	c->text = NULL;
	obs_source_close(c->source);
	c->source = NULL;
}

static void on_answer(void *arg, const struct nc_error *error, const char *text, size_t len)
{
	struct topology_call *c = arg;

	if (error)
		c->error = *error;
	else
		c->text = strndup(text, len);
	if (!error && !c->text)
		c->error.err = -ENOMEM;
	c->answer = (struct json_slice){ c->text, c->text ? len : 0 };
	obs_source_done(c->source, &c->done);
}

static void begin(struct topology_call *c)
{
	free(c->text);
	c->text = NULL;
	c->done = false;
	c->error = (struct nc_error){ .err = 0 };
}

static int await(struct topology_call *c, int ret)
{
	if (ret)
		c->error.err = ret;
	else
		obs_source_await(c->source, &c->done);
	return c->error.err;
}

int topology_call_list(struct topology_call *c)
{
	begin(c);
	return await(c, nc_list_topologies(obs_source_client(c->source), on_answer, c));
}

int topology_call_apply(struct topology_call *c, const struct nc_apply *apply)
{
	begin(c);
	return await(c, nc_apply_topologies(obs_source_client(c->source), apply, on_answer, c));
}

int topology_call_delete(struct topology_call *c, const char *name, uint64_t revision)
{
	begin(c);
	return await(
		c, nc_delete_topology(obs_source_client(c->source), name, revision, on_answer, c));
}

void topology_call_complain(const struct topology_call *c)
{
	const char *message = *c->error.message ? c->error.message : strerror(-c->error.err);

	if (!strcmp(c->error.code, "stale"))
		message = "another client changed topologies of the scope meanwhile: nothing was "
			  "changed; look at it and try again";
	obs_source_complain(c->source, message);
}
