/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/logsink.h"
#include "cli/utf8.h"

const char *const cli_log_levels[] = { "error", "warn", "info", "debug", NULL };
const char *const cli_log_formats[] = { "text", "json", NULL };

/* A byte becomes at most "\u00XX" or the three bytes of U+FFFD. */
#define JSON_MAX (SL_LOG_LINE_MAX * 6 + 256)

static struct {
	int fd;
	char *file; /* NULL while it is standard error */
} sink = { .fd = STDERR_FILENO };

static void format_time(char *out, size_t len)
{
	struct timespec now;
	struct tm tm;
	char day[32];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, len, "%s.%03ldZ", day, now.tv_nsec / 1000000);
}

/* One write: the kernel keeps appended lines of threads and processes apart. */
static void put(const char *line, int n, size_t room)
{
	size_t len = n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
	ssize_t written = write(sink.fd, line, len);

	(void)written; /* a full disk must not stop the program, and there is nowhere to say it */
}

static void put_text(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	char out[SL_LOG_LINE_MAX + 128], now[64];

	(void)arg;
	format_time(now, sizeof(now));
	put(out,
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
	put(out,
	    snprintf(out, sizeof(out),
		     "{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%s\"%s,\"message\":\"%s\"}\n",
		     now, cli_log_levels[level], part, member, message),
	    sizeof(out));
}

/* A FIFO that nobody reads is ENXIO, and one that is read too slowly loses lines: neither keeps the
 * program waiting. */
int cli_log_open_file(const char *file)
{
	int fd =
		open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);

	return fd < 0 ? -errno : fd;
}

const char *cli_log_error(int ret)
{
	return ret == -ENXIO ? "expected a file: it is a FIFO that nobody reads, or a socket"
			     : strerror(-ret);
}

int cli_log_open(const struct cli_log_attr *attr)
{
	char *file = NULL;
	int fd = STDERR_FILENO;

	if (attr->file) {
		file = strdup(attr->file);
		if (!file)
			return -ENOMEM;
		fd = cli_log_open_file(file);
		if (fd < 0) {
			free(file);
			return fd;
		}
	}
	cli_log_close();
	sink.fd = fd;
	sink.file = file;
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
	return ret;
}

void cli_log_close(void)
{
	slime_log_set(NULL, NULL, slime_log_level());
	if (sink.file)
		close(sink.fd);
	free(sink.file);
	sink.fd = STDERR_FILENO;
	sink.file = NULL;
}
