/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text to values, as jansson reads it, but with every allocation checked. */
#ifndef NC_JSON_LOAD_H
#define NC_JSON_LOAD_H

#include <jansson.h>

/* Any value; the caller releases it by json_decref(). -EPROTO: text is no JSON. -ENOMEM. */
int nc_json_load(const char *text, size_t len, json_t **out);

#endif
