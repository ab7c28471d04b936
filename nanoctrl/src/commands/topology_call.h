/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about topologies, each made and waited for. */
#ifndef NANOCTRL_TOPOLOGY_CALL_H
#define NANOCTRL_TOPOLOGY_CALL_H

#include "commands/obs_source.h"
#include "nanoctrl/client/nanoctrl_client.h"

struct topology_call {
	struct obs_source *source;
	bool done;
	struct nc_error error; /* err is 0 when it succeeded */
	char *text;	       /* the answer */
	struct json_slice answer;
};

/* Of a scope, NULL: the options'. What is wrong is said on standard error; -EINVAL. */
int topology_call_open(struct topology_call *c, const struct settings *settings,
		       const struct options *options, const struct runtime *rt);
void topology_call_close(struct topology_call *c);

/* 0, or error.err. */
int topology_call_list(struct topology_call *c);
int topology_call_apply(struct topology_call *c, const struct nc_apply *apply);
int topology_call_delete(struct topology_call *c, const char *name, uint64_t revision);

/* Says on standard error why the last one failed. */
void topology_call_complain(const struct topology_call *c);

#endif
