/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/rpc/sweep.h"

#define MAX_COLUMNS 32
#define FIGURE_MAX  1e15

enum figure { SIZE, AVG, P50, P99, BW, N_FIGURES };

static const char *const names[N_FIGURES] = { "size", "avg_us", "p50_us", "p99_us", "bw_gb_s" };
/* Instead of the last one, in files of results. */
#define BOTH_WAYS "bw_gbps"

struct parse {
	const char *path;
	FILE *errors; /* NULL: none */
	unsigned line;
	struct sweep *sweep;
	size_t n_columns;	  /* 0: the heading has not come */
	size_t column[N_FIGURES]; /* where each figure stands */
	bool both_ways;		  /* the bandwidth counts both directions */
};

static int refuse(const struct parse *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(const struct parse *p, const char *fmt, ...)
{
	va_list args;

	if (!p->errors)
		return -EINVAL;
	fprintf(p->errors, "%s:%u: ", p->path, p->line);
	va_start(args, fmt);
	vfprintf(p->errors, fmt, args);
	va_end(args);
	fputc('\n', p->errors);
	return -EINVAL;
}

/* The cells between commas, at most MAX_COLUMNS of them; 0 when there are more. */
static size_t split(char *line, char **cells)
{
	size_t n = 0;

	for (char *cell; (cell = strsep(&line, ",")); n++) {
		if (n == MAX_COLUMNS)
			return 0;
		cells[n] = cell;
	}
	return n;
}

static int take_comment(struct parse *p, const char *text)
{
	char *head = p->sweep->head;
	size_t used = strlen(head);

	text += *text == ' ';
	if (used + strlen(text) + 2 > sizeof(p->sweep->head))
		return refuse(p, "expected at most %d bytes of comments", SWEEP_MAX_HEAD);
	for (; *text; text++)
		head[used++] = *text < 0x20 || *text == 0x7f ? '?' : *text;
	head[used++] = '\n';
	head[used] = '\0';
	return 0;
}

/* n: there is none of that name. */
static size_t column_of(const char *name, char *const *cells, size_t n)
{
	size_t i = 0;

	while (i < n && strcmp(cells[i], name))
		i++;
	return i;
}

static int take_heading(struct parse *p, char *line)
{
	char *cells[MAX_COLUMNS];
	size_t n = split(line, cells);

	for (int f = 0; f < N_FIGURES; f++) {
		size_t i = column_of(names[f], cells, n);

		if (i == n && f == BW) {
			i = column_of(BOTH_WAYS, cells, n);
			p->both_ways = true;
		}
		if (i == n)
			return refuse(p,
				      "expected a heading with the columns size, avg_us, p50_us, "
				      "p99_us and bw_gb_s or " BOTH_WAYS);
		p->column[f] = i;
	}
	p->n_columns = n;
	return 0;
}

static bool read_figure(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end && isfinite(*out) && *out >= 0 && *out <= FIGURE_MAX;
}

static bool read_size(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *out > 0;
}

static int take_row(struct parse *p, char *line)
{
	struct sweep *s = p->sweep;
	struct sweep_point point;
	double *const figures[N_FIGURES] = { [AVG] = &point.avg_us,
					     [P50] = &point.p50_us,
					     [P99] = &point.p99_us,
					     [BW] = &point.bw_gb_s };
	char *cells[MAX_COLUMNS];

	if (s->n == SWEEP_MAX_POINTS)
		return refuse(p, "expected at most %d sizes", SWEEP_MAX_POINTS);
	if (split(line, cells) != p->n_columns)
		return refuse(p, "expected %zu cells, as the heading has", p->n_columns);
	if (!read_size(cells[p->column[SIZE]], &point.size) ||
	    (s->n && point.size <= s->points[s->n - 1].size))
		return refuse(p, "size: expected bytes, more than in the row before");
	for (int f = AVG; f < N_FIGURES; f++) {
		if (!read_figure(cells[p->column[f]], figures[f]))
			return refuse(p, "%s: expected a number from 0 up", names[f]);
	}
	if (p->both_ways)
		point.bw_gb_s /= 2;
	s->points[s->n++] = point;
	return 0;
}

static int take_line(struct parse *p, char *line)
{
	if (line[0] == '#')
		return take_comment(p, line + 1);
	if (!line[0])
		return 0;
	return p->n_columns ? take_row(p, line) : take_heading(p, line);
}

int sweep_parse(struct sweep *s, const char *path, char *text, FILE *errors)
{
	struct parse p = { .path = path, .errors = errors, .sweep = s };
	int ret = 0;

	s->head[0] = '\0';
	s->n = 0;
	for (char *line; !ret && (line = strsep(&text, "\n"));) {
		size_t len = strlen(line);

		p.line++;
		if (len && line[len - 1] == '\r')
			line[len - 1] = '\0';
		ret = take_line(&p, line);
	}
	if (!ret && !s->n)
		ret = refuse(&p, "expected figures");
	return ret;
}

/* The whole file, which the caller frees. */
static int read_text(const char *path, char **out)
{
	struct parse p = { .path = path, .errors = stderr, .line = 1 };
	FILE *f = fopen(path, "re");
	char *text;
	size_t len;
	int ret;

	if (!f)
		return -errno;
	text = malloc(SWEEP_MAX_BYTES + 1);
	if (!text) {
		fclose(f);
		return -ENOMEM;
	}
	len = fread(text, 1, SWEEP_MAX_BYTES + 1, f);
	ret = ferror(f) ? -EIO : 0;
	fclose(f);
	if (!ret && (len > SWEEP_MAX_BYTES || memchr(text, 0, len)))
		ret = refuse(&p, "expected at most %d bytes of text", SWEEP_MAX_BYTES);
	if (ret) {
		free(text);
		return ret;
	}
	text[len] = '\0';
	*out = text;
	return 0;
}

int sweep_read(struct sweep *s, const char *path)
{
	char *text;
	int ret = read_text(path, &text);

	if (ret)
		return ret;
	ret = sweep_parse(s, path, text, stderr);
	free(text);
	return ret;
}

int sweep_read_head(struct sweep *s, const char *path)
{
	struct parse p = { .path = path, .errors = stderr, .sweep = s };
	char *text, *rest;
	int ret = read_text(path, &text);

	if (ret)
		return ret;
	s->head[0] = '\0';
	rest = text;
	for (char *line; !ret && (line = strsep(&rest, "\n"));) {
		p.line++;
		if (line[0])
			ret = take_comment(&p, line);
	}
	free(text);
	return ret;
}

void sweep_print(const struct sweep *s, FILE *to)
{
	fprintf(to, "size,avg_us,p50_us,p99_us," BOTH_WAYS "\n");
	for (size_t i = 0; i < s->n; i++) {
		const struct sweep_point *p = &s->points[i];

		fprintf(to, "%" PRIu64 ",%.2f,%.2f,%.2f,%.4g\n", p->size, p->avg_us, p->p50_us,
			p->p99_us, 2 * p->bw_gb_s);
	}
}

const struct sweep_point *sweep_at(const struct sweep *s, uint64_t size)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->points[i].size == size)
			return &s->points[i];
	}
	return NULL;
}
