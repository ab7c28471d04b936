/* SPDX-License-Identifier: Apache-2.0 */
/* What `page drive --json` printed, as pictures: DIR/page*.json. */
#ifndef BENCH_PAGE_PLOT_H
#define BENCH_PAGE_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#define PAGE_PLOT_PNG "page.png"
#define PAGE_PLOT_SVG "page.svg"

/* Whether the directory has such results. */
bool page_plot_has(const char *dir);

/* Draw both files there. 0; -EINVAL after it said which file is no such result; otherwise as
 * plot_draw(). */
int page_plot_draw(const char *dir);

/* What gnuplot is told. The same errors. */
int page_plot_script(const char *dir, FILE *to);

#endif
