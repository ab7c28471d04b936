/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/service.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "peeragent/lib/plan/topology.h"

/* The fields that a plugin of the first release has. */
#define PLUGIN_SIZE_MIN	   offsetof(struct slime_plugin, check)
#define PLUGIN_WORKERS_MAX 64

/* A plugin of an earlier release ends before what was added since. */
#define HAS(p, member) \
	((p)->size >= offsetof(struct slime_plugin, member) + sizeof((p)->member) && (p)->member)

/* Why a service cannot be had, for people. */
struct why {
	char text[512];
};

static int refuse(struct why *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(struct why *why, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, args);
	va_end(args);
	return -EINVAL;
}

/* Services of ours that are shared objects lie beside the programs: from bin/ to lib/slime/. */
static int path_of_name(const char *name, char *path, size_t len)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	if (strchr(name, '/') ||
	    (size_t)snprintf(path, len, "%s/" PEERAGENT_BIN_TO_SERVICES "/%s.so", self, name) >=
		    len)
		return -ENOENT;
	return access(path, R_OK) ? -ENOENT : 0;
}

static int check_plugin(const struct slime_plugin *p, const char *path, struct why *why)
{
	if (!p)
		return refuse(why, "%s: no plugin: it does not define slime_plugin", path);
	if (p->abi != SLIME_PLUGIN_ABI || p->size < PLUGIN_SIZE_MIN)
		return refuse(why, "%s: a plugin of ABI %u with %u bytes; expected %d and %zu",
			      path, p->abi, p->size, SLIME_PLUGIN_ABI, PLUGIN_SIZE_MIN);
	if (!p->init || !topology_is_name(p->name, SLIME_AGENT_NAME_MAX))
		return refuse(why, "%s: a plugin without init or a name", path);
	if (HAS(p, workers) && p->workers > PLUGIN_WORKERS_MAX)
		return refuse(why, "%s: a plugin of %u workers; expected at most %d", path,
			      p->workers, PLUGIN_WORKERS_MAX);
	return 0;
}

static int load_object(struct service *s, const char *path, struct why *why)
{
	s->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!s->object)
		return refuse(why, "%s", dlerror());
	s->plugin = dlsym(s->object, "slime_plugin");
	return check_plugin(s->plugin, path, why);
}

static int find(struct service *s, const struct node_service *spec, struct why *why)
{
	char path[PATH_MAX];

	if (spec->plugin)
		return load_object(s, spec->plugin, why);
	if (!strcmp(spec->name, echo_service.name)) {
		s->plugin = &echo_service;
		return 0;
	}
	if (path_of_name(spec->name, path, sizeof(path)))
		return refuse(why,
			      "expected a service that comes with the program, as echo, got \"%s\"",
			      spec->name);
	return load_object(s, path, why);
}

/* Two of one name would be announced as one. */
static int check_unique(const struct services *s, size_t i, struct why *why)
{
	for (size_t k = 0; k < i; k++) {
		const struct slime_plugin *p = s->list[k].plugin;

		if (p && !strcmp(p->name, s->list[i].plugin->name))
			return refuse(why,
				      "expected another service than \"%s\", which services.%zu is",
				      p->name, k);
	}
	return 0;
}

/* The same two texts under another name: the plugin's header does not know the programs'. */
static const struct slime_plugin_option *options_of(const struct node_service *spec)
{
	_Static_assert(sizeof(struct slime_plugin_option) == sizeof(struct cli_pair), "");
	return (const void *)spec->options;
}

static int check_options(const struct service *s, struct config *c, size_t i)
{
	const struct node_service *spec = &c->node.services[i];
	const char *expected;
	char path[32];
	size_t index = 0;

	if (!HAS(s->plugin, check))
		return 0;
	expected = s->plugin->check(options_of(spec), spec->n_options, &index);
	if (!expected)
		return 0;
	snprintf(path, sizeof(path), "services.%zu.options", i);
	cli_config_refuse(c->source, path, "%s: expected %s, got \"%s\"",
			  index < spec->n_options ? spec->options[index].key : "", expected,
			  index < spec->n_options ? spec->options[index].value : "");
	return -EINVAL;
}

static void load(struct services *s, struct config *c)
{
	size_t i = s->n++;
	const struct node_service *spec = &c->node.services[i];
	struct why why;
	char path[32];

	if (!find(&s->list[i], spec, &why) && !check_unique(s, i, &why)) {
		check_options(&s->list[i], c, i);
		return;
	}
	s->list[i].plugin = NULL;
	snprintf(path, sizeof(path), "services.%zu.%s", i, spec->plugin ? "plugin" : "name");
	cli_config_refuse(c->source, path, "%s", why.text);
}

int services_load(struct services *s, struct config *c)
{
	s->n = 0;
	s->list = calloc(c->node.n_services + 1, sizeof(*s->list));
	if (!s->list)
		return -ENOMEM;
	while (s->n < c->node.n_services)
		load(s, c);
	return config_errors(c);
}

uint32_t services_workers(const struct services *s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += HAS(s->list[i].plugin, workers) ? s->list[i].plugin->workers : 0;
	return n;
}

static int prepare(struct service *s, const struct node_service *spec, struct slime_agent *agent,
		   struct canceller *c)
{
	int ret = canceller_watch(c, HAS(s->plugin, cancel) ? s->plugin->cancel : NULL);

	if (ret)
		return ret;
	ret = s->plugin->init(agent, options_of(spec), spec->n_options, &s->state);
	canceller_rest(c);
	s->initialised = !ret;
	return ret == -ECANCELED && !canceller_is_asked(c) ? -EIO : ret;
}

static int init(struct service *s, const struct node_service *spec, struct slime_agent *agent,
		struct canceller *c)
{
	int ret = canceller_is_asked(c) ? -ECANCELED
					: slime_agent_service_add(agent, s->plugin->name);

	if (!ret)
		ret = prepare(s, spec, agent, c);
	if (ret && ret != -ECANCELED)
		sl_error("service", "%s: %s", s->plugin->name, strerror(-ret));
	return ret;
}

int services_init(struct services *s, const struct node *node, struct slime_agent *agent,
		  struct canceller *c)
{
	int ret = 0;

	for (size_t i = 0; i < s->n && !ret; i++)
		ret = init(&s->list[i], &node->services[i], agent, c);
	return ret;
}

int services_start(struct services *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct service *one = &s->list[i];
		int ret;

		if (!one->plugin->start || one->started)
			continue;
		ret = one->plugin->start(one->state);
		if (ret) {
			sl_error("service", "%s: %s", one->plugin->name, strerror(-ret));
			return ret;
		}
		one->started = true;
	}
	return 0;
}

void services_stop(struct services *s)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->list[i].initialised && s->list[i].plugin->stop)
			s->list[i].plugin->stop(s->list[i].state);
	}
}

void services_fini(struct services *s)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->list[i].initialised && s->list[i].plugin->fini)
			s->list[i].plugin->fini(s->list[i].state);
		s->list[i].initialised = false;
	}
}

void services_unload(struct services *s)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->list[i].object)
			dlclose(s->list[i].object);
	}
	free(s->list);
	*s = (struct services){ NULL };
}

void services_figures(const struct services *s, slime_plugin_figure_fn *add, void *arg)
{
	for (size_t i = 0; i < s->n && !s->stopping; i++)
		if (s->list[i].initialised && HAS(s->list[i].plugin, figures))
			s->list[i].plugin->figures(s->list[i].state, add, arg);
}
