/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NANOCTRL_LINKS_JSON_H
#define NANOCTRL_LINKS_JSON_H

#include "commands/links_list.h"

/* "name":"text" on standard output, behind before: a comma, or nothing. The text has room for
 * LINKS_STORY. */
void links_json_text(const char *before, const char *name, const char *text);

/* The members of an end on standard output, without braces: the agent's own words, and those that
 * snapshots of DLSlime's NanoCtrl have for them. */
void links_json_members(const struct links_end *e);

#endif
