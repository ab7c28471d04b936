/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "bench/head.h"
#include "cli/version.h"

int head_read(struct head *h, const char *flags)
{
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(h->date, sizeof(h->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	h->flags = flags;
	return slime_topo_get(NULL, &h->topo);
}

void head_print(const struct head *h, const char *between, const char *mark, FILE *to)
{
	fprintf(to, "%sdate      %s\n", mark, h->date);
	fprintf(to, "%shost      %s, %u CPUs, %s, Linux %s\n", mark, h->topo.hostname,
		h->topo.n_cpus, h->topo.cpu_model, h->topo.kernel);
	fprintf(to, "%sbuild     slime %s, commit %s, %s, %s\n", mark, cli_version(), cli_commit(),
		cli_build(), cli_compiler());
	fprintf(to, "%sbetween   %s\n", mark, between);
	fprintf(to, "%sflags     %s\n", mark, h->flags);
}

json_t *head_json(const struct head *h)
{
	return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "date", h->date, "host",
			 h->topo.hostname, "cpus", (int)h->topo.n_cpus, "cpu", h->topo.cpu_model,
			 "kernel", h->topo.kernel, "version", cli_version(), "commit", cli_commit(),
			 "build", cli_build(), "flags", h->flags);
}

int head_print_json(json_t *document, FILE *to)
{
	int ret = document ? 0 : -ENOMEM;

	if (!ret && (json_dumpf(document, to, JSON_INDENT(2)) || fputc('\n', to) == EOF))
		ret = -EIO;
	json_decref(document);
	if (!ret && fflush(to))
		ret = -errno;
	return ret;
}
