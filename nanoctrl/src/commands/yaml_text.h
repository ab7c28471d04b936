/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as YAML, for people to read. */
#ifndef NANOCTRL_YAML_TEXT_H
#define NANOCTRL_YAML_TEXT_H

#include "text/json_slice.h"

struct out;

/* Adds a document: the value, its members one a line. Strings that are not a plain word keep their
 * quotes, so control characters stay escapes. */
void yaml_text(struct out *o, struct json_slice value);

#endif
