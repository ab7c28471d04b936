/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/page/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host/roofline.h"
#include "cli/output/output.h"
#include "bench/page/machine.h"

#define LINKS_MAX 16 /* that are looked at for their transport */

void page_note_client(const struct client *c, struct page_result *out)
{
	struct slime_agent_link_info *links = calloc(LINKS_MAX, sizeof(*links));
	int n = links ? slime_agent_links(c->agent, links, LINKS_MAX) : 0;

	snprintf(out->agent, sizeof(out->agent), "%s", slime_agent_name(c->agent));
	out->n_processes = 1;
	for (int i = 0; i < n && i < LINKS_MAX; i++)
		if (links[i].state == SLIME_LINK_CONNECTED)
			out->transports |= 1u << links[i].transport;
	free(links);
}

static int judge(const struct settings *settings, struct page_result *out)
{
	struct client client;
	int status = EXIT_FAILURE, sig;

	if (client_init(&client, settings))
		return EXIT_FAILURE;
	if (!client_open(&client))
		status = page_judge(&client, out);
	sig = client_fini(&client);
	return sig ? client_interrupted(sig) : status;
}

/* Afterwards: nothing runs beside it. */
static void note_limits(const struct settings *settings, struct page_result *out)
{
	const struct page_settings *p = &settings->page;
	uint32_t rdma = 1u << SLIME_TRANSPORT_RDMA;

	out->n_cpus = roofline_cpus();
	if (out->transports & rdma)
		out->line_gb_s = roofline_line_gb_s(settings->between.devices);
	if (out->transports & ~rdma)
		out->copy_gb_s = roofline_copy_gb_s(p->page_size * (uint64_t)p->batch_size);
}

/* What was measured is printed even when a later rung fails. */
static int measure(const struct settings *settings, const char *flags, bool judges,
		   enum report_format format)
{
	struct page_result *result = calloc(1, sizeof(*result));
	int status, ret;

	if (!result) {
		fprintf(stderr, "slime-bench: memory: %s\n", strerror(ENOMEM));
		return EXIT_FAILURE;
	}
	result->settings = settings;
	result->flags = flags;
	status = judges ? judge(settings, result) : machine_drive(settings, result);
	if (result->n_rungs)
		note_limits(settings, result);
	ret = result->n_rungs ? page_report(result, format, stdout) : 0;
	free(result);
	return ret ? cli_output_fail(bench_program.name, ret) : status;
}

int page_command(const struct settings *settings, const char *what, const char *flags,
		 enum report_format format)
{
	bool judges = !strcmp(what, "judge");

	if (!strcmp(what, "serve"))
		return page_serve(settings);
	if (!judges && strcmp(what, "drive"))
		return cli_usage_error(&bench_program, "page: expected serve, drive or judge");
	return measure(settings, flags, judges, format);
}
