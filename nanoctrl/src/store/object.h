/* SPDX-License-Identifier: Apache-2.0 */
/* Regions and links in answers. */
#ifndef NANOCTRL_STORE_OBJECT_H
#define NANOCTRL_STORE_OBJECT_H

#include <stdbool.h>
#include <hiredis/hiredis.h>

/* Read one row of a page of objects into a struct store_object; false for junk. */
bool store_read_object(const redisReply *row, void *out);

#endif
