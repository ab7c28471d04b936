/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/process/logqueue.h"
#include "cli/process/logsink.h"
#include "support/allocations.h"

static char dir[] = "/tmp/slime-log-XXXXXX";
static char file[64], rotated[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/log", dir);
	snprintf(rotated, sizeof(rotated), "%s/log.1", dir);
	return 0;
}

static int clean(void **state)
{
	(void)state;
	cli_log_close();
	unlink(file);
	unlink(rotated);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

static char *read_file(const char *name)
{
	static char text[4 << 20];
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static void open_as(int format)
{
	struct cli_log_attr attr = { .file = file, .format = format, .level = SLIME_LOG_INFO };

	assert_int_equal(cli_log_open(&attr), 0);
}

static void text__has_time_level_and_part(void **state)
{
	char *text;

	(void)state;
	open_as(CLI_LOG_TEXT);
	sl_info("shm", "hello %d", 1);
	sl_debug("shm", "not this");
	text = read_file(file);
	assert_int_equal(text[4], '-');
	assert_int_equal(text[10], 'T');
	assert_string_equal(text + 23, "Z info shm: hello 1\n");
}

static void json__escapes_what_is_foreign(void **state)
{
	char *text;

	(void)state;
	open_as(CLI_LOG_JSON);
	sl_warn("http", "quote \" slash \\ bad \xff good \xc3\xa9");
	text = read_file(file);
	assert_int_equal(strncmp(text, "{\"time\":\"", 9), 0);
	assert_string_equal(text + 33,
			    "\",\"level\":\"warn\",\"part\":\"http\",\"message\":\"quote \\\" "
			    "slash \\\\ bad ? good \xc3\xa9\"}\n");
}

static void json__about_a_request_has_its_id(void **state)
{
	char *text;

	(void)state;
	open_as(CLI_LOG_JSON);
	sl_log_set_request("a\"1");
	sl_info("http", "about it");
	sl_log_set_request(NULL);
	text = read_file(file);
	assert_string_equal(text + 33, "\",\"level\":\"info\",\"part\":\"http\",\"request_id\":"
				       "\"a\\\"1\",\"message\":\"about it\"}\n");
}

static void json__of_the_longest_line_is_whole(void **state)
{
	char line[4 * SL_LOG_LINE_MAX];
	char *text;

	(void)state;
	memset(line, '"', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	open_as(CLI_LOG_JSON);
	sl_warn("x", "%s", line);
	text = read_file(file);
	assert_string_equal(text + strlen(text) - 5, "\\\"\"}\n");
}

static void reopen__follows_a_rotation(void **state)
{
	(void)state;
	open_as(CLI_LOG_TEXT);
	sl_info("x", "one");
	assert_int_equal(rename(file, rotated), 0);
	sl_info("x", "two");
	assert_int_equal(cli_log_reopen(), 0);
	sl_info("x", "three");
	assert_non_null(strstr(read_file(rotated), "two"));
	assert_non_null(strstr(read_file(file), "three"));
	assert_null(strstr(read_file(file), "two"));
}

static void open__of_what_cannot_be_opened_changes_nothing(void **state)
{
	struct cli_log_attr attr = { .file = "/nonexistent/log" };

	(void)state;
	open_as(CLI_LOG_TEXT);
	assert_int_equal(cli_log_open(&attr), -ENOENT);
	sl_info("x", "still here");
	assert_non_null(strstr(read_file(file), "still here"));
}

static void open__of_a_fifo_waits_for_no_reader(void **state)
{
	struct cli_log_attr attr = { .file = file, .level = SLIME_LOG_INFO };
	char line[256] = "";
	int fd;

	(void)state;
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(cli_log_open(&attr), -ENXIO);
	assert_non_null(strstr(cli_log_error(-ENXIO), "a FIFO without a reader"));
	fd = open(file, O_RDONLY | O_NONBLOCK);
	assert_int_equal(cli_log_open(&attr), 0);
	assert_int_equal(cli_log_reopen(), 0);
	sl_info("x", "read");
	assert_true(read(fd, line, sizeof(line) - 1) > 0);
	assert_non_null(strstr(line, "read"));
	/* Nor for one that reads nothing any more. */
	for (int i = 0; i < 20000; i++)
		sl_info("x", "not read");
	close(fd);
	assert_int_equal(cli_log_reopen(), -ENXIO);
}

/* ---- lines that wait for a thread to write them ---- */

static int open_queued(enum slime_log_level level)
{
	const struct cli_log_attr attr = { .file = file, .level = level, .queued = "access" };

	return cli_log_open(&attr);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* Lines "N " and what makes them long, numbered from `from` on; one of them is 200 bytes. */
static void say_many(int from, int n)
{
	for (int i = from; i < from + n; i++)
		sl_info("access", "%d %0150d.", i, 0);
}

/* The lines that say_many() said, each whole and in order. */
static size_t whole_lines(const char *text)
{
	size_t n = 0;
	int last = -1;

	for (; *text; n++) {
		const char *part = strchr(text, ' ');
		int at, end = 0;

		assert_non_null(part);
		assert_int_equal(sscanf(part, " info access: %d %*150[0].\n%n", &at, &end), 1);
		assert_true(end > 0 && at > last);
		last = at;
		text = part + end;
	}
	return n;
}

static void queued_lines__are_all_there_at_the_end(void **state)
{
	(void)state;
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	for (int i = 0; i < 20; i++)
		say_many(i * 100, 100);
	cli_log_close();
	assert_int_equal(whole_lines(read_file(file)), 2000);
}

static void queued_lines__are_written_soon(void **state)
{
	(void)state;
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	for (int i = 1; i < 4; i++) {
		sl_info("access", "line");
		while (count(read_file(file), "access: line\n") < (size_t)i)
			;
	}
	sl_debug("access", "too much");
	cli_log_close();
	assert_int_equal(count(read_file(file), "\n"), 3);
}

static void queued_part__has_warnings_and_others_have_all_at_once(void **state)
{
	(void)state;
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	sl_warn("access", "one");
	assert_non_null(strstr(read_file(file), " warn access: one\n"));
	sl_info("http", "two");
	assert_non_null(strstr(read_file(file), " info http: two\n"));
}

#define N_SPEAKERS 4
#define N_EACH	   500

static void *speak(void *arg)
{
	for (int i = 0; i < N_EACH; i++)
		sl_info("access", "%s said", (const char *)arg);
	return NULL;
}

static void queued_lines__of_threads_do_not_mix(void **state)
{
	static char names[N_SPEAKERS][8] = { "anna", "bert", "carl", "dora" };
	pthread_t threads[N_SPEAKERS];

	(void)state;
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	for (int i = 0; i < N_SPEAKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, speak, names[i]), 0);
	for (int i = 0; i < 200; i++)
		sl_warn("http", "zoe said");
	for (int i = 0; i < N_SPEAKERS; i++)
		pthread_join(threads[i], NULL);
	cli_log_close();
	for (int i = 0; i < N_SPEAKERS; i++) {
		char line[64];

		snprintf(line, sizeof(line), "Z info access: %s said\n", names[i]);
		assert_int_equal(count(read_file(file), line), N_EACH);
	}
	assert_int_equal(count(read_file(file), "Z warn http: zoe said\n"), 200);
}

static void queued_lines__take_no_memory(void **state)
{
	(void)state;
	assert_true(hook_works());
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	say_many(0, 10);
	while (count(read_file(file), "\n") < 10)
		; /* the thread has begun */
	n_allocations = 0;
	counting = true;
	say_many(10, 2000);
	counting = false;
	cli_log_close();
	assert_int_equal(n_allocations, 0);
	assert_int_equal(whole_lines(read_file(file)), 2010);
}

/* Opens file as a FIFO, which this end does not read yet. */
static int open_fifo(void)
{
	int fd;

	assert_int_equal(mkfifo(file, 0600), 0);
	fd = open(file, O_RDONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	return fd;
}

/* So many lines, once the FIFO has them. */
static char *read_lines(int fd, size_t n_lines)
{
	static char text[4 << 20];
	size_t len = 0, n_seen = 0;

	while (n_seen < n_lines) {
		ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

		assert_true(n > 0 || errno == EAGAIN);
		for (; n > 0; n--)
			n_seen += text[len++] == '\n';
	}
	text[len] = '\0';
	return text;
}

/* How many were dropped, as the text says, out of which that line is taken. */
static uint64_t take_told(char *text)
{
	char *told = strstr(text, " warn log: "), *next;
	uint64_t n;

	assert_non_null(told);
	n = strtoull(told + strlen(" warn log: "), NULL, 10);
	next = strchr(told, '\n') + 1;
	while (told > text && told[-1] != '\n')
		told--;
	memmove(told, next, strlen(next) + 1);
	return n;
}

static void queued_lines__of_a_reader_who_reads_nothing_are_dropped_and_counted(void **state)
{
	uint64_t dropped;
	char *text;
	int fd;

	(void)state;
	fd = open_fifo();
	for (int i = 0; i < 20; i++)
		say_many(i * 1000, 1000); /* 4 MB: nobody waits */
	dropped = cli_log_dropped();
	assert_true(dropped > 0);
	/* Once there is room again the log says how many. */
	text = read_lines(fd, 20000 - dropped + 1);
	assert_int_equal(take_told(text), dropped);
	assert_int_equal(whole_lines(text) + dropped, 20000);
	close(fd);
}

static void lines__that_a_full_pipe_does_not_take_wait_for_its_reader(void **state)
{
	int fd;

	(void)state;
	fd = open_fifo();
	for (int i = 0; i < 1000; i++)
		sl_warn("http", "%0150d.", i);
	assert_int_equal(cli_log_dropped(), 0);
	assert_int_equal(count(read_lines(fd, 1000), ".\n"), 1000);
	close(fd);
}

static void close__of_a_pipe_that_nobody_reads_waits_a_second(void **state)
{
	uint64_t start;
	int fd;

	(void)state;
	fd = open_fifo();
	say_many(0, 2000);
	start = sl_clock_ns();
	cli_log_close();
	assert_true(sl_clock_ns() - start < 30 * SL_NS_PER_S);
	close(fd);
}

static size_t read_whole_lines(int fd)
{
	static char text[1 << 20];
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return whole_lines(text);
}

static void
close__of_a_pipe_that_nobody_reads_tells_standard_error_of_what_was_dropped(void **state)
{
	int fd, other, before = dup(STDERR_FILENO);
	uint64_t told;
	char *text;

	(void)state;
	fd = open_fifo();
	for (int i = 0; i < 20; i++)
		say_many(i * 1000, 1000);
	other = open(rotated, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(dup2(other, STDERR_FILENO), STDERR_FILENO);
	close(other);
	cli_log_close();
	dup2(before, STDERR_FILENO);
	close(before);
	text = read_file(rotated);
	told = take_told(text);
	assert_string_equal(text, "");
	assert_int_equal(read_whole_lines(fd) + told, 20000);
	close(fd);
}

/* A descriptor of ours of the FIFO waits from now on, as one of a file server that has gone. */
static void make_it_wait(int reader)
{
	struct stat fifo, st;

	assert_int_equal(fstat(reader, &fifo), 0);
	for (int fd = reader + 1; fd < 64; fd++)
		if (!fstat(fd, &st) && st.st_dev == fifo.st_dev && st.st_ino == fifo.st_ino)
			assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
}

static void close__with_a_write_that_does_not_end_writes_to_no_other_file(void **state)
{
	int fd, other;
	char c;

	(void)state;
	fd = open_fifo();
	make_it_wait(fd);
	say_many(0, 2000);
	cli_log_close();
	other = open(rotated, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(other > fd);
	assert_int_equal(whole_lines(read_lines(fd, 2000)), 2000);
	assert_int_equal(read(other, &c, 1), 0);
	close(other);
	close(fd);
}

/* Standard error is a pipe: it waits for others, not for us. */
static void queued_log__on_standard_error_leaves_it_as_it_is(void **state)
{
	const struct cli_log_attr attr = { .level = SLIME_LOG_INFO, .queued = "access" };
	int fds[2], before = dup(STDERR_FILENO);
	char text[4096];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(cli_log_open(&attr), 0);
	assert_false(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK);
	for (int i = 0; i < 20000; i++)
		sl_warn("http", "nobody reads this");
	assert_true(read(fds[0], text, sizeof(text)) > 0);
	cli_log_close();
	assert_true(fcntl(STDERR_FILENO, F_GETFD) >= 0);
	dup2(before, STDERR_FILENO);
	close(before);
	close(fds[0]);
	close(fds[1]);
}

/* ---- a queue without a log ---- */

#define LINE_200 200

/* A pipe of which others have the description, and count on it to wait. */
static void write__to_a_pipe_that_waits_holds_nobody_up(void **state)
{
	char line[LINE_200];
	struct cli_log_queue *q;
	uint64_t untold;
	int fds[2], why;

	(void)state;
	memset(line, '\n', sizeof(line));
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(cli_log_queue_create(fds[1], &q), 0);
	alarm(60);
	for (int i = 0; i < 20000; i++)
		cli_log_queue_write(q, line, sizeof(line));
	assert_true(cli_log_queue_dropped(q) > 0);
	assert_true(cli_log_queue_destroy(q, 0, &untold, &why));
	alarm(0);
	close(fds[0]);
	close(fds[1]);
}

static struct {
	struct cli_log_queue *queue;
	int fds[2];
	uint64_t n_said, n_read;
	sem_t begun, fill, filled, go_on, done;
} teller;

static void say_one(void)
{
	char line[LINE_200];

	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	cli_log_queue_put(teller.queue, line, sizeof(line));
	teller.n_said++;
}

static void say_until_dropped(void)
{
	uint64_t dropped = cli_log_queue_dropped(teller.queue);

	while (cli_log_queue_dropped(teller.queue) < dropped + 10)
		say_one();
}

static bool read_some(void)
{
	char text[4096];
	ssize_t n = read(teller.fds[0], text, sizeof(text));

	for (ssize_t i = 0; i < n; i++)
		teller.n_read += text[i] == '\n';
	return n > 0;
}

/* The line that tells of drops: nobody reads any more. */
static void put_told(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	static const char junk[64];

	(void)arg;
	(void)level;
	(void)part;
	(void)line;
	sem_post(&teller.begun);
	sem_wait(&teller.fill);
	while (write(teller.fds[1], junk, sizeof(junk)) > 0 || write(teller.fds[1], junk, 1) > 0)
		;
	sem_post(&teller.filled);
	sem_wait(&teller.go_on);
	cli_log_queue_put(teller.queue, "told\n", 5);
	sem_post(&teller.done);
}

static void tell_nobody(bool is_full)
{
	enum slime_log_level before = slime_log_level();
	uint64_t untold;
	int why;

	memset(&teller, 0, sizeof(teller));
	sem_init(&teller.begun, 0, 0);
	sem_init(&teller.fill, 0, 0);
	sem_init(&teller.filled, 0, 0);
	sem_init(&teller.go_on, 0, 0);
	sem_init(&teller.done, 0, 0);
	slime_log_set(put_told, NULL, SLIME_LOG_WARN);
	assert_int_equal(pipe(teller.fds), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fcntl(teller.fds[i], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(cli_log_queue_create(teller.fds[1], &teller.queue), 0);
	say_until_dropped();
	while (sem_trywait(&teller.begun))
		read_some();
	sem_post(&teller.fill);
	sem_wait(&teller.filled);
	if (is_full)
		say_until_dropped();
	sem_post(&teller.go_on);
	sem_wait(&teller.done);
	assert_true(cli_log_queue_destroy(teller.queue, 0, &untold, &why));
	while (read_some())
		;
	assert_int_equal(teller.n_read + untold, teller.n_said);
	slime_log_set(NULL, NULL, before);
	close(teller.fds[0]);
	close(teller.fds[1]);
}

static void destroy__says_what_a_line_told_that_nobody_read(void **state)
{
	(void)state;
	tell_nobody(false);
}

static void destroy__says_what_a_line_was_to_tell_that_had_no_room(void **state)
{
	(void)state;
	tell_nobody(true);
}

/* What is said on standard error goes into `rotated`; returns what it was. */
static int hear_stderr(void)
{
	int before = dup(STDERR_FILENO);
	int other = open(rotated, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_int_equal(dup2(other, STDERR_FILENO), STDERR_FILENO);
	close(other);
	return before;
}

static void restore_stderr(int before)
{
	dup2(before, STDERR_FILENO);
	close(before);
}

static void set_file_limit(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* As a disk that is full for a while. */
static void queued_lines__that_the_disk_does_not_take_wait_for_room(void **state)
{
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	set_file_limit(1000);
	say_many(0, 1000);
	while (strlen(read_file(file)) < 1000)
		;
	set_file_limit(before.rlim_cur);
	/* It is tried again at once. */
	assert_int_equal(cli_log_reopen(), 0);
	cli_log_close();
	assert_int_equal(whole_lines(read_file(file)), 1000);
	signal(SIGXFSZ, SIG_DFL);
}

static void queued_lines__of_a_full_disk_hold_nobody_up(void **state)
{
	const struct cli_log_attr attr = { .file = "/dev/full",
					   .level = SLIME_LOG_INFO,
					   .queued = "access" };
	uint64_t start = sl_clock_ns();
	int before;

	(void)state;
	assert_int_equal(cli_log_open(&attr), 0);
	say_many(0, 20000);
	sl_error("http", "nor this");
	assert_true(cli_log_dropped() > 0);
	before = hear_stderr();
	cli_log_close();
	restore_stderr(before);
	assert_true(sl_clock_ns() - start < 30 * SL_NS_PER_S);
	assert_non_null(strstr(read_file(rotated), "lines were dropped: No space left on device"));
}

/* Without a queue, as peeragent's. */
static void lines__that_the_disk_does_not_take_are_said_and_counted(void **state)
{
	struct rlimit limit;
	int before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	signal(SIGXFSZ, SIG_IGN);
	open_as(CLI_LOG_TEXT);
	/* The limit is of each file: what is said on standard error is shorter. */
	for (int i = 0; i < 100; i++)
		sl_info("http", "the first");
	before = hear_stderr();
	set_file_limit(strlen(read_file(file)));
	for (int i = 0; i < 3; i++)
		sl_info("http", "lost");
	set_file_limit(limit.rlim_cur);
	sl_info("http", "the last");
	restore_stderr(before);
	signal(SIGXFSZ, SIG_DFL);
	assert_non_null(
		strstr(read_file(rotated), "/log: File too large: its lines are lost meanwhile\n"));
	assert_null(strstr(strchr(read_file(rotated), '\n') + 1, "\n"));
	assert_null(strstr(read_file(file), "lost"));
	assert_non_null(strstr(read_file(file), "the last\n"));
	assert_non_null(strstr(read_file(file), "log: 3 lines were dropped: File too large\n"));
}

static void reopen__loses_no_line_that_waits(void **state)
{
	char *text;
	size_t n;

	(void)state;
	assert_int_equal(open_queued(SLIME_LOG_INFO), 0);
	say_many(0, 500);
	assert_int_equal(rename(file, rotated), 0);
	say_many(500, 500);
	assert_int_equal(cli_log_reopen(), 0);
	say_many(1000, 500);
	cli_log_close();
	text = read_file(file);
	assert_non_null(strstr(text, " 1499 "));
	n = whole_lines(text);
	assert_int_equal(n + whole_lines(read_file(rotated)), 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(text__has_time_level_and_part, clean),
		cmocka_unit_test_teardown(json__escapes_what_is_foreign, clean),
		cmocka_unit_test_teardown(json__about_a_request_has_its_id, clean),
		cmocka_unit_test_teardown(json__of_the_longest_line_is_whole, clean),
		cmocka_unit_test_teardown(reopen__follows_a_rotation, clean),
		cmocka_unit_test_teardown(open__of_what_cannot_be_opened_changes_nothing, clean),
		cmocka_unit_test_teardown(open__of_a_fifo_waits_for_no_reader, clean),
		cmocka_unit_test_teardown(queued_lines__are_all_there_at_the_end, clean),
		cmocka_unit_test_teardown(queued_lines__are_written_soon, clean),
		cmocka_unit_test_teardown(queued_part__has_warnings_and_others_have_all_at_once,
					  clean),
		cmocka_unit_test_teardown(queued_lines__of_threads_do_not_mix, clean),
		cmocka_unit_test_teardown(queued_lines__take_no_memory, clean),
		cmocka_unit_test_teardown(
			queued_lines__of_a_reader_who_reads_nothing_are_dropped_and_counted, clean),
		cmocka_unit_test_teardown(lines__that_a_full_pipe_does_not_take_wait_for_its_reader,
					  clean),
		cmocka_unit_test_teardown(close__of_a_pipe_that_nobody_reads_waits_a_second, clean),
		cmocka_unit_test_teardown(
			close__with_a_write_that_does_not_end_writes_to_no_other_file, clean),
		cmocka_unit_test_teardown(
			close__of_a_pipe_that_nobody_reads_tells_standard_error_of_what_was_dropped,
			clean),
		cmocka_unit_test_teardown(queued_log__on_standard_error_leaves_it_as_it_is, clean),
		cmocka_unit_test(write__to_a_pipe_that_waits_holds_nobody_up),
		cmocka_unit_test(destroy__says_what_a_line_told_that_nobody_read),
		cmocka_unit_test(destroy__says_what_a_line_was_to_tell_that_had_no_room),
		cmocka_unit_test_teardown(queued_lines__that_the_disk_does_not_take_wait_for_room,
					  clean),
		cmocka_unit_test_teardown(queued_lines__of_a_full_disk_hold_nobody_up, clean),
		cmocka_unit_test_teardown(lines__that_the_disk_does_not_take_are_said_and_counted,
					  clean),
		cmocka_unit_test_teardown(reopen__loses_no_line_that_waits, clean),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
