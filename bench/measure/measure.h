/* SPDX-License-Identifier: Apache-2.0 */
/* Our measurements, each a whole one: 0 or a negative errno. */
#ifndef MEASURE_MEASURE_H
#define MEASURE_MEASURE_H

#include "bench/measure/options.h"
#include "bench/rounds/rounds.h"

int measure_blocks(const struct options *o, const struct rounds_attr *attr, bool write);
int measure_bounce(const struct options *o, const struct rounds_attr *attr);
/* gb_s is that of the reads, and everything else of the calls. */
int measure_mixed(const struct options *o, const struct rounds_attr *attr);
int measure_rpc(const struct options *o, const struct rounds_attr *attr);

/* Many links: calls on each in turn; or what they take while nothing happens. */
int measure_links(const struct options *o, const struct rounds_attr *attr);
int measure_rest(const struct options *o, const struct rounds_attr *attr);

/* Two agents of a control plane that runs already. */
int measure_target(const struct options *o, const struct rounds_attr *attr);

/* Of a server that runs already. 1: it failed, and said why. */
int measure_control(const struct options *o, const struct rounds_attr *attr);

#endif
