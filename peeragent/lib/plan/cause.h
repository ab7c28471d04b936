/* SPDX-License-Identifier: Apache-2.0 */
/* Why a link is not connected: reasons in words, with "; " between them. */
#ifndef AGENT_CAUSE_H
#define AGENT_CAUSE_H

#include <stddef.h>

/*
 * The text for a reader that takes less of it: cut to cap bytes with the zero, of which each reason
 * has an equal share, and what shorter ones leave of theirs; one that is cut ends behind a word and
 * in
 * "...", where there is room for that. Returns its length.
 */
size_t cause_fit(const char *text, char *out, size_t cap);

/*
 * The library's text in the agent's words, cut to cap bytes with the zero: "the peer" by its name,
 * and settings of the context as peeragent's file calls them. Returns its length.
 */
size_t cause_in_words(const char *text, const char *peer, char *out, size_t cap);

#endif
