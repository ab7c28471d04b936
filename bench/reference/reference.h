/* SPDX-License-Identifier: Apache-2.0 */
/* The references, each a whole measurement: 0 or a negative errno. */
#ifndef REFERENCE_REFERENCE_H
#define REFERENCE_REFERENCE_H

#include "bench/reference/options.h"
#include "bench/rounds/rounds.h"

int reference_memcpy(const struct options *o, const struct rounds_attr *attr);
int reference_pull(const struct options *o, const struct rounds_attr *attr);
int reference_mailbox(const struct options *o, const struct rounds_attr *attr);
int reference_futex(const struct options *o, const struct rounds_attr *attr);
int reference_tcp_read(const struct options *o, const struct rounds_attr *attr);
int reference_tcp_rate(const struct options *o, const struct rounds_attr *attr);
int reference_tcp_links(const struct options *o, const struct rounds_attr *attr);
int reference_tcp_echo(const struct options *o, const struct rounds_attr *attr);

#endif
