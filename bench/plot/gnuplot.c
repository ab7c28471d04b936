/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/plot/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/process/child.h"

#define TIMEOUT_MS 60000

void gnuplot_quote(char *to, size_t room, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < room; from++)
		if ((unsigned char)*from >= ' ' && *from != '\'' && *from != '"' && *from != '\\')
			to[n++] = *from;
	to[n] = '\0';
}

void gnuplot_begin_png(const char *name, unsigned width, unsigned height, FILE *to)
{
	fprintf(to,
		"set terminal pngcairo noenhanced size %u,%u font 'Sans,12'\nset output '%s.png'\n",
		width, height, name);
}

void gnuplot_begin_svg(const char *name, unsigned width, unsigned height, FILE *to)
{
	fprintf(to,
		"set terminal svg noenhanced size %u,%u font 'Sans,14' background '#ffffff'\n"
		"set output '%s.svg'\n",
		width, height, name);
}

static int run_gnuplot(int script, const char *dir)
{
	char *argv[] = { "gnuplot", "-", NULL };
	/* In the C locale it warns that a degree sign cannot be had. */
	struct child_attr attr = {
		.argv = argv, .dir = dir, .locale = "C.UTF-8", .in = script, .out = 2, .err = 2
	};
	struct child child;
	int caught;
	int ret = child_start(&child, &attr);

	if (ret == -ENOENT)
		return -ENOEXEC;
	if (!ret)
		ret = child_wait(&child, TIMEOUT_MS, -1, &caught);
	return ret > 0 ? -EIO : ret;
}

int gnuplot_run(gnuplot_script_fn *script, const char *dir)
{
	int fd = memfd_create("plot", MFD_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
	int ret = f ? script(dir, f) : -errno;

	if (!ret && (fflush(f) || ferror(f)))
		ret = -EIO;
	if (!ret && lseek(fd, 0, SEEK_SET) < 0)
		ret = -errno;
	if (!ret)
		ret = run_gnuplot(fd, dir);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	return ret;
}
