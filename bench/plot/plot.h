/* SPDX-License-Identifier: Apache-2.0 */
/* slime-bench plot: the results of a directory as pictures. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stdio.h>

/* Draw each figure that there are results for. It says on standard error what is wrong, and returns
 * the exit status. */
int plot_command(const char *dir);

/* What gnuplot is told of one figure. 0; -ENOENT: the directory has no results for it; -EINVAL
 * after it said which file is wrong; -ENOMEM, what reading says. */
int plot_calls(const char *dir, FILE *to);     /* rpc.png: of rpc --results */
int plot_pages(const char *dir, FILE *to);     /* page.png: of page drive --json */
int plot_faults(const char *dir, FILE *to);    /* page-faults.png: of page judge --json */
int plot_transfers(const char *dir, FILE *to); /* transfer.png: of transfer --json */

#endif
