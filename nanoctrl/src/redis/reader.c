/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/reader.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* A task of hiredis is of the reader that reads it. */
static struct redis_reader *reader_of(const redisReadTask *task)
{
	return task->privdata;
}

/* Whether an object with so much behind it still fits. */
static bool take(struct redis_reader *r, size_t len)
{
	size_t left = REDIS_READER_BYTES_MAX - r->bytes;

	r->too_large = len > left || sizeof(redisReply) > left - len;
	if (!r->too_large)
		r->bytes += len + sizeof(redisReply);
	return !r->too_large;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
	struct redis_reader *r = reader_of(task);

	return take(r, len) ? r->own.createString(task, text, len) : NULL;
}

#if HIREDIS_MAJOR >= 1
static void *create_array(const redisReadTask *task, size_t n)
#else
static void *create_array(const redisReadTask *task, int n)
#endif
{
	struct redis_reader *r = reader_of(task);
	size_t elements = (size_t)n;
	size_t len =
		elements > REDIS_READER_ELEMENTS_MAX ? SIZE_MAX : elements * sizeof(redisReply *);

	return take(r, len) ? r->own.createArray(task, n) : NULL;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	struct redis_reader *r = reader_of(task);

	return take(r, 0) ? r->own.createInteger(task, value) : NULL;
}

static void *create_nil(const redisReadTask *task)
{
	struct redis_reader *r = reader_of(task);

	return take(r, 0) ? r->own.createNil(task) : NULL;
}

int redis_reader_init(struct redis_reader *r)
{
	memset(r, 0, sizeof(*r));
	r->hiredis = redisReaderCreate();
	if (!r->hiredis)
		return -ENOMEM;
	r->own = *r->hiredis->fn;
	r->fn = r->own;
	r->fn.createString = create_string;
	r->fn.createArray = create_array;
	r->fn.createInteger = create_integer;
	r->fn.createNil = create_nil;
	r->hiredis->fn = &r->fn;
	r->hiredis->privdata = r;
	return 0;
}

void redis_reader_fini(struct redis_reader *r)
{
	if (r->hiredis)
		redisReaderFree(r->hiredis);
	r->hiredis = NULL;
}

int redis_reader_feed(struct redis_reader *r, const char *bytes, size_t len, size_t max)
{
	if (r->hiredis->len + len > max)
		return -EMSGSIZE;
	return redisReaderFeed(r->hiredis, bytes, len) == REDIS_OK ? 0 : -ENOMEM;
}

/* To hiredis, input beyond our own bounds is lack of memory. */
static int explain(const struct redis_reader *r, const char **why)
{
	bool no_memory = r->hiredis->err == REDIS_ERR_OOM;

	*why = !no_memory     ? r->hiredis->errstr
	       : r->too_large ? "Redis sent an answer that is too large"
			      : "out of memory";
	return no_memory && !r->too_large ? -ENOMEM : -EPROTO;
}

int redis_reader_next(struct redis_reader *r, redisReply **reply, const char **why)
{
	void *whole = NULL;

	if (redisReaderGetReply(r->hiredis, &whole) != REDIS_OK)
		return explain(r, why);
	*reply = whole;
	if (whole)
		r->bytes = 0;
	return 0;
}
