/* SPDX-License-Identifier: Apache-2.0 */
/* What agents that are to crash have published by then. */
#ifndef CTRL_PUBLICATIONS_H
#define CTRL_PUBLICATIONS_H

#include "bench/ctrl/crowd.h"

/*
 * The last n_owners of the crowd, which is registered, publish n_regions regions each, and for
 * links to the n_links agents behind each in the circle a report and an offer. 0, or -1 when it is
 * over.
 */
int publications_make(struct crowd *c, size_t n_owners, size_t n_regions, size_t n_links);

#endif
