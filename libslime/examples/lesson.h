/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every lesson begins with: two processes and a channel between them. The channel stands for
 * whatever carries descriptors in your program: a file, a socket, a control plane. It must keep a
 * secret, since any process that has a descriptor can use what it describes.
 */
#ifndef LESSON_H
#define LESSON_H

#include <stddef.h>

#include <slime/slime.h>

SLIME_BEGIN_DECLS

/* Run both in a process of their own, each with its end of the channel: main()'s exit status. */
int lesson(void (*alice)(int channel), void (*bob)(int channel));

/* A message over the channel, and the next one from it. */
void tell(int channel, const void *bytes, size_t len);
size_t hear(int channel, void *bytes, size_t cap);

/* What lesson 1 does step by step: export our descriptor, connect with the peer's, wait. */
void connect_over(int channel, struct slime_endpoint *ep, struct slime_op *op);

/* Tell the peer of a region of ours, and hear of one of the peer's. */
void tell_region(int channel, const struct slime_mr *mr);
struct slime_remote_mr hear_region(int channel);

/* End this process with a line that names the call unless it returned 0 or more. */
#define TRY(call) must(#call, __FILE__, __LINE__, call)
int must(const char *call, const char *file, int line, int ret);

SLIME_END_DECLS

#endif
