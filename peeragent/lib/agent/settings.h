/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of an agent: checked, and copied with everything they point to. */
#ifndef AGENT_SETTINGS_H
#define AGENT_SETTINGS_H

#include <slime/agent.h>

#define SETTINGS_MAX_URLS  16
#define SETTINGS_MAX_TEXTS (SETTINGS_MAX_URLS + 8)

struct settings {
	struct slime_agent_attr attr; /* points into what follows */
	const char *urls[SETTINGS_MAX_URLS];
	char *texts[SETTINGS_MAX_TEXTS];
	size_t n_texts;
	struct slime_topology *topology;
};

/* Defaults are filled in; attr.data is as it was given. -EINVAL after a log line that names the
 * value, -ENOMEM. */
int settings_init(struct settings *s, const struct slime_agent_attr *from);
void settings_fini(struct settings *s);

#endif
