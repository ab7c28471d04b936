/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/service.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

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

static int check_plugin(const struct slime_plugin *p, const char *path)
{
	if (p && p->abi == SLIME_PLUGIN_ABI && p->size >= sizeof(*p) && p->name && p->init)
		return 0;
	if (!p)
		sl_error("service", "%s: no plugin: it does not define slime_plugin", path);
	else
		sl_error("service", "%s: a plugin of ABI %u with %u bytes; expected %d and %zu",
			 path, p->abi, p->size, SLIME_PLUGIN_ABI, sizeof(*p));
	return -EPROTO;
}

static int load(struct service *s, const char *path)
{
	int ret;

	s->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!s->object) {
		sl_error("service", "%s", dlerror());
		return -ENOENT;
	}
	s->plugin = dlsym(s->object, "slime_plugin");
	ret = check_plugin(s->plugin, path);
	if (ret) {
		dlclose(s->object);
		s->object = NULL;
	}
	return ret;
}

static int find(struct service *s, const struct node_service *spec)
{
	char path[PATH_MAX];

	if (spec->plugin)
		return load(s, spec->plugin);
	if (!strcmp(spec->name, echo_service.name)) {
		s->plugin = &echo_service;
		return 0;
	}
	if (path_of_name(spec->name, path, sizeof(path))) {
		sl_error("service", "there is no service \"%s\"", spec->name);
		return -ENOENT;
	}
	return load(s, path);
}

static int init(struct service *s, const struct node_service *spec, struct slime_agent *agent)
{
	/* The same two texts under another name: the plugin's header does not know the programs'.
	 */
	_Static_assert(sizeof(struct slime_plugin_option) == sizeof(struct cli_pair), "");
	int ret = find(s, spec);

	if (ret)
		return ret;
	ret = slime_agent_service_add(agent, s->plugin->name);
	if (!ret)
		ret = s->plugin->init(agent, (const void *)spec->options, spec->n_options,
				      &s->state);
	s->initialised = !ret;
	if (ret)
		sl_error("service", "%s: %s", s->plugin->name, strerror(-ret));
	return ret;
}

int services_init(struct services *s, const struct node *node, struct slime_agent *agent)
{
	int ret = 0;

	s->n = 0;
	s->list = calloc(node->n_services + 1, sizeof(*s->list));
	if (!s->list)
		return -ENOMEM;
	while (s->n < node->n_services && !ret) {
		ret = init(&s->list[s->n], &node->services[s->n], agent);
		s->n++;
	}
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
	*s = (struct services){ NULL, 0 };
}
