/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/scopes.h"

#include <errno.h>
#include <string.h>

#include "commands/rows.h"
#include "server/settings.h"

static int connect_and_call(const struct settings *settings, const struct options *options,
			    const struct runtime *rt, scopes_fn *fn, void *arg)
{
	const char *scope = options->scope && *options->scope ? options->scope : "default";
	struct obs_source *source;
	char why[320] = "";
	int ret;

	if (obs_source_open(settings, options, rt, &source))
		return -EINVAL;
	if (obs_source_client(source)) {
		ret = fn(arg, source, scope, why, sizeof(why));
		if (ret)
			obs_source_complain(source, *why ? why : strerror(-ret));
	} else {
		obs_source_complain(source, "this is asked of a server: --address names one");
		ret = -EINVAL;
	}
	obs_source_close(source);
	return ret;
}

static int read_scopes(void *arg, struct obs_source *source, const char *scope, char *why,
		       size_t room)
{
	struct rows_query query = { .kind = kind_find("scopes"), .scope = "" };

	(void)scope;
	return rows_read(arg, source, &query, why, room);
}

int scopes_each(const struct settings *settings, const struct options *options,
		const struct runtime *rt, scopes_fn *fn, void *arg)
{
	struct options ours = *options;
	struct rows scopes = { .n = 0 };
	char name[OBS_TEXT];
	int ret;

	if (!options->all_scopes)
		return connect_and_call(settings, options, rt, fn, arg);
	ret = connect_and_call(settings, options, rt, read_scopes, &scopes);
	for (size_t i = 0; i < scopes.n && !ret; i++) {
		obs_text(scopes.at[i].doc, "name", name, sizeof(name));
		ours.scope = name;
		ret = connect_and_call(settings, &ours, rt, fn, arg);
	}
	rows_clear(&scopes);
	return ret;
}
