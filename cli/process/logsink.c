/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/process/logqueue.h"
#include "cli/process/logsink.h"
#include "cli/output/utf8.h"

const char *const cli_log_levels[] = { "error", "warn", "info", "debug", NULL };
const char *const cli_log_formats[] = { "text", "json", NULL };

/* A byte becomes at most "\u00XX" or the three bytes of U+FFFD. */
#define JSON_MAX (SL_LOG_LINE_MAX * 6 + 256)

/* The time in which waiting lines are written at the end. */
#define FLUSH_MS 1000

static struct {
	int fd;
	char *file;		     /* NULL while it is standard error */
	struct cli_log_queue *queue; /* or NULL */
	const char *queued;
	_Atomic uint64_t lost; /* lines in a row that were not taken, without a queue */
	_Atomic int why;       /* the last was: errno */
} sink = { .fd = STDERR_FILENO };

static _Thread_local bool taken; /* the last line, without a queue */

static void format_time(char *out, size_t len)
{
	static _Thread_local struct {
		time_t second;
		char text[32]; /* of it */
	} last = { .second = -1 };
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec != last.second) {
		gmtime_r(&now.tv_sec, &tm);
		strftime(last.text, sizeof(last.text), "%Y-%m-%dT%H:%M:%S", &tm);
		last.second = now.tv_sec;
	}
	snprintf(out, len, "%s.%03ldZ", last.text, now.tv_nsec / 1000000);
}

static bool may_wait(enum slime_log_level level, const char *part)
{
	return level > SLIME_LOG_WARN && sink.queued && !strcmp(part, sink.queued);
}

/* Standard error is told of the first line that is lost. */
static void lose(int err)
{
	atomic_store(&sink.why, err);
	if (!atomic_fetch_add(&sink.lost, 1) && sink.file)
		dprintf(STDERR_FILENO, "%s: log file %s: %s: its lines are lost meanwhile\n",
			program_invocation_short_name, sink.file, strerror(err));
}

/* A full disk does not stop the program. The log says how many lines it lacks once it takes some
 * again. */
static void write_now(const char *line, size_t len)
{
	ssize_t n = write(sink.fd, line, len);
	uint64_t lost;

	taken = n == (ssize_t)len;
	if (!taken) {
		lose(n < 0 ? errno : ENOSPC);
		return;
	}
	lost = atomic_exchange(&sink.lost, 0);
	if (!lost)
		return;
	cli_log_queue_tell(lost, atomic_load(&sink.why));
	taken = true;
}

/* One write: the kernel keeps appended lines of threads and processes apart. */
static void put(enum slime_log_level level, const char *part, const char *line, int n, size_t room)
{
	size_t len = n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;

	if (!sink.queue) {
		write_now(line, len);
	} else if (may_wait(level, part)) {
		cli_log_queue_put(sink.queue, line, len);
	} else {
		cli_log_queue_write(sink.queue, line, len);
	}
}

static void put_text(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	char out[SL_LOG_LINE_MAX + 128], now[64];

	(void)arg;
	format_time(now, sizeof(now));
	put(level, part, out,
	    snprintf(out, sizeof(out), "%s %s %s: %s\n", now, cli_log_levels[level], part, line),
	    sizeof(out));
}

/* As the inside of a JSON string; what is no UTF-8 becomes U+FFFD. */
static void escape(char *out, size_t room, const char *text)
{
	char *end = out + room - 7;

	while (*text && out < end) {
		size_t len = cli_utf8_len(text);
		unsigned char c = (unsigned char)*text;

		if (!len) {
			memcpy(out, "\xef\xbf\xbd", 3);
			out += 3;
			text++;
		} else if (c < 0x20) {
			out += sprintf(out, "\\u%04x", c);
			text++;
		} else {
			if (c == '"' || c == '\\')
				*out++ = '\\';
			memcpy(out, text, len);
			out += len;
			text += len;
		}
	}
	*out = '\0';
}

static void request_member(char *out, size_t room)
{
	const char *id = sl_log_request();
	char text[256];

	*out = '\0';
	if (!id)
		return;
	escape(text, sizeof(text), id);
	snprintf(out, room, ",\"request_id\":\"%s\"", text);
}

static void put_json(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	char out[JSON_MAX + 1024], message[JSON_MAX], member[512], now[64];

	(void)arg;
	format_time(now, sizeof(now));
	escape(message, sizeof(message), line);
	request_member(member, sizeof(member));
	put(level, part, out,
	    snprintf(out, sizeof(out),
		     "{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%s\"%s,\"message\":\"%s\"}\n",
		     now, cli_log_levels[level], part, member, message),
	    sizeof(out));
}

/* A FIFO without a reader is ENXIO, and one that is read too slowly loses lines: neither keeps the
 * program waiting. */
int cli_log_open_file(const char *file)
{
	int fd =
		open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);

	return fd < 0 ? -errno : fd;
}

const char *cli_log_error(int ret)
{
	return ret == -ENXIO ? "expected a file: it is a FIFO without a reader, or a socket"
			     : strerror(-ret);
}

/* Others that have standard error may count on it to wait for its reader: what does not wait is a
 * description of our own. */
static int open_stderr(void)
{
	struct stat st;
	int fd = -1;

	if (!fstat(STDERR_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		fd = open("/proc/self/fd/2",
			  O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? STDERR_FILENO : fd;
}

static void close_sink(int fd, char *file)
{
	if (fd != STDERR_FILENO)
		close(fd);
	free(file);
}

static int open_sink(const struct cli_log_attr *attr, int *fd, char **file)
{
	*file = NULL;
	if (!attr->file) {
		*fd = attr->queued ? open_stderr() : STDERR_FILENO;
		return 0;
	}
	*file = strdup(attr->file);
	if (!*file)
		return -ENOMEM;
	*fd = cli_log_open_file(*file);
	if (*fd >= 0)
		return 0;
	free(*file);
	return *fd;
}

int cli_log_open(const struct cli_log_attr *attr)
{
	struct cli_log_queue *queue = NULL;
	char *file;
	int fd, ret = open_sink(attr, &fd, &file);

	if (!ret && attr->queued) {
		ret = cli_log_queue_create(fd, &queue);
		if (ret)
			close_sink(fd, file);
	}
	if (ret)
		return ret;
	cli_log_close();
	sink.fd = fd;
	sink.file = file;
	sink.queue = queue;
	sink.queued = attr->queued;
	slime_log_set(attr->format == CLI_LOG_JSON ? put_json : put_text, NULL, attr->level);
	return 0;
}

int cli_log_reopen(void)
{
	int fd, ret = 0;

	if (!sink.file)
		return 0;
	fd = cli_log_open_file(sink.file);
	if (fd < 0)
		return fd;
	/* The number stays and changes its file at once: threads that write meanwhile lose nothing.
	 */
	if (dup3(fd, sink.fd, O_CLOEXEC) < 0)
		ret = -errno;
	close(fd);
	if (!ret && sink.queue)
		cli_log_queue_reopened(sink.queue);
	return ret;
}

uint64_t cli_log_dropped(void)
{
	return sink.queue ? cli_log_queue_dropped(sink.queue) : 0;
}

/* Whether it was taken: no thread waits for it, at the end, either. */
static bool tell_dropped(int fd, uint64_t n, int why)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	taken = poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
	sink.fd = fd;
	if (taken)
		cli_log_queue_tell(n, why);
	return taken;
}

void cli_log_close(void)
{
	int fd = sink.fd;
	uint64_t untold;
	int why;
	bool ended = cli_log_queue_destroy(sink.queue, FLUSH_MS, &untold, &why);

	sink.queue = NULL;
	if (untold && (!ended || !tell_dropped(fd, untold, why)) && fd != STDERR_FILENO)
		tell_dropped(STDERR_FILENO, untold, why);
	atomic_store(&sink.lost, 0);
	slime_log_set(NULL, NULL, slime_log_level());
	/* Else its number could be another file's, and get lines. */
	close_sink(ended ? fd : STDERR_FILENO, sink.file);
	sink.fd = STDERR_FILENO;
	sink.file = NULL;
}
