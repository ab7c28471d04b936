/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lesson 8: a service of your own in peeragent.
 *
 * The method "shout" answers with its request in capitals and the option `mark` behind it. The
 * program has libslime and libslime-agent in it, so the object links neither:
 *
 *	cc -shared -fPIC -o 08-plugin.so 08-plugin.c $(pkg-config --cflags slime-agent)
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <slime/plugin.h>

struct shout {
	const char *mark; /* an option lives until fini */
};

static void shout(void *arg, struct slime_rpc_request *req)
{
	const struct shout *s = arg;
	const char *text = slime_rpc_request_data(req);
	size_t len = slime_rpc_request_len(req);
	size_t mark_len = strlen(s->mark);
	char *reply = slime_rpc_reply_buffer(req, len + mark_len);

	if (!reply) {
		slime_rpc_reply_error(req, 1, "no room for the reply");
		return;
	}
	for (size_t i = 0; i < len; i++)
		reply[i] = (char)toupper((unsigned char)text[i]);
	memcpy(reply + len, s->mark, mark_len);
	slime_rpc_reply_commit(req, len + mark_len);
}

/* Also where the file is only checked: the error names the option. */
static const char *shout_check(const struct slime_plugin_option *options, size_t n, size_t *index)
{
	for (*index = 0; *index < n; ++*index) {
		if (strcmp(options[*index].key, "mark"))
			return "mark";
	}
	return NULL;
}

static int shout_init(struct slime_agent *agent, const struct slime_plugin_option *options,
		      size_t n, void **state)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;
	struct shout *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->mark = n ? options[0].value : "";
	attr.fn = shout;
	attr.arg = s;
	ret = slime_agent_method_add(agent, "shout", &attr);
	if (ret) {
		free(s);
		return ret;
	}
	*state = s;
	return 0;
}

/* No handler runs any more. */
static void shout_fini(void *state)
{
	free(state);
}

const struct slime_plugin slime_plugin = {
	SLIME_PLUGIN_HEAD,  .name = "shout",	  .init = shout_init,
	.fini = shout_fini, .check = shout_check,
};
