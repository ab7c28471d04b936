/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures, drawn by gnuplot. */
#ifndef BENCH_GNUPLOT_H
#define BENCH_GNUPLOT_H

#include <stddef.h>
#include <stdio.h>

/* Writes what gnuplot is told; 0, or a negative errno. */
typedef int gnuplot_script_fn(const char *dir, FILE *to);

/* Run gnuplot with it in dir. 0; what script says; -ENOEXEC when there is no gnuplot; -EIO after it
 * said what is wrong; -ETIMEDOUT, -ENOMEM, what fork(2) and memfd_create(2) say. */
int gnuplot_run(gnuplot_script_fn *script, const char *dir);

/* A text for between quotes: without those characters that end it, or that cannot be printed. */
void gnuplot_quote(char *to, size_t room, const char *from);

/* Tell it to draw NAME.png, or else NAME.svg, of the same size. */
void gnuplot_begin_png(const char *name, unsigned width, unsigned height, FILE *to);
void gnuplot_begin_svg(const char *name, unsigned width, unsigned height, FILE *to);

#endif
