/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/rpc/results.h"

const struct system_name system_names[N_SYSTEMS] = {
	[SYSTEM_SLIME] = { "slime", "slime", "Slime" },
	[SYSTEM_RAY] = { "ray", "Ray", "Ray" },
	[SYSTEM_PULSING] = { "pulsing", "Pulsing", "Pul" },
	[SYSTEM_ZEROMQ] = { "zeromq", "ZeroMQ", "Zmq" },
	[SYSTEM_GRPC] = { "grpc", "gRPC", "gRPC" },
};

char *results_path(const char *dir, enum system system, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s/%s_rpc.%s", dir, system_names[system].key, suffix) < 0 ? NULL
											  : path;
}

int results_create(const char *dir)
{
	struct stat st;

	if (!mkdir(dir, 0777))
		return 0;
	if (errno != EEXIST || stat(dir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return access(dir, W_OK | X_OK) ? -errno : 0;
}

static int write_file(const char *path, results_fn *write, void *arg)
{
	FILE *f = fopen(path, "we");
	int ret;

	if (!f)
		return -errno;
	ret = write(arg, f);
	if (!ret && (ferror(f) || fflush(f)))
		ret = -EIO;
	if (fclose(f) && !ret)
		ret = -errno;
	return ret;
}

struct file {
	char *path;
	char *part; /* until all of it is there */
};

static int write_part(struct file *f, const char *dir, enum system system, const char *suffix,
		      results_fn *write, void *arg)
{
	f->path = results_path(dir, system, suffix);
	if (f->path && asprintf(&f->part, "%s.part", f->path) < 0)
		f->part = NULL;
	return f->part ? write_file(f->part, write, arg) : -ENOMEM;
}

/* ret is of what came before. */
static int put_in_place(struct file *f, int ret)
{
	if (!ret && rename(f->part, f->path))
		ret = -errno;
	if (ret && f->part)
		unlink(f->part);
	free(f->path);
	free(f->part);
	return ret;
}

int results_write(const char *dir, enum system system, results_fn *head, results_fn *figures,
		  void *arg)
{
	struct file text = { NULL }, csv = { NULL };
	int ret = write_part(&text, dir, system, RESULTS_HEAD, head, arg);

	if (!ret)
		ret = write_part(&csv, dir, system, RESULTS_FIGURES, figures, arg);
	ret = put_in_place(&text, ret);
	return put_in_place(&csv, ret);
}

void results_remove(const char *dir, enum system system)
{
	static const char *const suffixes[] = { RESULTS_FIGURES, RESULTS_HEAD };

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		char *path = results_path(dir, system, suffixes[i]);

		if (path)
			unlink(path);
		free(path);
	}
}

static int read_system(struct sweep *s, const char *dir, enum system system)
{
	char *figures = results_path(dir, system, RESULTS_FIGURES);
	char *head = results_path(dir, system, RESULTS_HEAD);
	int ret = figures && head ? sweep_read(s, figures) : -ENOMEM;

	if (!ret) {
		ret = sweep_read_head(s, head);
		ret = ret == -ENOENT ? 0 : ret; /* figures of other tools have none */
	}
	free(figures);
	free(head);
	return ret;
}

int results_read(struct results *r, const char *dir)
{
	for (enum system i = 0; i < N_SYSTEMS; i++) {
		int ret = read_system(&r->sweeps[i], dir, i);

		if (ret == -ENOENT && i != SYSTEM_SLIME) {
			r->sweeps[i].n = 0;
			continue;
		}
		if (ret)
			return ret;
	}
	return 0;
}
