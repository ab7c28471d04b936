/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of links as JSON. */
#ifndef NANOCTRL_LINKS_JSON_H
#define NANOCTRL_LINKS_JSON_H

#include "commands/links_list.h"

struct out;

/* "name":"text" behind before: a comma, or nothing. What is not UTF-8 becomes U+FFFD; the text has
 * room for LINKS_CAUSE. */
void links_json_text(struct out *o, const char *before, const char *name, const char *text);

/* "name":n behind a comma. */
void links_json_number(struct out *o, const char *name, uint64_t n);

/* The members of an end, without braces: the agent's own words, and those that snapshots of
 * DLSlime's NanoCtrl have for them. */
void links_json_members(struct out *o, const struct links_end *e);

/* Prints all of it to standard output and frees it. 0 or a negative errno. */
int links_json_print(struct out *o);

#endif
