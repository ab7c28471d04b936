/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that wait for a thread to write them, so that no thread that logs one waits for a disk or
 * for a reader: a ring, and the thread that empties it, many lines by one system call. While
 * nothing is written the ring fills, and lines beyond it are dropped and counted; the log says how
 * many when it takes lines again, or when it ends.
 */
#ifndef CLI_LOGQUEUE_H
#define CLI_LOGQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of lines that wait. */
#define CLI_LOG_QUEUE_MAX (1024 * 1024)

struct cli_log_queue;

/* fd is the caller's, and outlives the queue. Where it is no file it has O_NONBLOCK or is a socket:
 * one that waits for its reader is written to only while it has room, which others who write to it
 * may take first. -ENOMEM, or a negative errno of pthread_create(3). */
int cli_log_queue_create(int fd, struct cli_log_queue **out);

/* A whole line, with its newline. Any thread; neither waits nor allocates. */
void cli_log_queue_put(struct cli_log_queue *q, const char *line, size_t len);

/* The same, but written before this returns, ahead of those that wait, if fd takes it now. */
void cli_log_queue_write(struct cli_log_queue *q, const char *line, size_t len);

/* fd is another file: what could not be written is tried again at once. */
void cli_log_queue_reopened(struct cli_log_queue *q);

/* Lines dropped so far. */
uint64_t cli_log_queue_dropped(struct cli_log_queue *q);

/* Says in the log that n lines were dropped, and why: an errno of a file that does not take them,
 * or 0 where its reader is slow. */
void cli_log_queue_tell(uint64_t n, int why);

/* What waits is written within timeout_ms, or dropped; of untold drops, and why they were, the log
 * has said nothing. False: a write does not end, as to a file server that has gone. Until it does
 * its thread has fd, which is not to be closed. */
bool cli_log_queue_destroy(struct cli_log_queue *q, int timeout_ms, uint64_t *untold, int *why);

#endif
