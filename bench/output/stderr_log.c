/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/output/stderr_log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <slime/log.h>

#define KEPT	 32
#define LINE_MAX 1024

static struct {
	pthread_mutex_t lock;
	uint64_t hashes[KEPT];
	unsigned n; /* ever */
} said = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t add_byte(uint64_t h, uint8_t byte)
{
	return (h ^ byte) * UINT64_C(0x100000001b3);
}

static uint64_t add(uint64_t h, const char *text)
{
	do
		h = add_byte(h, (uint8_t)*text);
	while (*text++);
	return h;
}

static uint64_t hash_of(enum slime_log_level level, const char *part, const char *line)
{
	return add(add(add_byte(UINT64_C(0xcbf29ce484222325), (uint8_t)level), part), line);
}

static bool is_new(uint64_t hash)
{
	bool is = true;

	pthread_mutex_lock(&said.lock);
	for (unsigned i = 0; i < KEPT && i < said.n; i++)
		is &= said.hashes[i] != hash;
	if (is)
		said.hashes[said.n++ % KEPT] = hash;
	pthread_mutex_unlock(&said.lock);
	return is;
}

static void say(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	char out[LINE_MAX];
	int n;

	(void)arg;
	if (!is_new(hash_of(level, part, line)))
		return;
	n = snprintf(out, sizeof(out), "%s %s: %s", level == SLIME_LOG_ERROR ? "error" : "warn",
		     part, line);
	if (n >= (int)sizeof(out))
		n = sizeof(out) - 1;
	out[n++] = '\n';
	/* One write, so that lines of threads do not mix. */
	if (write(STDERR_FILENO, out, (size_t)n) < 0)
		return;
}

void stderr_log_open(void)
{
	slime_log_set(say, NULL, SLIME_LOG_WARN);
}
