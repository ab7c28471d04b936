/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "cli/process/manager.h"
#include "text/json_slice.h"
#include "text/json_text.h"

static int join(char out[PATH_MAX], const char *dir, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Without slashes at its end, behind which there is no directory that mkdir() could make. */
static int take_dir(char out[PATH_MAX], const char *dir)
{
	size_t len = strlen(dir);

	if (dir[0] != '/')
		return -EINVAL;
	while (len > 1 && dir[len - 1] == '/')
		len--;
	return snprintf(out, PATH_MAX, "%.*s", (int)len, dir) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Of a user who is not root. */
static int state_dir(char out[PATH_MAX], const char *program)
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char state[PATH_MAX];

	if (base && base[0] == '/')
		return join(out, base, program);
	if (!home || home[0] != '/')
		return -ENOENT;
	return join(state, home, ".local/state") ? -ENAMETOOLONG : join(out, state, program);
}

/* In a directory where no other user can create the name first, as in /tmp. */
static int choose_dir(char out[PATH_MAX], const char *program, const char *dir)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	char state[PATH_MAX];
	int ret;

	if (dir)
		return take_dir(out, dir);
	ret = cli_manager_directory("RUNTIME_DIRECTORY", out, PATH_MAX);
	if (ret != -ENOENT)
		return ret;
	if (base && base[0] == '/')
		return join(out, base, program);
	if (geteuid() == 0)
		return join(out, "/run", program);
	ret = state_dir(state, program);
	return ret ? ret : join(out, state, "run");
}

/* A file of the program in dir. */
static int join_own(char out[PATH_MAX], const char *dir, const char *program, const char *suffix)
{
	int n = snprintf(out, PATH_MAX, "%s/%s%s", dir, program, suffix);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int choose_log(struct runtime *rt)
{
	char logs[PATH_MAX];
	int ret = cli_manager_directory("LOGS_DIRECTORY", logs, sizeof(logs));

	if (ret && ret != -ENOENT)
		return ret;
	rt->log_is_given = !ret;
	return join_own(rt->log_file, ret ? rt->dir : logs, rt->program, ".log");
}

int runtime_init(struct runtime *rt, const char *program, const char *dir)
{
	int ret = choose_dir(rt->dir, program, dir);

	rt->program = program;
	if (!ret)
		ret = join_own(rt->pid_file, rt->dir, program, ".pid");
	if (!ret)
		ret = choose_log(rt);
	if (!ret)
		ret = join_own(rt->meta_file, rt->dir, program, ".meta.json");
	return ret ? ret : join(rt->data_link, rt->dir, "data");
}

int runtime_make_dir(const char *path)
{
	char partial[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(partial))
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(partial, path, i);
		partial[i] = '\0';
		if (mkdir(partial, i == len ? 0700 : 0755) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int runtime_create(const struct runtime *rt)
{
	struct stat st;
	int ret = runtime_make_dir(rt->dir);

	if (ret)
		return ret;
	if (lstat(rt->dir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return st.st_uid != geteuid() || (st.st_mode & 022) ? -EPERM : 0;
}

int runtime_data_dir(const char *dir, char out[PATH_MAX])
{
	int ret;

	if (dir)
		return take_dir(out, dir);
	ret = cli_manager_directory("STATE_DIRECTORY", out, PATH_MAX);
	if (ret != -ENOENT)
		return ret;
	return geteuid() ? state_dir(out, "nanoctrl") : join(out, "/var/lib", "nanoctrl");
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int runtime_write(const char *path, const char *text, size_t len)
{
	char new_path[PATH_MAX];
	int fd, ret;

	if (snprintf(new_path, sizeof(new_path), "%s.new", path) >= (int)sizeof(new_path))
		return -ENAMETOOLONG;
	fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	ret = write_all(fd, text, len);
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(new_path, path))
		ret = -errno;
	if (ret)
		unlink(new_path);
	return ret;
}

/* Our command line as a list in JSON, as much of it as fits; what main() hid in it stays hidden. */
static void command_line(char *out, size_t room)
{
	char words[4096], word[2 * sizeof(words)];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, words, sizeof(words) - 1);
	size_t n = (size_t)snprintf(out, room, "[");

	if (fd >= 0)
		close(fd);
	words[len > 0 ? len : 0] = '\0';
	for (const char *at = words; at < words + len; at += strlen(at) + 1) {
		json_text(word, sizeof(word), at);
		if (n + strlen(word) + 4 > room)
			break;
		n += (size_t)snprintf(out + n, room - n, "%s%s", at == words ? "" : ", ", word);
	}
	snprintf(out + n, room - n, "]");
}

int runtime_write_meta(const struct runtime *rt, const char *url, const char *log,
		       const char *data_dir, const char *redis)
{
	char log_text[2 * PATH_MAX], dir_text[2 * PATH_MAX], redis_text[2 * PATH_MAX];
	char cmd[8192], text[10 * PATH_MAX];
	int n;

	json_text(log_text, sizeof(log_text), log ? log : "");
	json_text(dir_text, sizeof(dir_text), data_dir ? data_dir : "");
	json_text(redis_text, sizeof(redis_text), redis ? redis : "");
	command_line(cmd, sizeof(cmd));
	n = snprintf(
		text, sizeof(text),
		"{\n  \"pid\": %ld,\n  \"address\": \"%s\",\n  \"cmd\": %s,\n  \"log\": %s,\n"
		"  \"data_dir\": %s,\n  \"redis\": %s,\n  \"version\": \"%s\",\n  \"started_at\": %lld\n}\n",
		(long)getpid(), url, cmd, log_text, dir_text, redis_text, SLIME_VERSION,
		(long long)time(NULL));
	unlink(rt->data_link);
	if (data_dir && symlink(data_dir, rt->data_link))
		return -errno;
	return runtime_write(rt->meta_file, text, (size_t)n);
}

/* A text of the file, "" when it is none or too long. */
static void take_text(struct json_slice value, char *out, size_t room)
{
	char *text = malloc(value.len + 1);

	if (text && json_unquote(value, text) >= 0)
		snprintf(out, room, "%s", strlen(text) < room ? text : "");
	free(text);
}

bool runtime_read_meta(const struct runtime *rt, struct runtime_meta *out)
{
	char text[10 * PATH_MAX];
	int fd = open(rt->meta_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	struct json_slice key, value;
	struct json_walk w;
	uint64_t pid;

	memset(out, 0, sizeof(*out));
	if (fd >= 0)
		close(fd);
	if (n <= 0 || json_too_deep(text, (size_t)n, 2) ||
	    !json_walk_init(&w, json_first(text, (size_t)n)) || !w.object)
		return false;
	while (json_walk_next(&w, &key, &value)) {
		if (json_is(key, "\"pid\"") && json_u64(value, INT32_MAX, &pid))
			out->pid = (long)pid;
		else if (json_is(key, "\"address\""))
			take_text(value, out->address, sizeof(out->address));
		else if (json_is(key, "\"log\""))
			take_text(value, out->log, sizeof(out->log));
		else if (json_is(key, "\"data_dir\""))
			take_text(value, out->data_dir, sizeof(out->data_dir));
		else if (json_is(key, "\"redis\""))
			take_text(value, out->redis, sizeof(out->redis));
	}
	return true;
}

void runtime_clean(const struct runtime *rt)
{
	unlink(rt->meta_file);
	unlink(rt->data_link);
}
