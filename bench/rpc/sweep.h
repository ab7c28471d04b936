/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One system's echo calls by size, as CSV has them: what `slime-bench rpc --csv` and the programs
 * of bench/baselines print, and the files of a directory of results. Those files have the columns
 * of DLSlime's benchmarks: there "bw_gbps" counts the bytes of both directions, in 10^9 bytes a
 * second.
 */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SWEEP_MAX_POINTS 64
#define SWEEP_MAX_HEAD	 4096
#define SWEEP_MAX_BYTES	 (256 * 1024)

struct sweep_point {
	uint64_t size;
	double avg_us;
	double p50_us;
	double p99_us;
	double bw_gb_s; /* of one direction, 10^9 bytes a second */
};

struct sweep {
	char head[SWEEP_MAX_HEAD]; /* how it was measured: lines that begin with "# ", without that,
				      or those of the file beside it */
	struct sweep_point points[SWEEP_MAX_POINTS]; /* sizes grow */
	size_t n;
};

/*
 * Read a file. Its columns are known by their names in the first line that is no comment; others
 * may be among them. 0; -ENOENT when there is none; else -EINVAL after "FILE:LINE: what was
 * expected" on standard error, or what open(2) and read(2) say.
 */
int sweep_read(struct sweep *s, const char *path);

/* Read the head of a sweep that was read from the file beside it, as sweep_read(). */
int sweep_read_head(struct sweep *s, const char *path);

/* Print the figures as a file of results has them: the line of columns comes first. */
void sweep_print(const struct sweep *s, FILE *to);

/* The same from memory, which ends with NUL and is written to; path stands for it in the errors,
 * which go to `errors`, or nowhere when that is NULL. */
int sweep_parse(struct sweep *s, const char *path, char *text, FILE *errors);

/* The point of that size, or NULL. */
const struct sweep_point *sweep_at(const struct sweep *s, uint64_t size);

#endif
