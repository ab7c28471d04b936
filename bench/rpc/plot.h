/* SPDX-License-Identifier: Apache-2.0 */
/* Latency and bandwidth against size, drawn by gnuplot. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include "bench/rpc/results.h"

#define PLOT_PNG "rpc.png"
#define PLOT_SVG "rpc.svg"

/* Draw both files of dir. 0; -ENOENT when there is no gnuplot; -EIO after it said what is wrong;
 * -ETIMEDOUT, -ENOMEM, what fork(2) and memfd_create(2) say. */
int plot_draw(struct results *r, const char *dir);

/* Writes what gnuplot is told; 0, or a negative errno. */
typedef int plot_script_fn(void *arg, FILE *to);

/* Run gnuplot with it in dir; as plot_draw(), and what script says. */
int plot_run(plot_script_fn *script, void *arg, const char *dir);

/* What gnuplot is told. -ENOMEM, -EIO. */
int plot_script(const struct results *r, FILE *to);

#endif
