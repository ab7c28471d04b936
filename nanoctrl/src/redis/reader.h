/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hiredis' reader of replies, with a bound: hiredis makes room for as many elements as a reply
 * announces, up to 2^31 of them at each level, and keeps reading one that does not end.
 */
#ifndef NANOCTRL_REDIS_READER_H
#define NANOCTRL_REDIS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <hiredis/hiredis.h>

/* Elements of one array, and bytes of memory that all of one reply takes. A list of max_list bytes
 * is far below both. */
#define REDIS_READER_ELEMENTS_MAX (2u * 1024 * 1024)
#define REDIS_READER_BYTES_MAX	  (256u * 1024 * 1024)

struct redis_reader {
	redisReader *hiredis;
	redisReplyObjectFunctions fn;  /* ours, */
	redisReplyObjectFunctions own; /* and hiredis' */
	size_t bytes;		       /* of the reply that is being read */
	bool too_large;		       /* it is */
};

/* -ENOMEM */
int redis_reader_init(struct redis_reader *r);
void redis_reader_fini(struct redis_reader *r); /* also twice, and of one that is all zero */

/* Takes a copy of the bytes. -EMSGSIZE when max bytes or more wait for the end of a reply,
 * -ENOMEM. */
int redis_reader_feed(struct redis_reader *r, const char *bytes, size_t len, size_t max);

/* The next whole reply, for freeReplyObject(); NULL when there is none yet. On -EPROTO and -ENOMEM
 * *why says what is wrong, until fini, and nothing more can be read. */
int redis_reader_next(struct redis_reader *r, redisReply **reply, const char **why);

#endif
