/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: the wall clock of a process is as many seconds off as the number says that begins the
 * file $WALL_CLOCK, from the moment on that it is written there. The monotonic clock goes on.
 * (libfaketime does not start where ASan is.)
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *offset_s;

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("WALL_CLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void *at =
		fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset_s), PROT_READ, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		_exit(120);
	close(fd);
	offset_s = at;
}

int clock_gettime(clockid_t id, struct timespec *out)
{
	int ret = (int)syscall(SYS_clock_gettime, id, out);

	if (!ret && offset_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		out->tv_sec += __atomic_load_n(offset_s, __ATOMIC_RELAXED);
	return ret;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	*out = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
