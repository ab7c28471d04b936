/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/results.h"

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

static int write_file(const char *path, int (*write)(void *arg, FILE *to), void *arg)
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

int results_write(const char *dir, enum system system, int (*write)(void *arg, FILE *to), void *arg)
{
	char *path = results_path(dir, system, "csv");
	char *part = results_path(dir, system, "csv.part");
	int ret = path && part ? write_file(part, write, arg) : -ENOMEM;

	if (!ret && rename(part, path))
		ret = -errno;
	if (ret && part)
		unlink(part);
	free(path);
	free(part);
	return ret;
}

int results_read(struct results *r, const char *dir)
{
	for (enum system i = 0; i < N_SYSTEMS; i++) {
		char *path = results_path(dir, i, "csv");
		int ret = path ? sweep_read(&r->sweeps[i], path) : -ENOMEM;

		free(path);
		if (ret == -ENOENT && i != SYSTEM_SLIME) {
			r->sweeps[i].n = 0;
			continue;
		}
		if (ret)
			return ret;
	}
	return 0;
}
