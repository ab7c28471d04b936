/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/host.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <slime/slime.h>

#define PATH_LEN     512
#define TEXT_LEN     4096
#define CPUS_MAX     4096
#define CAP_IPC_LOCK 14
#define MEMLOCK_MIN  (UINT64_C(64) << 20)
#define FILES_MIN    4096
#define JUMBO_MTU    4200 /* carries packets of 4096 bytes */

struct host {
	const char *sys, *proc;
	const char *sys_root; /* NULL: this host's */
	struct report *report;
	struct slime_topo_devices *devices;
};

/* ---- files ---- */

/* The beginning of a file as a string without its line end; false when it cannot be read. */
static bool read_text(const char *root, const char *path, char *text, size_t cap)
{
	char full[PATH_LEN];
	size_t n;
	FILE *f;

	text[0] = '\0';
	if (snprintf(full, sizeof(full), "%s/%s", root, path) >= (int)sizeof(full))
		return false;
	f = fopen(full, "re");
	if (!f)
		return false;
	n = fread(text, 1, cap - 1, f);
	fclose(f);
	text[n] = '\0';
	if (n && text[n - 1] == '\n')
		text[n - 1] = '\0';
	return true;
}

static bool exists(const char *root, const char *path)
{
	char full[PATH_LEN];
	struct stat st;

	return snprintf(full, sizeof(full), "%s/%s", root, path) < (int)sizeof(full) &&
	       !stat(full, &st);
}

/* The text after a word at the beginning of a line; NULL: there is no such line. */
static const char *line_of(const char *text, const char *word)
{
	size_t len = strlen(word);

	while (text) {
		if (!strncmp(text, word, len))
			return text + len;
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}

/* ---- kernel modules ---- */

static void examine_modules(struct host *h)
{
	if (!exists(h->sys, "class/infiniband")) {
		report_add(h->report, FINDING_NOTE, "modules", "%s", h->devices->why);
		return;
	}
	if (exists(h->sys, "module/ib_uverbs") || exists(h->sys, "class/infiniband_verbs"))
		report_add(h->report, FINDING_OK, "modules", "ib_uverbs is loaded");
	else
		report_add(h->report, FINDING_BAD, "modules",
			   "ib_uverbs is not loaded, so no program can open a device: modprobe "
			   "ib_uverbs");
	if (!h->devices->n_devices)
		report_add(h->report, FINDING_NOTE, "modules", "%s", h->devices->why);
}

/* ---- ports and their addresses ---- */

static bool is_bond(const struct host *h, const char *netdev)
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), "class/net/%.15s/bonding", netdev);
	return netdev[0] && (exists(h->sys, path) || !strncmp(netdev, "bond", 4));
}

static bool is_here(const struct host *h, const char *netdev)
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), "class/net/%.15s", netdev);
	return exists(h->sys, path);
}

static const struct slime_gid *chosen(const struct slime_topo_port *p)
{
	for (size_t i = 0; i < p->n_gids; i++)
		if (p->gid_index >= 0 && p->gids[i].index == (uint32_t)p->gid_index)
			return &p->gids[i];
	return NULL;
}

static bool is_link_local(const struct slime_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static bool is_ipv4(const struct slime_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static void examine_gid(struct host *h, const char *what, const struct slime_topo_port *p)
{
	const struct slime_gid *gid = chosen(p);

	if (!gid || p->link_layer != SLIME_LINK_ETHERNET)
		return;
	if (gid->netdev[0] && !is_here(h, gid->netdev))
		report_add(h->report, FINDING_BAD, what,
			   "GID index %u belongs to %s, which is not in this network namespace: "
			   "indices differ by container. Leave data.rdma.gid_index at auto and "
			   "give the container the interface, or the host's network",
			   gid->index, gid->netdev);
	else if (is_link_local(gid))
		report_add(h->report, FINDING_BAD, what,
			   "GID index %u is link-local, which only hosts of the same Ethernet "
			   "segment reach: give %s an IP address",
			   gid->index, gid->netdev[0] ? gid->netdev : "its interface");
	else if (!is_ipv4(gid))
		report_add(h->report, FINDING_NOTE, what,
			   "GID index %u is global IPv6, and there is no IPv4 one: peers need a "
			   "global IPv6 address on their ports, too",
			   gid->index);
}

static void examine_mtu(struct host *h, const char *what, const struct slime_topo_port *p)
{
	if (p->link_layer == SLIME_LINK_ETHERNET && p->netdev_mtu && p->netdev_mtu < JUMBO_MTU)
		report_add(h->report, FINDING_NOTE, what,
			   "the MTU of %s is %u, so packets carry 1024 bytes: ip link set %s mtu "
			   "9000, on the switch and at the peers, too",
			   p->netdev, p->netdev_mtu, p->netdev);
}

static void examine_port(struct host *h, const struct slime_topo_device *d,
			 const struct slime_topo_port *p)
{
	char what[80];

	snprintf(what, sizeof(what), "%.60s:%u", d->name, p->num);
	if (!p->usable && is_bond(h, p->netdev) && !p->n_gids)
		report_add(h->report, FINDING_BAD, what,
			   "%s. Its GID table is empty, as that of a bond without an address is: "
			   "ip address add ADDRESS dev %s",
			   p->why, p->netdev);
	else if (!p->usable)
		report_add(h->report, FINDING_BAD, what, "%s", p->why);
	else
		report_add(h->report, FINDING_OK, what, "%s", p->why);
	if (!p->usable)
		return;
	examine_gid(h, what, p);
	examine_mtu(h, what, p);
}

static void examine_devices(struct host *h)
{
	size_t n_ports = 0, n_usable = 0;

	for (size_t i = 0; i < h->devices->n_devices; i++) {
		const struct slime_topo_device *d = h->devices->devices[i];

		if (d->why && d->why[0] && !d->limits && !h->sys_root)
			report_add(h->report, FINDING_BAD, d->name, "%s", d->why);
		for (size_t k = 0; k < d->n_ports; k++) {
			examine_port(h, d, d->ports[k]);
			n_usable += d->ports[k]->usable;
			n_ports++;
		}
	}
	if (!n_ports)
		return;
	if (n_usable == n_ports)
		report_add(h->report, FINDING_OK, "devices", "%zu of %zu ports can be used",
			   n_usable, n_ports);
	else
		report_add(h->report, n_usable ? FINDING_NOTE : FINDING_BAD, "devices",
			   "%zu of %zu ports cannot be used: links have fewer rails, or none. Mend "
			   "the ports above, or name the others in data.rdma.devices",
			   n_ports - n_usable, n_ports);
}

/* ---- memory of GPUs ---- */

static bool has_nvidia_gpu(const struct host *h)
{
	for (size_t i = 0; i < h->devices->n_devices; i++)
		for (size_t k = 0; k < h->devices->devices[i]->n_gpus; k++)
			if (h->devices->devices[i]->gpus[k]->vendor == 0x10de)
				return true;
	return false;
}

static void examine_gpus(struct host *h)
{
	char text[TEXT_LEN];

	if (!has_nvidia_gpu(h))
		return;
	if (exists(h->sys, "module/nvidia_peermem") || exists(h->sys, "module/nv_peer_mem"))
		report_add(h->report, FINDING_OK, "peermem", "nvidia_peermem is loaded");
	else if (read_text(h->proc, "driver/nvidia/version", text, sizeof(text)) &&
		 strstr(text, "Open Kernel Module"))
		report_add(h->report, FINDING_OK, "dmabuf",
			   "the driver's open kernel module exports memory as dmabuf");
	else
		report_add(
			h->report, FINDING_BAD, "peermem",
			"there is neither nvidia_peermem nor a driver that exports dmabuf: no "
			"adapter reaches memory of the GPUs. modprobe nvidia_peermem, or install "
			"the driver's open kernel module");
}

/* ---- limits ---- */

static bool may_lock_all(const struct host *h)
{
	char text[TEXT_LEN];
	const char *mask;

	if (!read_text(h->proc, "self/status", text, sizeof(text)))
		return false;
	mask = line_of(text, "CapEff:");
	return mask && strtoull(mask, NULL, 16) >> CAP_IPC_LOCK & 1;
}

/* The soft limit; UINT64_MAX: none. False: it is not told. */
static bool read_limit(const char *limits, const char *name, uint64_t *out)
{
	const char *at = line_of(limits, name);
	char *end;

	if (!at)
		return false;
	at += strspn(at, " ");
	if (!strncmp(at, "unlimited", 9)) {
		*out = UINT64_MAX;
		return true;
	}
	*out = strtoull(at, &end, 10);
	return end != at;
}

static void examine_memlock(struct host *h, uint64_t limit)
{
	bool rdma = h->devices->n_devices > 0;

	if (limit == UINT64_MAX || may_lock_all(h))
		report_add(h->report, FINDING_OK, "memlock",
			   "memory can be locked without a limit");
	else if (limit < MEMLOCK_MIN)
		report_add(h->report, rdma ? FINDING_BAD : FINDING_NOTE, "memlock",
			   "this process may lock %" PRIu64
			   " KiB of memory (ulimit -l), and no more "
			   "than that can be registered with an adapter: set LimitMEMLOCK=infinity "
			   "in the unit, \"memlock unlimited\" in /etc/security/limits.conf, or "
			   "--ulimit memlock=-1 of the container",
			   limit >> 10);
	else
		report_add(h->report, FINDING_OK, "memlock", "%" PRIu64 " MiB can be locked",
			   limit >> 20);
}

static void examine_limits(struct host *h)
{
	char text[TEXT_LEN];
	uint64_t limit;

	if (!read_text(h->proc, "self/limits", text, sizeof(text))) {
		report_add(h->report, FINDING_NOTE, "ulimits", "%s/self/limits cannot be read",
			   h->proc);
		return;
	}
	if (read_limit(text, "Max locked memory", &limit))
		examine_memlock(h, limit);
	if (!read_limit(text, "Max open files", &limit))
		return;
	if (limit < FILES_MIN)
		report_add(h->report, FINDING_NOTE, "ulimits",
			   "%" PRIu64 " files may be open, and a link over tcp or shm takes up to "
			   "ten: ulimit -n 65536, or LimitNOFILE=65536 in the unit",
			   limit);
	else
		report_add(h->report, FINDING_OK, "ulimits", "%" PRIu64 " files may be open",
			   limit);
}

/* Where the process is in the hierarchy of cgroup v2; false: there is none. */
static bool cgroup_path(const struct host *h, char *path, size_t cap)
{
	char text[TEXT_LEN];
	const char *at;

	if (!read_text(h->proc, "self/cgroup", text, sizeof(text)))
		return false;
	at = line_of(text, "0::");
	if (!at)
		return false;
	snprintf(path, cap, "fs/cgroup%.*s", (int)strcspn(at, "\n"), at);
	return true;
}

static void examine_cgroup(struct host *h)
{
	char path[PATH_LEN - 32], file[PATH_LEN], text[TEXT_LEN];

	if (!cgroup_path(h, path, sizeof(path)))
		return;
	snprintf(file, sizeof(file), "%s/memory.max", path);
	if (read_text(h->sys, file, text, sizeof(text)) && strcmp(text, "max") != 0)
		report_add(h->report, FINDING_NOTE, "cgroup",
			   "memory.max is %" PRIu64
			   " MiB: regions beyond that are -ENOMEM. Raise the "
			   "limit of the container, or offer less",
			   (uint64_t)(strtoull(text, NULL, 10) >> 20));
	else
		report_add(h->report, FINDING_OK, "cgroup", "no limit of memory");
	snprintf(file, sizeof(file), "%s/rdma.max", path);
	if (read_text(h->sys, file, text, sizeof(text)) && strstr(text, "hca_handle=0"))
		report_add(h->report, FINDING_BAD, "cgroup",
			   "rdma.max allows no device (%s): raise hca_handle and hca_object", text);
}

/* ---- memory and nodes ---- */

static void examine_pages(struct host *h)
{
	char text[TEXT_LEN], thp[TEXT_LEN];
	unsigned long long n = 0;

	if (read_text(h->sys, "kernel/mm/hugepages/hugepages-2048kB/free_hugepages", text,
		      sizeof(text)))
		n = strtoull(text, NULL, 10);
	if (n) {
		report_add(h->report, FINDING_OK, "hugepages", "%llu pages of 2 MiB are free", n);
		return;
	}
	if (read_text(h->sys, "kernel/mm/transparent_hugepage/shmem_enabled", thp, sizeof(thp)) &&
	    !strstr(thp, "[never]") && !strstr(thp, "[deny]"))
		report_add(h->report, FINDING_OK, "hugepages",
			   "none is reserved; the kernel gives transparent ones");
	else
		report_add(
			h->report, FINDING_NOTE, "hugepages",
			"none of 2 MiB is free, and none is transparent: large regions take "
			"longer to register and to read. sysctl vm.nr_hugepages=N, or echo advise "
			">%s/kernel/mm/transparent_hugepage/shmem_enabled",
			h->sys);
}

/* "0-3,8" as a set. */
static void parse_cpus(const char *list, bool set[CPUS_MAX])
{
	char *end;

	memset(set, 0, CPUS_MAX * sizeof(*set));
	while (list && *list >= '0' && *list <= '9') {
		unsigned long from = strtoul(list, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		for (unsigned long i = from; i <= to && i < CPUS_MAX; i++)
			set[i] = true;
		list = *end == ',' ? end + 1 : NULL;
	}
}

/* Whether the process may use a CPU of the node; true when that is not told. */
static bool may_use_node(const struct host *h, int node)
{
	static bool ours[CPUS_MAX], theirs[CPUS_MAX];
	char text[TEXT_LEN], path[PATH_LEN];
	const char *list;

	if (!read_text(h->proc, "self/status", text, sizeof(text)))
		return true;
	list = line_of(text, "Cpus_allowed_list:");
	if (!list)
		return true;
	parse_cpus(list + strspn(list, " \t"), ours);
	snprintf(path, sizeof(path), "devices/system/node/node%d/cpulist", node);
	if (!read_text(h->sys, path, text, sizeof(text)))
		return true;
	parse_cpus(text, theirs);
	for (size_t i = 0; i < CPUS_MAX; i++)
		if (ours[i] && theirs[i])
			return true;
	return false;
}

static void examine_nodes(struct host *h)
{
	bool fine = true;

	for (size_t i = 0; i < h->devices->n_devices; i++) {
		const struct slime_topo_device *d = h->devices->devices[i];

		if (d->numa_node < 0 || may_use_node(h, d->numa_node))
			continue;
		fine = false;
		report_add(
			h->report, FINDING_NOTE, "NUMA",
			"%s is at node %d, of which this process may use no CPU: every completion "
			"crosses nodes. Use devices of the process's node, or taskset and "
			"numactl --cpunodebind=%d",
			d->name, d->numa_node, d->numa_node);
	}
	if (fine && h->devices->n_devices)
		report_add(h->report, FINDING_OK, "NUMA",
			   "this process may use CPUs beside each device");
}

static void examine_ptrace(struct host *h)
{
	char text[TEXT_LEN];

	if (read_text(h->proc, "sys/kernel/yama/ptrace_scope", text, sizeof(text)) &&
	    text[0] >= '2')
		report_add(
			h->report, FINDING_NOTE, "shm",
			"kernel.yama.ptrace_scope is %s: peers of this host reach memory of "
			"slime_mem_alloc() alone. sysctl kernel.yama.ptrace_scope=1 for other memory",
			text);
}

int host_examine(const struct host_roots *roots, struct report *report)
{
	struct host h = {
		.sys = roots->sys ? roots->sys : "/sys",
		.proc = roots->proc ? roots->proc : "/proc",
		.sys_root = roots->sys,
		.report = report,
	};
	int ret = slime_topo_devices_create(roots->sys, &h.devices);

	if (ret == -ENOMEM)
		return ret;
	if (ret) {
		report_add(report, FINDING_BAD, "devices", "%s cannot be read: %s", h.sys,
			   strerror(-ret));
		return 0;
	}
	examine_modules(&h);
	examine_devices(&h);
	examine_gpus(&h);
	examine_limits(&h);
	examine_cgroup(&h);
	examine_pages(&h);
	examine_nodes(&h);
	examine_ptrace(&h);
	slime_topo_devices_destroy(h.devices);
	return 0;
}
