/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/plot/plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plot/gnuplot.h"
#include "bench/rpc/results.h"

static const struct {
	const char *name; /* of its files */
	gnuplot_script_fn *script;
} figures[] = {
	{ "rpc", plot_calls },
	{ "page", plot_pages },
	{ "page-faults", plot_faults },
	{ "transfer", plot_transfers },
};

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "slime-bench: %s: %s\n", what, why);
	return EXIT_FAILURE;
}

static int failed(const char *dir, int ret)
{
	if (ret == -ENOEXEC)
		return complain("gnuplot is not installed", "deploy/packages.sh bench");
	return ret == -EINVAL ? EXIT_FAILURE : complain(dir, strerror(-ret));
}

static int nothing_in(const char *dir)
{
	char *path = results_path(dir, SYSTEM_SLIME, RESULTS_FIGURES);

	fprintf(stderr, "slime-bench: %s: no results: expected %s, page*.json or transfer*.json\n",
		dir, path ? path : "results of rpc");
	free(path);
	return EXIT_FAILURE;
}

int plot_command(const char *dir)
{
	size_t n_drawn = 0;

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		int ret = gnuplot_run(figures[i].script, dir);

		if (ret == -ENOENT)
			continue;
		if (ret)
			return failed(dir, ret);
		printf("%s/%s.png\n%s/%s.svg\n", dir, figures[i].name, dir, figures[i].name);
		n_drawn++;
	}
	return n_drawn ? EXIT_SUCCESS : nothing_in(dir);
}
