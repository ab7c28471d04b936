/* SPDX-License-Identifier: Apache-2.0 */
#include <tests/support/log_lines.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LINES_MAX 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[LINES_MAX][512];
static unsigned n_lines;

static void keep(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	pthread_mutex_lock(&lock);
	if (n_lines < LINES_MAX)
		snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
	pthread_mutex_unlock(&lock);
}

void log_lines_keep_from(enum slime_log_level level)
{
	pthread_mutex_lock(&lock);
	n_lines = 0;
	pthread_mutex_unlock(&lock);
	slime_log_set(keep, NULL, level);
}

void log_lines_keep(void)
{
	log_lines_keep_from(SLIME_LOG_WARN);
}

void log_lines_release(void)
{
	slime_log_set(NULL, NULL, SLIME_LOG_WARN);
}

unsigned log_lines_with(const char *text)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n_lines; i++)
		n += strstr(lines[i], text) != NULL;
	pthread_mutex_unlock(&lock);
	return n;
}
