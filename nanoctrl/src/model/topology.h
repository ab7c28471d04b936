/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topologies as JSON (docs/http-api.md, "Topologies"): what a body says, what applying it changes,
 * and what agents and people are told of an expansion. As in model.h texts in a parsed struct
 * belong to it until its fini, and writers return a malloc()ed string or NULL.
 */
#ifndef NANOCTRL_MODEL_TOPOLOGY_H
#define NANOCTRL_MODEL_TOPOLOGY_H

#include "model/model.h"
#include "topology/expand.h"

struct model_topology {
	void *root;	   /* the JSON document */
	const char *scope; /* that it names; NULL */
	struct topology topology;
};

/* One topology. 0, or -EINVAL or -ENOMEM with *err. */
int model_parse_topology(const char *body, size_t len, struct model_topology *out,
			 struct model_error *err);
void model_topology_fini(struct model_topology *m);

/* "64GiB", "4096" */
bool model_size(const char *text, uint64_t *out);

struct json_path;

/* The same of the object at p, which has to outlive *out; root stays NULL. */
int model_topology_read(const struct json_path *p, struct model_topology *out);

/* The result of applying a body. */
struct model_change {
	size_t n; /* topologies to be written; 0: nothing changes */
	struct model_put {
		const char *name;
		char *doc;
	} * puts;
	char *summary; /* an array as JSON: what becomes of each topology */
	void *roots;   /* of the texts */
};

struct model_apply {
	const char *scope;
	const char *name; /* the body is this topology; NULL: it is a list of several */
	bool force;	  /* take links over that another topology names */
	bool prune;	  /* wishes that the body does not have any more go */
};

/* 0; -EINVAL with *err, of which 409 "conflict" names the other topology; -ENOMEM with *err. */
int model_apply(const struct model_apply *how, const struct store_topologies *have,
		const char *body, size_t len, struct model_change *out, struct model_error *err);
void model_change_fini(struct model_change *c);

/* {"status":"ok","revision":N,"topologies":[...]} and the same of one, NULL when it is not there.
 */
char *model_topologies(const char *scope, const struct store_topologies *t);
char *model_topology(const char *scope, const struct store_topologies *t, const char *name);

/* Labels of an agent, as they are stored, as pairs; what is none is left out. *memory is what holds
 * them, for json_decref() by model_labels_fini(). -ENOMEM. */
int model_labels(struct store_text labels, struct topology_label **out, size_t *n, void **memory);
void model_labels_fini(struct topology_label *labels, void *memory);

/* The links of one agent, as the list that it reads: an array. */
char *model_wanted_list(const char *agent, const struct expanded_link *const *links, size_t n);

/* Links of such lists, whose topology is found by name among n; others are left out. *memory for
 * model_links_fini(). -ENOMEM. */
int model_wanted_links(const struct store_wanted *lists, size_t n_lists,
		       const struct topology *topologies, size_t n, struct expanded_link **out,
		       size_t *n_out, void **memory);
void model_links_fini(struct expanded_link *links, void *memory);

/* A batch of the lists of all agents. */
char *model_wanted_lists(const char *scope, const struct store_wanted *lists, size_t n,
			 const char *next);

/* The result of a topology of this revision. */
char *model_topology_report(const struct expanded_topology *t, uint64_t revision);

/* The answer to an agent that reads its list: a part of it, and where the next one begins. */
char *model_wanted(const struct store_wanted *w, uint64_t from, uint64_t limit);

#endif
