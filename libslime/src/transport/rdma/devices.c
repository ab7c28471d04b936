/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a context: opened, looked at before each offer, closed when one of them failed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/port_name.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/devices.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/async_events.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/tidy.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

/* In the place of names; a device of that name is named with its port. */
#define ALL "all"

static void init_forks(void)
{
	int ret = ibv_fork_init();

	if (ret)
		sl_warn("rdma", "libibverbs cannot prepare for fork(): %s", strerror(ret));
}

/* Once, before anything is registered: a fork must not move pages away from under a device. */
static void prepare_for_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		pthread_once(&once, init_forks);
}

static int add_nic(struct rdma_transport *t, const char *device, uint8_t port, struct sl_why *why)
{
	int ret = rdma_nic_open(t, device, port, t->n_open, &t->nics[t->n_open], why);

	if (!ret)
		t->n_open++;
	return ret;
}

static void close_nics(struct rdma_transport *t)
{
	/* A child after fork() has those that are there, also the one that is being closed. */
	while (t->n_open) {
		struct rdma_nic *nic = t->nics[t->n_open - 1];

		rdma_nic_close(nic);
		t->n_open--;
		free(nic);
	}
}

/* "mlx5_1:2", of len bytes. */
static int parse_rail(const char *text, size_t len, struct sl_port_name *out, struct sl_why *why)
{
	if (len == strlen(ALL) && !memcmp(text, ALL, len)) {
		snprintf(why->text, sizeof(why->text), ALL ": nothing else is named beside it");
		return -EINVAL;
	}
	if (sl_port_name_parse(text, len, out)) {
		snprintf(why->text, sizeof(why->text),
			 "%.*s: expected a device, or device:port with a port of 1 to 255",
			 (int)(len < 100 ? len : 100), text);
		return -EINVAL;
	}
	return 0;
}

/* Those that the attributes name, "mlx5_0,mlx5_1:2": all of them, or it is an error. */
static int open_named(struct rdma_transport *t, const char *names, struct sl_why *why)
{
	int ret = 0;

	while (*names && !ret) {
		size_t len = strcspn(names, ",");
		struct sl_port_name name;

		ret = parse_rail(names, len, &name, why);
		if (!ret && t->n_open == RDMA_RAILS_MAX) {
			snprintf(why->text, sizeof(why->text), "more than %d devices",
				 RDMA_RAILS_MAX);
			ret = -EINVAL;
		}
		if (!ret)
			ret = add_nic(t, name.device, name.port ? name.port : 1, why);
		names += len + (names[len] == ',');
	}
	return ret;
}

/* Whether links can be made with it now. */
static int check_nic(struct rdma_nic *nic, struct sl_why *why)
{
	if (atomic_load(&nic->dead)) {
		snprintf(why->text, sizeof(why->text),
			 "%s failed, and is opened again when no endpoint uses it any more",
			 nic->device.name);
		return -ENODEV;
	}
	/* Not all that changes is an event: an MTU is none. */
	return rdma_nic_refresh(nic, why);
}

void rdma_devices_close(struct rdma_transport *t)
{
	if (t->shared) {
		rdma_domain_close(t->shared);
		rdma_domain_free(t->shared);
	}
	t->shared = NULL;
	close_nics(t);
}

void rdma_devices_unwatch(struct rdma_transport *t)
{
	atomic_store(&t->n_nics, 0);
	for (unsigned i = 0; i < t->n_open; i++)
		rdma_nic_unwatch(t->nics[i]);
}

static void work_close_devices(struct rdma_job *job)
{
	struct rdma_transport *t = job->t;

	rdma_devices_close(t);
	sl_info("rdma", "the devices are closed, and the next link opens them");
	pthread_mutex_lock(&t->setup_lock);
	t->is_closing = false;
	pthread_cond_broadcast(&t->is_closed);
	pthread_mutex_unlock(&t->setup_lock);
}

static void done_close_devices(struct rdma_job *job)
{
	rdma_tidy(job->t);
}

/*
 * A device that failed stays failed for its users. When nothing uses it any more the devices are
 * closed, and the next offer opens those that exist then. [token]
 */
void rdma_devices_close_what_failed(struct rdma_transport *t)
{
	bool unused;

	/* An offer is being made: later. */
	if (pthread_mutex_trylock(&t->setup_lock))
		return;
	pthread_mutex_lock(&t->lock);
	unused = sl_list_empty(&t->offers) && !t->n_jobs;
	pthread_mutex_unlock(&t->lock);
	/* From here on no thread begins to release the devices that this one releases. */
	unused = unused && rdma_domain_begin_to_close(t->shared);
	if (unused) {
		atomic_store(&t->failed, false);
		atomic_store(&t->gives_way, false);
		rdma_devices_unwatch(t);
		t->is_closing = true;
		rdma_registration_start(t, &t->closer, work_close_devices, done_close_devices);
	}
	pthread_mutex_unlock(&t->setup_lock);
}

static int list_devices(struct sl_device_names *names, struct sl_why *why)
{
	struct sl_device_why said;
	int ret = sl_device_names(names, &said);

	if (ret || !names->n)
		snprintf(why->text, sizeof(why->text), "%.180s", said.text);
	return ret;
}

static void discard(struct rdma_nic *nic)
{
	rdma_nic_close(nic);
	free(nic);
}

/* ---- any of them ---- */

/* No device was named. */
static bool takes_any(const struct rdma_transport *t)
{
	const char *names = t->base.env->attr->rdma_devices;

	return !names || !*names;
}

/* Its first port that can be used, opened; else why not, of the last one. */
static int find_port(struct rdma_transport *t, const char *device, struct rdma_nic **out,
		     struct sl_why *why)
{
	unsigned n_ports = 1;
	int ret = -ENODEV;

	for (unsigned port = 1; port <= n_ports && ret; port++) {
		ret = rdma_nic_open(t, device, (uint8_t)port, 0, out, why);
		if (!ret) {
			n_ports = (*out)->device.attr.orig_attr.phys_port_cnt;
			ret = rdma_nic_refresh(*out, why);
			if (ret)
				discard(*out);
		}
		if (ret)
			sl_debug("rdma", "%s", why->text);
	}
	return ret;
}

/* Every link of a host without RDMA is passed over for this: the log has it whole, once, and the
 * cause of each link in short. */
static void say_none(struct rdma_transport *t, struct sl_why *why)
{
	if (!atomic_exchange(&t->said_none, true))
		sl_info("rdma", "no link of this process goes over rdma: %s", why->text);
	snprintf(why->text, sizeof(why->text), "this host has no RDMA device");
}

static int find_any(struct rdma_transport *t, struct rdma_nic **out, struct sl_why *why)
{
	struct sl_device_names names;
	int ret = list_devices(&names, why);
	bool found = false;

	if (ret == -ENOSYS || (!ret && !names.n))
		say_none(t, why);
	if (ret)
		return ret;
	for (size_t i = 0; i < names.n && !found; i++)
		found = !find_port(t, names.names[i], out, why);
	sl_device_names_fini(&names);
	return found ? 0 : -ENODEV;
}

/* The first that can be used, or it is an error. */
static int open_any(struct rdma_transport *t, struct sl_why *why)
{
	int ret = find_any(t, &t->nics[0], why);

	t->n_open = !ret;
	return ret;
}

static void stay(struct rdma_transport *t)
{
	if (atomic_exchange(&t->gives_way, false))
		sl_info("rdma", "%s port %u can be used again: the next links are made with it",
			t->nics[0]->device.name, t->nics[0]->port);
}

/* It gives way to that one, unless it can be used by now. A thread that heard before that it came
 * up did not know of this. Under setup_lock. */
static void give_way(struct rdma_transport *t, const struct rdma_nic *other)
{
	struct rdma_nic *ours = t->nics[0];
	struct sl_why why;

	atomic_store(&t->gives_way, true);
	if (check_nic(ours, &why))
		sl_warn("rdma",
			"%s port %u cannot be used: the next links are made with %s port %u",
			ours->device.name, ours->port, other->device.name, other->port);
	else
		atomic_store(&t->gives_way, false);
}

/* On a worker, since each device that is opened takes its time. No thread that makes an offer waits
 * for it; until the job is done the devices stay. */
static void work_find_another(struct rdma_job *job)
{
	struct rdma_transport *t = job->t;
	const struct rdma_nic *ours = t->nics[0];
	struct rdma_nic *nic;
	struct sl_why why;
	bool usable;

	pthread_mutex_lock(&t->setup_lock);
	usable = !check_nic(t->nics[0], &why);
	pthread_mutex_unlock(&t->setup_lock);
	if (usable || rdma_devices_are_to_close(t) || find_any(t, &nic, &why))
		return;
	if (strcmp(nic->device.name, ours->device.name) || nic->port != ours->port) {
		pthread_mutex_lock(&t->setup_lock);
		give_way(t, nic);
		pthread_mutex_unlock(&t->setup_lock);
	}
	discard(nic);
}

static void done_searching(struct rdma_job *job)
{
	atomic_store(&job->t->is_searching, false);
}

static void find_another(struct rdma_transport *t)
{
	if (!takes_any(t) || rdma_devices_are_to_close(t) ||
	    atomic_exchange(&t->is_searching, true))
		return;
	rdma_job_start(t, &t->look, work_find_another, done_searching);
}

void rdma_devices_port_changed(struct rdma_transport *t, bool up)
{
	if (up)
		stay(t);
	else
		find_another(t);
}

/* ---- all of them ---- */

/* The properties that no event of the port changes. */
static bool is_for_good(int status)
{
	return status == -EINVAL || status == -EOPNOTSUPP;
}

/* Those that were found; the transport has them at the end, so that a fork meanwhile finds none or
 * all. */
struct found {
	struct rdma_nic *nics[RDMA_RAILS_MAX];
	unsigned n;
	unsigned n_ports; /* looked at */
};

/* Of more than a link can have those that are up are taken: the last that is not makes room. */
static bool make_room(struct found *f)
{
	unsigned i = f->n;

	while (i > 0 && f->nics[i - 1]->usable)
		i--;
	if (!i)
		return false;
	discard(f->nics[i - 1]);
	memmove(&f->nics[i - 1], &f->nics[i], (f->n - i) * sizeof(f->nics[0]));
	f->n--;
	return true;
}

/* If it may ever be used; one that is down may come up. What is in why was left out. */
static int add_if_usable(struct found *f, struct rdma_nic *nic, struct sl_why *why)
{
	int ret = rdma_nic_refresh(nic, why);

	if (is_for_good(ret))
		return ret;
	why->text[0] = '\0';
	if (f->n == RDMA_RAILS_MAX) {
		snprintf(why->text, sizeof(why->text), "a link has at most %d", RDMA_RAILS_MAX);
		if (ret || !make_room(f))
			return -ENOSPC;
	}
	f->nics[f->n++] = nic;
	return 0;
}

/* Why one is not used is why, unless there was one before it. */
static void find_ports(struct rdma_transport *t, const char *device, struct found *f,
		       struct sl_why *why)
{
	unsigned n_ports = 1;

	for (unsigned port = 1; port <= n_ports; port++) {
		struct sl_why said = { .text = "" };
		struct rdma_nic *nic;
		int ret = rdma_nic_open(t, device, (uint8_t)port, 0, &nic, &said);

		if (!ret) {
			n_ports = nic->device.attr.orig_attr.phys_port_cnt;
			ret = add_if_usable(f, nic, &said);
			if (ret)
				discard(nic);
		}
		if (!why->text[0])
			*why = said;
	}
	f->n_ports += n_ports;
}

/* In the order in which libibverbs has them, and of their ports. */
static int open_all(struct rdma_transport *t, struct sl_why *why)
{
	struct sl_device_names names;
	struct found f = { .n = 0 };
	int ret = list_devices(&names, why);

	if (ret)
		return ret;
	if (names.n)
		why->text[0] = '\0';
	for (size_t i = 0; i < names.n; i++)
		find_ports(t, names.names[i], &f, why);
	sl_device_names_fini(&names);
	for (unsigned i = 0; i < f.n; i++) {
		f.nics[i]->index = i;
		t->nics[i] = f.nics[i];
	}
	t->n_open = f.n;
	if (f.n && f.n < f.n_ports)
		sl_info("rdma", "%u of %u ports of this host: %s", f.n, f.n_ports, why->text);
	return f.n ? 0 : -ENODEV;
}

static int open_devices(struct rdma_transport *t, struct sl_why *why)
{
	const char *names = t->base.env->attr->rdma_devices;

	if (takes_any(t))
		return open_any(t, why);
	return strcmp(names, ALL) ? open_named(t, names, why) : open_all(t, why);
}

static int make_shared(struct rdma_transport *t, struct sl_why *why)
{
	int ret = rdma_domain_create(t, false, &t->shared);

	if (ret)
		snprintf(why->text, sizeof(why->text), "no protection domain: %s", strerror(-ret));
	return ret;
}

static int start_workers(struct rdma_transport *t, struct sl_why *why)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = n_cpus < 1			    ? 1
		     : n_cpus > RDMA_REGISTRARS_MAX ? RDMA_REGISTRARS_MAX
						    : (unsigned)n_cpus;
	int ret = sl_workers_start(&t->workers, RDMA_WORKERS);

	if (!ret)
		ret = sl_workers_start(&t->registrars, n);

	if (ret)
		snprintf(why->text, sizeof(why->text), "no threads: %s", strerror(-ret));
	return ret;
}

static void tell_whether_used(struct rdma_nic *nic, int status, const struct sl_why *said)
{
	if (status && !nic->left_out)
		sl_warn("rdma", "links are made without %s port %u: %s", nic->device.name,
			nic->port, said->text);
	else if (!status && nic->left_out)
		sl_info("rdma", "links are made with %s port %u again", nic->device.name,
			nic->port);
	nic->left_out = status != 0;
}

/* Links are made over those that can be used now; it is an error when none can, or one never will.
 */
static int check_nics(struct rdma_transport *t, struct sl_why *why)
{
	struct sl_why said[RDMA_RAILS_MAX];
	int status[RDMA_RAILS_MAX];
	unsigned n_usable = 0;

	for (unsigned i = 0; i < t->n_open; i++) {
		status[i] = check_nic(t->nics[i], &said[i]);
		n_usable += !status[i];
		/* The kernel frees a device that was removed when no process has it open. */
		if (status[i] == -ENODEV && t->shared)
			atomic_store(&t->failed, true);
		if (is_for_good(status[i])) {
			*why = said[i];
			return status[i];
		}
	}
	for (unsigned i = 0; i < t->n_open && n_usable; i++)
		tell_whether_used(t->nics[i], status[i], &said[i]);
	if (n_usable) {
		stay(t);
		return 0;
	}
	/* A port that went down before another came up has reported nothing since. */
	if (t->shared)
		find_another(t);
	if (t->n_open == 1)
		*why = said[0];
	else
		snprintf(why->text, sizeof(why->text), "none of %u ports can be used; %.150s",
			 t->n_open, said[0].text);
	return status[0];
}

/* Those beside one that cannot be watched may be used before it is closed. */
static int watch_nics(struct rdma_transport *t, struct sl_why *why)
{
	int status, ret = 0;

	for (unsigned i = 0; i < t->n_open; i++) {
		status = rdma_nic_watch(t->nics[i], why);
		if (status)
			ret = status;
	}
	return ret;
}

int rdma_devices_set_up(struct rdma_transport *t, struct sl_why *why)
{
	int ret = 0;

	if (!t->n_open) {
		prepare_for_forks();
		ret = open_devices(t, why);
		if (!ret)
			ret = check_nics(t, why);
		if (!ret)
			ret = start_workers(t, why);
		if (!ret)
			ret = make_shared(t, why);
		if (ret) {
			close_nics(t);
			return ret;
		}
		for (unsigned i = 0; i < t->n_open; i++)
			t->nics[i]->async_events =
				rdma_async_events_of(t, t->nics[i]->device.name, t->nics[i]->port);
		/* All or none: progress looks at them from here on, and closes what failed. */
		atomic_store(&t->n_nics, t->n_open);
		return watch_nics(t, why);
	}
	return check_nics(t, why);
}
