/* SPDX-License-Identifier: Apache-2.0 */
/* One system's echo calls by size, as a CSV file has them: what `slime-bench rpc --csv` prints, and
 * what the programs of bench/baselines print. */
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
	double bw_gbps; /* both ways, 10^9 bytes a second */
};

struct sweep {
	char head[SWEEP_MAX_HEAD]; /* its lines that begin with "# ", without that: what was
				      measured on */
	struct sweep_point points[SWEEP_MAX_POINTS]; /* sizes grow */
	size_t n;
};

/*
 * Read a file. Its columns are known by their names in the first line that is no comment; others
 * may be among them. 0; -ENOENT when there is none; else -EINVAL after "FILE:LINE: what was
 * expected" on standard error, or what open(2) and read(2) say.
 */
int sweep_read(struct sweep *s, const char *path);

/* The same from memory, which ends with NUL and is written to; path stands for it in the errors,
 * which go to `errors`, or nowhere when that is NULL. */
int sweep_parse(struct sweep *s, const char *path, char *text, FILE *errors);

/* The point of that size, or NULL. */
const struct sweep_point *sweep_at(const struct sweep *s, uint64_t size);

#endif
